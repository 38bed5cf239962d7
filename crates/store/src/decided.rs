//! The account of what a person decided about a key.

use samekey_core::lease::{Fence, Hold};
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

/// Who decides, and on what grounds.
#[derive(Clone)]
pub struct Person {
    /// The name of the person.
    pub name: String,
    /// Why.
    pub note: String,
    /// What proves it: a reference at the counterparty, a statement of account.
    pub evidence: String,
}

impl fmt::Debug for Person {
    /// Notes are about customers; they are shown to people, not to logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Person").finish_non_exhaustive()
    }
}

impl Person {
    /// The account of this decision about what was seen in this hold.
    ///
    /// # Errors
    /// One sentence that says what is missing or too long.
    pub fn decides(&self, decision: &str, seen: Hold) -> Result<Decided, String> {
        for (what, text) in
            [("name", &self.name), ("note", &self.note), ("evidence", &self.evidence)]
        {
            if text.trim().is_empty() {
                return Err(format!(
                    "the {what} is empty; a decision about money says who decided, why, and on what evidence"
                ));
            }
            if text.len() > NOTE_BYTES_MAX {
                return Err(format!(
                    "the {what} has {} bytes, and at most {NOTE_BYTES_MAX} are kept; put the rest into a file and name it",
                    text.len()
                ));
            }
            if text.contains('\0') {
                return Err(format!("the {what} has a NUL character; leave it out"));
            }
        }
        Ok(Decided {
            decision: decision.to_owned(),
            person: self.name.clone(),
            note: self.note.clone(),
            evidence: self.evidence.clone(),
            seen: seen.fence,
            at: Time::EPOCH,
        })
    }
}
