//! What holds a key while its command runs, and what happens where that is lost.

use super::atomic::{PAY, claim, find, finished, payments, with_payments};
use crate::records::{after, intent, offer, owner, scope, states};
use samekey_core::record::State;
use samekey_core::time::Time;
use samekey_store::atomic::{AtomicLedger, OpenTransaction};
use samekey_store::{Arrived, Kind, Ledger};
use std::time::Duration;

const ENDS: [&str; 5] =
    ["rollback", "commit", "rollback; begin", "commit; begin", "commit and chain"];

#[tokio::test]
async fn a_handler_that_ends_the_transaction_is_found_out() {
    let fixture = with_payments().await;
    for ended in ENDS {
        let key = scope("org", "key");
        let (open, seen) = claim(&fixture.ledger, &key, 1).await;
        open.tx().batch_execute(ended).await.unwrap();
        let error = open.settle(&key, &seen.record, &finished(&seen)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Ended, "{ended}: {error}");
        assert_eq!(fixture.number("select count(*) from samekey.keys").await, 0, "{ended}");
        assert_eq!(fixture.idle_in_transaction().await, 0, "{ended}");

        // Also where it then failed, and everything was to be taken back.
        let (open, _) = claim(&fixture.ledger, &key, 1).await;
        open.tx().batch_execute(ended).await.unwrap();
        let error = open.roll_back().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Ended, "{ended}: {error}");
        assert_eq!(fixture.idle_in_transaction().await, 0, "{ended}");
    }
}

/// What was put in doubt is found by whoever lists open records, and nothing runs under its key.
#[tokio::test]
async fn a_key_in_doubt_waits_for_a_person() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let review = states(Time::EPOCH).into_iter().find(|state| matches!(state, State::Review(_)));
    let doubted = after(&offer(1), review.unwrap());
    assert!(fixture.ledger.put_in_doubt(&key, &doubted, "orders").await.unwrap());
    let (open, found) = find(&fixture.ledger, &key).await;
    open.roll_back().await.unwrap();
    assert_eq!(found.record.hold(), doubted.hold());
    assert!(matches!(found.record.state, State::Review(_)));
    let listed = "select count(*) from samekey.open_claims where route = 'orders'";
    assert_eq!(fixture.number(listed).await, 1);

    // A key that has a row keeps it.
    let other = scope("org", "other");
    let (open, seen) = claim(&fixture.ledger, &other, 1).await;
    open.settle(&other, &seen.record, &finished(&seen)).await.unwrap();
    assert!(!fixture.ledger.put_in_doubt(&other, &doubted, "orders").await.unwrap());
    assert_eq!(fixture.ledger.load(&other).await.unwrap().record, finished(&seen));
    assert_eq!(fixture.number("select count(*) from samekey.open_claims").await, 1);
}

/// The lock keeps commands apart; what keeps a second row out is the key of the table. An external claim asks for no
/// lock.
#[tokio::test]
async fn s2_a_row_that_came_past_the_lock_is_not_written_over() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    open.tx().execute(PAY, &[]).await.unwrap();
    let arrived = fixture.ledger.insert_or_load(&key, &offer(2), &intent()).await.unwrap();
    assert!(matches!(arrived, Arrived::Inserted(_)));
    let error = open.settle(&key, &seen.record, &finished(&seen)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert_eq!(payments(&fixture).await, 0);
    assert_eq!(fixture.ledger.load(&key).await.unwrap().record.holder, owner(2));
    assert_eq!(fixture.idle_in_transaction().await, 0);
}

/// The lock is let go of when its transaction ends, however it does.
#[tokio::test]
async fn p03_no_lock_stays_behind() {
    let fixture = with_payments().await;
    let locks = "select count(*) from pg_locks
        where locktype = 'advisory'
            and database = (select oid from pg_database where datname = current_database())";
    let key = scope("org", "key");
    let (mut open, seen) = claim(&fixture.ledger, &key, 1).await;
    assert_eq!(fixture.number(locks).await, 1);
    open.undo(&key).await.unwrap();
    assert_eq!(fixture.number(locks).await, 1);
    open.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
    assert_eq!(fixture.number(locks).await, 0);
    let (open, _) = find(&fixture.ledger, &key).await;
    open.roll_back().await.unwrap();
    assert_eq!(fixture.number(locks).await, 0);
}

/// Where nothing can be written, nothing is begun: the answer is that of the store, and not of a handler that failed.
#[tokio::test]
async fn t101_a_role_that_reads_only_claims_nothing() {
    let fixture = with_payments().await;
    let ledger = fixture.another(1).await;
    let client = ledger.pool().get().await.unwrap();
    client.batch_execute("set default_transaction_read_only = on").await.unwrap();
    drop(client);
    let error = ledger.begin(&scope("org", "key"), &offer(1), Duration::ZERO).await.unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (Kind::ReadOnly, Some("25006")));
    assert_eq!(fixture.idle_in_transaction().await, 0);
}
