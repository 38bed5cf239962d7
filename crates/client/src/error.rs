//! The one error of this crate: what cannot be used as it was given, in one sentence.
//!
//! How an attempt ends is no error but an [`Outcome`](samekey_core::outcome::Outcome).

use std::fmt;

/// What cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The configuration of a counterparty or a client.
    Config,
    /// A request that is to be kept and sent.
    Request,
    /// A request whose body cannot be sent twice.
    NotReplayable,
}

/// Something that cannot be used as it was given. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    sentence: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, sentence: impl Into<String>) -> Error {
        Error { kind, sentence: sentence.into() }
    }

    pub(crate) fn config(sentence: impl Into<String>) -> Error {
        Error::new(Kind::Config, sentence)
    }

    pub(crate) fn request(sentence: impl Into<String>) -> Error {
        Error::new(Kind::Request, sentence)
    }

    /// What cannot be used.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same call may succeed later. It never does: what was given has to change.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            Kind::Config | Kind::Request | Kind::NotReplayable => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}
