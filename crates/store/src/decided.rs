//! The account of what a person decided about a key.

use samekey_core::lease::Fence;
use samekey_core::time::Time;
use std::fmt;

/// The longest note or evidence, in bytes: a page of text. What is longer belongs into a file that the
/// note names.
pub const NOTE_BYTES_MAX: usize = 4_096;

/// What a person decided, why, and on what grounds.
#[derive(Clone, PartialEq, Eq)]
pub struct Decided {
    /// `executed`, `not-executed`, `close` or `forget`.
    pub decision: String,
    /// Who decided: the name that the person gave, or that of the account.
    pub person: String,
    /// Why.
    pub note: String,
    /// On what grounds: a reference at the counterparty, a ticket, a statement of account.
    pub evidence: String,
    /// The fence of the record that the person saw.
    pub seen: Fence,
    /// When, by the database's clock; what the caller puts here is not written.
    pub at: Time,
}

impl fmt::Debug for Decided {
    /// Notes are about customers; they are shown to people, not to logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decided")
            .field("decision", &self.decision)
            .field("seen", &self.seen)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
