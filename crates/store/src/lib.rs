//! The stores of samekey: all SQL is here, and no decision.
//!
//! A store inserts or loads, swaps a row if it is unchanged, lists and sweeps. What a row *means*,
//! and what becomes of it, is decided by `samekey_core::step`; this crate does not call it but to
//! sweep the memory store. Times come from the database and travel with the row ([`Seen`]).
//!
//! Three adapters stand behind the port [`Ledger`]: [`memory`], which is the oracle of the others
//! in tests, PostgreSQL and SQLite. Besides, each database can open the *caller's* transaction with
//! the key's row claimed in it, for commands whose effect is in the same database.
//!
//! Read next: [`row`] (how a record lies in columns), then one adapter, then `sql/`.

pub mod address;
#[cfg(any(feature = "postgres", feature = "sqlx"))]
pub mod atomic;
#[cfg(samekey_bugs)]
#[doc(hidden)]
pub mod bugs;
#[doc(hidden)]
pub mod crash;
mod decided;
pub mod error;
#[cfg(any(feature = "postgres", feature = "sqlx"))]
mod facts;
mod intent;
pub mod memory;
pub mod migrate;
pub mod outbox;
#[cfg(any(feature = "postgres", feature = "sqlx"))]
mod phrases;
#[cfg(feature = "postgres")]
pub mod postgres;
mod restored;
pub mod row;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlx"))]
mod sqlstate;
#[cfg(feature = "sqlx")]
pub mod sqlx;

pub use decided::{Decided, NOTE_BYTES_MAX, Person};
pub use error::{Kind, StoreError};
pub use intent::{Intent, OutboundKey};
pub use restored::Restored;

use samekey_core::key::{Key, Org, Scope};
use samekey_core::record::Record;
use samekey_core::time::Time;
use std::future::Future;

/// How many rows one sweep batch removes at the most. Measured: unthrottled deletes cost the
/// foreground almost half of its speed, batches of one to two thousand next to nothing.
pub const SWEEP_BATCH_MAX: u32 = 2_000;

/// How many open records one page of a list holds at the most; it bounds memory.
pub const LIST_PAGE_MAX: u32 = 1_000;

/// A record as it stood in the store, and the store's clock at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The record; [`Record::ABSENT`] where there is no row.
    pub record: Record,
    /// The database's clock.
    pub now: Time,
}

/// What became of an offered record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// There was no row. The offer stands now, its times counted from the database's clock.
    Inserted(Seen),
    /// There was one; nothing was written.
    Found(Seen),
}

/// What became of a compare-and-set.
#[allow(
    clippy::large_enum_variant,
    reason = "it is looked at once and dropped; a box would cost more"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The row was as it had been seen, and is the next one now.
    Written,
    /// The row is another one by now, or gone; nothing was written.
    Changed(Seen),
}

/// One pass of the sweep over at most a batch of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepPass {
    /// Rows removed.
    pub removed: u64,
    /// Whether more may be waiting; a caller that is throttled comes back for them.
    pub more: bool,
}

/// An open record with the key that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRecord {
    /// Whose it is.
    pub scope: Scope,
    /// The name of the route that claimed it.
    pub route: String,
    /// The record and the database's clock.
    pub seen: Seen,
}

/// How many open records a route has in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCount {
    /// The name of the route.
    pub route: String,
    /// `running`, `unknown` or `review`.
    pub state: String,
    /// How many.
    pub count: u64,
}

/// The port of the ledger of keys. Every method is one transaction of its own, committed when it
/// returns; none waits for a person or a counterparty.
///
/// Errors are failures of the world, see [`StoreError`]. After one whose
/// [`StoreError::may_have_committed`] is true, the write may or may not stand: asking again with the
/// same owner token tells, because the record names its owner.
pub trait Ledger: Send + Sync + 'static {
    /// Inserts `offer` under `scope`, or loads the row that is there. An open offer is inserted
    /// together with its intent, by which recovery finds it.
    ///
    /// The offer is what the machine says for [`Record::ABSENT`] at [`Time::EPOCH`]: its times are
    /// offsets, which the store adds to its own now (see [`Record::counted_from`]).
    fn insert_or_load(
        &self,
        scope: &Scope,
        offer: &Record,
        intent: &Intent,
    ) -> impl Future<Output = Result<Arrived, StoreError>> + Send;

    /// Loads the row of a key; [`Record::ABSENT`] where there is none.
    fn load(&self, scope: &Scope) -> impl Future<Output = Result<Seen, StoreError>> + Send;

    /// Replaces a finished or free `seen` by an open `next` if the row still has its owner, fence and
    /// revision, together with the intent of the new life.
    fn reclaim(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        intent: &Intent,
    ) -> impl Future<Output = Result<Swap, StoreError>> + Send;

    /// Replaces `seen` by `next` if the row still has its owner, fence and revision. The intent stays
    /// with an open record, due when the record says so, and goes with a finished one.
    ///
    /// A swap never inserts, and never opens what is finished: that is [`Ledger::reclaim`]. `next`
    /// equal to [`Record::ABSENT`] is refused; only the sweep removes rows.
    fn swap(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
    ) -> impl Future<Output = Result<Swap, StoreError>> + Send;

    /// As [`Ledger::swap`], for what a person decided: the row and the account of the decision are
    /// written together or not at all. Accounts are only ever added.
    fn decide(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        decided: &Decided,
    ) -> impl Future<Output = Result<Swap, StoreError>> + Send;

    /// What persons decided about a key, the oldest first, at most [`LIST_PAGE_MAX`].
    fn decisions(
        &self,
        scope: &Scope,
    ) -> impl Future<Output = Result<Vec<Decided>, StoreError>> + Send;

    /// The intent of an open record; nothing for a finished one.
    fn intent(
        &self,
        scope: &Scope,
    ) -> impl Future<Output = Result<Option<Intent>, StoreError>> + Send;

    /// Organisations after `after`, in their order, that have open records of this route, at most
    /// `limit` (and [`LIST_PAGE_MAX`]). It reads without locks.
    fn orgs_with_open(
        &self,
        route: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Org>, StoreError>> + Send;

    /// Keys of this route and organisation whose lease is over or whose next question is due by the
    /// database's clock, the longest due first, at most `limit` (and [`LIST_PAGE_MAX`]). Records in
    /// review are never due. What is listed has to be looked at again before it is acted on.
    fn due(
        &self,
        route: &str,
        org: &Org,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Key>, StoreError>> + Send;

    /// How many records are open, by route and state. It reads them all; not for every second.
    fn count_open(&self) -> impl Future<Output = Result<Vec<OpenCount>, StoreError>> + Send;

    /// What all processes on this store share under a name, such as a secret; nothing if nobody
    /// wrote it.
    fn shared(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;

    /// Writes `bytes` under a name if nobody has yet; gives what stands there now.
    fn share_once(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> impl Future<Output = Result<Vec<u8>, StoreError>> + Send;

    /// Writes `bytes` under a name, over what may stand there.
    fn share(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes free rows, at most `batch` of them (and [`SWEEP_BATCH_MAX`]), whether or not their time
    /// is over. Only for a store that was restored: there a free row may have been used since.
    fn drop_free(&self, batch: u32) -> impl Future<Output = Result<SweepPass, StoreError>> + Send;

    /// Removes finished rows whose time is over, at most `batch` of them (and
    /// [`SWEEP_BATCH_MAX`]). Open rows are never removed.
    fn sweep(&self, batch: u32) -> impl Future<Output = Result<SweepPass, StoreError>> + Send;

    /// Lists open records in the order of their scopes, those after `after`, at most `limit` (and
    /// [`LIST_PAGE_MAX`]).
    fn list_open(
        &self,
        after: Option<&Scope>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<OpenRecord>, StoreError>> + Send;
}
