//! What an open record from before intents were kept means after the migration, on any database.

use crate::conformance::{Aging, stands};
use crate::records::{HOUR, MINUTE, after, done, identity, intent_of, offer, running, scope};
use samekey_core::lease::Fence;
use samekey_core::record::{Reason, Record, State, Unknown};
use samekey_store::{Arrived, Ledger, OpenCount, Swap};

/// The two rows of the first version that a test puts there before it migrates: `old/open`, which runs
/// and stands among the open ones, and `old/done`. Times are counted from the epoch.
pub fn rows_of_version_1() -> [Record; 2] {
    let open = running(samekey_core::time::Time::EPOCH, 2);
    let keep_until = samekey_core::time::Time::EPOCH.plus(1_000_000 * HOUR);
    let done = Record { keep_until, ..after(&open, done(open.keep_until, 1)) };
    [open, done]
}

pub async fn what_was_open_before_is_open_still<L: Ledger, A: Aging>(ledger: &L, aging: &A) {
    let (key, finished) = (scope("old", "open"), scope("old", "done"));
    let [open, done] = rows_of_version_1();
    assert_eq!(stands(ledger, &finished).await, done);
    let listed = ledger.list_open(None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].scope, listed[0].route.as_str()), (&key, ""));
    assert_eq!(listed[0].seen.record, open);
    assert_eq!(ledger.intent(&key).await, Ok(None), "nobody wrote down what it was");
    let count = |state: &str| OpenCount { route: "".into(), state: state.into(), count: 1 };
    assert_eq!(ledger.count_open().await, Ok(vec![count("running")]));
    assert_eq!(ledger.due("", &key.org, 10).await, Ok(Vec::new()), "its time was not kept");
    assert_eq!(ledger.orgs_with_open("", None, 10).await, Ok(vec![key.org.clone()]));
    assert_eq!(ledger.decisions(&key).await, Ok(Vec::new()));

    // What somebody else finds out about it is kept as ever.
    let now = ledger.load(&key).await.unwrap().now;
    let unknown = after(
        &open,
        State::Unknown(Unknown {
            request: identity(2),
            life: Fence::new(1),
            since: now,
            reason: Reason::LeaseLapsed,
            last_send: now,
            asked: 0,
            not_found: 0,
            ask_after: now.plus(MINUTE),
            evidence: None,
        }),
    );
    assert_eq!(ledger.swap(&key, &open, &unknown).await, Ok(Swap::Written));
    assert_eq!(ledger.count_open().await, Ok(vec![count("unknown")]));
    assert_eq!(ledger.due("", &key.org, 10).await, Ok(Vec::new()));
    aging.age(2 * MINUTE).await;
    assert_eq!(ledger.due("", &key.org, 10).await, Ok(vec![key.key.clone()]));
    let unknown = stands(ledger, &key).await;
    let free = after(&unknown, State::Free);
    assert_eq!(ledger.swap(&key, &unknown, &free).await, Ok(Swap::Written));
    assert_eq!(ledger.list_open(None, 10).await, Ok(Vec::new()));
    let again = after(&free, running(now, 4).state);
    let written = ledger.reclaim(&key, &free, &again, &intent_of("pay", 4)).await;
    assert_eq!(written, Ok(Swap::Written));
    assert_eq!(ledger.intent(&key).await, Ok(Some(intent_of("pay", 4))));

    // And new keys have all of it.
    let new = scope("new", "key");
    let arrived = ledger.insert_or_load(&new, &offer(1), &intent_of("pay", 2)).await.unwrap();
    assert!(matches!(arrived, Arrived::Inserted(_)));
    assert_eq!(ledger.intent(&new).await, Ok(Some(intent_of("pay", 2))));
}
