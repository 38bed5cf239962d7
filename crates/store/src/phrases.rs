//! What a transaction with a key in it is told besides its statements, the same by each driver.

use crate::facts::{Durability, Facts};
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// How often a begin is repeated when the row that stood in the way is gone by the time it is
/// looked at. That takes a sweep in the same instant, so once is plenty.
pub(crate) const BEGINS_MAX: u32 = 3;

/// The longest wait for a lock, in milliseconds.
const LOCK_WAIT_MS_MAX: u128 = 60_000;

/// The words of one ledger.
pub(crate) struct Phrases {
    /// Begins a transaction.
    pub(crate) begin: String,
    /// Follows the claim: what comes then is not bound by its lock timeout, and can be undone without
    /// it.
    pub(crate) after_claim: String,
    /// Takes back everything since the claim.
    pub(crate) undo: String,
}

impl Phrases {
    /// The words for a server that says this of itself.
    ///
    /// How a commit is kept can be changed for a role or a database while a service runs, so each
    /// transaction asks for what was found, and judged, when the ledger was opened.
    ///
    /// A savepoint of the same name hides an earlier one, and a handler's would hide ours: what it had
    /// written before would survive its refusal. So each ledger has a name that nobody can know; one a
    /// transaction would fill the server's statistics with as many statements.
    pub(crate) fn of(facts: &Facts, durability: Durability) -> Phrases {
        let mut begin = "begin isolation level read committed read write".to_owned();
        match durability {
            Durability::Required => {
                begin.push_str("; set local synchronous_commit = ");
                begin.push_str(known(&facts.synchronous_commit));
            }
            Durability::Waived => {}
        }
        // The standard library seeds its hashers from the operating system's randomness.
        let unknown = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let savepoint = format!("samekey_handler_{unknown:016x}");
        Phrases {
            begin,
            after_claim: format!("set local lock_timeout to default; savepoint {savepoint}"),
            undo: format!("rollback to savepoint {savepoint}"),
        }
    }
}

/// The setting as it is written into a statement: a word of the server's that is known here.
fn known(setting: &str) -> &'static str {
    ["local", "remote_write", "remote_apply"]
        .into_iter()
        .find(|word| *word == setting)
        .unwrap_or("on")
}

/// The statement that bounds the wait for a lock. Zero would mean no bound, so the least is one
/// millisecond.
pub(crate) fn lock_timeout(wait: Duration) -> String {
    format!("set local lock_timeout = {}", wait.as_millis().clamp(1, LOCK_WAIT_MS_MAX))
}
