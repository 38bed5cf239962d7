//! What every client saw, what the counterparty's own ledger holds, and whether the two agree.
//!
//! A run writes down each attempt (who, which key, what was asked, what came back) with the order of
//! its begin and end by one counter. Afterwards the effects are counted where they happened, never in
//! samekey's tables, and [`History::audit`] compares them, and whatever else is known of the run. The
//! invariants are S1 to S15 and that nothing is left behind; each has a test that plants its
//! violation. The work grows with the number of attempts, effects, rows and calls alone.
//!
//! Read next: `history/evidence.rs`, then `history/check.rs`.

mod check;
mod evidence;
mod samples;
pub mod sometimes;

pub use evidence::{
    Act, Activity, Booking, ByPerson, Call, CallKind, Captured, EndedCommand, Evidence, LastAnswer,
    Limits, OpenTransaction,
};
pub use samples::{Sample, SeenRow};
pub use sometimes::Sometimes;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An answer as a client read it, to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The `code` of a problem document, such as `samekey.in-progress`.
    pub code: Option<String>,
    /// The headers that a replay keeps, in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Every byte.
    pub body: Vec<u8>,
    /// Whether it says that it is a replay.
    pub is_replay: bool,
    /// The effect that the body tells of, in the terms of [`Effect::reference`].
    pub told: Option<String>,
}

/// What an answer means for the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Final: the effect stands.
    Success,
    /// Final: it will never stand.
    Refusal,
    /// Final: done, but the answer was not kept.
    NotKept,
    /// The key belongs to other content.
    Mismatch,
    /// Somebody is at it, or nobody knows yet.
    Pending,
    /// Nobody knows, and a person has to decide.
    Unknown,
    /// Final: a person closed the key, and it says nothing about the effect.
    Closed,
    /// Nothing is said about the key; send it again.
    NotNow,
}

/// One request and what came of it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The organisation of the caller.
    pub org: String,
    /// The key.
    pub key: String,
    /// The effect that this request asks for; another one under the same key is other content.
    pub reference: String,
    /// When it was sent, by the history's counter.
    pub began: u64,
    /// When its answer was complete, or given up.
    pub ended: u64,
    /// Nothing where no whole answer came.
    pub answer: Option<Answer>,
}

/// One effect, as the counterparty counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Whose it is.
    pub org: String,
    /// Which it is.
    pub reference: String,
}

/// A row of the ledger of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose key.
    pub org: String,
    /// The key.
    pub key: String,
    /// Its state, such as `done`.
    pub state: String,
    /// The stored status of a done one.
    pub status: Option<u16>,
}

/// How the route that was tried differs from the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Other content gets the first answer instead of a mismatch.
    pub first_write_wins: bool,
    /// The status of every replay of a 2xx.
    pub replay_status: Option<u16>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant, such as `S1`.
    pub rule: &'static str,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.found)
    }
}

/// What happened, as it is written down. Clones share one history.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Inner>);

/// An instant in both senses: its place in the order of all events, and how long the run lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// By the history's counter, as [`History::now`] gives it.
    pub at: u64,
    /// Since the history began.
    pub when: Duration,
}

#[derive(Debug)]
struct Inner {
    began: Instant,
    clock: AtomicU64,
    attempts: Mutex<Vec<Attempt>>,
    asked: Mutex<Vec<Booking>>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            clock: AtomicU64::new(0),
            attempts: Mutex::default(),
            asked: Mutex::default(),
        }
    }
}

impl History {
    /// The next instant: larger than all that were given out before.
    pub fn now(&self) -> u64 {
        self.0.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// The next instant, with the time that has passed.
    pub fn moment(&self) -> Moment {
        let when = self.0.began.elapsed();
        Moment { at: self.now(), when }
    }

    /// Writes an attempt down.
    pub fn add(&self, attempt: Attempt) {
        self.0.attempts.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
    }

    /// All attempts so far.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.0.attempts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes down how much the requests for an effect ask for, so that its booking is compared.
    pub fn ask(&self, booking: Booking) {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).push(booking);
    }

    fn asked(&self) -> Vec<Booking> {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything that is wrong by S1 to S9, in no particular order; nothing when the run was right.
    pub fn check(&self, effects: &[Effect], rows: &[Row], rules: Rules) -> Vec<Violation> {
        let (effects, rows) = (effects.to_vec(), rows.to_vec());
        self.audit(&Evidence { effects, rows, rules, ..Evidence::default() })
    }

    /// Everything that is wrong by all that is known, in no particular order; nothing when the run was
    /// right.
    pub fn audit(&self, evidence: &Evidence) -> Vec<Violation> {
        check::check(&self.attempts(), &self.asked(), evidence)
    }
}

impl Answer {
    /// What it means for the action.
    pub fn meaning(&self) -> Meaning {
        match self.code.as_deref() {
            Some("samekey.key-reused") => return Meaning::Mismatch,
            Some("samekey.response-not-kept") => return Meaning::NotKept,
            Some("samekey.in-progress" | "samekey.outcome-pending") => return Meaning::Pending,
            Some("samekey.outcome-unknown") => return Meaning::Unknown,
            Some("samekey.closed-by-operator") => return Meaning::Closed,
            Some(_) | None => {}
        }
        match self.status {
            401 | 403 | 407 | 408 | 413 | 421 | 425 | 429 => Meaning::NotNow,
            200..=399 => Meaning::Success,
            400..=499 => Meaning::Refusal,
            _ => Meaning::NotNow,
        }
    }

    /// Whether sending again with the same key can tell more.
    pub fn is_final(&self) -> bool {
        match self.meaning() {
            Meaning::Success
            | Meaning::Refusal
            | Meaning::NotKept
            | Meaning::Mismatch
            | Meaning::Closed => true,
            Meaning::Pending | Meaning::Unknown | Meaning::NotNow => false,
        }
    }

    /// Whether a caller has nothing more to do by itself: the answer is final, or it waits for a
    /// person.
    pub fn ends_the_caller(&self) -> bool {
        self.is_final() || self.meaning() == Meaning::Unknown
    }
}
