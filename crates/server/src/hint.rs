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

/// A lossy set of hashes; a newer key takes the slot of an older one.
#[derive(Clone)]
pub(crate) struct Hints {
    slots: Arc<[AtomicU64]>,
    // Random per process, so that nobody can choose keys that meet in one slot.
    hasher: RandomState,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }
}

impl Hints {
    fn slot(&self, scope: &Scope) -> (Option<&AtomicU64>, u64) {
        let hash = self.hasher.hash_one(scope).max(1);
        let index = usize::try_from(hash).unwrap_or(usize::MAX) % SLOTS;
        (self.slots.get(index), hash)
    }

    /// Remembers that this key has ended.
    pub(crate) fn ended(&self, scope: &Scope) {
        if let (Some(slot), hash) = self.slot(scope) {
            slot.store(hash, Ordering::Relaxed);
        }
    }

    /// Whether this key has probably ended.
    pub(crate) fn probably_ended(&self, scope: &Scope) -> bool {
        let (slot, hash) = self.slot(scope);
        slot.is_some_and(|slot| slot.load(Ordering::Relaxed) == hash)
    }
}
