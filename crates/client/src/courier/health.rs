//! How a destination is doing, as one process sees it: its budget and its gate, on this process's clock.

use crate::chance::chance;
use samekey_core::budget::{Budget, Gate, Passing};
use samekey_core::outcome::{Heard, NotRun, Outcome, Told};
use std::time::Duration;
use tokio::time::Instant;

/// For so long at the most a counterparty's `Retry-After` keeps everything else from it as well: the time
/// for which a command is tried by default. The command that was told so keeps to all of it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

pub(super) struct Health {
    start: Instant,
    budget: Budget,
    gate: Gate,
}

/// What became of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// It shut just now.
    Shut,
    /// It opened just now, a little at first.
    Opened,
    /// It is as it was.
    Same,
}

impl Health {
    pub(super) fn new(concurrency_max: u32) -> Health {
        let (budget, gate) = (Budget::new(Duration::ZERO), Gate::new(concurrency_max));
        Health { start: Instant::now(), budget, gate }
    }

    pub(super) fn passing(&self) -> Passing {
        self.gate.passing(self.start.elapsed())
    }

    /// How long until this moment of [`Passing::Nothing`].
    pub(super) fn until(&self, moment: Duration) -> Duration {
        moment.saturating_sub(self.start.elapsed())
    }

    pub(super) fn probe(&mut self) {
        self.gate.probe();
    }

    pub(super) fn probe_given_back(&mut self) {
        self.gate.probe_given_back();
    }

    /// Whether one retry is paid for.
    pub(super) fn pay_retry(&mut self) -> bool {
        self.budget.draw(1, self.start.elapsed()) == 1
    }

    pub(super) fn give_back(&mut self, retries: u32) {
        self.budget.give_back(retries);
    }

    /// How long until a retry can be paid for.
    pub(super) fn budget_wait(&mut self) -> Duration {
        self.budget.wait(self.start.elapsed())
    }

    pub(super) fn sent(&mut self, told: &Told<Outcome>) -> Turned {
        match &told.what {
            Outcome::Done(_) | Outcome::DoneBodyLost(_) => {
                self.budget.succeeded(self.start.elapsed());
                self.worked()
            }
            Outcome::Refused(..) | Outcome::InFlight | Outcome::Pending | Outcome::Stop(_) => {
                self.worked()
            }
            Outcome::NotRun(NotRun::RateLimited) | Outcome::NotAccepted(_) => {
                let was_shut = self.gate.is_shut();
                let retry_after = capped(told.retry_after);
                self.gate.refused_for_now(self.start.elapsed(), retry_after, chance());
                if was_shut { Turned::Same } else { Turned::Shut }
            }
            Outcome::NotRun(NotRun::NotSent | NotRun::NotProcessed) | Outcome::Unknown(_) => {
                self.failed(told.retry_after)
            }
        }
    }

    pub(super) fn asked(&mut self, told: &Told<Heard>) -> Turned {
        match &told.what {
            Heard::Executed(_)
            | Heard::Refused(_)
            | Heard::NotFound
            | Heard::Pending
            | Heard::Different => self.worked(),
            Heard::CannotTell => self.failed(told.retry_after),
        }
    }

    fn worked(&mut self) -> Turned {
        let was_shut = self.gate.is_shut();
        self.gate.succeeded();
        if was_shut && !self.gate.is_shut() { Turned::Opened } else { Turned::Same }
    }

    fn failed(&mut self, retry_after: Option<Duration>) -> Turned {
        let was_shut = self.gate.is_shut();
        self.gate.failed(self.start.elapsed(), capped(retry_after), chance());
        if !was_shut && self.gate.is_shut() { Turned::Shut } else { Turned::Same }
    }
}

fn capped(retry_after: Option<Duration>) -> Option<Duration> {
    retry_after.map(|wait| wait.min(RETRY_AFTER_MAX))
}
