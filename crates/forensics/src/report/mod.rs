//! What a run found, as data; the terminal, JSON and HTML forms are made from this alone.

pub(crate) mod build;
pub(crate) mod html;
pub(crate) mod plot;
pub(crate) mod terminal;
pub(crate) mod words;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cause::verdict::Verdict;
use crate::cause::{Cause, Confidence};
use crate::cluster::{Explained, Role, Signature};
use crate::read::problem::{Example, ProblemKind};

/// The version of the JSON form; it grows when a field changes its meaning or goes.
pub const FORMAT_VERSION: u32 = 1;

/// What a run found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The inputs in the order given, and how each was read.
    pub inputs: Vec<InputReport>,
    /// Records read.
    pub rows: u64,
    /// Records that take no part in the comparison; see `problems`.
    pub rows_left_out: u64,
    /// Records that moved no money: failed, still open, of nothing.
    pub rows_without_effect: u64,
    /// The first time in the records, UTC.
    pub first_at: Option<String>,
    /// The last time in the records, UTC.
    pub last_at: Option<String>,
    /// Spans and choices that the search used.
    pub settings: Settings,
    /// All clusters together.
    pub totals: Totals,
    /// By cause; what is ambiguous stands apart.
    pub causes: Vec<CauseTotal>,
    /// By what went wrong, with what to change.
    pub verdicts: Vec<VerdictTotal>,
    /// By source of the payments, if the records name any.
    pub sources: Vec<SourceTotal>,
    /// The clusters, the most money at stake first.
    pub clusters: Vec<ClusterReport>,
    /// Clusters that were counted in the totals and are not listed.
    pub clusters_not_listed: u64,
    /// What looks like a duplicate and is none.
    pub explained: Explained,
    /// Where an overloaded reference stands, if there is one.
    pub overloaded_example: Option<String>,
    /// Rows left out, and rows used with a doubt.
    pub problems: Vec<ProblemReport>,
    /// Limits that this run met, each a sentence.
    pub limits: Vec<String>,
}

impl Report {
    /// Whether money moved more often than it should.
    pub fn has_findings(&self) -> bool {
        self.totals.clusters > 0
    }

    /// As JSON, one document.
    pub fn to_json(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As text for a terminal of `width` columns, listing at most `clusters_max` clusters.
    pub fn to_text(&self, width: u16, clusters_max: usize) -> String {
        terminal::render(self, width, clusters_max)
    }

    /// As one HTML page that needs nothing beside itself, listing at most `clusters_max` clusters.
    pub fn to_html(&self, clusters_max: usize) -> String {
        html::render(self, clusters_max)
    }
}

/// How one input was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputReport {
    /// Path or name.
    pub name: String,
    /// Records read.
    pub rows: u64,
    /// The encoding it was taken for.
    pub encoding: String,
    /// Whether it was unpacked on the way.
    pub packed: bool,
    /// The byte between fields.
    pub separator: String,
    /// Which column was taken for what.
    pub columns: BTreeMap<String, String>,
    /// The finest step of time that the records show.
    pub precision: String,
    /// What had to be guessed, each a sentence with the flag that overrules it.
    pub guesses: Vec<String>,
}

/// Spans and choices that the search used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Payments of one reference further apart are separate, in seconds.
    pub pause_s: f64,
    /// Window for payments without a shared reference, in seconds.
    pub window_s: f64,
    /// How long the server is taken to remember a key, in seconds.
    pub key_life_s: f64,
    /// Whether different references were compared.
    pub fuzzy: bool,
    /// The zone of times without an offset.
    pub timezone: String,
}

/// Money of one currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MoneyTotal {
    /// Three letters, empty where the records name none.
    pub currency: String,
    /// Digits of the minor unit.
    pub decimals: u32,
    /// Taken beyond one payment each, in minor units.
    pub surplus_minor: i64,
    /// Of that, not given back, in minor units.
    pub at_stake_minor: i64,
}

/// All clusters together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Purchases paid more than once.
    pub clusters: u64,
    /// Their payments.
    pub payments: u64,
    /// Payments beyond the first of each.
    pub surplus: u64,
    /// By currency.
    pub money: Vec<MoneyTotal>,
    /// Clusters in which an amount is not known.
    pub clusters_without_amount: u64,
}

/// Clusters of one cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseTotal {
    /// The cause; `None` for clusters in which several fit.
    pub cause: Option<Cause>,
    /// Its name.
    pub label: String,
    /// Purchases.
    pub clusters: u64,
    /// Payments beyond the first.
    pub surplus: u64,
    /// The best confidence among them.
    pub confidence: Confidence,
    /// The schedule seen most often.
    pub schedule: Option<String>,
    /// By currency.
    pub money: Vec<MoneyTotal>,
}

/// Clusters of one verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictTotal {
    /// What went wrong.
    pub verdict: Verdict,
    /// In a few words.
    pub label: String,
    /// In one sentence.
    pub explanation: String,
    /// What to change, one sentence each: for the key, then for each cause that matters.
    pub changes: Vec<String>,
    /// Purchases.
    pub clusters: u64,
}

/// Clusters of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceTotal {
    /// As the records name it.
    pub source: String,
    /// Purchases.
    pub clusters: u64,
    /// Payments beyond the first.
    pub surplus: u64,
    /// The cause seen most often.
    pub cause: String,
}

/// A purchase that was paid more than once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterReport {
    /// The shared reference, key or payer.
    pub label: String,
    /// What the payments share.
    pub signature: Signature,
    /// Who sent them, if the records say.
    pub source: Option<String>,
    /// Payments that moved money.
    pub payments: u64,
    /// Those beyond the first.
    pub surplus: u64,
    /// Three letters, if known.
    pub currency: Option<String>,
    /// Taken beyond one payment, in minor units.
    pub surplus_minor: Option<i64>,
    /// Of that, not given back.
    pub at_stake_minor: Option<i64>,
    /// Between consecutive attempts, in seconds.
    pub gaps_s: Vec<f64>,
    /// Causes with their share of the weight of evidence, the best first.
    pub causes: Vec<CauseShare>,
    /// Whether no cause stands out.
    pub ambiguous: bool,
    /// How sure the best cause is.
    pub confidence: Confidence,
    /// The schedule that fits best, in words.
    pub schedule: Option<String>,
    /// What went wrong.
    pub verdict: Verdict,
    /// What limits the reading.
    pub notes: Vec<String>,
    /// The evidence, by time.
    pub rows: Vec<RowReport>,
}

/// A cause with its share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseShare {
    /// The cause.
    pub cause: Cause,
    /// From 0 to 1.
    pub share: f64,
}

impl ClusterReport {
    /// The cause in words; several where it is ambiguous.
    pub fn cause_label(&self) -> String {
        let names: Vec<&str> = self.causes.iter().map(|one| one.cause.label()).collect();
        if self.ambiguous && names.len() > 1 {
            format!("ambiguous: {}", names.join(" or "))
        } else if self.ambiguous {
            "ambiguous".to_owned()
        } else {
            names.first().copied().unwrap_or("undetermined").to_owned()
        }
    }
}

/// One record of the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowReport {
    /// The payment's id as written.
    pub id: Option<String>,
    /// Whether the id lost digits in a spreadsheet.
    pub id_lossy: bool,
    /// The idempotency key.
    pub key: Option<String>,
    /// When, UTC.
    pub at: String,
    /// How much, in minor units.
    pub amount_minor: Option<i64>,
    /// How much of it was given back, in minor units.
    pub returned_minor: i64,
    /// What the record is in its cluster.
    pub role: Role,
    /// Name of the input.
    pub file: String,
    /// The line in it, from 1, the header included.
    pub line: u64,
}

/// Rows with one kind of problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProblemReport {
    /// The kind.
    pub kind: ProblemKind,
    /// What it means and what to do.
    pub explanation: String,
    /// Whether these rows take no part in the comparison.
    pub left_out: bool,
    /// How many.
    pub rows: u64,
    /// The first of them.
    pub examples: Vec<ExampleReport>,
}

/// One row with its problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExampleReport {
    /// Name of the input.
    pub file: String,
    /// The line in it, from 1.
    pub line: u64,
    /// What was found there.
    pub found: String,
}

impl ExampleReport {
    pub(crate) fn of(example: &Example, names: &[String]) -> Self {
        Self {
            file: names.get(example.place.file as usize).cloned().unwrap_or_default(),
            line: example.place.line,
            found: example.found.clone(),
        }
    }
}
