//! Goes through every crash point, with every action, on every database, and says what came of each.
//!
//! The places and the names of the actions are the store's (`samekey_store::crash`), and come as a
//! list. For each combination the test starts its program with the point armed, drives it until the
//! point was reached, heals, and judges; here the combinations are counted and bounded in time, and a
//! place that nothing reached is a failure: a sweep that misses a place proves nothing about it.
//!
//! Read next: `sweep/table.rs` for what is printed.

mod combination;
mod table;

pub use combination::{Action, Combination, Reach};
pub use table::Table;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// More combinations than this are no test but a mistake in a list.
pub const COMBINATIONS_MAX: usize = 1_000;

/// How long [`Action::Sleep`] sleeps unless a test says otherwise: past the leases that tests have.
const SLEEP_DEFAULT: Duration = Duration::from_secs(3);

/// What came of one combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The place was reached, and everything held; in a word or two, how it ended.
    Held(String),
    /// The place was reached, but has no error to give.
    NoError,
    /// The program never came there.
    NotReached,
    /// Something did not hold, or the test panicked.
    Broken(String),
    /// It took longer than it may.
    TimedOut,
}

impl Outcome {
    /// Whether the program came to the place.
    pub fn is_reached(&self) -> bool {
        match self {
            Outcome::Held(_) | Outcome::NoError | Outcome::Broken(_) => true,
            Outcome::NotReached | Outcome::TimedOut => false,
        }
    }

    /// Whether the combination is one of those that a sweep is made for, and went well.
    pub fn is_good(&self) -> bool {
        match self {
            Outcome::Held(_) | Outcome::NoError => true,
            Outcome::NotReached | Outcome::Broken(_) | Outcome::TimedOut => false,
        }
    }
}

/// What is gone through.
#[derive(Clone, Debug)]
pub struct Sweep<D> {
    boundaries: Vec<&'static str>,
    actions: Vec<Action>,
    databases: Vec<D>,
    pass: u64,
    sleep: Duration,
    at_once: usize,
    bound: Duration,
    total_bound: Duration,
}

impl<D: Clone + fmt::Debug + Send + 'static> Sweep<D> {
    /// These places with every action, at the first pass, on each of these databases: five minutes at
    /// most for each, an hour for all.
    pub fn of(boundaries: &[&'static str], databases: &[D]) -> Self {
        Self {
            boundaries: boundaries.to_vec(),
            actions: Action::ALL.to_vec(),
            databases: databases.to_vec(),
            pass: 1,
            sleep: SLEEP_DEFAULT,
            at_once: 1,
            bound: Duration::from_secs(300),
            total_bound: Duration::from_secs(3_600),
        }
    }

    /// With these actions only.
    #[must_use]
    pub fn with_actions(mut self, actions: &[Action]) -> Self {
        self.actions = actions.to_vec();
        self
    }

    /// At this pass of a place (from 1), so that others are at work at the same time.
    #[must_use]
    pub fn at_pass(mut self, pass: u64) -> Self {
        self.pass = pass.max(1);
        self
    }

    /// With so much sleep where the action is [`Action::Sleep`].
    #[must_use]
    pub fn sleeping(mut self, sleep: Duration) -> Self {
        self.sleep = sleep;
        self
    }

    /// With so many combinations at a time, one at the least: each must have a world of its own then.
    #[must_use]
    pub fn at_once(mut self, count: usize) -> Self {
        self.at_once = count.max(1);
        self
    }

    /// With so much time for one combination and for all.
    #[must_use]
    pub fn within(mut self, bound: Duration, total_bound: Duration) -> Self {
        (self.bound, self.total_bound) = (bound, total_bound);
        self
    }

    /// Runs `each` for every combination, in order; a combination for which it gives nothing does not
    /// exist, as a writer's crash points on a database without a writer. A panic is an outcome.
    ///
    /// # Panics
    /// With a list of more combinations than [`COMBINATIONS_MAX`].
    pub async fn run<F, W>(&self, mut each: F) -> Table
    where
        F: FnMut(Combination<D>) -> Option<W>,
        W: Future<Output = Outcome> + Send + 'static,
    {
        let combinations = self.combinations();
        assert!(
            combinations.len() <= COMBINATIONS_MAX,
            "found {} combinations; expected {COMBINATIONS_MAX} at most",
            combinations.len()
        );
        let mut table = Table::of(&self.boundaries);
        let begun = Instant::now();
        let places = Arc::new(Semaphore::new(self.at_once));
        let mut begun_works = Vec::new();
        for combination in combinations {
            // It is never closed.
            let place = Arc::clone(&places).acquire_owned().await;
            let Some(work) = each(combination.clone()) else { continue };
            let left = self.total_bound.saturating_sub(begun.elapsed());
            let work = bounded(work, self.bound.min(left));
            let work = tokio::spawn(async move {
                let outcome = work.await;
                drop(place);
                outcome
            });
            begun_works.push((combination, work));
        }
        for (combination, work) in begun_works {
            let outcome = work.await.unwrap_or_else(|failed| Outcome::Broken(said(failed)));
            table.add(&combination, outcome);
        }
        table.took(begun.elapsed());
        table
    }

    fn combinations(&self) -> Vec<Combination<D>> {
        let mut all = Vec::new();
        for database in &self.databases {
            for boundary in &self.boundaries {
                all.extend(self.actions.iter().map(|action| Combination {
                    boundary,
                    action: *action,
                    database: database.clone(),
                    pass: self.pass,
                    sleep: self.sleep,
                }));
            }
        }
        all
    }
}

/// A task of its own, so that a panic is caught and a hang is left behind.
async fn bounded<W>(work: W, bound: Duration) -> Outcome
where
    W: Future<Output = Outcome> + Send + 'static,
{
    let mut task = tokio::spawn(work);
    match tokio::time::timeout(bound, &mut task).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panicked)) => Outcome::Broken(said(panicked)),
        Err(_) => {
            task.abort();
            Outcome::TimedOut
        }
    }
}

fn said(panicked: tokio::task::JoinError) -> String {
    let Ok(payload) = panicked.try_into_panic() else { return "it was cancelled".to_owned() };
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "it panicked".to_owned())
}
