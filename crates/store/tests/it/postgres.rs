//! The PostgreSQL adapter: the suite of all stores, and what it promises besides.

mod atomic;
mod drops;

use samekey_sim::{FreshDatabase, fresh_database};
use samekey_store::postgres::{Options, Pool, PostgresLedger, connect_with, migrate};
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
}
