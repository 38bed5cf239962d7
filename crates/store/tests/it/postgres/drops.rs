//! Futures that are dropped, and what they leave in the pool.

use super::Fixture;
use crate::records::{after, done, intent, offer, scope};
use futures_util::FutureExt;
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::postgres::Options;
use samekey_store::{Ledger, Swap};
use std::future::Future;
use std::time::Duration;

const WAIT: Duration = Duration::from_millis(200);

/// Polls a future so many times, letting others work in between, and drops it.
async fn drop_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        if let Some(done) = future.as_mut().now_or_never() {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn command(fixture: &Fixture, key: &str) -> bool {
    let key = scope("org", key);
    let Begun::Claimed(open, seen) = fixture.ledger.begin(&key, &offer(1), WAIT).await.unwrap()
    else {
        return false;
    };
    open.tx().execute("insert into payments values (1)", &[]).await.unwrap();
    let next = after(&seen.record, done(seen.now, 1));
    open.settle(&key, &seen.record, &next).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t55_b02_500_cancelled_commands_leave_no_connection_in_a_transaction() {
    let fixture = Fixture::with(2, Options::default()).await;
    fixture.execute("create table payments (amount bigint not null)").await;
    // Every number of polls is a place at which the caller may hang up.
    for number in 0..500 {
        drop_after(number % 60, command(&fixture, &format!("cancelled-{number}"))).await;
    }
    for number in 0..100 {
        assert!(command(&fixture, &format!("good-{number}")).await, "command {number}");
    }
    let kept = fixture.number("select count(*) from samekey.keys where key like 'good-%'").await;
    assert_eq!(kept, 100);
    let keys = fixture.number("select count(*) from samekey.keys").await;
    assert_eq!(fixture.number("select count(*) from payments").await, keys);
    fixture.until_none_is_idle_in_transaction().await;
}

#[tokio::test]
async fn an_open_transaction_that_is_dropped_is_rolled_back() {
    let fixture = Fixture::with(1, Options::default()).await;
    let key = scope("org", "key");
    for _ in 0..3 {
        let Begun::Claimed(open, _) = fixture.ledger.begin(&key, &offer(1), WAIT).await.unwrap()
        else {
            panic!("not claimed")
        };
        let tx = open.tx();
        drop(open);
        drop(tx);
        fixture.until_none_is_idle_in_transaction().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_write_is_done_all_the_same() {
    let fixture = Fixture::with(2, Options::default()).await;
    let key = scope("org", "key");
    assert!(
        drop_after(1, fixture.ledger.insert_or_load(&key, &offer(1), &intent())).await.is_none()
    );
    let seen = loop {
        let seen = fixture.ledger.load(&key).await.unwrap();
        if seen.record.revision > 0 {
            break seen;
        }
    };
    let next = after(&seen.record, done(seen.now, 1));
    assert_eq!(fixture.ledger.swap(&key, &seen.record, &next).await.unwrap(), Swap::Written);
}
