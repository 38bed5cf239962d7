//! Which keys this process has seen finished, roughly.
//!
//! A new command is cheapest when its transaction begins with the claim; a replay is cheapest with one
//! look-up and no transaction. Nobody knows beforehand which one a request is, but a key that ended
//! here a moment ago is likely a replay. A wrong hint costs one round trip and nothing else: the
//! look-up's answer is used only if it is final, and else the claim goes the usual way.

use samekey_core::key::Scope;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many keys are remembered: half a mebibyte, the retries of the last minutes.
const SLOTS: usize = 1 << 16;

/// How many slots a key may stand in: as many as a line of the processor's cache has. With one alone, two keys that
/// meet would turn each other out at every retry, and of ten thousand keys a thousand meet.
const ROW: usize = 8;

const ROWS: usize = SLOTS / ROW;

/// A lossy set of hashes; a newer key takes the slot of an older one.
#[derive(Clone)]
pub(crate) struct Hints {
    rows: Arc<[[AtomicU64; ROW]]>,
    // Random per process, so that nobody can choose keys that meet in one row.
    hasher: RandomState,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints { rows: (0..ROWS).map(|_| Default::default()).collect(), hasher: RandomState::new() }
    }
}

impl Hints {
    fn row(&self, scope: &Scope) -> (&[AtomicU64], u64) {
        let hash = self.hasher.hash_one(scope).max(1);
        let index = usize::try_from(hash % ROWS as u64).unwrap_or(0);
        (self.rows.get(index).map_or(&[], |row| row), hash)
    }

    /// Remembers that this key has ended.
    pub(crate) fn ended(&self, scope: &Scope) {
        let (row, hash) = self.row(scope);
        let mut free = None;
        for slot in row {
            match slot.load(Ordering::Relaxed) {
                there if there == hash => return,
                0 => free = free.or(Some(slot)),
                _ => {}
            }
        }
        // Which one has to go is as good as chance: the row was chosen by other bits.
        let last = usize::try_from(hash >> 32).unwrap_or(0) % ROW;
        if let Some(slot) = free.or_else(|| row.get(last)) {
            slot.store(hash, Ordering::Relaxed);
        }
    }

    /// Whether this key has probably ended.
    pub(crate) fn probably_ended(&self, scope: &Scope) -> bool {
        let (row, hash) = self.row(scope);
        row.iter().any(|slot| slot.load(Ordering::Relaxed) == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samekey_core::key::{Key, Org};

    fn scope(number: usize) -> Scope {
        Scope { org: Org::new("org").unwrap(), key: Key::new(&format!("key-{number}")).unwrap() }
    }

    /// A sixth of the room: hardly two of them meet for good, and what was not there is hardly ever found.
    #[test]
    fn ten_thousand_keys_are_remembered_side_by_side() {
        let hints = Hints::default();
        (0..10_000).for_each(|number| hints.ended(&scope(number)));
        let remembered = |numbers: std::ops::Range<usize>| {
            numbers.filter(|number| hints.probably_ended(&scope(*number))).count()
        };
        assert!(remembered(0..10_000) > 9_990);
        assert!(remembered(10_000..20_000) < 10);
    }

    #[test]
    fn newer_keys_take_the_room_of_older_ones() {
        let hints = Hints::default();
        (0..4 * SLOTS).for_each(|number| hints.ended(&scope(number)));
        let newest = (4 * SLOTS - 1_000)..4 * SLOTS;
        assert!(newest.filter(|number| hints.probably_ended(&scope(*number))).count() > 900);
    }
}
