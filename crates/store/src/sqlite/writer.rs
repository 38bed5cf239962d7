//! The one thread that writes: jobs that wait are run in one transaction, each in a savepoint of
//! its own, and committed together.
//!
//! SQLite lets one connection write at a time, and what a commit costs is the disk. While one group
//! is being committed the next one gathers, so that nobody waits for a timer and an idle ledger adds
//! nothing. No job is answered before the commit of its group.
//!
//! A job that fails is undone alone. When SQLite gives the whole transaction up, every job that can
//! be run again is run alone, and the others are told that nothing of theirs stands.

use super::fault::of_commit;
use super::guard::Guard;
use super::job::{Fate, Job, Place};
use super::rows;
use super::whereabouts::Whereabouts;
use crate::error::{Kind, StoreError};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// How many jobs wait at the most. Beyond it a caller is told at once: at a disk's hundred commits a
/// second, a longer queue would be answered after its callers have given up.
pub const QUEUE_MAX: usize = 1_024;

/// How many jobs share a commit at the most. Measured on the databases: from 16 to 64 a commit costs
/// each less and less, beyond that only the first one's wait grows.
pub const GROUP_MAX: usize = 64;

/// The places that callers see: the queue, and what was done.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Box<dyn Job>>,
    totals: Arc<Totals>,
    ended: oneshot::Receiver<()>,
}

#[derive(Debug, Default)]
struct Totals {
    groups: AtomicU64,
    jobs: AtomicU64,
}

impl Writer {
    /// Starts the thread on its connection.
    pub(super) fn start(
        mut connection: Connection,
        whereabouts: Whereabouts,
    ) -> Result<Writer, StoreError> {
        let guard = Guard::watching(&mut connection)?;
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let (ending, ended) = oneshot::channel();
        let totals = Arc::new(Totals::default());
        let desk = Desk { connection, guard, whereabouts, totals: Arc::clone(&totals) };
        spawn("samekey-writer", move || {
            desk.work(jobs);
            drop(ending);
        })?;
        Ok(Writer { queue, totals, ended })
    }

    /// Hands a job in.
    pub(super) fn hand_in(&self, job: Box<dyn Job>) -> Result<(), StoreError> {
        self.queue.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::new(
                Kind::PoolExhausted,
                "too many writes wait for the database file; try again, or send fewer at once",
            ),
            mpsc::error::TrySendError::Closed(_) => stopped(),
        })
    }

    /// How many groups were committed, and how many jobs were in them.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.totals.groups.load(Ordering::Relaxed), self.totals.jobs.load(Ordering::Relaxed))
    }

    /// Takes no more jobs, and returns when those that wait are done and the file is closed.
    pub(super) async fn close(self) {
        drop(self.queue);
        // The other end is dropped, never used: both mean that the thread has ended.
        let _ = self.ended.await;
    }
}

/// Starts a named thread.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map(drop).map_err(|_| {
        StoreError::new(
            Kind::Other,
            "the system gives this process no more threads; raise its limit",
        )
    })
}

/// What is said when the thread behind a queue has ended.
pub(super) fn stopped() -> StoreError {
    StoreError::new(
        Kind::Unreachable,
        "the ledger of the database file has been closed; open it again",
    )
}

/// The thread's side.
struct Desk {
    connection: Connection,
    guard: Arc<Guard>,
    whereabouts: Whereabouts,
    totals: Arc<Totals>,
}

impl Desk {
    fn work(self, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
        while let Some(first) = jobs.blocking_recv() {
            let mut group = vec![first];
            while group.len() < GROUP_MAX
                && let Ok(job) = jobs.try_recv()
            {
                group.push(job);
            }
            // Jobs catch their panics; what is left are the destructors of callers' values. The thread
            // goes on, and whoever got no answer hears that the outcome is not known.
            if catch_unwind(AssertUnwindSafe(|| self.settle(group))).is_err() {
                tracing::error!("a value of a caller panicked when it was dropped");
                self.give_up();
            }
        }
    }

    /// Runs and answers a group, together or each alone.
    fn settle(&self, group: Vec<Box<dyn Job>>) {
        for job in self.attempt(group) {
            // Alone, a job is answered in any case, so that nothing comes back.
            self.attempt(vec![job]);
        }
    }

    /// Runs a group in one transaction and answers it. Gives back the jobs that have to be run
    /// alone, because the transaction was given up.
    fn attempt(&self, mut group: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        group.retain(|job| !job.is_abandoned());
        if group.is_empty() {
            return group;
        }
        let begun = self.whereabouts.check().and_then(|()| {
            self.connection.execute_batch("begin immediate").map_err(StoreError::from)
        });
        if let Err(error) = begun {
            self.give_up();
            return answer_all(group, |job| job.refuse(error.clone()));
        }
        crate::crash_point!("writer.group-begun");
        for index in 0..group.len() {
            let Some(job) = group.get_mut(index) else { break };
            if let Err(error) = self.run(job.as_mut()) {
                job.spoil(&error);
                self.give_up();
                return scatter(group, Some(index));
            }
        }
        crate::crash_point!("writer.before-commit");
        match self.guard.committing(|| self.connection.execute_batch("commit")) {
            Ok(()) => {
                crate::crash_point!("writer.after-commit", {
                    return answer_all(group, |job| job.spoil(&super::job::lost()));
                });
                if self.whereabouts.check().is_err() {
                    return answer_all(group, |job| job.spoil(&super::job::lost()));
                }
                let jobs = u64::try_from(group.len()).unwrap_or(0);
                self.totals.groups.fetch_add(1, Ordering::Relaxed);
                self.totals.jobs.fetch_add(jobs, Ordering::Relaxed);
                answer_all(group, |_| {})
            }
            Err(error) => {
                let deferred =
                    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation);
                let error = of_commit(error);
                self.give_up();
                // A deferred foreign key of the application is only looked at here, and it is one
                // job's fault.
                if deferred && group.len() > 1 {
                    return scatter(group, None);
                }
                answer_all(group, |job| job.spoil(&error))
            }
        }
    }

    /// Runs one job in its savepoint.
    ///
    /// # Errors
    /// The transaction is gone, or in a state in which it must not be committed.
    fn run(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        rows::tell(&self.connection, "savepoint samekey_job")?;
        let place = Place { connection: &self.connection, guard: &self.guard };
        let fate = job.run(&place);
        let misused = self.guard.was_misused();
        if misused {
            job.refuse(ended_by_job());
        }
        // The guard's refusal of a commit, a full disk and `or rollback` all end it as a whole.
        if self.connection.is_autocommit() {
            return Err(ended_by_job());
        }
        match fate {
            Fate::Keep if !misused => {}
            Fate::Keep | Fate::Undo | Fate::Waiting => {
                rows::tell(&self.connection, "rollback to samekey_job")?;
            }
        }
        Ok(rows::tell(&self.connection, "release samekey_job")?)
    }

    fn give_up(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("rollback")
        {
            // The next group cannot begin then, is told so, and this is tried again.
            tracing::error!(error = %StoreError::from(error), "a transaction could not be rolled back");
        }
    }
}

fn answer_all(group: Vec<Box<dyn Job>>, mut say: impl FnMut(&mut dyn Job)) -> Vec<Box<dyn Job>> {
    for mut job in group {
        say(job.as_mut());
        job.answer();
    }
    Vec::new()
}

/// After a transaction was given up: answers the job at fault and those that cannot run again, and
/// gives back the rest.
fn scatter(group: Vec<Box<dyn Job>>, at_fault: Option<usize>) -> Vec<Box<dyn Job>> {
    let mut again = Vec::new();
    for (index, mut job) in group.into_iter().enumerate() {
        if Some(index) != at_fault && job.can_run() {
            again.push(job);
            continue;
        }
        if Some(index) != at_fault {
            job.spoil(&StoreError::new(
                Kind::Conflict,
                "another job ended the transaction that this one shared, and nothing of it was kept; run it again",
            ));
        }
        job.answer();
    }
    again
}

pub(super) fn ended_by_job() -> StoreError {
    StoreError::new(
        Kind::Misused,
        "a job ended the transaction that it ran in, or wrote a row of a key past its handle, and nothing of it was kept; leave both to the ledger",
    )
}
