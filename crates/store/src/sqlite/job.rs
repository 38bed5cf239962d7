//! One piece of work for the writer: run inside a savepoint, answered after the commit.

use super::guard::Guard;
use crate::error::{Kind, StoreError};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// Where a job runs.
pub(super) struct Place<'c> {
    pub(super) connection: &'c Connection,
    pub(super) guard: &'c Guard,
}

/// How a job ends, and what its caller gets for it.
///
/// The caller gets `T` only after the transaction that the job shared with others has been
/// committed, in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicEnd<T> {
    /// Everything that was written stands, together with the key's row.
    Commit(T),
    /// Nothing of it stands, neither the claim nor the effect.
    RollBack(T),
}

/// What has to become of a job's savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It did not run yet.
    Waiting,
    /// What it wrote is to be kept.
    Keep,
    /// What it wrote is to be undone.
    Undo,
}

type Answer<T> = Result<T, StoreError>;

/// The work itself.
pub(super) enum Work<T> {
    /// A statement of ours: it can be run again after a rollback.
    Again(AgainWork<T>),
    /// A caller's job: it can be run once, and is empty then.
    Once(Option<OnceWork<T>>),
}

/// A job that can be run again.
pub(super) type AgainWork<T> = Box<dyn FnMut(&Place<'_>) -> Answer<T> + Send>;

/// A job that can be run once.
pub(super) type OnceWork<T> = Box<dyn FnOnce(&Place<'_>) -> AtomicEnd<Answer<T>> + Send>;

/// What the writer sees of a job, whatever its answer is.
pub(super) trait Job: Send {
    /// Whether its caller has gone away. Nothing was acknowledged, so that it need not run.
    fn is_abandoned(&self) -> bool;
    /// Runs it, and says what has to become of its savepoint.
    fn run(&mut self, place: &Place<'_>) -> Fate;
    /// Whether it can be run after a rollback: because it never ran, or can run twice.
    fn can_run(&self) -> bool;
    /// What became of it is not what it wanted. What was to be undone anyway keeps its answer.
    fn spoil(&mut self, error: &StoreError);
    /// The same, whatever it wanted.
    fn refuse(&mut self, error: StoreError);
    /// Tells the caller.
    fn answer(self: Box<Self>);
}

/// A job with an answer.
pub(super) struct Task<T> {
    work: Work<T>,
    fate: Fate,
    answer: Option<Answer<T>>,
    to: oneshot::Sender<Answer<T>>,
}

impl<T: Send + 'static> Task<T> {
    /// The job, and where its answer will arrive.
    pub(super) fn boxed(work: Work<T>) -> (Box<dyn Job>, oneshot::Receiver<Answer<T>>) {
        let (to, from) = oneshot::channel();
        (Box::new(Task { work, fate: Fate::Waiting, answer: None, to }), from)
    }
}

impl<T> Work<T> {
    fn run(&mut self, place: &Place<'_>) -> AtomicEnd<Answer<T>> {
        match self {
            Work::Again(work) => match work(place) {
                Ok(answer) => AtomicEnd::Commit(Ok(answer)),
                Err(error) => AtomicEnd::RollBack(Err(error)),
            },
            Work::Once(work) => match work.take() {
                Some(work) => work(place),
                None => AtomicEnd::RollBack(Err(lost())),
            },
        }
    }
}

impl<T: Send + 'static> Job for Task<T> {
    fn is_abandoned(&self) -> bool {
        self.to.is_closed()
    }

    fn run(&mut self, place: &Place<'_>) -> Fate {
        // What the job wrote is undone after a panic, and what it captured is dropped with it, so
        // that nobody sees a half-changed value.
        let end = catch_unwind(AssertUnwindSafe(|| self.work.run(place)))
            .unwrap_or_else(|payload| AtomicEnd::RollBack(Err(StoreError::panicked(payload))));
        let (fate, answer) = match end {
            AtomicEnd::Commit(answer) => (Fate::Keep, answer),
            AtomicEnd::RollBack(answer) => (Fate::Undo, answer),
        };
        self.fate = fate;
        self.answer = Some(answer);
        fate
    }

    fn can_run(&self) -> bool {
        match &self.work {
            Work::Again(_) => true,
            Work::Once(work) => work.is_some(),
        }
    }

    fn spoil(&mut self, error: &StoreError) {
        match self.fate {
            Fate::Undo => {}
            Fate::Waiting | Fate::Keep => self.answer = Some(Err(error.clone())),
        }
    }

    fn refuse(&mut self, error: StoreError) {
        self.answer = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        let answer = self.answer.unwrap_or_else(|| Err(lost()));
        // A caller that has gone away meanwhile is told by the row when it comes back.
        let _ = self.to.send(answer);
    }
}

/// What a caller hears whose answer is lost: because the writer's thread was ended by a panic in a
/// destructor, for example. Whether its job stands is then not known.
pub(super) fn lost() -> StoreError {
    StoreError::new(Kind::CommitUnknown, "a job was lost on its way; ask again what became of it")
}
