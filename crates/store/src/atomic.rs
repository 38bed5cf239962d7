//! The port of transactions that hold a key: begin with the claim, end with the settlement.
//!
//! What the caller writes between the two commits or goes together with the key's row. Two drivers
//! stand behind it, tokio-postgres and sqlx; SQLite, which has one writer, runs the whole command
//! as one job instead (`sqlite`).

use crate::{Seen, StoreError, Swap};
use samekey_core::key::Scope;
use samekey_core::record::Record;
use std::future::Future;
use std::time::Duration;

/// How a transaction that wants a key begins.
#[derive(Debug)]
pub enum Begun<O> {
    /// The key was free: it is held for the offer by this transaction. There is no row yet.
    Claimed(O, Seen),
    /// The key has a committed row. The transaction is open: take a free row by
    /// [`OpenTransaction::reclaim`], or roll back.
    Found(O, Seen),
    /// Another transaction holds the key, and did not end within the wait.
    Busy,
}

/// A database that can open such transactions.
pub trait AtomicLedger: Send + Sync + 'static {
    /// An open transaction.
    type Open: OpenTransaction;

    /// Begins a transaction and claims the key in it, waiting for another transaction's claim
    /// `wait` at the longest. What follows the claim is not bound by that wait.
    fn begin(
        &self,
        scope: &Scope,
        offer: &Record,
        wait: Duration,
    ) -> impl Future<Output = Result<Begun<Self::Open>, StoreError>> + Send;

    /// Begins a transaction without a key, for a command on a route where keys are optional.
    fn begin_unkeyed(&self) -> impl Future<Output = Result<Self::Open, StoreError>> + Send;

    /// Writes an open record, its times counted from the epoch, for a key whose command nobody can tell the outcome of,
    /// so that nothing runs under it and a person finds it. Where the key has a row, that one stays, and the answer is
    /// false.
    fn put_in_doubt(
        &self,
        scope: &Scope,
        record: &Record,
        route: &str,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Loads the committed row of a key; most often that is a finished one, to be replayed.
    fn load_committed(
        &self,
        scope: &Scope,
    ) -> impl Future<Output = Result<Seen, StoreError>> + Send;
}

/// An open transaction with a key's row in it. One that is dropped is rolled back, and its
/// connection is closed rather than given back.
pub trait OpenTransaction: Send + Sized + 'static {
    /// Takes a free row that was found, by compare-and-set.
    fn reclaim(
        &mut self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
    ) -> impl Future<Output = Result<Swap, StoreError>> + Send;

    /// Takes back everything and claims the key anew, so that nothing but the claim stands. It fails with
    /// [`crate::Kind::Conflict`] where another request was quicker, and with [`crate::Kind::Ended`] where the
    /// transaction is not the one that was begun.
    fn undo(&mut self, scope: &Scope) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes the key's last row and commits. There is no way to do one without the other. An error
    /// other than [`crate::Kind::CommitUnknown`] means that nothing was committed here; with
    /// [`crate::Kind::Ended`] a handler may have committed before.
    fn settle(
        self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Commits a transaction that has no key.
    fn commit_unkeyed(self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes back everything, the claim included.
    ///
    /// # Errors
    /// [`crate::Kind::Ended`] where a handler has ended the transaction that held a key, so that there may be nothing
    /// left to be taken back.
    fn roll_back(self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// How a transaction holds its key, so that it can settle it, or claim it once more.
#[cfg(any(feature = "postgres", feature = "sqlx"))]
pub(crate) enum Hold {
    /// It has none, or none yet.
    None,
    /// The key has no row and is locked for this offer, which would wait so long for it.
    Offered(Record, Duration),
    /// By replacing the first, which was free, by the second.
    Taken(Record, Record),
}
