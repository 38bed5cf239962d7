//! The calling side of a store that was restored to an earlier state.
//!
//! What happened to its commands since is lost: one that waits may have been sent, one that had failed may
//! have been tried again, and one that was enqueued may be missing. So each that is there is doubted, before
//! anything is delivered again; and one that is enqueued while the mark is in force is asked about by its
//! business reference, since the lost one had another key.
//!
//! The mark is written once for a store (`samekey restore-mark`), and every courier heeds it: it knows the
//! profiles by which its commands can be asked about.

use crate::courier::{Courier, Place, Shared};
use crate::error::Error;
use crate::signal::Signal;
use samekey_core::key::Org;
use samekey_core::plan::{Input, plan};
use samekey_core::profile::Profile;
use samekey_store::outbox::{CommandId, Listed, Moved, Outbox, SeenDelivery, Show};
use samekey_store::{LIST_PAGE_MAX, Ledger, Restored, StoreError};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often a process looks whether its store was restored under it. Marking is done before the services
/// start again; this is for one that was not stopped.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often a row that changes meanwhile is looked at again.
const TRIES_MAX: u32 = 5;
/// What the name begins with under which it lies in the store for which mark a destination's commands were
/// doubted.
const DOUBTED_PREFIX: &str = "restored-commands.";

/// The mark, as a process last saw it.
pub(crate) struct Watch(Mutex<Look>);

#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    mark: Option<Restored>,
    /// When the mark ends, on this process's clock; nothing where none is in force.
    ends: Option<Instant>,
}

impl Watch {
    pub(crate) async fn new<S: Outbox + Ledger>(store: &S) -> Result<Watch, StoreError> {
        Ok(Watch(Mutex::new(look(store).await?)))
    }

    async fn looked<S: Outbox + Ledger>(&self, store: &S) -> Result<Look, StoreError> {
        let known = *self.lock();
        if known.at.elapsed() < LOOK_EVERY {
            return Ok(known);
        }
        let found = look(store).await?;
        *self.lock() = found;
        Ok(found)
    }

    /// Whether what is enqueued now may have been executed already.
    pub(crate) async fn is_in_force<S: Outbox + Ledger>(
        &self,
        store: &S,
    ) -> Result<bool, StoreError> {
        let look = self.looked(store).await?;
        Ok(look.ends.is_some_and(|ends| Instant::now() < ends))
    }

    fn lock(&self) -> MutexGuard<'_, Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn look<S: Outbox + Ledger>(store: &S) -> Result<Look, StoreError> {
    let at = Instant::now();
    let mark = Restored::load(store).await?;
    let Some(known) = mark else { return Ok(Look { at, mark, ends: None }) };
    let now = store.now().await?;
    let ends = known.is_in_force(now).then(|| at + known.until.since(now));
    Ok(Look { at, mark, ends })
}

/// What was doubted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Commands that are asked about now, by a question or by the same bytes.
    pub asked_about: u64,
    /// Commands that wait for a person now.
    pub handed_over: u64,
}

impl<S: Outbox + Ledger> Courier<S> {
    /// Doubts every command that is not finished, where the store was marked as restored and that was not
    /// done yet. [`Courier::spawn`] does it before anything is delivered; it is here for a program that
    /// wants to know what came of it.
    ///
    /// # Errors
    /// What the store fails with; doing it again is safe.
    pub async fn heed_restore(&self) -> Result<RestoreReport, Error> {
        let mut report = RestoreReport::default();
        for place in self.shared().places() {
            heed(self.shared(), place, &mut report).await?;
        }
        Ok(report)
    }
}

/// Doubts the commands of one destination, once for a mark. Every courier may do it: doubting twice only
/// asks twice.
pub(crate) async fn heed<S: Outbox + Ledger>(
    shared: &Shared<S>,
    place: &Place,
    report: &mut RestoreReport,
) -> Result<(), StoreError> {
    let Some(mark) = shared.restored.looked(&*shared.store).await?.mark else { return Ok(()) };
    let until = mark.until.micros();
    if place.heeded.load(Ordering::SeqCst) == until {
        return Ok(());
    }
    let name = format!("{DOUBTED_PREFIX}{}", place.name());
    let mark = until.to_be_bytes();
    if shared.store.shared(&name).await?.as_deref() == Some(mark.as_slice()) {
        place.heeded.store(until, Ordering::SeqCst);
        return Ok(());
    }
    let show = Show {
        destination: Some(place.name().to_owned()),
        states: ["waiting", "sending", "unknown", "failed", "undecided"]
            .map(str::to_owned)
            .to_vec(),
        ..Show::default()
    };
    let mut after: Option<(Org, CommandId)> = None;
    loop {
        let from = after.as_ref().map(|(org, id)| (org, *id));
        let page = shared.store.list(&show, from, LIST_PAGE_MAX).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.action.org.clone(), last.id));
        for listed in page {
            match doubt(&*shared.store, listed, &place.profile).await? {
                Some(true) => report.asked_about += 1,
                Some(false) => report.handed_over += 1,
                None => {}
            }
        }
    }
    shared.store.share(&name, &mark).await?;
    place.heeded.store(until, Ordering::SeqCst);
    shared.signals.emit(place.name(), Signal::DoubtedAfterRestore);
    Ok(())
}

/// Whether it goes on by itself now; nothing where it was not changed.
async fn doubt<S: Outbox>(
    store: &S,
    listed: Listed,
    profile: &Profile,
) -> Result<Option<bool>, StoreError> {
    let Listed { id, action, mut seen, .. } = listed;
    for _ in 0..TRIES_MAX {
        let SeenDelivery { delivery, now } = &seen;
        let (next, _) = plan(delivery.clone(), Input::Restore, *now, profile);
        if next.revision == delivery.revision {
            return Ok(None);
        }
        match store.advance(&action.org, id, delivery, &next, None).await? {
            Moved::Written => return Ok(Some(next.is_open())),
            Moved::Changed(now) => seen = now,
            Moved::Followed(_) | Moved::Gone => return Ok(None),
        }
    }
    // It is being worked on, so it is not a leftover of before.
    Ok(None)
}
