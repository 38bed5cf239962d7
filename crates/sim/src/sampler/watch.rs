//! Looks again and again while a test goes on.

use super::Sampler;
use crate::error::{Error, Result};
use crate::history::{Activity, Sample};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// More looks than a run needs; later ones are left out.
const LOOKS_MAX: usize = 20_000;

/// What was seen.
#[derive(Debug)]
pub struct Watched {
    /// The ledger over time.
    pub samples: Vec<Sample>,
    /// Open transactions over time.
    pub activity: Vec<Activity>,
    /// Looks that failed, as where the database was down.
    pub failed: u64,
    /// To go on with.
    pub sampler: Sampler,
}

/// A sampler at work, as a task of the caller's runtime. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Watched>,
}

impl Sampler {
    /// Looks at the ledger and at open transactions, with this pause between two looks, until it is
    /// stopped.
    pub fn watch(self, pause: Duration) -> Watch {
        let (stop, mut stopped) = oneshot::channel();
        let mut seen =
            Watched { samples: Vec::new(), activity: Vec::new(), failed: 0, sampler: self };
        let task = tokio::spawn(async move {
            for _ in 0..LOOKS_MAX {
                seen.look().await;
                tokio::select! {
                    _ = &mut stopped => break,
                    () = tokio::time::sleep(pause) => {}
                }
            }
            seen
        });
        Watch { stop, task }
    }
}

impl Watch {
    /// Ends it, after the look that is under way.
    ///
    /// # Errors
    /// `System` when its task panicked.
    pub async fn stop(self) -> Result<Watched> {
        drop(self.stop);
        self.task.await.map_err(|cause| Error::system("watch the database", cause))
    }
}

impl Watched {
    async fn look(&mut self) {
        match self.sampler.activity().await {
            Ok(activity) => self.activity.push(activity),
            Err(_) => self.failed += 1,
        }
        match self.sampler.sample().await {
            // An unchanged ledger says nothing new; of those only the last one is kept.
            Ok(sample) => {
                let [.., before, last] = self.samples.as_mut_slice() else {
                    return self.samples.push(sample);
                };
                if before.rows == last.rows && last.rows == sample.rows {
                    *last = sample;
                } else {
                    self.samples.push(sample);
                }
            }
            Err(_) => self.failed += 1,
        }
    }
}
