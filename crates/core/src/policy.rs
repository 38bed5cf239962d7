//! The policy of a route: what it may choose, within which bounds, and why.
//!
//! A [`Policy`] that exists is valid: it is made by [`Choices::check`], at start-up, and a value
//! out of bounds is refused there with a sentence that names the reason.

use crate::fingerprint::BodyForm;
use std::fmt;
use std::time::Duration;

/// How long a finished record is kept by default: as long as a payment dispute usually takes to
/// be noticed.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The shortest retention. A client's retries (an hour by default) must end before it.
pub const RETENTION_MIN: Duration = Duration::from_secs(3600);
/// The longest retention: ten years, the longest that bookkeeping laws ask for.
pub const RETENTION_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// How long a lease lasts by default before its owner has to renew it.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(60);
/// The shortest lease. Below it, one slow commit would lose it.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// The longest lease: for so long a crash keeps a caller waiting.
pub const LEASE_MAX: Duration = Duration::from_secs(3600);
/// How long an execution may go on by default, renewals included.
pub const RUN_MAX_DEFAULT: Duration = Duration::from_secs(300);
/// The longest execution. A day is beyond every HTTP call; it only bounds a mistake.
pub const RUN_MAX_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a duplicate waits by default for the first one to commit.
pub const WAIT_DEFAULT: Duration = Duration::from_millis(200);
/// The longest wait. A duplicate that waits longer only holds resources.
pub const WAIT_MAX: Duration = Duration::from_secs(1);
/// The largest request body by default: 1 MiB.
pub const BODY_BYTES_MAX_DEFAULT: usize = 1 << 20;
/// The largest body that may be configured: 64 MiB, since a command's body is held in memory.
pub const BODY_BYTES_MAX_MAX: usize = 64 << 20;
/// How many questions recovery asks by default before a person has to decide.
pub const QUESTIONS_MAX_DEFAULT: u32 = 20;
/// The first pause between two questions; it doubles.
pub const ASK_PAUSE_MIN: Duration = Duration::from_secs(2);
/// The longest pause between two questions.
pub const ASK_PAUSE_MAX: Duration = Duration::from_secs(300);

/// Whether a route wants a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRule {
    /// A request without a key is refused.
    #[default]
    Required,
    /// A request without a key runs unprotected: each one is a new command, and an external call that
    /// ends without an answer is neither written down nor asked about.
    Optional,
    /// Keys are passed through and mean nothing.
    Off,
}

/// What the same key with other content gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMismatch {
    /// It is refused.
    #[default]
    Reject,
    /// The first write wins: another *body* gets the first answer. Another method, path, query,
    /// media type, semantic header or bound principal is refused all the same.
    Replay,
}

/// The status of the mismatch answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MismatchStatus {
    /// 422, as the IETF draft says.
    #[default]
    UnprocessableContent,
    /// 400, as Stripe's first API version answers.
    BadRequest,
}

/// The status of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayStatus {
    /// The stored one.
    #[default]
    Stored,
    /// This 2xx in place of a stored 2xx. Other stored statuses stay as they are.
    Fixed(u16),
}

/// What an interrupted execution may become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rerun {
    /// It is unknown, and asked about; it never runs again by itself.
    #[default]
    Never,
    /// It is free. The operator vouches that the handler's effects are unique by key.
    Safe,
}

/// What a server error of an external call means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnServerError {
    /// The outcome is unknown.
    #[default]
    Unknown,
    /// It is the stored answer, as in Stripe's first API version.
    Store,
    /// The claim is freed. The operator vouches that nothing ran.
    Free,
}

/// What can be asked of the counterparty behind a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counterparty {
    /// Nothing: an unknown outcome goes to a person.
    #[default]
    Opaque,
    /// It answers questions about a key.
    Answers {
        /// The longest time a request may still arrive after it was sent, a paused sender
        /// included. Without it, *not found* proves nothing and leads to a person.
        not_found_after: Option<Duration>,
    },
    /// It deduplicates by key for this long: sending the same bytes again is the question.
    Dedups {
        /// How long it remembers a key.
        key_life: Duration,
    },
}

/// What a route chooses. Start from [`Choices::default`], change fields, then [`Choices::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Whether a key is wanted.
    pub key: KeyRule,
    /// What other content under the same key gets.
    pub on_mismatch: OnMismatch,
    /// The status of the mismatch answer.
    pub mismatch_status: MismatchStatus,
    /// The status of a replay.
    pub replay_status: ReplayStatus,
    /// How long a finished record is kept, from its completion.
    pub retention: Duration,
    /// How long a claim holds before it has to be renewed.
    pub lease: Duration,
    /// How long an execution may go on, renewals included. An atomic command that goes on for longer is
    /// rolled back, and its key is free again.
    pub run_max: Duration,
    /// How long a duplicate of an atomic command waits for the first one to commit.
    pub wait: Duration,
    /// In which form bodies are compared.
    pub fingerprint: BodyForm,
    /// Request headers that are part of the command's meaning, lower-case.
    pub semantic_headers: Vec<String>,
    /// What a server error of an external call means.
    pub on_server_error: OnServerError,
    /// What an interrupted execution may become.
    pub rerun: Rerun,
    /// What can be asked of the counterparty.
    pub counterparty: Counterparty,
    /// How many questions are asked before a person decides.
    pub questions_max: u32,
    /// Whether another principal of the same organisation gets the mismatch answer.
    pub bind_principal: bool,
    /// The largest request body, in bytes.
    pub body_bytes_max: usize,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            key: KeyRule::default(),
            on_mismatch: OnMismatch::default(),
            mismatch_status: MismatchStatus::default(),
            replay_status: ReplayStatus::default(),
            retention: RETENTION_DEFAULT,
            lease: LEASE_DEFAULT,
            run_max: RUN_MAX_DEFAULT,
            wait: WAIT_DEFAULT,
            fingerprint: BodyForm::Json,
            semantic_headers: Vec::new(),
            on_server_error: OnServerError::default(),
            rerun: Rerun::default(),
            counterparty: Counterparty::default(),
            questions_max: QUESTIONS_MAX_DEFAULT,
            bind_principal: false,
            body_bytes_max: BODY_BYTES_MAX_DEFAULT,
        }
    }
}

/// A checked policy. It reads like the [`Choices`] that it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy(Choices);

impl std::ops::Deref for Policy {
    type Target = Choices;
    fn deref(&self) -> &Choices {
        &self.0
    }
}

impl Default for Policy {
    /// The default of every choice, which is valid.
    fn default() -> Policy {
        Policy(Choices::default())
    }
}

/// A choice out of bounds: what was found, what is expected, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault {
    /// The name of the choice.
    pub choice: &'static str,
    sentence: String,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}`: {}", self.choice, self.sentence)
    }
}

impl std::error::Error for PolicyFault {}

impl Choices {
    /// Checks every bound. The first choice that breaks one is the error.
    pub fn check(self) -> Result<Policy, PolicyFault> {
        within("retention", self.retention, RETENTION_MIN, RETENTION_MAX)?;
        within("lease", self.lease, LEASE_MIN, LEASE_MAX)?;
        within("run_max", self.run_max, self.lease, RUN_MAX_MAX)?;
        within("wait", self.wait, Duration::ZERO, WAIT_MAX)?;
        if let ReplayStatus::Fixed(status) = self.replay_status
            && !(200..=299).contains(&status)
        {
            return Err(fault(
                "replay_status",
                format!(
                    "{status} is not a 2xx; it replaces a stored 2xx only, so choose 200..=299"
                ),
            ));
        }
        if self.body_bytes_max == 0 || self.body_bytes_max > BODY_BYTES_MAX_MAX {
            return Err(fault(
                "body_bytes_max",
                format!(
                    "{} bytes; choose 1..={BODY_BYTES_MAX_MAX}, since a command's body is held in memory",
                    self.body_bytes_max
                ),
            ));
        }
        if self.questions_max == 0 {
            return Err(fault(
                "questions_max",
                "0 questions; choose at least 1, or declare the counterparty opaque".to_owned(),
            ));
        }
        self.check_counterparty()?;
        self.check_semantic_headers()?;
        Ok(Policy(self))
    }

    fn check_counterparty(&self) -> Result<(), PolicyFault> {
        match self.counterparty {
            Counterparty::Opaque => Ok(()),
            Counterparty::Answers { not_found_after } => match not_found_after {
                Some(bound) if bound < self.run_max => Err(fault(
                    "not_found_after",
                    format!(
                        "{bound:?} is shorter than run_max {:?}: a request that is still being sent would be taken for one that never arrives",
                        self.run_max
                    ),
                )),
                Some(_) if self.questions_max < 2 => Err(fault(
                    "questions_max",
                    "1 question with a not_found_after: not found is proof only the second time, so ask at least twice".to_owned(),
                )),
                Some(_) | None => Ok(()),
            },
            // A question is the command itself there, and its whole turn has to fit in the memory.
            Counterparty::Dedups { key_life }
                if key_life <= self.run_max.saturating_add(self.lease) =>
            {
                Err(fault(
                    "key_life",
                    format!(
                        "{key_life:?} is not longer than run_max {:?} and a lease {:?} together: the counterparty would forget the key before the first question",
                        self.run_max, self.lease
                    ),
                ))
            }
            Counterparty::Dedups { .. } => Ok(()),
        }
    }

    fn check_semantic_headers(&self) -> Result<(), PolicyFault> {
        for name in &self.semantic_headers {
            let plain = !name.is_empty()
                && name.bytes().all(|b| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_'
                });
            if !plain {
                return Err(fault(
                    "semantic_headers",
                    format!("{name:?} is not a lower-case header name"),
                ));
            }
            if name == "authorization" || name == "cookie" || name == "idempotency-key" {
                return Err(fault(
                    "semantic_headers",
                    format!(
                        "{name} changes between retries of one command; bind_principal is the way to tell callers apart"
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn within(
    choice: &'static str,
    found: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), PolicyFault> {
    if found < least || found > most {
        return Err(fault(choice, format!("{found:?} is outside {least:?}..={most:?}")));
    }
    Ok(())
}

fn fault(choice: &'static str, sentence: String) -> PolicyFault {
    PolicyFault { choice, sentence }
}
