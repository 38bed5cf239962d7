//! The ledger of keys as it was seen over time, and the rare states that show in it.

use super::{Moment, Row, Sometimes, sometimes};
use std::collections::HashMap;

/// The whole ledger of keys at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When, by the history's counter.
    pub moment: Moment,
    /// The database's clock then, in microseconds since the Unix epoch.
    pub clock_micros: i64,
    /// Every row.
    pub rows: Vec<SeenRow>,
}

/// One row, without the answer itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenRow {
    /// Whose key.
    pub org: String,
    /// The key.
    pub key: String,
    /// Grows with every change of owner.
    pub fence: i64,
    /// Grows with every write.
    pub revision: i64,
    /// Who holds the fence, or held it last.
    pub holder: Vec<u8>,
    /// Its state, such as `done`.
    pub state: String,
    /// The stored status: of the answer, or of the evidence.
    pub status: Option<u16>,
    /// SHA-256 of the stored headers and body; equal for equal answers.
    pub answer_sha: [u8; 32],
    /// Since when it is in this state, in microseconds since the Unix epoch.
    pub since_micros: Option<i64>,
    /// The end of the lease of a running one.
    pub lease_ends_micros: Option<i64>,
    /// The sweep may not take it before.
    pub keep_until_micros: i64,
}

impl SeenRow {
    /// Whether its outcome is waited for.
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "running" | "unknown" | "review")
    }

    /// The row in the terms of [`History::check`](super::History::check).
    pub fn row(&self) -> Row {
        Row {
            org: self.org.clone(),
            key: self.key.clone(),
            state: self.state.clone(),
            status: self.status,
        }
    }
}

impl Sometimes {
    /// Counts what shows in consecutive samples: renewed leases, take-overs, evidence, and reviews.
    pub fn saw_in(&self, samples: &[Sample]) {
        let mut before: HashMap<(&str, &str), &SeenRow> = HashMap::new();
        for row in samples.iter().flat_map(|sample| &sample.rows) {
            let earlier = before.insert((&row.org, &row.key), row);
            let changed = |now: fn(&SeenRow) -> bool| now(row) && !earlier.is_some_and(now);
            if changed(|row| row.state == "review") {
                self.saw(sometimes::REVIEW);
            }
            if changed(|row| row.state == "unknown" && row.status.is_some()) {
                // It comes from an owner that lived on after its claim was taken over.
                self.saw(sometimes::EVIDENCE);
                self.saw(sometimes::TAKEN_OVER);
            }
            let Some(earlier) = earlier else { continue };
            let is_same_run =
                earlier.fence == row.fence && earlier.since_micros == row.since_micros;
            if is_same_run && earlier.lease_ends_micros < row.lease_ends_micros {
                self.saw(sometimes::RENEWED);
            }
        }
    }
}
