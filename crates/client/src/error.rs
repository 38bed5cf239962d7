//! The one error of this crate: what cannot be used as it was given, or a store that failed, in one sentence.
//!
//! How an attempt ends is no error but an [`Outcome`](samekey_core::outcome::Outcome).

use samekey_store::StoreError;
use std::fmt;

/// The kinds of failure. Each is one that somebody handles differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The configuration of a counterparty, a client or a courier cannot be used.
    Config,
    /// A request, a command or an account of a decision cannot be used.
    Request,
    /// A request whose body cannot be sent twice.
    NotReplayable,
    /// There is no destination of that name.
    UnknownDestination,
    /// The business action is in the outbox already, with other content.
    OtherContent,
    /// A new command for an action is only possible after one that was refused or has failed.
    NotFollowed,
    /// The database belongs to another environment.
    OtherEnvironment,
    /// The store failed; see [`Error::store`].
    Store,
}

/// A failure of the calling side. `Display` is one sentence; it names no key, reference, host or credential.
/// Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    sentence: String,
    store: Option<StoreError>,
}

impl Error {
    pub(crate) fn new(kind: Kind, sentence: impl Into<String>) -> Error {
        Error { kind, sentence: sentence.into(), store: None }
    }

    pub(crate) fn config(sentence: impl Into<String>) -> Error {
        Error::new(Kind::Config, sentence)
    }

    pub(crate) fn request(sentence: impl Into<String>) -> Error {
        Error::new(Kind::Request, sentence)
    }

    /// What kind of failure.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        self.store.as_ref().is_some_and(StoreError::is_transient)
    }

    /// The failure of the store, where it was one.
    pub fn store(&self) -> Option<&StoreError> {
        self.store.as_ref()
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error { kind: Kind::Store, sentence: error.to_string(), store: Some(error) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}
