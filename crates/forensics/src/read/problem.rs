//! Rows that could not be used, and rows that were used with a doubt: counted all, listed in part,
//! never dropped in silence.

use std::collections::BTreeMap;

use serde::Serialize;

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The number of the file, from 0, in the order given.
    pub file: u32,
    /// The line in it, from 1, the header included.
    pub line: u64,
}

/// What is wrong with a record, or doubtful about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// Left out: fewer fields than the header has.
    TooShort,
    /// Left out: more fields than the header has.
    TooLong,
    /// Left out: no time.
    TimeMissing,
    /// Left out: the time cannot be read.
    TimeUnreadable,
    /// Left out of the comparison: no reference, no key, no payer with amount.
    NothingToCompare,
    /// Kept, without its amount: it cannot be read.
    AmountUnreadable,
    /// Kept: the id lost digits in a spreadsheet and proves nothing.
    IdLossy,
    /// Kept, without its reference: it lost digits in a spreadsheet and proves nothing.
    ReferenceLossy,
    /// Kept, as moved: the word for its status is not known.
    StatusUnknown,
    /// Kept, as a charge: the word for its operation is not known.
    OperationUnknown,
    /// Kept: the local clock showed this time twice.
    ClockRepeated,
    /// Kept: the local clock never showed this time.
    ClockSkipped,
    /// Kept, as an attempt: the provider refused it as a duplicate.
    RefusedAsDuplicate,
}

impl ProblemKind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::TooShort,
        Self::TooLong,
        Self::TimeMissing,
        Self::TimeUnreadable,
        Self::NothingToCompare,
        Self::AmountUnreadable,
        Self::IdLossy,
        Self::ReferenceLossy,
        Self::StatusUnknown,
        Self::OperationUnknown,
        Self::ClockRepeated,
        Self::ClockSkipped,
        Self::RefusedAsDuplicate,
    ];

    /// Whether rows of this kind take no part in the comparison.
    pub fn is_left_out(self) -> bool {
        match self {
            Self::TooShort
            | Self::TooLong
            | Self::TimeMissing
            | Self::TimeUnreadable
            | Self::NothingToCompare => true,
            Self::AmountUnreadable
            | Self::IdLossy
            | Self::ReferenceLossy
            | Self::StatusUnknown
            | Self::OperationUnknown
            | Self::ClockRepeated
            | Self::ClockSkipped
            | Self::RefusedAsDuplicate => false,
        }
    }

    /// What it means and what to do, as one sentence part.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::TooShort => "left out: fewer fields than the header; repair the line",
            Self::TooLong => {
                "left out: more fields than the header; quote fields that hold the separator"
            }
            Self::TimeMissing => "left out: no time; every record needs one",
            Self::TimeUnreadable => {
                "left out: the time cannot be read; expected a form such as 2026-09-07T10:00:05Z"
            }
            Self::NothingToCompare => {
                "not compared: no reference, no key, and no payer with an amount"
            }
            Self::AmountUnreadable => {
                "kept without its amount: expected digits with one decimal sign (see --decimal)"
            }
            Self::IdLossy => {
                "the id lost digits in a spreadsheet and proves nothing; export it again as text"
            }
            Self::ReferenceLossy => {
                "the reference lost digits in a spreadsheet and is not used; export it again as text"
            }
            Self::StatusUnknown => {
                "taken as successful: unknown status word; say what it means with --failed-status \
                 or --moved-status"
            }
            Self::OperationUnknown => "taken as a payment: unknown word for the operation",
            Self::ClockRepeated => {
                "the clock was set back and showed this time twice; the reading nearer to the \
                 neighbouring payment is taken"
            }
            Self::ClockSkipped => "the clock was set forward over this time; is --timezone right?",
            Self::RefusedAsDuplicate => {
                "refused by the provider as a duplicate, which is neither paid nor failed: look up \
                 the payment it was taken for; if that is another order's, this order is not paid"
            }
        }
    }
}

/// One row with its problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Example {
    /// Where it stands.
    pub place: Place,
    /// What was found there.
    pub found: String,
}

/// Examples listed for each kind; the count is always of all.
pub const EXAMPLES_MAX: usize = 20;

/// How often a kind of problem was met, and the first places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// How many rows.
    pub rows: u64,
    /// The first of them in the order of files and lines.
    pub examples: Vec<Example>,
}

/// All problems of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Problems(BTreeMap<ProblemKind, Problem>);

impl Problems {
    pub(crate) fn add(&mut self, kind: ProblemKind, place: Place, found: &[u8]) {
        let problem = self.0.entry(kind).or_default();
        problem.rows += 1;
        // Each worker sees its blocks in the order of the file, so its first are the first.
        if problem.examples.len() < EXAMPLES_MAX {
            problem.examples.push(Example { place, found: snippet(found) });
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, more) in other.0 {
            let problem = self.0.entry(kind).or_default();
            problem.rows += more.rows;
            problem.examples.extend(more.examples);
            problem.examples.sort();
            problem.examples.truncate(EXAMPLES_MAX);
        }
    }

    /// Each kind that was met.
    pub fn iter(&self) -> impl Iterator<Item = (ProblemKind, &Problem)> {
        self.0.iter().map(|(kind, problem)| (*kind, problem))
    }

    /// Rows of one kind.
    pub fn rows(&self, kind: ProblemKind) -> u64 {
        self.0.get(&kind).map_or(0, |problem| problem.rows)
    }

    /// Rows that take no part in the comparison.
    pub fn left_out(&self) -> u64 {
        self.iter().filter(|(kind, _)| kind.is_left_out()).map(|(_, problem)| problem.rows).sum()
    }
}

/// The start of a field, fit for a terminal: no control characters, not longer than a glance.
pub(crate) fn snippet(found: &[u8]) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(found);
    let mut shown: String =
        text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
