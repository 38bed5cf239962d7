//! The transactions of sqlx.

use crate::commands::{self, failed, id, offered};
use crate::postgres::Fixture;
use crate::records::{after, done, kept, offer, scope};
use futures_util::FutureExt;
use samekey_core::record::{Record, State};
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::outbox::{Command, Enqueued};
use samekey_store::sqlx::outbox::enqueue;
use samekey_store::sqlx::{Durability, Open, SqlxLedger};
use samekey_store::{Kind, Ledger, Seen, Swap};
use sqlx::Executor;
use sqlx::postgres::PgPoolOptions;
use std::future::Future;
use std::time::Duration;

const WAIT: Duration = Duration::from_millis(200);
const PAY: &str = "insert into payments values (7)";

async fn with_payments(connections: u32) -> (Fixture, SqlxLedger) {
    let fixture = Fixture::new().await;
    fixture.execute("create table payments (amount bigint not null)").await;
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .connect(fixture.database.url())
        .await
        .unwrap();
    let ledger = SqlxLedger::open(pool, Durability::Required).await.unwrap();
    (fixture, ledger)
}

async fn claim(ledger: &SqlxLedger, key: &str) -> (Open, Seen) {
    match ledger.begin(&scope("org", key), &offer(1), WAIT).await.unwrap() {
        Begun::Claimed(open, seen) => (open, seen),
        Begun::Found(..) => panic!("found"),
        Begun::Busy => panic!("busy"),
    }
}

fn finished(seen: &Seen) -> Record {
    after(&seen.record, done(seen.now, 1))
}

#[tokio::test]
async fn s4_the_effect_and_the_key_are_committed_together_and_both_drivers_see_them() {
    let (fixture, ledger) = with_payments(2).await;
    let key = scope("org", "key");
    let (mut open, seen) = claim(&ledger, "key").await;
    assert_eq!(seen.record, offer(1).counted_from(seen.now));
    open.connection().execute(PAY).await.unwrap();
    let next = finished(&seen);
    open.settle(&key, &seen.record, &next).await.unwrap();
    assert_eq!(fixture.number("select count(*) from payments").await, 1);
    assert_eq!(fixture.ledger.load(&key).await.unwrap().record, next);
    assert_eq!(ledger.load_committed(&key).await.unwrap().record, next);
    match ledger.begin(&key, &offer(2), WAIT).await.unwrap() {
        Begun::Found(open, found) => {
            assert_eq!(found.record, next);
            open.roll_back().await.unwrap();
        }
        Begun::Claimed(..) | Begun::Busy => panic!("not found"),
    }
    assert_eq!(fixture.idle_in_transaction().await, 0);
}

#[tokio::test]
async fn a_large_answer_of_the_other_driver_is_read_to_the_byte() {
    let (fixture, ledger) = with_payments(1).await;
    fixture.ledger.sweep(10).await.unwrap();
    let key = scope("org", "key");
    let Begun::Claimed(open, seen) = fixture.ledger.begin(&key, &offer(1), WAIT).await.unwrap()
    else {
        panic!("not claimed")
    };
    let body: &'static [u8] = Box::leak(vec![b'x'; 10_000].into_boxed_slice());
    let mut next = finished(&seen);
    if let State::Done(done) = &mut next.state {
        done.receipt = kept(201, body);
    }
    open.settle(&key, &seen.record, &next).await.unwrap();
    assert_eq!(fixture.number("select count(*) from samekey.answers").await, 1);
    assert_eq!(ledger.load_committed(&key).await.unwrap().record, next);
}

#[tokio::test]
async fn a_refusal_takes_the_effect_back_and_a_free_row_is_taken_again() {
    let (fixture, ledger) = with_payments(2).await;
    let key = scope("org", "key");
    let (mut open, seen) = claim(&ledger, "key").await;
    open.connection().execute(PAY).await.unwrap();
    open.connection().execute("insert into payments values (null)").await.unwrap_err();
    open.undo(&key).await.unwrap();
    let free = after(&seen.record, State::Free);
    open.settle(&key, &seen.record, &free).await.unwrap();
    assert_eq!(fixture.number("select count(*) from payments").await, 0);

    let Begun::Found(mut open, seen) = ledger.begin(&key, &offer(2), WAIT).await.unwrap() else {
        panic!("not found")
    };
    let next = after(&seen.record, offer(2).counted_from(seen.now).state);
    assert_eq!(open.reclaim(&key, &seen.record, &next).await.unwrap(), Swap::Written);
    open.connection().execute(PAY).await.unwrap();
    let taken = Seen { record: next, now: seen.now };
    open.settle(&key, &taken.record, &finished(&taken)).await.unwrap();
    assert_eq!(fixture.number("select count(*) from payments").await, 1);
}

#[tokio::test]
async fn busy_misused_and_swallowed_are_told_apart() {
    let (fixture, ledger) = with_payments(3).await;
    let key = scope("org", "key");
    let (holder, seen) = claim(&ledger, "key").await;
    assert!(matches!(ledger.begin(&key, &offer(2), Duration::ZERO).await.unwrap(), Begun::Busy));
    drop((holder, seen));
    fixture.until_none_is_idle_in_transaction().await;

    for ended in ["rollback", "commit", "insert into payments values (null)"] {
        fixture.execute("delete from samekey.keys").await;
        let (mut open, seen) = claim(&ledger, "key").await;
        let _ = open.connection().execute(ended).await;
        let error = open.settle(&key, &seen.record, &finished(&seen)).await.unwrap_err();
        let kind = if ended.starts_with("insert") { Kind::Misused } else { Kind::Ended };
        assert_eq!(error.kind(), kind, "{ended}: {error}");
        let settled = "select count(*) from samekey.keys where state = 'done'";
        assert_eq!(fixture.number(settled).await, 0, "{ended}");
    }
    let mut open = ledger.begin_unkeyed().await.unwrap();
    open.connection().execute("insert into payments values (null)").await.unwrap_err();
    assert_eq!(open.commit_unkeyed().await.unwrap_err().kind(), Kind::Misused);
    let mut open = ledger.begin_unkeyed().await.unwrap();
    open.connection().execute(PAY).await.unwrap();
    open.commit_unkeyed().await.unwrap();
    assert_eq!(fixture.number("select count(*) from payments").await, 1);
}

async fn command(ledger: &SqlxLedger, key: &str) -> bool {
    let Ok(Begun::Claimed(mut open, seen)) =
        ledger.begin(&scope("org", key), &offer(1), WAIT).await
    else {
        return false;
    };
    open.connection().execute("insert into payments values (1)").await.unwrap();
    open.settle(&scope("org", key), &seen.record, &finished(&seen)).await.is_ok()
}

async fn drop_after<T>(polls: usize, future: impl Future<Output = T>) {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        if future.as_mut().now_or_never().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

/// sqlx's own `begin` would poison the pool here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t55_b02_cancelled_commands_leave_no_connection_in_a_transaction() {
    let (fixture, ledger) = with_payments(2).await;
    for number in 0..300 {
        drop_after(number % 40, command(&ledger, &format!("cancelled-{number}"))).await;
    }
    for number in 0..100 {
        assert!(command(&ledger, &format!("good-{number}")).await, "command {number}");
    }
    let kept = "select count(*) from samekey.keys where key like 'good-%'";
    assert_eq!(fixture.number(kept).await, 100);
    let keys = fixture.number("select count(*) from samekey.keys").await;
    assert_eq!(fixture.number("select count(*) from payments").await, keys);
    fixture.until_none_is_idle_in_transaction().await;
}

#[tokio::test]
async fn p09_p34_savepoints_and_settings_are_those_of_the_other_driver() {
    let (fixture, ledger) = with_payments(1).await;
    ledger.pool().execute("set synchronous_commit = off").await.unwrap();
    let key = scope("org", "key");
    let (mut open, seen) = claim(&ledger, "key").await;
    let setting = "select current_setting('synchronous_commit')";
    let found: String = sqlx::query_scalar(setting).fetch_one(open.connection()).await.unwrap();
    assert_eq!(found, "on");
    open.connection().execute(PAY).await.unwrap();
    open.connection().execute("savepoint samekey_handler").await.unwrap();
    open.undo(&key).await.unwrap();
    open.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
    assert_eq!(fixture.number("select count(*) from payments").await, 0);
    let mut open = ledger.begin_unkeyed().await.unwrap();
    let found: String = sqlx::query_scalar(setting).fetch_one(open.connection()).await.unwrap();
    assert_eq!(found, "on");
    open.roll_back().await.unwrap();
}

#[tokio::test]
async fn t73_a_command_stands_or_falls_with_a_transaction_of_sqlx() {
    let (fixture, ledger) = with_payments(2).await;
    let first = commands::command("org", 1);
    for commits in [false, true] {
        let (mut open, seen) = claim(&ledger, "key").await;
        open.connection().execute(PAY).await.unwrap();
        let enqueued = enqueue(open.connection(), &first, &offered(Duration::ZERO)).await;
        assert_eq!(enqueued, Ok(Enqueued::New));
        let again = enqueue(open.connection(), &first, &offered(Duration::ZERO)).await;
        assert!(matches!(again, Ok(Enqueued::Found(found, _)) if *found == first));
        if commits {
            let next = finished(&seen);
            open.settle(&scope("org", "key"), &seen.record, &next).await.unwrap();
        } else {
            open.roll_back().await.unwrap();
        }
        let expected = i64::from(commits);
        assert_eq!(fixture.number("select count(*) from samekey.outbox").await, expected);
    }
    let seen = crate::outbox::stands(&fixture.ledger, &first).await;
    assert_eq!(seen.delivery.due(), Some(seen.delivery.began));
    let next = Command { id: id(2), generation: 2, ..first.clone() };
    let mut connection = ledger.pool().acquire().await.unwrap();
    let early = enqueue(&mut connection, &next, &offered(Duration::ZERO)).await;
    assert!(matches!(early, Ok(Enqueued::Found(found, _)) if *found == first));
    let gone = failed(seen.now);
    let gone = crate::outbox::advanced(&fixture.ledger, &first, &seen.delivery, gone).await;
    let enqueued = enqueue(&mut connection, &next, &offered(Duration::ZERO)).await;
    assert_eq!(enqueued, Ok(Enqueued::New));
    assert_eq!(crate::outbox::stands(&fixture.ledger, &first).await.delivery, gone);
    assert_eq!(fixture.number("select count(*) from samekey.outbox").await, 1);
}
