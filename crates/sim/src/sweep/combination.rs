//! One place, one action, one database: how it is armed, and how it shows that it was reached.

use crate::error::Result;
use crate::process::{Process, Program};
use std::fmt;
use std::time::{Duration, Instant};

/// The environment variable that arms a crash point, as the store reads it.
const VARIABLE: &str = "SAMEKEY_CRASH_POINT";

/// What the store says of a place that cannot do what is asked.
const NO_ERROR: &str = "this place has no error to give";

const POLL: Duration = Duration::from_millis(5);

/// How long the last words of an ended process may take.
const LAST_WORDS_BOUND: Duration = Duration::from_secs(5);

/// What a program does when it comes to its crash point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It ends at once, as by kill -9.
    Abort,
    /// What it is about to do fails.
    Error,
    /// It stands still, for longer than any lease, until it is told to go on.
    Stop,
    /// The task panics.
    Panic,
    /// Its thread sleeps, past the lease of whoever works there, and goes on by itself.
    Sleep,
}

impl Action {
    /// Every action.
    pub const ALL: [Action; 5] =
        [Action::Abort, Action::Error, Action::Stop, Action::Panic, Action::Sleep];

    /// Its name in the environment and on standard error.
    pub fn name(self) -> &'static str {
        match self {
            Action::Abort => "abort",
            Action::Error => "error",
            Action::Stop => "stop",
            Action::Panic => "panic",
            Action::Sleep => "sleep",
        }
    }
}

/// Whether a program came to its crash point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It did, and did what it was told.
    Reached,
    /// It did, but the place has no error to give; the program has ended.
    NoError,
    /// It has not.
    NotReached,
}

/// One place, one action, one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination<D> {
    /// The crash point.
    pub boundary: &'static str,
    /// What happens there.
    pub action: Action,
    /// On which database.
    pub database: D,
    pub(super) pass: u64,
    pub(super) sleep: Duration,
}

impl<D> Combination<D> {
    /// The value that arms it, `NAME:NTH=ACTION`.
    pub fn armed(&self) -> String {
        let armed = format!("{}:{}={}", self.boundary, self.pass, self.action.name());
        match self.action {
            Action::Sleep => format!("{armed}:{}", self.sleep.as_millis()),
            Action::Abort | Action::Error | Action::Stop | Action::Panic => armed,
        }
    }

    /// The program with this armed.
    #[must_use]
    pub fn arm(&self, program: Program) -> Program {
        program.env(VARIABLE, self.armed())
    }

    /// What this standard error says about it.
    pub fn reach(&self, stderr: &str) -> Reach {
        if stderr.contains(&format!("crash point {}: {}", self.boundary, self.action.name())) {
            Reach::Reached
        } else if stderr.contains(NO_ERROR) {
            Reach::NoError
        } else {
            Reach::NotReached
        }
    }

    /// Waits until the program has come there, has ended, or `bound` is over. A stopped program stands
    /// still then; one that was to abort has ended, or is about to. Blocks.
    ///
    /// # Errors
    /// `TimedOut` when a program that was to stop goes on.
    pub fn wait_until_reached(&self, process: &Process, bound: Duration) -> Result<Reach> {
        let deadline = Instant::now() + bound;
        let mut last_words = None;
        loop {
            // In this order: what an ended process has said may still be on its way.
            let has_ended = !process.runs();
            let reach = self.reach(&process.stderr());
            if reach == Reach::Reached && self.action == Action::Stop {
                process.wait_until_frozen()?;
            }
            let now = Instant::now();
            if has_ended && last_words.is_none() {
                last_words = Some((now + LAST_WORDS_BOUND).min(deadline));
            }
            if reach != Reach::NotReached || now >= last_words.unwrap_or(deadline) {
                return Ok(reach);
            }
            std::thread::sleep(POLL);
        }
    }
}

impl<D: fmt::Debug> fmt::Display for Combination<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {:?}", self.armed(), self.database)
    }
}
