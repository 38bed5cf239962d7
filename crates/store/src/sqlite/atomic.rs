//! A caller's job inside the transaction that claims and settles its key.

use super::job::{AtomicEnd, Place};
use super::outbox::WriteTx;
use super::writer::ended_by_job;
use super::{intents, rows};
use crate::error::{Kind, StoreError};
use crate::memory::host_now;
use crate::outbox::{Command, Enqueued};
use crate::row::{check_offer, check_swap};
use crate::{Arrived, Seen, Swap};
use rusqlite::Connection;
use samekey_core::delivery::Delivery;
use samekey_core::key::Scope;
use samekey_core::record::{Record, State};
use samekey_core::time::Time;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// The transaction of one atomic command, open on the writer's thread.
///
/// The key's row, the caller's own statements and the stored answer stand or fall together. The claim
/// is the write lock of the file: nobody else can write, or see what is not committed, so the row is
/// written once, with its answer, and a claim without one is never in the table. While it is open every other writer of the file waits, so a job works on the database and on nothing
/// else: no call to the outside, no sleep, no lock.
pub struct AtomicTx<'c> {
    place: &'c Place<'c>,
    scope: &'c Scope,
    arrived: Arrived,
    /// The row as it lies in the table.
    stored: RefCell<Record>,
    /// What [`AtomicTx::undo`] goes back to.
    claim: RefCell<Record>,
    current: RefCell<Record>,
    claimed: Cell<bool>,
}

impl<'c> AtomicTx<'c> {
    /// What the key was when the job began: newly claimed, or found as it stands.
    pub fn arrived(&self) -> &Arrived {
        &self.arrived
    }

    /// The connection, for the caller's own statements.
    ///
    /// It may set and release savepoints. It may not end the transaction, and may read the ledger's
    /// tables (`samekey_…`) but not write them: either gets [`Kind::Misused`], and nothing of the job
    /// is kept.
    pub fn connection(&self) -> &'c Connection {
        self.place.connection
    }

    /// The store's clock.
    pub fn now(&self) -> Time {
        host_now()
    }

    /// Takes a key that was found free: replaces what was found by `next`, the machine's claim. Call
    /// it before statements of your own; [`AtomicTx::undo`] goes back to here.
    ///
    /// # Errors
    /// [`Kind::Misused`] for a `next` whose revision does not grow; else failures of the world.
    pub fn reclaim(&self, next: &Record) -> Result<Swap, StoreError> {
        self.still_open()?;
        check_swap(&self.current.borrow(), next)?;
        self.claimed.set(true);
        *self.claim.borrow_mut() = next.clone();
        *self.current.borrow_mut() = next.clone();
        Ok(Swap::Written)
    }

    /// Undoes every statement of the job since it began, or since [`AtomicTx::reclaim`]; the claim
    /// stays. It is for an answer that has to be stored without any effect.
    ///
    /// # Errors
    /// Failures of the world; the job has to end with [`AtomicEnd::RollBack`] then.
    pub fn undo(&self) -> Result<(), StoreError> {
        self.still_open()?;
        self.place.guard.ours(|| rows::tell(self.place.connection, "rollback to samekey_job"))?;
        let claim = self.claim.borrow().clone();
        *self.current.borrow_mut() = claim;
        *self.stored.borrow_mut() = match &self.arrived {
            Arrived::Inserted(_) => Record::ABSENT,
            Arrived::Found(seen) => seen.record.clone(),
        };
        Ok(())
    }

    /// Replaces the claim by `next`, the machine's record with the answer, if the row still has the
    /// claim's owner, fence and revision.
    ///
    /// # Errors
    /// As [`AtomicTx::reclaim`].
    pub fn settle(&self, next: &Record) -> Result<Swap, StoreError> {
        self.write(next)
    }

    /// Inserts a command that is to be executed once at a counterparty, together with the key's row and what
    /// else the job writes, or finds the latest one of its action; see
    /// [`Outbox::enqueue`](crate::outbox::Outbox::enqueue). [`AtomicTx::undo`] takes it back.
    ///
    /// # Errors
    /// [`Kind::Misused`] for a command that the tables do not hold; else failures of the world.
    pub fn enqueue(&self, command: &Command, delivery: &Delivery) -> Result<Enqueued, StoreError> {
        super::outbox::enqueue_at(self.place, command, delivery)
    }

    /// What of this transaction is an application's: its own statements, and its commands. It cannot settle.
    pub fn application(&self) -> WriteTx<'c> {
        WriteTx::of(self.place)
    }

    fn write(&self, next: &Record) -> Result<Swap, StoreError> {
        self.still_open()?;
        check_swap(&self.current.borrow(), next)?;
        let stored = self.stored.borrow().clone();
        let connection = self.place.connection;
        let swap = self.place.guard.ours(|| {
            if stored.revision == 0 {
                rows::insert(connection, self.scope, next)
            } else {
                rows::swap(connection, self.scope, &stored, next)
            }
        })?;
        if swap == Swap::Written {
            *self.current.borrow_mut() = next.clone();
            *self.stored.borrow_mut() = next.clone();
        }
        Ok(swap)
    }

    /// After the transaction has ended, a statement would stand by itself.
    fn still_open(&self) -> Result<(), StoreError> {
        if self.place.connection.is_autocommit() {
            return Err(ended_by_job());
        }
        Ok(())
    }

    /// What has to hold before the job's part may be committed.
    fn finish(&self) -> Result<(), StoreError> {
        let current = self.current.borrow();
        if self.claimed.get() && matches!(current.state, State::Running(_)) {
            return Err(StoreError::new(
                Kind::Misused,
                "a job asked for its commit with the key still running, and nothing of it was kept; settle the key, or roll back",
            ));
        }
        let found = match &self.arrived {
            Arrived::Inserted(_) => None,
            Arrived::Found(seen) => Some(&seen.record),
        };
        // A claim that is settled where it was made never was open for anybody else.
        if current.is_open() || found.is_some_and(Record::is_open) {
            intents::keep(self.place.connection, self.scope, &current)?;
        }
        Ok(())
    }
}

/// Claims, runs the job, and says what has to become of it.
pub(super) fn run<T>(
    place: &Place<'_>,
    scope: &Scope,
    offer: &Record,
    limit: Duration,
    job: impl FnOnce(&AtomicTx<'_>) -> AtomicEnd<T>,
) -> AtomicEnd<Result<T, StoreError>> {
    let arrived = match begin(place, scope, offer) {
        Ok(arrived) => arrived,
        Err(error) => return AtomicEnd::RollBack(Err(error)),
    };
    let (record, claimed) = match &arrived {
        Arrived::Inserted(seen) => (seen.record.clone(), true),
        Arrived::Found(seen) => (seen.record.clone(), false),
    };
    let stored = if claimed { Record::ABSENT } else { record.clone() };
    let tx = AtomicTx {
        place,
        scope,
        arrived,
        stored: RefCell::new(stored),
        claim: RefCell::new(record.clone()),
        current: RefCell::new(record),
        claimed: Cell::new(claimed),
    };
    match place.guard.theirs(limit, || job(&tx)) {
        AtomicEnd::RollBack(answer) => AtomicEnd::RollBack(Ok(answer)),
        // A transaction that is gone by now is the writer's to tell.
        AtomicEnd::Commit(answer) if place.connection.is_autocommit() => {
            AtomicEnd::Commit(Ok(answer))
        }
        AtomicEnd::Commit(answer) => match tx.finish() {
            Ok(()) => AtomicEnd::Commit(Ok(answer)),
            Err(error) => AtomicEnd::RollBack(Err(error)),
        },
    }
}

fn begin(place: &Place<'_>, scope: &Scope, offer: &Record) -> Result<Arrived, StoreError> {
    check_offer(offer)?;
    let seen = rows::load(place.connection, scope)?;
    if seen.record.revision > 0 {
        return Ok(Arrived::Found(seen));
    }
    let record = offer.clone().counted_from(seen.now);
    Ok(Arrived::Inserted(Seen { record, now: seen.now }))
}
