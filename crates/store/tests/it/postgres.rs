//! The PostgreSQL adapter: the suite of all stores, and what it promises besides.

mod atomic;
mod drops;
mod groups;
mod locks;
mod migration;
mod opening;
pub mod outbox;
mod plans;
mod proxy;
mod refusals;
mod secrets;
mod unknown;

use crate::conformance::{Aging, Fresh, conformance};
use crate::outbox::outbox_conformance;
use crate::outbox_traces;
use crate::records::{after, decided, done, intent, offer, scope};
use crate::traces;
use proxy::Proxy;
use samekey_core::record::State;
use samekey_sim::{FreshDatabase, fresh_database};
use samekey_store::postgres::{Options, Pool, PostgresLedger, connect_with, migrate};
use samekey_store::{Arrived, Ledger, Swap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

/// A migrated database of its own, a ledger on it, and a connection to look at it from outside.
pub struct Fixture {
    pub ledger: PostgresLedger,
    pub outside: Client,
    pub database: FreshDatabase,
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::with(8, Options::default()).await
    }

    pub async fn with(connections: usize, options: Options) -> Fixture {
        let database = fresh_database().await;
        let pool = connect_with(database.url(), connections).expect("a pool");
        migrate(&pool).await.expect("a schema");
        let ledger = PostgresLedger::open(pool, options).await.expect("a ledger");
        let outside = database.client().await.expect("a client");
        Fixture { ledger, outside, database }
    }

    /// Another process, as far as the database can tell.
    pub async fn another(&self, connections: usize) -> PostgresLedger {
        let pool: Pool = connect_with(self.database.url(), connections).expect("a pool");
        PostgresLedger::open(pool, Options::default()).await.expect("a ledger")
    }

    pub async fn execute(&self, text: &str) {
        self.outside.batch_execute(text).await.expect("a statement");
    }

    pub async fn number(&self, text: &str) -> i64 {
        self.outside.query_one(text, &[]).await.expect("a row").get(0)
    }

    /// Sessions of this database that are inside a transaction and idle.
    pub async fn idle_in_transaction(&self) -> i64 {
        self.number(
            "select count(*) from pg_stat_activity \
             where datname = current_database() and state like 'idle in transaction%'",
        )
        .await
    }

    /// Waits until so many sessions wait for a lock.
    pub async fn until_waiting_for_a_lock(&self, sessions: i64) {
        self.until(
            sessions,
            "select count(*) from pg_stat_activity \
             where datname = current_database() and wait_event_type = 'Lock'",
        )
        .await;
    }

    /// Waits until so many sessions wait for another transaction, whatever the lock is called.
    pub async fn until_waiting_for_a_lock_beside(&self, sessions: i64) {
        let client = self.database.client().await.expect("a client");
        let waiting = "select count(*) from pg_stat_activity \
                       where datname = current_database() and wait_event_type = 'Lock'";
        let bound = Duration::from_secs(10);
        let reached = async {
            while client.query_one(waiting, &[]).await.expect("a row").get::<_, i64>(0) != sessions
            {
            }
        };
        tokio::time::timeout(bound, reached).await.expect("a session that waits");
    }

    /// Waits until no session is in a transaction without working. A connection that was closed
    /// is noticed by the server a moment later.
    pub async fn until_none_is_idle_in_transaction(&self) {
        self.until(
            0,
            "select count(*) from pg_stat_activity \
             where datname = current_database() and state like 'idle in transaction%'",
        )
        .await;
    }

    pub async fn until(&self, expected: i64, text: &str) {
        let bound = Duration::from_secs(10);
        let reached = async { while self.number(text).await != expected {} };
        tokio::time::timeout(bound, reached).await.unwrap_or_else(|_| panic!("never: {text}"));
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        let (_, rest) = self.database.url().rsplit_once('@').expect("an address");
        let (address, _) = rest.split_once('/').expect("a path");
        address.parse().expect("a socket address")
    }
}

/// A ledger whose connections go through a proxy.
pub async fn through(fixture: &Fixture, proxy: &Proxy, connections: usize) -> PostgresLedger {
    let own = format!(":{}/", fixture.address().port());
    let url = fixture.database.url().replace(&own, &format!(":{}/", proxy.port));
    let pool = connect_with(&url, connections).expect("a pool");
    PostgresLedger::open(pool, Options::default()).await.expect("a ledger")
}

impl Aging for Fixture {
    async fn age(&self, by: Duration) {
        let by = format!("interval '{} microseconds'", by.as_micros());
        self.execute(&format!(
            "update samekey.keys set keep_until = keep_until - {by}, since = since - {by}, \
             lease_ends = lease_ends - {by}, run_ends = run_ends - {by}, \
             last_send = last_send - {by}, ask_after = ask_after - {by}; \
             update samekey.open_claims set due_at = due_at - {by}; \
             update samekey.decisions set decided_at = decided_at - {by}; \
             update samekey.outbox set began = began - {by}, gives_up = gives_up - {by}, \
             first_send = first_send - {by}, last_send = last_send - {by}, due = due - {by}, \
             since = since - {by}; \
             update samekey.finished set finished_at = finished_at - {by}, \
             began = began - {by}, gives_up = gives_up - {by}, since = since - {by}, \
             first_send = first_send - {by}, last_send = last_send - {by}; \
             update samekey.attempts set noted = noted - {by}; \
             update samekey.command_decisions set decided_at = decided_at - {by}"
        ))
        .await;
    }
}

/// Every kind of statement once.
pub async fn everything(ledger: &PostgresLedger) {
    let key = scope("everything", "key");
    let Arrived::Inserted(seen) = ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap()
    else {
        panic!("it was there")
    };
    assert_eq!(
        ledger.list_open(None, 10).await.unwrap().iter().filter(|o| o.scope == key).count(),
        1
    );
    let next = after(&seen.record, done(seen.now, 1));
    ledger.swap(&key, &seen.record, &next).await.unwrap();
    ledger.swap(&key, &seen.record, &next).await.unwrap();
    assert_eq!(ledger.load(&key).await.unwrap().record, next);
    ledger.sweep(10).await.unwrap();
}

/// What recovery, persons and a starting process ask for.
pub async fn beside(ledger: &PostgresLedger) {
    let key = scope("everything", "beside");
    let Arrived::Inserted(seen) = ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap()
    else {
        panic!("it was there")
    };
    let free = after(&seen.record, State::Free);
    ledger.swap(&key, &seen.record, &free).await.unwrap();
    let again = after(&free, seen.record.state);
    assert_eq!(ledger.reclaim(&key, &free, &again, &intent()).await, Ok(Swap::Written));
    assert_eq!(ledger.intent(&key).await, Ok(Some(intent())));
    assert!(ledger.orgs_with_open("route", None, 10).await.unwrap().contains(&key.org));
    ledger.due("route", &key.org, 10).await.unwrap();
    ledger.count_open().await.unwrap();
    let next = after(&again, done(seen.now, 1));
    let account = decided("anna", again.fence);
    assert_eq!(ledger.decide(&key, &again, &next, &account).await, Ok(Swap::Written));
    assert_eq!(ledger.decisions(&key).await.unwrap().len(), 1);
    ledger.share_once("everything", b"first").await.unwrap();
    ledger.share("everything", b"second").await.unwrap();
    ledger.drop_free(10).await.unwrap();
}

async fn start() -> Fresh<PostgresLedger, Fixture, ()> {
    let fixture = Fixture::new().await;
    Fresh { ledger: Arc::new(fixture.ledger.clone()), aging: fixture, keep: () }
}

conformance!(start);
outbox_conformance!(super::start);

/// Each trace gets emptied tables; making a database for each would only measure the disk.
#[test]
fn b10_random_traces_read_the_same() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let fixture = runtime.block_on(Fixture::new());
    traces::compare(96, |operations| {
        runtime.block_on(async {
            fixture
                .execute(
                    "delete from samekey.open_claims; delete from samekey.keys; \
                     delete from samekey.decisions; delete from samekey.meta",
                )
                .await;
            traces::play(&fixture.ledger, &fixture, operations).await
        })
    });
    // What it holds is dropped inside the runtime that it was made in.
    runtime.block_on(async move { drop(fixture) });
}

#[test]
fn b10_random_traces_on_the_outbox_read_the_same() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let fixture = runtime.block_on(Fixture::new());
    outbox_traces::compare(96, &runtime, &fixture.ledger, &fixture, || {
        runtime.block_on(fixture.execute(
            "delete from samekey.outbox; delete from samekey.finished; \
             delete from samekey.order_keys; delete from samekey.order_turns; \
             delete from samekey.attempts; delete from samekey.command_decisions; \
             delete from samekey.commands",
        ));
    });
    runtime.block_on(async move { drop(fixture) });
}
