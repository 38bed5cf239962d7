//! Commits whose acknowledgement is lost.

use super::proxy::Proxy;
use super::{Fixture, through};
use crate::records::{after, done, intent, offer, scope};
use samekey_core::record::State;
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::{Arrived, Kind, Ledger, Swap};
use std::time::Duration;

const WAIT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn t56_t57_a_commit_whose_answer_is_lost_is_unknown_whether_it_stands_or_not() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::before(fixture.address()).await;
    let ledger = through(&fixture, &proxy, 1).await;
    for (name, stands) in [("stands", true), ("does-not", false)] {
        let key = scope("org", name);
        let Begun::Claimed(open, seen) = ledger.begin(&key, &offer(1), WAIT).await.unwrap() else {
            panic!("not claimed")
        };
        if stands {
            proxy.lose_answers();
        } else {
            proxy.lose_requests();
        }
        let next = after(&seen.record, done(seen.now, 1));
        let error = open.settle(&key, &seen.record, &next).await.unwrap_err();
        assert_eq!(error.kind(), Kind::CommitUnknown, "{name}: {error}");
        assert!(error.may_have_committed());
        proxy.heal();
        // Running the claim again waits for the truth.
        match ledger.begin(&key, &offer(2), Duration::from_secs(10)).await.unwrap() {
            Begun::Found(open, found) => {
                assert!(stands, "{name}");
                assert_eq!(found.record, next);
                open.roll_back().await.unwrap();
            }
            Begun::Claimed(open, _) => {
                assert!(!stands, "{name}");
                open.roll_back().await.unwrap();
            }
            Begun::Busy => panic!("busy"),
        }
    }
}

#[tokio::test]
async fn a_claim_that_is_cut_off_is_not_there() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::before(fixture.address()).await;
    let ledger = through(&fixture, &proxy, 1).await;
    let key = scope("org", "key");
    let _ = ledger.begin(&scope("org", "other"), &offer(1), WAIT).await.unwrap();
    // A fresh connection, with its statement prepared.
    let Begun::Claimed(open, _) = ledger.begin(&key, &offer(1), WAIT).await.unwrap() else {
        panic!("not claimed")
    };
    open.roll_back().await.unwrap();
    proxy.lose_requests();
    let error = ledger.begin(&key, &offer(1), WAIT).await.expect_err("an error");
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    proxy.heal();
    assert_eq!(ledger.load(&key).await.unwrap().record.state, State::Free);
}

/// A group that is cut off is run again, and the owner recognises its own claim and settlement.
#[tokio::test]
async fn a_group_whose_answer_is_lost_tells_the_truth_when_it_is_run_again() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::before(fixture.address()).await;
    let ledger = through(&fixture, &proxy, 1).await;
    let key = scope("org", "key");
    ledger.insert_or_load(&scope("org", "first"), &offer(1), &intent()).await.unwrap();
    proxy.lose_answers();
    let cut = ledger.insert_or_load(&key, &offer(1), &intent()).await;
    proxy.heal();
    match cut {
        // It was run again on a connection that could not be made.
        Err(error) => assert_eq!(error.kind(), Kind::CommitUnknown, "{error}"),
        Ok(arrived) => assert!(matches!(arrived, Arrived::Found(_))),
    }
    let Arrived::Found(seen) = ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap()
    else {
        panic!("it was not there")
    };
    assert_eq!(seen.record.holder, offer(1).holder);

    // The connection is new; what follows has to be prepared on it already.
    let never = after(&seen.record, seen.record.state.clone());
    assert!(matches!(
        ledger.swap(&key, &never, &after(&never, done(seen.now, 1))).await,
        Ok(Swap::Changed(_))
    ));
    let next = after(&seen.record, done(seen.now, 1));
    proxy.lose_requests();
    let cut = ledger.swap(&key, &seen.record, &next).await.unwrap_err();
    assert_eq!(cut.kind(), Kind::CommitUnknown, "{cut}");
    proxy.heal();
    assert_eq!(ledger.swap(&key, &seen.record, &next).await.unwrap(), Swap::Written);
}
