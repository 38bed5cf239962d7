//! What a call came to, with everything that happened on the way.

use crate::transport::Phase;
use samekey_core::delivery::{Delivery, Reason, State};
use samekey_core::key::Key;
use samekey_core::outcome::{NotRun, Outcome, Told};
use samekey_core::receipt::Receipt;
use std::fmt;
use std::time::Duration;

/// What a call came to. Its `Display` is one line for a log, without key and content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Called {
    /// The key of all its attempts. After [`End::Unknown`] it is what has to be asked about.
    pub key: Key,
    /// How it ended.
    pub end: End,
    /// Why something may have run, if nobody knows: the first reason, whatever came after it.
    pub doubt: Option<Reason>,
    /// Every attempt, the first one first.
    pub attempts: Vec<AttemptSeen>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The counterparty executed it.
    Succeeded(Receipt),
    /// The counterparty said no, and nothing of it ran.
    Refused(Receipt),
    /// Given up, and nothing can have run: it may be called again, also under a new key.
    Failed(Reason),
    /// Given up, and something may have run. Ask the counterparty about the key, or a person; a new key could
    /// make it run twice.
    Unknown(Reason),
}

/// One attempt of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSeen {
    /// Its number, from 1.
    pub number: u32,
    /// When it began, from the beginning of the call.
    pub began: Duration,
    /// How long it took.
    pub took: Duration,
    /// How long it was allowed to take: no longer than the call's time lasted.
    pub time_max: Duration,
    /// The step in which it failed, where there is no whole answer.
    pub phase: Option<Phase>,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// What it proves, and what the counterparty wants us to wait.
    pub told: Told<Outcome>,
}

impl Called {
    pub(super) fn of(key: Key, delivery: Delivery, attempts: Vec<AttemptSeen>) -> Called {
        let doubt = delivery.doubt;
        let end = match delivery.state {
            State::Succeeded(ended) => End::Succeeded(ended.with),
            State::Refused(ended) => End::Refused(ended.with),
            State::Failed(ended) => End::Failed(ended.with),
            State::Undecided(ended) => End::Unknown(ended.with),
            // It was given up before its time, since the counterparty accepts nothing from us. The others are
            // no ends that a call can have.
            State::Waiting(_)
            | State::Sending(_)
            | State::Unknown(_)
            | State::Cancelled(_)
            | State::Resolved(_) => {
                let last = attempts.last().and_then(AttemptSeen::reason);
                let reason = last.unwrap_or(Reason::TimeOver);
                if doubt.is_some() { End::Unknown(reason) } else { End::Failed(reason) }
            }
        };
        Called { key, end, doubt, attempts }
    }
}

impl AttemptSeen {
    /// Why it ended nothing; none where it was answered for good.
    pub fn reason(&self) -> Option<Reason> {
        match &self.told.what {
            Outcome::Done(_) | Outcome::Refused(..) => None,
            Outcome::DoneBodyLost(_) => Some(Reason::ConnectionLost),
            Outcome::NotRun(NotRun::NotSent) => Some(Reason::NotConnected),
            Outcome::NotRun(NotRun::NotProcessed) => Some(Reason::NotProcessed),
            Outcome::NotRun(NotRun::RateLimited) => Some(Reason::RateLimited),
            Outcome::InFlight | Outcome::Pending => Some(Reason::InFlight),
            Outcome::NotAccepted(reason) | Outcome::Unknown(reason) | Outcome::Stop(reason) => {
                Some(*reason)
            }
        }
    }
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::Succeeded(receipt) => write!(f, "succeeded with {}", receipt.status())?,
            End::Refused(receipt) => write!(f, "refused with {}", receipt.status())?,
            End::Failed(reason) => write!(f, "failed, nothing ran ({})", reason.code())?,
            End::Unknown(reason) => write!(f, "unknown, it may have run ({})", reason.code())?,
        }
        let mut before = ": ";
        for attempt in &self.attempts {
            write!(f, "{before}{attempt}")?;
            before = "; ";
        }
        Ok(())
    }
}

impl fmt::Display for AttemptSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} at {:.3} s", self.number, self.began.as_secs_f64())?;
        if let Some(status) = self.status {
            write!(f, ", status {status}")?;
        }
        if let Some(reason) = self.reason() {
            write!(f, ", {}", reason.code())?;
        }
        if let Some(phase) = self.phase {
            write!(f, " in {}", phase.name())?;
        }
        write!(f, " after {:.3} s of {:.3} s", self.took.as_secs_f64(), self.time_max.as_secs_f64())
    }
}
