//! The outbox in an SQLite file: see [`crate::outbox`] for what it is.
//!
//! All writes go through the thread that writes; a command is enqueued with the business row by
//! [`AtomicTx::enqueue`](super::AtomicTx::enqueue) or [`WriteTx::enqueue`], and in a transaction on a connection of the
//! caller's own by [`enqueue`].

mod lists;
mod rows;

use super::job::{AtomicEnd, Place, Work};
use super::{SqliteLedger, writer};
use crate::error::{Kind, StoreError};
use crate::memory::host_now;
use crate::outbox::check::{check_action, check_advance, check_command, check_note};
use crate::outbox::{
    Action, AttemptNote, Command, CommandCount, CommandId, Enqueued, Listed, Moved, Outbox,
    SeenDelivery, Show, Taken,
};
use crate::{Decided, SweepPass};
use rusqlite::Connection;
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_core::time::Time;
use std::time::Duration;

/// Inserts a command in the caller's own transaction on a connection of the caller's own, or finds the latest
/// one of its action; see [`Outbox::enqueue`]. Begin it by `begin immediate`: a transaction that has read before
/// it writes may be refused as busy.
///
/// # Errors
/// [`Kind::Misused`] for a command that the tables do not hold, and outside any transaction; else what the file
/// says. Roll the transaction back then.
pub fn enqueue(
    connection: &Connection,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    check_command(command, delivery)?;
    if connection.is_autocommit() {
        return Err(StoreError::new(
            Kind::Misused,
            "a command was to be enqueued outside a transaction; begin one, and commit it together with the business row",
        ));
    }
    rows::may_enqueue(connection)?;
    rows::enqueue(connection, command, delivery)
}

/// The transaction of a write of the application's, open on the writer's thread; see
/// [`SqliteLedger::write_tx`].
pub struct WriteTx<'c> {
    place: &'c Place<'c>,
}

impl<'c> WriteTx<'c> {
    pub(super) fn of(place: &'c Place<'c>) -> WriteTx<'c> {
        WriteTx { place }
    }

    /// The connection, for the caller's own statements. What was said of
    /// [`AtomicTx::connection`](super::AtomicTx::connection) holds here too.
    pub fn connection(&self) -> &'c Connection {
        self.place.connection
    }

    /// Inserts a command together with what else the job writes, or finds the latest one of its action; see
    /// [`Outbox::enqueue`].
    ///
    /// # Errors
    /// As [`enqueue`]; the job has to end with [`AtomicEnd::RollBack`] then.
    pub fn enqueue(&self, command: &Command, delivery: &Delivery) -> Result<Enqueued, StoreError> {
        enqueue_at(self.place, command, delivery)
    }
}

/// Enqueues in the middle of a caller's job.
pub(super) fn enqueue_at(
    place: &Place<'_>,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    if place.connection.is_autocommit() {
        return Err(writer::ended_by_job());
    }
    let enqueued = place.guard.ours(|| enqueue(place.connection, command, delivery));
    crate::crash_point!("outbox.enqueued");
    enqueued
}

impl SqliteLedger {
    /// Runs a write of the application's own tables, as [`SqliteLedger::write`], in whose transaction commands
    /// can be enqueued.
    ///
    /// # Errors
    /// As [`SqliteLedger::atomic`].
    pub async fn write_tx<T: Send + 'static>(
        &self,
        job: impl FnOnce(&WriteTx<'_>) -> AtomicEnd<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_tx_within(Duration::MAX, job).await
    }

    /// The same, where a statement of the job is broken off when the job has gone on for `limit`, as by
    /// [`SqliteLedger::write_within`].
    ///
    /// # Errors
    /// As [`SqliteLedger::write_within`].
    pub async fn write_tx_within<T: Send + 'static>(
        &self,
        limit: Duration,
        job: impl FnOnce(&WriteTx<'_>) -> AtomicEnd<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.hand_in(Work::Once(Some(Box::new(move |place: &Place<'_>| {
            let tx = WriteTx { place };
            match place.guard.theirs(limit, || job(&tx)) {
                AtomicEnd::Commit(answer) => AtomicEnd::Commit(Ok(answer)),
                AtomicEnd::RollBack(answer) => AtomicEnd::RollBack(Ok(answer)),
            }
        }))))
        .await
    }
}

impl Outbox for SqliteLedger {
    async fn now(&self) -> Result<Time, StoreError> {
        Ok(host_now())
    }

    async fn enqueue(
        &self,
        command: &Command,
        delivery: &Delivery,
    ) -> Result<Enqueued, StoreError> {
        check_command(command, delivery)?;
        let (command, delivery) = (command.clone(), delivery.clone());
        let enqueued =
            self.again(move |place| rows::enqueue(place.connection, &command, &delivery)).await;
        crate::crash_point!("outbox.enqueued");
        enqueued
    }

    async fn command(&self, org: &Org, id: CommandId) -> Result<Option<Command>, StoreError> {
        let org = org.clone();
        self.readers.ask(move |connection| rows::command(connection, &org, id)).await?
    }

    async fn latest(&self, action: &Action) -> Result<Option<(Command, SeenDelivery)>, StoreError> {
        check_action(action)?;
        let action = action.clone();
        self.readers
            .ask(move |connection| snapshot(connection, || rows::latest(connection, &action)))
            .await?
    }

    async fn delivery(&self, org: &Org, id: CommandId) -> Result<Option<SeenDelivery>, StoreError> {
        let org = org.clone();
        let found =
            self.readers.ask(move |connection| rows::delivery(connection, &org, id)).await??;
        Ok(found.map(|(_, seen)| seen))
    }

    async fn orgs_with_due(
        &self,
        destination: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> Result<Vec<Org>, StoreError> {
        let (destination, after) = (destination.to_owned(), after.cloned());
        self.readers
            .ask(move |c| lists::orgs_with_due(c, &destination, after.as_ref(), limit))
            .await?
    }

    async fn next_due(&self, destination: &str) -> Result<Option<(Time, Time)>, StoreError> {
        let destination = destination.to_owned();
        self.readers.ask(move |connection| lists::next_due(connection, &destination)).await?
    }

    async fn take<F>(
        &self,
        org: &Org,
        destination: &str,
        limit: u32,
        mut decide: F,
    ) -> Result<Vec<Taken>, StoreError>
    where
        F: FnMut(Delivery, Time) -> Option<Delivery> + Send + 'static,
    {
        let (org, destination) = (org.clone(), destination.to_owned());
        let taken = self
            .again(move |place| {
                let taken = rows::take(place.connection, &org, &destination, limit, &mut decide);
                crate::crash_point!("outbox.take-decided");
                taken
            })
            .await;
        crate::crash_point!("outbox.taken");
        taken
    }

    async fn advance(
        &self,
        org: &Org,
        id: CommandId,
        seen: &Delivery,
        next: &Delivery,
        note: Option<&AttemptNote>,
    ) -> Result<Moved, StoreError> {
        check_advance(seen, next)?;
        note.map_or(Ok(()), check_note)?;
        let (org, seen, next) = (org.clone(), seen.clone(), next.clone());
        let note = note.cloned();
        let moved = self
            .again(move |place| {
                let moved = rows::advance(place.connection, &org, id, &seen, &next)?;
                if let (Moved::Written, Some(note)) = (&moved, &note) {
                    rows::note(place.connection, &org, id, note)?;
                }
                Ok(moved)
            })
            .await;
        crate::crash_point!("outbox.advanced");
        moved
    }

    async fn advance_decided(
        &self,
        org: &Org,
        id: CommandId,
        seen: &Delivery,
        next: &Delivery,
        decided: &Decided,
    ) -> Result<Moved, StoreError> {
        check_advance(seen, next)?;
        let (org, seen, next) = (org.clone(), seen.clone(), next.clone());
        let decided = decided.clone();
        self.again(move |place| {
            let moved = rows::advance(place.connection, &org, id, &seen, &next)?;
            if moved == Moved::Written {
                rows::account(place.connection, &org, id, &decided)?;
            }
            Ok(moved)
        })
        .await
    }

    async fn note(&self, org: &Org, id: CommandId, note: &AttemptNote) -> Result<(), StoreError> {
        check_note(note)?;
        let (org, note) = (org.clone(), note.clone());
        self.again(move |place| rows::note(place.connection, &org, id, &note)).await
    }

    async fn attempts(&self, org: &Org, id: CommandId) -> Result<Vec<AttemptNote>, StoreError> {
        let org = org.clone();
        self.readers.ask(move |connection| lists::attempts(connection, &org, id)).await?
    }

    async fn accounts(&self, org: &Org, id: CommandId) -> Result<Vec<Decided>, StoreError> {
        let org = org.clone();
        self.readers.ask(move |connection| lists::accounts(connection, &org, id)).await?
    }

    async fn list(
        &self,
        show: &Show,
        after: Option<(&Org, CommandId)>,
        limit: u32,
    ) -> Result<Vec<Listed>, StoreError> {
        let (show, after) = (show.clone(), after.map(|(org, id)| (org.clone(), id)));
        self.readers
            .ask(move |connection| {
                let after = after.as_ref().map(|(org, id)| (org, *id));
                snapshot(connection, || lists::list(connection, &show, after, limit))
            })
            .await?
    }

    async fn count_commands(&self) -> Result<Vec<CommandCount>, StoreError> {
        self.readers.ask(lists::count_commands).await?
    }

    async fn sweep_commands(
        &self,
        retention: Duration,
        batch: u32,
    ) -> Result<SweepPass, StoreError> {
        self.again(move |place| lists::sweep(place.connection, retention, batch)).await
    }
}

/// Runs reads that have to see the same rows.
fn snapshot<T>(
    connection: &Connection,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.execute_batch("begin")?;
    let read = read();
    connection.execute_batch("rollback")?;
    read
}
