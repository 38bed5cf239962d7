//! Waiting for the end of a command, in the process that enqueued it.

use super::Courier;
use crate::command::NewCommand;
use crate::error::Error;
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_store::Ledger;
use samekey_store::outbox::{CommandId, Outbox};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often the store is asked, for a command that another process may deliver.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a command stood when it was no longer waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It has ended, or waits for a person.
    Ended(Delivery),
    /// It goes on, and ends without whoever waited.
    Pending(CommandId),
}

/// Who waits for which command.
#[derive(Default)]
pub(super) struct Waiters(Mutex<HashMap<CommandId, Waiting>>);

struct Waiting {
    notify: Arc<Notify>,
    count: usize,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, HashMap<CommandId, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something became of this command.
    pub(super) fn wake(&self, id: CommandId) {
        if let Some(waiting) = self.lock().get(&id) {
            waiting.notify.notify_waiters();
        }
    }

    fn join(&self, id: CommandId) -> Place<'_> {
        let mut all = self.lock();
        let waiting = all.entry(id).or_insert_with(|| Waiting { notify: Arc::default(), count: 0 });
        waiting.count += 1;
        Place { waiters: self, id, notify: Arc::clone(&waiting.notify) }
    }
}

/// One who waits; leaving takes it off the list.
struct Place<'a> {
    waiters: &'a Waiters,
    id: CommandId,
    notify: Arc<Notify>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut all = self.waiters.lock();
        if let Some(waiting) = all.get_mut(&self.id) {
            waiting.count = waiting.count.saturating_sub(1);
            if waiting.count == 0 {
                all.remove(&self.id);
            }
        }
    }
}

impl<S: Outbox + Ledger> Courier<S> {
    /// Enqueues a command and waits for its end, `patience` at the longest. When the time is over the
    /// command goes on: `Pending` is not a failure, and enqueuing it again finds it.
    ///
    /// # Errors
    /// As [`Courier::enqueue`]. After an error the command may be in the outbox: the same call finds it.
    pub async fn send_and_wait(
        &self,
        command: NewCommand,
        patience: Duration,
    ) -> Result<Waited, Error> {
        let ends = Instant::now() + patience;
        let org = command.org.clone();
        let placed = self.enqueue(command).await?;
        self.wait(&org, placed.id, ends.saturating_duration_since(Instant::now())).await
    }

    /// Waits for the end of a command that is in the outbox, `patience` at the longest.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn wait(
        &self,
        org: &Org,
        id: CommandId,
        patience: Duration,
    ) -> Result<Waited, Error> {
        let ends = Instant::now() + patience;
        let place = self.shared().waiters.join(id);
        loop {
            // Listening begins before the look, so that an end between the two is not missed.
            let notified = place.notify.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            match self.delivery(org, id).await? {
                Some(delivery) if !delivery.is_open() => return Ok(Waited::Ended(delivery)),
                Some(_) | None if Instant::now() >= ends => return Ok(Waited::Pending(id)),
                Some(_) | None => {}
            }
            let look = (Instant::now() + LOOK_EVERY).min(ends);
            // Woken or not: the store says how it stands.
            let _ = tokio::time::timeout_at(look, notified).await;
        }
    }
}
