//! What can go wrong with a store, without a word of what was in it.
//!
//! Driver errors print values (a unique violation shows the key, a connection error the host), so
//! they never leave this crate: what leaves is a kind, an SQLSTATE and, where we know it by name, a
//! constraint of our own schema.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The kinds of failure. Each is one that somebody handles differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No connection, or the connection broke before the statement was sent.
    Unreachable,
    /// No connection became free in time.
    PoolExhausted,
    /// The row's lock could not be had in time.
    LockTimeout,
    /// A deadlock (40P01) or a serialisation failure (40001): the same again may succeed.
    Conflict,
    /// A statement ran into its time limit.
    StatementTimeout,
    /// The server accepts reads only (a standby, or a read-only file).
    ReadOnly,
    /// There is no room left.
    Full,
    /// The connection broke, or the server stopped, after a commit was sent.
    CommitUnknown,
    /// The schema is missing or has another version.
    Schema,
    /// The server, file or library has a setting with which the promise cannot be kept.
    Unsafe,
    /// The role may not do this.
    Forbidden,
    /// The address or path of the database cannot be understood.
    Address,
    /// A row cannot be read as a record: it was written by a newer version, or damaged.
    Damaged,
    /// The transaction that the caller was given was ended or broken by the caller.
    Misused,
    /// The transaction that the caller was given was ended by the caller, so that nobody can tell what of its work
    /// stands.
    Ended,
    /// A job that the caller handed in panicked; what it had written is undone. See
    /// [`StoreError::into_panic`].
    Panicked,
    /// Anything else.
    Other,
}

/// A failure of a store.
///
/// `Display` is one sentence for a log: it names no key, value, host or credential.
#[derive(Clone)]
pub struct StoreError {
    kind: Kind,
    sentence: String,
    sqlstate: Option<String>,
    panic: Option<Arc<Mutex<Option<Payload>>>>,
}

/// What a panic carries, as `std::panic::resume_unwind` takes it.
pub type Payload = Box<dyn Any + Send + 'static>;

impl StoreError {
    /// A failure with a sentence that says what was found, what is expected and what to do. The
    /// sentence must be free of anything that a row, an address or a credential holds.
    pub fn new(kind: Kind, sentence: impl Into<String>) -> StoreError {
        StoreError { kind, sentence: sentence.into(), sqlstate: None, panic: None }
    }

    /// A panic in a job that the caller handed in. The payload may hold anything, so it is in no
    /// text; only [`StoreError::into_panic`] gives it back.
    pub fn panicked(payload: Payload) -> StoreError {
        let sentence = "a job panicked inside its transaction, and what it had written is undone";
        let mut error = StoreError::new(Kind::Panicked, sentence);
        error.panic = Some(Arc::new(Mutex::new(Some(payload))));
        error
    }

    /// The payload of a panic, for `std::panic::resume_unwind`; nothing for other kinds, and
    /// nothing where a clone of this error was asked before.
    pub fn into_panic(self) -> Option<Payload> {
        self.panic?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The same with the SQLSTATE (or SQLite result code) that the database gave.
    #[must_use]
    pub fn with_sqlstate(mut self, sqlstate: impl Into<String>) -> StoreError {
        self.sqlstate = Some(sqlstate.into());
        self
    }

    /// What kind of failure.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The database's own code of the failure, where there is one.
    pub fn sqlstate(&self) -> Option<&str> {
        self.sqlstate.as_deref()
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            Kind::Unreachable
            | Kind::PoolExhausted
            | Kind::LockTimeout
            | Kind::Conflict
            | Kind::StatementTimeout
            | Kind::ReadOnly
            | Kind::Full
            | Kind::CommitUnknown => true,
            Kind::Schema
            | Kind::Unsafe
            | Kind::Forbidden
            | Kind::Address
            | Kind::Damaged
            | Kind::Misused
            | Kind::Ended
            | Kind::Panicked
            | Kind::Other => false,
        }
    }

    /// Whether what was to be written may stand nevertheless.
    pub fn may_have_committed(&self) -> bool {
        self.kind == Kind::CommitUnknown
    }
}

/// Two errors are equal when they say the same; a panic's payload is not compared.
impl PartialEq for StoreError {
    fn eq(&self, other: &StoreError) -> bool {
        self.kind == other.kind
            && self.sentence == other.sentence
            && self.sqlstate == other.sqlstate
    }
}

impl Eq for StoreError {}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sqlstate {
            Some(code) => write!(f, "{} (code {code})", self.sentence),
            None => f.write_str(&self.sentence),
        }
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreError({:?}: {self})", self.kind)
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s14_a_panic_is_handed_back_and_is_in_no_text() {
        let error = StoreError::panicked(Box::new("card 4111111111111111"));
        assert_eq!(error.kind(), Kind::Panicked);
        assert!(!format!("{error} {error:?}").contains("4111"));
        let payload = error.clone().into_panic().expect("the payload");
        assert_eq!(*payload.downcast::<&str>().unwrap(), "card 4111111111111111");
        assert!(error.into_panic().is_none(), "it is handed back once");
    }
}
