//! For how long and how often a command is tried, and what its counterparty can be asked.
//!
//! A [`Profile`] that exists is valid: [`Limits::check`] makes it at start-up, together with what the
//! counterparty declares, and refuses what cannot keep the promise.

use crate::backoff::Backoff;
use std::fmt;
use std::time::Duration;

/// The shortest attempt: below it even a healthy counterparty would be doubted.
pub const ATTEMPT_TIME_MIN: Duration = Duration::from_millis(50);
/// The longest attempt. Whoever answers later should take the command and be asked.
pub const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(600);
/// The longest time for one command: what is older than a week is for a person.
pub const TIME_MAX_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The most attempts for one command: one a minute for a day would be 1440.
pub const ATTEMPTS_MAX_MAX: u32 = 1_000;
/// The least pause between two tries. Below it a retry is a load and no chance.
pub const BASE_MIN: Duration = Duration::from_millis(10);
/// The shortest lease. Below it, one slow commit would lose it.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// The part of a lease that its owner does not use: so far may two clocks run apart in one lease.
pub const MARGIN_PART: u32 = 10;
/// How many questions are asked by default.
pub const QUESTIONS_MAX_DEFAULT: u32 = 20;
/// How long a counterparty is asked after its answers could be final. What a day of questions did not
/// tell is for a person.
pub const ASKING_TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// The pauses between two questions.
pub const QUESTIONS: Backoff =
    Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(300) };

/// What a counterparty can be relied on for. [`Declared::OPAQUE`] unless its operator says more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// It deduplicates by key for this long: until then the same bytes under the same key are the
    /// question what became of them.
    pub dedups: Option<Duration>,
    /// It answers questions.
    pub answers: Option<Answers>,
}

/// What a counterparty answers to questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// After this time since the last send, *not found* proves that nothing ran: the longest time for
    /// which a request may still arrive, a paused sender and the counterparty's read lag included.
    /// Without it, *not found* leads to a person.
    pub not_found_after: Option<Duration>,
    /// Whether it can also be asked by the business reference alone.
    pub by_reference: bool,
}

impl Declared {
    /// Nothing: after an unknown outcome a person decides.
    pub const OPAQUE: Declared = Declared { dedups: None, answers: None };
}

/// The limits of a profile. Start from one of the three, change fields, then [`Limits::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long one attempt may take, the connection included.
    pub attempt_time_max: Duration,
    /// The waits between attempts.
    pub backoff: Backoff,
    /// How many attempts are made at the most.
    pub attempts_max: u32,
    /// How long a command is tried, its attempts included.
    pub time_max: Duration,
    /// How long an attempt or a question belongs to the worker that began it.
    pub lease: Duration,
    /// How many questions are asked at the most.
    pub questions_max: u32,
    /// The pauses between questions.
    pub questions: Backoff,
}

impl Limits {
    /// Somebody waits for the answer: 15 seconds in all.
    pub const INLINE: Limits = Limits {
        attempt_time_max: Duration::from_secs(10),
        backoff: Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(2) },
        attempts_max: 3,
        time_max: Duration::from_secs(15),
        lease: Duration::from_secs(15),
        questions_max: QUESTIONS_MAX_DEFAULT,
        questions: QUESTIONS,
    };
    /// An outage of minutes loses nothing: an hour in all. The default.
    pub const DURABLE: Limits = Limits {
        attempt_time_max: Duration::from_secs(30),
        backoff: Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(300) },
        attempts_max: 24,
        time_max: Duration::from_secs(3600),
        lease: Duration::from_secs(45),
        questions_max: QUESTIONS_MAX_DEFAULT,
        questions: QUESTIONS,
    };
    /// A counterparty that may be away for the night: twelve hours in all.
    pub const PATIENT: Limits = Limits {
        attempt_time_max: Duration::from_secs(30),
        backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(900) },
        attempts_max: 72,
        time_max: Duration::from_secs(12 * 3600),
        lease: Duration::from_secs(45),
        questions_max: QUESTIONS_MAX_DEFAULT,
        questions: QUESTIONS,
    };

    /// Checks every bound, and that the counterparty's memory outlives the retries.
    ///
    /// # Errors
    /// The first limit out of bounds, with the reason.
    pub fn check(self, declared: Declared) -> Result<Profile, ProfileFault> {
        within("attempt_time_max", self.attempt_time_max, ATTEMPT_TIME_MIN, ATTEMPT_TIME_MAX)?;
        within("backoff.base", self.backoff.base, BASE_MIN, self.backoff.cap)?;
        within("questions.base", self.questions.base, BASE_MIN, self.questions.cap)?;
        within("time_max", self.time_max, self.attempt_time_max, TIME_MAX_MAX)?;
        within("lease", self.lease, LEASE_MIN, TIME_MAX_MAX)?;
        for (limit, found) in
            [("attempts_max", self.attempts_max), ("questions_max", self.questions_max)]
        {
            if found == 0 || found > ATTEMPTS_MAX_MAX {
                return Err(fault(limit, format!("{found} is outside 1..={ATTEMPTS_MAX_MAX}")));
            }
        }
        let usable = self.lease.saturating_sub(self.lease / MARGIN_PART);
        if usable < self.attempt_time_max {
            return Err(fault(
                "lease",
                format!(
                    "{:?}, of which {usable:?} can be used, is shorter than an attempt of {:?}: another worker would take a command over that is still being sent",
                    self.lease, self.attempt_time_max
                ),
            ));
        }
        if let Some(key_life) = declared.dedups
            && key_life < self.time_max.saturating_add(self.lease)
        {
            return Err(fault(
                "time_max",
                format!(
                    "{:?} and a lease of {:?} are longer than the {key_life:?} for which the counterparty remembers a key: a late retry would be executed again; try for a shorter time, or declare a longer memory if it has one",
                    self.time_max, self.lease
                ),
            ));
        }
        if let Some(Answers { not_found_after: Some(bound), .. }) = declared.answers {
            if bound < self.lease {
                return Err(fault(
                    "not_found_after",
                    format!(
                        "{bound:?} is shorter than the lease of {:?}: a request that is still being sent would be taken for one that never arrives",
                        self.lease
                    ),
                ));
            }
            if self.questions_max < 2 {
                return Err(fault(
                    "questions_max",
                    "1 question with a not_found_after: not found is proof only the second time, so ask at least twice".to_owned(),
                ));
            }
        }
        Ok(Profile { limits: self, declared })
    }
}

/// Checked limits for one counterparty. They read like the [`Limits`] that they were made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    limits: Limits,
    /// What the counterparty declared.
    pub declared: Declared,
}

impl std::ops::Deref for Profile {
    type Target = Limits;
    fn deref(&self) -> &Limits {
        &self.limits
    }
}

/// A limit out of bounds: what was found, what is expected, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFault {
    /// The name of the limit.
    pub limit: &'static str,
    sentence: String,
}

impl ProfileFault {
    /// What was found, what is expected, and why, without the name of the limit: for a program whose users know
    /// the limit by another name.
    pub fn why(&self) -> &str {
        &self.sentence
    }
}

impl fmt::Display for ProfileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "profile `{}`: {}", self.limit, self.sentence)
    }
}

impl std::error::Error for ProfileFault {}

fn within(
    limit: &'static str,
    found: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), ProfileFault> {
    if found < least || found > most {
        return Err(fault(limit, format!("{found:?} is outside {least:?}..={most:?}")));
    }
    Ok(())
}

fn fault(limit: &'static str, sentence: String) -> ProfileFault {
    ProfileFault { limit, sentence }
}
