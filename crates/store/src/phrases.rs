//! What a transaction with a key in it is told besides its statements, the same by each driver.

use crate::facts::{Durability, Facts};
use std::time::Duration;

/// How often a begin is repeated when the row that stood in the way is gone by the time it is
/// looked at. That takes a sweep in the same instant, so once is plenty.
pub(crate) const BEGINS_MAX: u32 = 3;

/// The longest wait for a lock, in milliseconds.
const LOCK_WAIT_MS_MAX: u128 = 60_000;

/// The words of one ledger.
pub(crate) struct Phrases {
    /// Begins a transaction of the isolation level that we need, whatever the session's own is.
    pub(crate) begin: &'static str,
    /// Begins a transaction whose commit is kept as the ledger asks for.
    pub(crate) begin_durably: String,
    /// Follows what waited for a lock no longer than we let it: what comes then has the `lock_timeout` that the
    /// ledger found.
    pub(crate) unbound: String,
    /// The `synchronous_commit` that a transaction has to have; nothing where any will do.
    synchronous_commit: Option<&'static str>,
}

const BEGIN: &str = "begin isolation level read committed read write";

/// Begins a transaction as the session begins them. To say a level costs the server more than to begin.
#[cfg(feature = "postgres")]
pub(crate) const BEGIN_PLAINLY: &str = "begin";

/// The isolation level that our statements are written for.
#[cfg(feature = "postgres")]
pub(crate) const ISOLATION: &str = "read committed";

/// What a transaction says of itself that takes no writes.
pub(crate) const READ_ONLY: &str = "on";

impl Phrases {
    /// The words for a server that says this of itself.
    ///
    /// How a commit is kept can be changed for a role or a database while a service runs, so each
    /// transaction has what was found, and judged, when the ledger was opened. So it is with the lock
    /// timeout that a handler has.
    pub(crate) fn of(facts: &Facts, durability: Durability) -> Phrases {
        let synchronous_commit = match durability {
            Durability::Required => Some(known(&facts.synchronous_commit)),
            Durability::Waived => None,
        };
        let kept =
            synchronous_commit.map_or(String::new(), |word| format!("; {}", set_commit(word)));
        let lock_timeout = duration(&facts.lock_timeout);
        Phrases {
            begin: BEGIN,
            begin_durably: format!("{BEGIN}{kept}"),
            unbound: format!("set local lock_timeout = '{lock_timeout}'{kept}"),
            synchronous_commit,
        }
    }

    /// What a transaction that has this `synchronous_commit` is to be told, if anything.
    pub(crate) fn make_durable(&self, found: &str) -> Option<String> {
        self.synchronous_commit.filter(|word| *word != found).map(set_commit)
    }
}

fn set_commit(word: &str) -> String {
    format!("set local synchronous_commit = {word}")
}

/// A duration as the server shows it, such as `200ms`, if it can be written into a statement.
fn duration(shown: &str) -> &str {
    let plain = !shown.is_empty() && shown.chars().all(|c| c.is_ascii_alphanumeric());
    if plain { shown } else { "0" }
}

/// The setting as it is written into a statement: a word of the server's that is known here.
fn known(setting: &str) -> &'static str {
    ["local", "remote_write", "remote_apply"]
        .into_iter()
        .find(|word| *word == setting)
        .unwrap_or("on")
}

/// The statement that bounds the wait for a lock. Zero would mean no bound, so the least is one millisecond.
pub(crate) fn lock_timeout(wait: Duration) -> String {
    let millis = wait.as_millis().clamp(1, LOCK_WAIT_MS_MAX);
    format!("set local lock_timeout = {millis}")
}
