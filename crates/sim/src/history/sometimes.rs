//! What a run has to have met to prove anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
