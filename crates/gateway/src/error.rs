//! The one error type of the crate: programs act on its kind, the sentence is for a person.

use std::fmt;

/// What went wrong, for programs that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The settings cannot be understood or cannot keep the promise.
    Settings,
    /// An address cannot be listened on.
    Address,
    /// The ledger cannot be used.
    Store,
}

/// Why a gateway cannot start; the display text is what was found, what is expected and what to do.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    sentence: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, sentence: impl Into<String>) -> Error {
        Error { kind, sentence: sentence.into() }
    }

    pub(crate) fn settings(sentence: impl Into<String>) -> Error {
        Error::new(Kind::Settings, sentence)
    }

    /// What went wrong, for programs.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same start may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            Kind::Settings => false,
            Kind::Address | Kind::Store => true,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}
