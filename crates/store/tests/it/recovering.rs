//! What every ledger promises to recovery, to persons and to a starting process; a part of
//! [`conformance`](crate::conformance).

use crate::conformance::{Aging, changed, inserted, stands};
use crate::records::{
    HOUR, MINUTE, after, decided, done, identity, intent_of, offer, owner, running, scope,
};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::lease::Fence;
use samekey_core::record::{Reason, Record, Review, State, Unknown};
use samekey_core::time::Time;
use samekey_store::{Arrived, Decided, Ledger, OpenCount, Seen, Swap};
use std::sync::Arc;

async fn claimed<L: Ledger>(ledger: &L, scope: &Scope, route: &str, number: u8) -> Seen {
    let intent = intent_of(route, number);
    inserted(ledger.insert_or_load(scope, &offer(number), &intent).await.expect("an answer"))
}

async fn swapped<L: Ledger>(ledger: &L, scope: &Scope, seen: &Record, state: State) -> Record {
    let next = after(seen, state);
    assert_eq!(ledger.swap(scope, seen, &next).await, Ok(Swap::Written));
    next
}

fn unknown(now: Time, ask_after: Time) -> State {
    State::Unknown(Unknown {
        request: identity(1),
        life: Fence::new(1),
        since: now,
        reason: Reason::TimedOut,
        last_send: now,
        asked: 0,
        not_found: 0,
        ask_after,
        evidence: None,
    })
}

fn review(now: Time) -> State {
    let (request, life) = (identity(1), Fence::new(1));
    State::Review(Review { request, life, since: now, reason: Reason::NobodyToAsk })
}

async fn due<L: Ledger>(ledger: &L, route: &str, org: &str, limit: u32) -> Vec<String> {
    let org = Org::stored(org).expect("an org");
    let keys: Vec<Key> = ledger.due(route, &org, limit).await.expect("an answer");
    keys.iter().map(|key| key.as_str().to_owned()).collect()
}

async fn orgs<L: Ledger>(ledger: &L, route: &str, after: Option<&str>, limit: u32) -> Vec<String> {
    let after = after.map(|org| Org::stored(org).expect("an org"));
    let orgs = ledger.orgs_with_open(route, after.as_ref(), limit).await.expect("an answer");
    orgs.iter().map(|org| org.as_str().to_owned()).collect()
}

pub async fn intents_are_kept_from_claim_to_settlement<L: Ledger, A: Aging>(
    ledger: &Arc<L>,
    _: &A,
) {
    let (with, without) = (scope("org", "with"), scope("org", "without"));
    let seen = claimed(&**ledger, &with, "pay", 2).await;
    claimed(&**ledger, &without, "pay", 3).await;
    assert_eq!(ledger.intent(&with).await, Ok(Some(intent_of("pay", 2))));
    assert_eq!(ledger.intent(&without).await, Ok(Some(intent_of("pay", 3))));
    let again = ledger.insert_or_load(&with, &offer(9), &intent_of("other", 9)).await;
    assert!(matches!(again, Ok(Arrived::Found(_))));
    assert_eq!(ledger.intent(&with).await, Ok(Some(intent_of("pay", 2))), "the first one stands");
    let listed = ledger.list_open(None, 10).await.expect("an answer");
    assert!(listed.iter().all(|open| open.route == "pay"), "{listed:?}");

    let seen = swapped(&**ledger, &with, &seen.record, unknown(seen.now, seen.now)).await;
    assert_eq!(ledger.intent(&with).await, Ok(Some(intent_of("pay", 2))), "it stays while open");
    swapped(&**ledger, &with, &seen, State::Free).await;
    assert_eq!(ledger.intent(&with).await, Ok(None));
    assert_eq!(ledger.intent(&scope("org", "never")).await, Ok(None));
    assert_eq!(ledger.intent(&without).await, Ok(Some(intent_of("pay", 3))));

    let finished = scope("org", "finished");
    let offered = Record { state: done(Time::EPOCH, 1), ..offer(1) };
    let arrived = ledger.insert_or_load(&finished, &offered, &intent_of("pay", 4)).await;
    assert!(matches!(arrived, Ok(Arrived::Inserted(_))), "{arrived:?}");
    assert_eq!(ledger.intent(&finished).await, Ok(None), "what was never open has none");
}

pub async fn what_is_due_is_listed_the_longest_due_first<L: Ledger, A: Aging>(
    ledger: &Arc<L>,
    aging: &A,
) {
    for (org, route, key) in [
        ("org", "pay", "c"),
        ("org", "pay", "a"),
        ("org", "refund", "r"),
        ("other", "pay", "o"),
        ("org", "pay", "b"),
    ] {
        claimed(&**ledger, &scope(org, key), route, 1).await;
        aging.age(MINUTE / 10).await;
    }
    assert_eq!(due(&**ledger, "pay", "org", 10).await, Vec::<String>::new(), "leases hold");
    aging.age(MINUTE).await;
    assert_eq!(due(&**ledger, "pay", "org", 10).await, ["c", "a", "b"]);
    assert_eq!(due(&**ledger, "pay", "org", 2).await, ["c", "a"]);
    assert_eq!(due(&**ledger, "pay", "org", 0).await, Vec::<String>::new());
    assert_eq!(due(&**ledger, "refund", "org", 10).await, ["r"]);
    assert_eq!(due(&**ledger, "pay", "other", 10).await, ["o"]);
    assert_eq!(due(&**ledger, "pay", "nobody", 10).await, Vec::<String>::new());
    assert_eq!(due(&**ledger, "", "org", 10).await, Vec::<String>::new());

    // A renewal and a later question put it off; an earlier question brings it back to the front.
    let key = scope("org", "c");
    let seen = ledger.load(&key).await.expect("an answer");
    let renewed = running(seen.now, 1).state;
    let seen_c = swapped(&**ledger, &key, &seen.record, renewed).await;
    assert_eq!(due(&**ledger, "pay", "org", 10).await, ["a", "b"]);
    let soon = unknown(seen.now, seen.now.plus(HOUR));
    let seen_c = swapped(&**ledger, &key, &seen_c, soon).await;
    aging.age(2 * MINUTE).await;
    assert_eq!(due(&**ledger, "pay", "org", 10).await, ["a", "b"]);
    swapped(&**ledger, &key, &seen_c, unknown(seen.now, Time::EPOCH)).await;
    assert_eq!(due(&**ledger, "pay", "org", 10).await, ["c", "a", "b"]);
}

/// Every state, due and not due, of the route that is asked for and of another one: exactly those are
/// listed that are due, in a state that can be due, and of that route and organisation.
pub async fn b86_of_all_rows_only_the_due_ones_of_the_route_are_listed<L: Ledger, A: Aging>(
    ledger: &Arc<L>,
    aging: &A,
) {
    for org in ["org", "other"] {
        for route in ["pay", "refund"] {
            let claim = |name: &str| scope(org, &format!("{route} {name}").replace(' ', "-"));
            let old = claim("running over");
            claimed(&**ledger, &old, route, 1).await;
            for name in ["unknown due", "unknown later", "review", "free", "done"] {
                let key = claim(name);
                let seen = claimed(&**ledger, &key, route, 1).await;
                let state = match name {
                    "unknown due" => unknown(seen.now, seen.now),
                    "unknown later" => unknown(seen.now, seen.now.plus(HOUR)),
                    "review" => review(seen.now),
                    "free" => State::Free,
                    _ => done(seen.now, 1),
                };
                swapped(&**ledger, &key, &seen.record, state).await;
            }
        }
    }
    aging.age(2 * MINUTE).await;
    for org in ["org", "other"] {
        for route in ["pay", "refund"] {
            let key = scope(org, &format!("{route}-running-live"));
            claimed(&**ledger, &key, route, 1).await;
            let mut listed = due(&**ledger, route, org, 100).await;
            listed.sort();
            assert_eq!(listed, [format!("{route}-running-over"), format!("{route}-unknown-due")]);
        }
    }
}

pub async fn what_waits_for_a_person_is_never_due<L: Ledger, A: Aging>(ledger: &Arc<L>, aging: &A) {
    let key = scope("org", "key");
    let seen = claimed(&**ledger, &key, "pay", 1).await;
    swapped(&**ledger, &key, &seen.record, review(seen.now)).await;
    aging.age(1_000 * HOUR).await;
    assert_eq!(due(&**ledger, "pay", "org", 10).await, Vec::<String>::new());
    assert_eq!(orgs(&**ledger, "pay", None, 10).await, ["org"], "but it is open");
    assert_eq!(ledger.intent(&key).await, Ok(Some(intent_of("pay", 1))));
}

pub async fn orgs_are_walked_page_by_page<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    for org in ["b", "a", "B", "c", "a "] {
        for number in 0..3 {
            claimed(&**ledger, &scope(org, &format!("key-{number}")), "pay", 1).await;
        }
    }
    claimed(&**ledger, &scope("aa", "key"), "refund", 1).await;
    assert_eq!(orgs(&**ledger, "pay", None, 10).await, ["B", "a", "a ", "b", "c"]);
    assert_eq!(orgs(&**ledger, "pay", None, 2).await, ["B", "a"]);
    assert_eq!(orgs(&**ledger, "pay", Some("a"), 2).await, ["a ", "b"]);
    assert_eq!(orgs(&**ledger, "pay", Some("aa"), 10).await, ["b", "c"]);
    assert_eq!(orgs(&**ledger, "pay", Some("c"), 10).await, Vec::<String>::new());
    assert_eq!(orgs(&**ledger, "pay", None, 0).await, Vec::<String>::new());
    assert_eq!(orgs(&**ledger, "refund", None, u32::MAX).await, ["aa"]);
    assert_eq!(orgs(&**ledger, "", None, 10).await, Vec::<String>::new());
    for number in 0..3 {
        let key = scope("a ", &format!("key-{number}"));
        let record = stands(&**ledger, &key).await;
        swapped(&**ledger, &key, &record, State::Free).await;
    }
    assert_eq!(orgs(&**ledger, "pay", None, 3).await, ["B", "a", "b"], "who has none is gone");
}

pub async fn open_records_are_counted_by_route_and_state<L: Ledger, A: Aging>(
    ledger: &Arc<L>,
    _: &A,
) {
    assert_eq!(ledger.count_open().await, Ok(Vec::new()));
    for number in 0..7_u8 {
        let key = scope(["a", "b"][usize::from(number % 2)], &format!("key-{number}"));
        let route = if number < 5 { "pay" } else { "refund" };
        let seen = claimed(&**ledger, &key, route, number).await;
        match number {
            1 | 5 => swapped(&**ledger, &key, &seen.record, review(seen.now)).await,
            2 => swapped(&**ledger, &key, &seen.record, unknown(seen.now, seen.now)).await,
            3 => swapped(&**ledger, &key, &seen.record, done(seen.now, 1)).await,
            _ => seen.record,
        };
    }
    let count = |route: &str, state: &str, count| OpenCount {
        route: route.to_owned(),
        state: state.to_owned(),
        count,
    };
    let expected = vec![
        count("pay", "review", 1),
        count("pay", "running", 2),
        count("pay", "unknown", 1),
        count("refund", "review", 1),
        count("refund", "running", 1),
    ];
    assert_eq!(ledger.count_open().await, Ok(expected));
}

pub async fn a_key_that_is_taken_again_has_its_new_intent<L: Ledger, A: Aging>(
    ledger: &Arc<L>,
    aging: &A,
) {
    let key = scope("org", "key");
    let seen = claimed(&**ledger, &key, "pay", 2).await;
    let free = swapped(&**ledger, &key, &seen.record, State::Free).await;
    let again = Record {
        fence: Fence::new(2),
        holder: owner(3),
        ..after(&free, running(seen.now, 3).state)
    };
    let stale = Record { revision: 1, ..free.clone() };
    let refused = ledger.reclaim(&key, &stale, &again, &intent_of("pay", 3)).await;
    assert_eq!(changed(refused.expect("an answer")).record, free);
    assert_eq!(ledger.intent(&key).await, Ok(None), "who came too late leaves no intent");
    let written = ledger.reclaim(&key, &free, &again, &intent_of("refund", 4)).await;
    assert_eq!(written, Ok(Swap::Written));
    assert_eq!(stands(&**ledger, &key).await, again);
    assert_eq!(ledger.intent(&key).await, Ok(Some(intent_of("refund", 4))));
    aging.age(2 * MINUTE).await;
    assert_eq!(due(&**ledger, "refund", "org", 10).await, ["key"]);
    assert_eq!(due(&**ledger, "pay", "org", 10).await, Vec::<String>::new());
    let never = scope("org", "never");
    let inserted = ledger.reclaim(&never, &free, &again, &intent_of("pay", 3)).await;
    assert_eq!(changed(inserted.expect("an answer")).record, Record::ABSENT);
    assert_eq!(ledger.intent(&never).await, Ok(None));
}

pub async fn a_decision_and_its_account_are_one<L: Ledger, A: Aging>(ledger: &Arc<L>, aging: &A) {
    let key = scope("org", "key");
    let seen = claimed(&**ledger, &key, "pay", 1).await;
    let seen = swapped(&**ledger, &key, &seen.record, review(seen.now)).await;
    let closed = after(&seen, done(Time::EPOCH, 1));
    let account = decided("anna", seen.fence);
    let stale = Record { fence: Fence::new(9), ..seen.clone() };
    let refused = ledger.decide(&key, &stale, &closed, &account).await.expect("an answer");
    assert_eq!(changed(refused).record, seen);
    assert_eq!(ledger.decisions(&key).await, Ok(Vec::new()), "who saw another row decided nothing");
    assert!(ledger.decide(&key, &seen, &Record::ABSENT, &account).await.is_err());
    assert_eq!(ledger.decisions(&key).await, Ok(Vec::new()));

    let before = ledger.load(&key).await.expect("an answer").now;
    assert_eq!(ledger.decide(&key, &seen, &closed, &account).await, Ok(Swap::Written));
    assert_eq!(stands(&**ledger, &key).await, closed);
    assert_eq!(ledger.intent(&key).await, Ok(None));
    let told = ledger.decisions(&key).await.expect("an answer");
    let now = ledger.load(&key).await.expect("an answer").now;
    let [first] = told.as_slice() else { panic!("{told:?}") };
    assert!(before <= first.at && first.at <= now, "the store's clock counts");
    assert_eq!(*first, Decided { at: first.at, ..account.clone() });

    let late = ledger.decide(&key, &seen, &closed, &account).await.expect("an answer");
    assert_eq!(changed(late).record, closed, "nobody decides twice from one view");
    aging.age(MINUTE).await;
    let forgotten = after(&closed, done(Time::EPOCH, 2));
    let second = Decided { decision: "forget".into(), ..decided("otto", closed.fence) };
    assert_eq!(ledger.decide(&key, &closed, &forgotten, &second).await, Ok(Swap::Written));
    let told = ledger.decisions(&key).await.expect("an answer");
    let persons: Vec<&str> = told.iter().map(|one| one.person.as_str()).collect();
    assert_eq!(persons, ["anna", "otto"], "the oldest first");
    assert_eq!(ledger.decisions(&scope("other", "key")).await, Ok(Vec::new()));
}

/// Two persons who see the same case at once: one of them decides, and only that one is told of.
pub async fn one_of_many_decisions_is_told_of<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let key = scope("org", "key");
    let seen = claimed(&**ledger, &key, "pay", 1).await;
    let seen = swapped(&**ledger, &key, &seen.record, review(seen.now)).await;
    // Each of them wants the very same row next.
    let next = after(&seen, State::Free);
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let (ledger, key) = (Arc::clone(ledger), key.clone());
            let (seen, next) = (seen.clone(), next.clone());
            let account = decided(&format!("person-{number}"), seen.fence);
            tokio::spawn(async move {
                let swap = ledger.decide(&key, &seen, &next, &account).await.expect("an answer");
                (swap == Swap::Written).then_some(account.person)
            })
        })
        .collect();
    let mut written = Vec::new();
    for task in tasks {
        written.extend(task.await.expect("a task"));
    }
    let told = ledger.decisions(&key).await.expect("an answer");
    let persons: Vec<String> = told.into_iter().map(|account| account.person).collect();
    assert_eq!(written.len(), 1);
    assert_eq!(persons, written);
}

pub async fn what_is_shared_once_is_the_same_for_all<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    assert_eq!(ledger.shared("secret").await, Ok(None));
    let tasks: Vec<_> = (0..8_u8)
        .map(|number| {
            let ledger = Arc::clone(ledger);
            tokio::spawn(async move { ledger.share_once("secret", &[number, 0, 255]).await })
        })
        .collect();
    let mut given = Vec::new();
    for task in tasks {
        given.push(task.await.expect("a task").expect("an answer"));
    }
    assert!(given.iter().all(|bytes| *bytes == given[0]), "{given:?}");
    assert_eq!(ledger.shared("secret").await, Ok(Some(given[0].clone())));
    assert_eq!(ledger.shared("Secret").await, Ok(None));
    assert_eq!(ledger.share("secret", b"").await, Ok(()));
    assert_eq!(ledger.shared("secret").await, Ok(Some(Vec::new())), "empty is not nothing");
    assert_eq!(ledger.share("other", b"new").await, Ok(()));
    assert_eq!(ledger.share_once("other", b"newer").await, Ok(b"new".to_vec()));
}

pub async fn free_rows_are_dropped_after_a_restore<L: Ledger, A: Aging>(ledger: &Arc<L>, _: &A) {
    let free = |number: usize| scope(["a", "b"][number % 2], &format!("free-{number}"));
    for number in 0..5 {
        let seen = claimed(&**ledger, &free(number), "pay", 1).await;
        swapped(&**ledger, &free(number), &seen.record, State::Free).await;
    }
    let (runs, settled) = (scope("a", "runs"), scope("a", "settled"));
    let runs_on = claimed(&**ledger, &runs, "pay", 1).await.record;
    let seen = claimed(&**ledger, &settled, "pay", 1).await;
    let settled_as = swapped(&**ledger, &settled, &seen.record, done(seen.now, 1)).await;
    let mut removed = 0;
    let mut passes = 0;
    loop {
        let pass = ledger.drop_free(2).await.expect("an answer");
        (removed, passes) = (removed + pass.removed, passes + 1);
        if !pass.more {
            break;
        }
        assert!(passes < 5, "it comes to an end");
    }
    assert_eq!((removed, passes), (5, 3));
    for number in 0..5 {
        assert_eq!(stands(&**ledger, &free(number)).await, Record::ABSENT);
    }
    assert_eq!(stands(&**ledger, &runs).await, runs_on);
    assert_eq!(stands(&**ledger, &settled).await, settled_as);
    let pass = ledger.drop_free(0).await.expect("an answer");
    assert_eq!((pass.removed, pass.more), (0, false));
    // The key is new: what its fence was, is forgotten.
    assert_eq!(claimed(&**ledger, &free(0), "pay", 2).await.record.fence, Fence::new(1));
}
