//! The outbox on PostgreSQL: see [`crate::outbox`] for what it is, and `docs/decisions/0011-tables-of-the-outbox.md`
//! for why its tables are what they are.
//!
//! Commands that a caller enqueues in a transaction of its own go through [`enqueue`]; those that are enqueued by
//! themselves, and all moves, travel in groups, as the keys do. Taking is a transaction of its own.

mod cells;
mod enqueue;
mod reads;
mod sql;
mod take;
mod writes;

pub use enqueue::enqueue;
pub(super) use writes::OutboxWrites;

use super::{PostgresLedger, failure};
use crate::error::{Kind, StoreError};
use crate::outbox::check::{check_action, check_advance, check_command, check_note};
use crate::outbox::{
    Action, AttemptNote, Command, CommandCount, CommandId, Enqueued, Listed, Moved, Outbox,
    SeenDelivery, Show, Taken,
};
use crate::{Decided, SweepPass};
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_core::time::Time;
use std::time::Duration;
use writes::{Advance, Write, Written};

/// Finds rows of the outbox that no machine makes, for operators: parameters are the organisation and id
/// after which to look (empty for the first page) and how many rows at the most.
pub const OUTBOX_FAULTS: &str = include_str!("../../sql/postgres/outbox_faults.sql");

impl PostgresLedger {
    /// Hands a write to its group. One that was held up there by somebody's open transaction waits for it on a
    /// connection of its own, so that the others need not.
    async fn write(
        &self,
        entry: impl Fn() -> Result<Write, StoreError>,
    ) -> Result<Written, StoreError> {
        match self.outbox.submit(entry()?).await {
            Err(error) if error.kind() == Kind::LockTimeout => {
                writes::alone(&self.core, entry()?).await
            }
            answer => answer,
        }
    }
}

impl Outbox for PostgresLedger {
    async fn now(&self) -> Result<Time, StoreError> {
        reads::now(&self.core).await
    }

    async fn enqueue(
        &self,
        command: &Command,
        delivery: &Delivery,
    ) -> Result<Enqueued, StoreError> {
        check_command(command, delivery)?;
        if command.generation > 1 {
            return enqueue::alone(&self.core, command, delivery).await;
        }
        match self.write(|| Write::enqueue(command, delivery)).await? {
            Written::Enqueued(enqueued) => {
                crate::crash_point!("outbox.enqueued");
                Ok(enqueued)
            }
            Written::Moved(_) => Err(failure::missing()),
        }
    }

    async fn command(&self, org: &Org, id: CommandId) -> Result<Option<Command>, StoreError> {
        reads::command_of(&self.core, org, id).await
    }

    async fn latest(&self, action: &Action) -> Result<Option<(Command, SeenDelivery)>, StoreError> {
        check_action(action)?;
        let connection = self.core.connection().await?;
        let latest = enqueue::latest(&connection, action).await?;
        connection.release();
        Ok(latest)
    }

    async fn delivery(&self, org: &Org, id: CommandId) -> Result<Option<SeenDelivery>, StoreError> {
        reads::delivery_of(&self.core, org, id).await
    }

    async fn orgs_with_due(
        &self,
        destination: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> Result<Vec<Org>, StoreError> {
        reads::orgs_with_due(&self.core, destination, after, limit).await
    }

    async fn next_due(&self, destination: &str) -> Result<Option<(Time, Time)>, StoreError> {
        reads::next_due(&self.core, destination).await
    }

    async fn take<F>(
        &self,
        org: &Org,
        destination: &str,
        limit: u32,
        decide: F,
    ) -> Result<Vec<Taken>, StoreError>
    where
        F: FnMut(Delivery, Time) -> Option<Delivery> + Send + 'static,
    {
        take::take(&self.core, org, destination, limit, decide).await
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
        let advance = || {
            let (org, seen, next) = (org.clone(), seen.clone(), next.clone());
            Write::advance(Advance { org, id, seen, next, note: note.cloned() })
        };
        match self.write(advance).await? {
            Written::Moved(moved) => {
                crate::crash_point!("outbox.advanced");
                Ok(moved)
            }
            Written::Enqueued(_) => Err(failure::missing()),
        }
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
        let advance = Advance { org, id, seen, next, note: None };
        writes::decided(&self.core, &advance, decided).await
    }

    async fn note(&self, org: &Org, id: CommandId, note: &AttemptNote) -> Result<(), StoreError> {
        check_note(note)?;
        reads::note(&self.core, org, id, note).await
    }

    async fn attempts(&self, org: &Org, id: CommandId) -> Result<Vec<AttemptNote>, StoreError> {
        reads::attempts(&self.core, org, id).await
    }

    async fn accounts(&self, org: &Org, id: CommandId) -> Result<Vec<Decided>, StoreError> {
        reads::accounts(&self.core, org, id).await
    }

    async fn list(
        &self,
        show: &Show,
        after: Option<(&Org, CommandId)>,
        limit: u32,
    ) -> Result<Vec<Listed>, StoreError> {
        reads::list(&self.core, show, after, limit).await
    }

    async fn count_commands(&self) -> Result<Vec<CommandCount>, StoreError> {
        reads::count_commands(&self.core).await
    }

    async fn sweep_commands(
        &self,
        retention: Duration,
        batch: u32,
    ) -> Result<SweepPass, StoreError> {
        reads::sweep(&self.core, retention, batch).await
    }
}
