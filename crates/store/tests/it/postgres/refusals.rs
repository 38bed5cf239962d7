//! What a final refusal takes back, and how it is kept.

use super::Fixture;
use super::atomic::{PAY, claim, finished, payments, with_payments};
use crate::records::{offer, scope};
use samekey_core::key::Scope;
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::postgres::{Open, Options};
use samekey_store::{Kind, Ledger, Seen};
use std::time::Duration;

/// Nothing is left of what an open transaction did but the answer of its refusal.
async fn is_taken_back(fixture: &Fixture, mut open: Open, key: &Scope, seen: &Seen) {
    open.undo(key).await.unwrap();
    let next = finished(seen);
    open.settle(key, &seen.record, &next).await.unwrap();
    assert_eq!(payments(fixture).await, 0);
    assert_eq!(fixture.ledger.load(key).await.unwrap().record, next);
}

#[tokio::test]
async fn a_refusal_takes_the_effect_back_and_keeps_the_answer() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    open.tx().execute(PAY, &[]).await.unwrap();
    // Also after a statement that failed.
    open.tx().execute("insert into payments values (null)", &[]).await.unwrap_err();
    is_taken_back(&fixture, open, &key, &seen).await;
}

/// A refusal claims its key anew. Whoever waited for the key may be quicker, and then the refusal is not
/// written over it.
#[tokio::test]
async fn t50_a_refusal_gives_way_to_whoever_took_the_key_meanwhile() {
    let fixture = with_payments().await;
    let other = fixture.another(1).await;
    let key = scope("org", "key");
    let (mut open, _) = claim(&fixture.ledger, &key, 1).await;
    open.tx().execute(PAY, &[]).await.unwrap();
    let waiting = {
        let key = key.clone();
        tokio::spawn(async move {
            let begun = other.begin(&key, &offer(2), Duration::from_secs(30)).await.unwrap();
            let Begun::Claimed(open, seen) = begun else { panic!("not claimed") };
            (open, seen)
        })
    };
    fixture.until_waiting_for_a_lock(1).await;
    // Whoever waits for a lock gets it before one who asks for it anew.
    assert_eq!(open.undo(&key).await.unwrap_err().kind(), Kind::Conflict);
    open.roll_back().await.unwrap();
    let (second, seen) = waiting.await.unwrap();
    second.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
    assert_eq!(payments(&fixture).await, 0);
    assert_eq!(fixture.ledger.load(&key).await.unwrap().record, finished(&seen));
}

/// A handler that ends the transaction itself and then refuses: what it committed is not called undone.
#[tokio::test]
async fn t50_a_refusal_behind_an_ended_transaction_is_misuse() {
    for end in ["commit", "rollback", "commit; begin"] {
        let fixture = with_payments().await;
        let key = scope("org", "key");
        let (mut open, _) = claim(&fixture.ledger, &key, 1).await;
        open.tx().execute(PAY, &[]).await.unwrap();
        open.tx().batch_execute(end).await.unwrap();
        let error = open.undo(&key).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Ended, "{end}");
        drop(open);
        fixture.until_none_is_idle_in_transaction().await;
        assert_eq!(fixture.idle_in_transaction().await, 0, "{end}");
    }
}

/// Whatever savepoints a handler sets: nothing that it wrote survives its refusal.
#[tokio::test]
async fn p09_a_handlers_savepoints_keep_nothing_of_a_refusal() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    open.tx().execute(PAY, &[]).await.unwrap();
    open.tx().batch_execute("savepoint samekey_handler").await.unwrap();
    open.tx().execute(PAY, &[]).await.unwrap();
    is_taken_back(&fixture, open, &key, &seen).await;
}

/// Whatever the server says besides its answers, as it does to whoever asks for its log, holds nothing up.
#[tokio::test]
async fn p15_notices_among_the_answers_hold_nothing_up() {
    let fixture = Fixture::with(1, Options::default()).await;
    fixture.execute("create table payments (amount bigint not null)").await;
    let client = fixture.ledger.pool().get().await.unwrap();
    let talk = "set client_min_messages = log; set log_min_duration_statement = 0";
    client.batch_execute(talk).await.unwrap();
    drop(client);
    let key = scope("org", "key");
    let (mut open, seen) = claim(&fixture.ledger, &key, 1).await;
    open.tx().execute(PAY, &[]).await.unwrap();
    open.undo(&key).await.unwrap();
    open.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
    let open = fixture.ledger.begin_unkeyed().await.unwrap();
    open.commit_unkeyed().await.unwrap();
    assert_eq!(payments(&fixture).await, 0);
}

/// A handler whose own task still writes when it refuses: none of that may land between the rollback and the claim.
#[tokio::test]
async fn p09_a_refusal_of_a_handler_that_kept_its_transaction_commits_nothing() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (mut open, _) = claim(&fixture.ledger, &key, 1).await;
    let kept = open.tx();
    kept.execute(PAY, &[]).await.unwrap();
    let error = open.undo(&key).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misused);
    kept.execute(PAY, &[]).await.unwrap_err();
    drop(kept);
    open.roll_back().await.unwrap();
    assert_eq!(payments(&fixture).await, 0);
    assert_eq!(fixture.number("select count(*) from samekey.keys").await, 0);
}
