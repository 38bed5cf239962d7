//! What made the payments of a cluster: read from the gaps between them, and from what the same
//! source did elsewhere.
//!
//! Each cause is a set of schedules with a prior weight; a schedule gives the density of the gaps
//! it would leave. The weights are learned for each source from all its clusters, so that one gap
//! of two seconds, which alone says little, is read in the light of a hundred clusters beside it.

mod candidates;
pub(crate) mod learn;
pub(crate) mod model;
pub(crate) mod schedules;
pub(crate) mod verdict;

use serde::{Deserialize, Serialize};

/// What sent the surplus payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Less than half a second apart: a double click, two consumers of one message.
    Concurrent,
    /// A client that retries and waits longer each time.
    Backoff,
    /// A client that retries after the same wait each time.
    Fixed,
    /// A queue that delivers a message again after its time.
    Queue,
    /// A job started by the clock on the wall.
    Cron,
    /// A person who tried again.
    Human,
    /// The gaps say none of these.
    Undetermined,
}

impl Cause {
    /// All causes, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::Concurrent,
        Self::Backoff,
        Self::Fixed,
        Self::Queue,
        Self::Cron,
        Self::Human,
        Self::Undetermined,
    ];

    pub(crate) fn number(self) -> usize {
        match self {
            Self::Concurrent => 0,
            Self::Backoff => 1,
            Self::Fixed => 2,
            Self::Queue => 3,
            Self::Cron => 4,
            Self::Human => 5,
            Self::Undetermined => 6,
        }
    }

    /// A name for tables and sentences.
    pub fn label(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent requests",
            Self::Backoff => "client retry with exponential backoff",
            Self::Fixed => "client retry at a fixed interval",
            Self::Queue => "queue redelivery",
            Self::Cron => "scheduled job",
            Self::Human => "a person trying again",
            Self::Undetermined => "undetermined",
        }
    }

    /// A short name for narrow tables.
    pub fn short(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::Backoff => "backoff",
            Self::Fixed => "fixed",
            Self::Queue => "queue",
            Self::Cron => "cron",
            Self::Human => "human",
            Self::Undetermined => "undetermined",
        }
    }
}

/// How sure the diagnosis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Too few gaps, or several causes fit.
    Low,
    /// Probable.
    Medium,
    /// At least three gaps say so and nothing else fits.
    High,
    /// Six gaps or more say so; another reading would be a strange coincidence.
    NearlyCertain,
}

impl Confidence {
    /// For tables and sentences.
    pub fn label(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::NearlyCertain => "high (nearly certain)",
        }
    }
}

/// Below this share of the weight of evidence the best cause is not called the cause.
pub const CLEAR_MIN: f64 = 0.7;

/// A cause with at least this share is named beside the best one.
pub const NAMED_MIN: f64 = 0.1;

/// Why the payments of one cluster came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Diagnosis {
    /// Causes with their share of the weight of evidence, the best first, down to [`NAMED_MIN`].
    pub(crate) causes: Vec<(Cause, f64)>,
    pub(crate) confidence: Confidence,
    /// The schedule that fits best, in words.
    pub(crate) schedule: Option<String>,
    /// What limits the reading, in words.
    pub(crate) notes: Vec<&'static str>,
}

impl Diagnosis {
    /// The best cause.
    pub(crate) fn cause(&self) -> Cause {
        self.causes.first().map_or(Cause::Undetermined, |(cause, _)| *cause)
    }

    /// Whether a second cause is a serious candidate.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.causes.first().is_none_or(|(_, share)| *share < CLEAR_MIN)
    }

    /// The share of causes that are programs, not people.
    pub(crate) fn program_share(&self) -> f64 {
        self.causes
            .iter()
            .filter(|(cause, _)| match cause {
                Cause::Backoff | Cause::Fixed | Cause::Queue | Cause::Cron => true,
                Cause::Concurrent | Cause::Human | Cause::Undetermined => false,
            })
            .map(|(_, share)| share)
            .sum()
    }
}
