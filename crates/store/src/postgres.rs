//! The ledger on PostgreSQL 15 or later.
//!
//! Single keys are inserted, loaded and swapped in groups ([`Ledger`]); an atomic command gets the
//! caller's own transaction with its key claimed in it ([`AtomicLedger`](crate::atomic)). The role
//! that a service needs is in `sql/postgres/roles.sql`.
//!
//! What it does not do: it never reads a key from a replica, takes no advisory lock but to migrate,
//! and needs no trigger, sequence or extension, so that the tables can be distributed by
//! organisation.
//!
//! Read next: `connection.rs` (how a connection never returns in a transaction), `atomic.rs`,
//! `group.rs`, then `sql/postgres`.

mod answers;
mod atomic;
mod batches;
mod cells;
mod claims;
mod connect;
mod connection;
mod failure;
mod group;
mod intents;
pub mod outbox;
mod reads;
mod schema;
mod sql;
mod swaps;
mod sweep;
mod value;

pub use crate::facts::{Durability, MIGRATIONS};
pub use answers::INLINE_BODY_BYTES_MAX;
pub use atomic::{Open, Tx};
pub use connect::{CONNECTIONS_DEFAULT, connect, connect_with};
pub use connection::Statements;
pub use deadpool_postgres::Pool;
pub use group::{GROUP_MAX, WAITING_MAX};
pub use schema::migrate;

use crate::error::StoreError;
use crate::phrases::Phrases;
use crate::row::{check_offer, check_stays, check_swap};
use crate::{Arrived, Decided, Intent, Ledger, OpenCount, OpenRecord, Seen, Swap, SweepPass};
use batches::{Change, Offer, Write, Writes, Written};
use connection::Connection;
use group::Grouper;
use intents::Beside;
use outbox::OutboxWrites;
use samekey_core::key::{Key, Org, Scope};
use samekey_core::record::Record;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Finds rows that no machine makes, for operators: parameters are the organisation and key after
/// which to look (empty texts for the first page) and how many rows at the most.
pub const ROW_FAULTS: &str = include_str!("../sql/postgres/row_faults.sql");

/// How a ledger uses its database. Start from [`Options::default`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How statements are sent.
    pub statements: Statements,
    /// Whether the server must keep what it confirms.
    pub durability: Durability,
    /// How long a caller waits for a free connection.
    pub acquire_max: Duration,
    /// How long a transaction that takes a free row waits for another one that holds it.
    pub reclaim_wait: Duration,
    /// For how many days ahead there are partitions of large answers: the longest retention in
    /// use, in days, and a few more.
    pub answer_days_ahead: u16,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            statements: Statements::default(),
            durability: Durability::default(),
            // As long as a pool of ours waits; it also bounds pools that have no bound.
            acquire_max: Duration::from_secs(2),
            reclaim_wait: Duration::from_millis(200),
            // The default retention, thirty days, and what a run and a late sweep may add.
            answer_days_ahead: 33,
        }
    }
}

/// The ledger on PostgreSQL. Clones are cheap and share one pool.
#[derive(Clone)]
pub struct PostgresLedger {
    core: Arc<Core>,
    writes: Arc<Grouper<Writes>>,
    outbox: Arc<Grouper<OutboxWrites>>,
}

/// What all parts of a ledger share.
struct Core {
    pool: Pool,
    options: Options,
    phrases: Phrases,
    days: answers::Days,
    /// Whether sessions were found that begin their transactions with another isolation level than those
    /// had when the ledger was opened.
    begins_otherwise: AtomicBool,
}

impl Core {
    async fn connection(&self) -> Result<Connection, StoreError> {
        Connection::of(&self.pool, &self.options).await
    }
}

impl fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The pool's own text shows the address.
        f.write_str("PostgresLedger")
    }
}

impl PostgresLedger {
    /// Opens the ledger in the database behind a pool, after it has looked whether the promise can
    /// be kept there.
    ///
    /// # Errors
    /// [`Kind::Schema`](crate::Kind) for another schema version, `Unsafe` for a server that is too
    /// old, forgets what it confirms, or has another default isolation level than READ COMMITTED,
    /// `ReadOnly` for a standby, and what a connection may fail with.
    pub async fn open(pool: Pool, options: Options) -> Result<PostgresLedger, StoreError> {
        let connection = Connection::of(&pool, &options).await?;
        let facts = schema::check(&connection, &options).await?;
        let phrases = Phrases::of(&facts, options.durability);
        let days = answers::Days::default();
        let begins_otherwise = AtomicBool::new(false);
        let core = Arc::new(Core { pool, options, phrases, days, begins_otherwise });
        let days = sweep::days(&connection).await?;
        core.days.set(days.into_keys().collect(), None);
        connection.release();
        let writes = Arc::new(Grouper::new(Writes(core.clone())));
        let outbox = Arc::new(Grouper::new(OutboxWrites(core.clone())));
        Ok(PostgresLedger { core, writes, outbox })
    }

    /// The pool that was handed in.
    pub fn pool(&self) -> &Pool {
        &self.core.pool
    }
}

impl Ledger for PostgresLedger {
    async fn insert_or_load(
        &self,
        scope: &Scope,
        offer: &Record,
        intent: &Intent,
    ) -> Result<Arrived, StoreError> {
        check_offer(offer)?;
        let (scope, record, intent) = (scope.clone(), offer.clone(), intent.clone());
        let offer = Offer { scope, record, intent };
        match self.writes.submit(Write::Offer(offer)).await? {
            Written::Arrived(arrived) => Ok(arrived),
            Written::Swapped(_) => Err(failure::missing()),
        }
    }

    async fn load(&self, scope: &Scope) -> Result<Seen, StoreError> {
        let connection = self.core.connection().await?;
        let seen = batches::load(&connection, scope).await?;
        connection.release();
        Ok(seen)
    }

    async fn reclaim(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        intent: &Intent,
    ) -> Result<Swap, StoreError> {
        check_swap(seen, next)?;
        intents::write(&self.core, scope, seen, next, Beside::Intent(intent)).await
    }

    async fn swap(&self, scope: &Scope, seen: &Record, next: &Record) -> Result<Swap, StoreError> {
        check_stays(seen, next)?;
        let change = Change { scope: scope.clone(), seen: seen.clone(), next: next.clone() };
        match self.writes.submit(Write::Change(change)).await? {
            Written::Swapped(swap) => Ok(swap),
            Written::Arrived(_) => Err(failure::missing()),
        }
    }

    async fn decide(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        decided: &Decided,
    ) -> Result<Swap, StoreError> {
        check_stays(seen, next)?;
        intents::write(&self.core, scope, seen, next, Beside::Account(decided)).await
    }

    async fn decisions(&self, scope: &Scope) -> Result<Vec<Decided>, StoreError> {
        reads::decisions(&self.core, scope).await
    }

    async fn intent(&self, scope: &Scope) -> Result<Option<Intent>, StoreError> {
        reads::intent(&self.core, scope).await
    }

    async fn orgs_with_open(
        &self,
        route: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> Result<Vec<Org>, StoreError> {
        reads::orgs_with_open(&self.core, route, after, limit).await
    }

    async fn due(&self, route: &str, org: &Org, limit: u32) -> Result<Vec<Key>, StoreError> {
        reads::due(&self.core, route, org, limit).await
    }

    async fn count_open(&self) -> Result<Vec<OpenCount>, StoreError> {
        reads::count_open(&self.core).await
    }

    async fn shared(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        reads::shared(&self.core, name).await
    }

    async fn share_once(&self, name: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        intents::share(&self.core, &sql::SHARE_ONCE, name, bytes).await?;
        // What is shared is never removed, so that it is there now, from whomever.
        self.shared(name).await?.ok_or_else(failure::missing)
    }

    async fn share(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        intents::share(&self.core, &sql::SHARE, name, bytes).await
    }

    async fn drop_free(&self, batch: u32) -> Result<SweepPass, StoreError> {
        sweep::drop_free(&self.core, batch).await
    }

    async fn sweep(&self, batch: u32) -> Result<SweepPass, StoreError> {
        sweep::sweep(&self.core, batch).await
    }

    async fn list_open(
        &self,
        after: Option<&Scope>,
        limit: u32,
    ) -> Result<Vec<OpenRecord>, StoreError> {
        reads::list_open(&self.core, after, limit).await
    }
}
