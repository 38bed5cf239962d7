//! What a run has to have met to prove anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A claim was taken over while its first owner still lived.
pub const TAKEN_OVER: &str = "take-over while the first owner lives";
/// An owner that had lost its fence tried to write, and was refused.
pub const FENCED_OUT: &str = "fenced-out write refused";
/// Nobody knew whether a commit had landed.
pub const COMMIT_UNKNOWN: &str = "commit outcome unknown";
/// A request reached the counterparty after it had said that it knew nothing of it.
pub const LATE_REQUEST: &str = "late request after \"not found\"";
/// A claim met the sweep of its key's row.
pub const SWEEP_RACE: &str = "sweep racing a claim";
/// A late owner's answer was written down for whoever holds the fence.
pub const EVIDENCE: &str = "evidence recorded";
/// A person had to decide.
pub const REVIEW: &str = "review reached";
/// An owner that worked for long kept its claim.
pub const RENEWED: &str = "lease renewed";

/// The states that a run of external commands has to have met.
pub const NASTY: [&str; 8] =
    [TAKEN_OVER, FENCED_OUT, COMMIT_UNKNOWN, LATE_REQUEST, SWEEP_RACE, EVIDENCE, REVIEW, RENEWED];

/// Counts the rare states that a run came through. Clones share one count.
#[derive(Clone, Debug, Default)]
pub struct Sometimes(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Sometimes {
    /// This happened.
    pub fn saw(&self, what: &'static str) {
        self.saw_times(what, 1);
    }

    /// This happened so many times; zero notes that it was looked for.
    pub fn saw_times(&self, what: &'static str, times: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what).or_default() += times;
    }

    /// Which of these never happened: the run was too kind, and failed to test them.
    pub fn missing(&self, wanted: &[&'static str]) -> Vec<&'static str> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.iter().filter(|what| counts.get(**what).is_none_or(|n| *n == 0)).copied().collect()
    }

    /// All counts, for the output of a run.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::Sometimes;

    #[test]
    fn what_never_happened_is_missing() {
        let sometimes = Sometimes::default();
        sometimes.clone().saw("commit unknown");
        sometimes.saw_times("replay", 0);
        assert_eq!(sometimes.missing(&["commit unknown", "replay", "other"]), ["replay", "other"]);
        assert_eq!(sometimes.counts().get("commit unknown"), Some(&1));
    }
}
