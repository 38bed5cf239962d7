//! The sweep: removes finished records whose retention is over, a throttled batch at a time.

use crate::engine::{Engine, Shared};
use crate::signal::Signal;
use samekey_store::{Ledger, SWEEP_BATCH_MAX, StoreError, crash_point};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How a sweeper works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepPlan {
    /// How long it rests when nothing is left to remove.
    pub every: Duration,
    /// How long it rests between two batches, so that commands come first.
    pub between: Duration,
    /// Rows a batch, at most [`SWEEP_BATCH_MAX`].
    pub batch: u32,
}

impl Default for SweepPlan {
    /// Every minute, in batches of a thousand with a tenth of a second between them: up to ten
    /// thousand rows a second, far more than one database takes in.
    fn default() -> SweepPlan {
        SweepPlan {
            every: Duration::from_secs(60),
            between: Duration::from_millis(100),
            batch: 1_000.min(SWEEP_BATCH_MAX),
        }
    }
}

/// A sweeper at work. It ends when this is dropped; a batch on its way is committed or rolled back by
/// the database.
#[derive(Debug)]
pub struct Sweeper(JoinHandle<()>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<S: Ledger> Engine<S> {
    /// Starts sweeping in the background. Several sweepers on one database share the work.
    #[must_use = "the sweeper ends when this is dropped"]
    pub fn spawn_sweeper(&self, plan: SweepPlan) -> Sweeper {
        let shared = Arc::clone(self.shared());
        Sweeper(tokio::spawn(async move {
            loop {
                // An error is in the log and the metrics already; the next pass tries again.
                let _ = run(&shared, plan).await;
                tokio::time::sleep(plan.every).await;
            }
        }))
    }

    /// Sweeps once, until nothing is left whose time is over; gives the number of removed records.
    pub async fn sweep(&self, plan: SweepPlan) -> Result<u64, StoreError> {
        run(self.shared(), plan).await
    }
}

async fn run<S: Ledger>(shared: &Shared<S>, plan: SweepPlan) -> Result<u64, StoreError> {
    let mut removed = 0u64;
    loop {
        match shared.store.sweep(plan.batch.clamp(1, SWEEP_BATCH_MAX)).await {
            Ok(pass) => {
                removed = removed.saturating_add(pass.removed);
                if pass.removed > 0 {
                    shared.signals.emit_named("sweep", Signal::Swept(pass.removed));
                }
                if !pass.more {
                    return Ok(removed);
                }
                crash_point!("sweep.between-batches");
                tokio::time::sleep(plan.between).await;
            }
            Err(error) => {
                shared.signals.emit_named("sweep", Signal::StoreFailed(error.kind()));
                return Err(error);
            }
        }
    }
}
