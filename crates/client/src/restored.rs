//! The calling side of a store that was restored to an earlier state.
//!
//! What happened to its commands since is lost: one that waits may have been sent, one that had failed may
//! have been tried again, and one that was enqueued may be missing. So each that is there is asked about,
//! and one that is enqueued while the mark is in force is asked about by its business reference, since the
//! lost one had another key.

use crate::courier::Courier;
use crate::error::Error;
use samekey_core::key::Org;
use samekey_core::plan::{Input, plan};
use samekey_store::outbox::{CommandId, Listed, Moved, Outbox, SeenDelivery, Show};
use samekey_store::{LIST_PAGE_MAX, Ledger, Restored, StoreError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often the mark is looked up by a process that enqueues. Marking is done before the service starts
/// again; this is for one that was not stopped.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often a row that changes meanwhile is looked at again.
const TRIES_MAX: u32 = 5;

/// The mark, as a process last saw it.
pub(crate) struct Watch(Mutex<Look>);

struct Look {
    at: Instant,
    /// When the mark ends, on this process's clock; nothing where there is none.
    ends: Option<Instant>,
}

impl Watch {
    pub(crate) async fn new<S: Outbox + Ledger>(store: &S) -> Result<Watch, StoreError> {
        Ok(Watch(Mutex::new(look(store).await?)))
    }

    pub(crate) async fn is_in_force<S: Outbox + Ledger>(
        &self,
        store: &S,
    ) -> Result<bool, StoreError> {
        let is_old = self.lock().at.elapsed() >= LOOK_EVERY;
        if is_old {
            let found = look(store).await?;
            *self.lock() = found;
        }
        Ok(self.lock().ends.is_some_and(|ends| Instant::now() < ends))
    }

    fn lock(&self) -> MutexGuard<'_, Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn look<S: Outbox + Ledger>(store: &S) -> Result<Look, StoreError> {
    let at = Instant::now();
    let Some(mark) = Restored::load(store).await? else { return Ok(Look { at, ends: None }) };
    let now = store.now().await?;
    let ends = mark.is_in_force(now).then(|| at + mark.until.since(now));
    Ok(Look { at, ends })
}

/// What marking a store did to its commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Commands that are asked about now, by a question or by the same bytes.
    pub asked_about: u64,
    /// Commands that wait for a person now.
    pub handed_over: u64,
}

impl<S: Outbox + Ledger> Courier<S> {
    /// Doubts every command that is not finished, in a store that was restored to an earlier state. The
    /// mark itself is written by whoever marks the keys of the same store; do both before anything is
    /// delivered again. Doing it twice is safe.
    ///
    /// # Errors
    /// [`crate::Kind::UnknownDestination`] for commands to a destination that this courier does not
    /// know, and what the store fails with.
    pub async fn doubt_after_restore(&self) -> Result<RestoreReport, Error> {
        let show = Show {
            states: ["waiting", "sending", "unknown", "failed"].map(str::to_owned).to_vec(),
            ..Show::default()
        };
        let mut report = RestoreReport::default();
        let mut after: Option<(Org, CommandId)> = None;
        loop {
            let from = after.as_ref().map(|(org, id)| (org, *id));
            let page = self.store().list(&show, from, LIST_PAGE_MAX).await?;
            let Some(last) = page.last() else { return Ok(report) };
            after = Some((last.action.org.clone(), last.id));
            for listed in page {
                match self.doubt(listed).await? {
                    Some(true) => report.asked_about += 1,
                    Some(false) => report.handed_over += 1,
                    None => {}
                }
            }
        }
    }

    /// Whether it goes on by itself now; nothing where it was not changed.
    async fn doubt(&self, listed: Listed) -> Result<Option<bool>, Error> {
        let Listed { id, action, mut seen, .. } = listed;
        let profile = self.profile(&action.destination)?;
        for _ in 0..TRIES_MAX {
            let SeenDelivery { delivery, now } = &seen;
            let (next, _) = plan(delivery.clone(), Input::Restore, *now, &profile);
            if next.revision == delivery.revision {
                return Ok(None);
            }
            match self.store().advance(&action.org, id, delivery, &next, None).await? {
                Moved::Written => return Ok(Some(next.is_open())),
                Moved::Changed(now) => seen = now,
                Moved::Followed(_) | Moved::Gone => return Ok(None),
            }
        }
        // It is being worked on, so it is not a leftover of before.
        Ok(None)
    }
}
