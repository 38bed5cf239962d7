//! The one error type of the crate: programs act on its kind, the sentence is for a person.

use std::fmt;
use std::ops::Range;

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
    /// Where in the settings file it is, in bytes.
    at: Option<Range<usize>>,
}

impl Error {
    pub(crate) fn new(kind: Kind, sentence: impl Into<String>) -> Error {
        Error { kind, sentence: sentence.into(), at: None }
    }

    pub(crate) fn settings(sentence: impl Into<String>) -> Error {
        Error::new(Kind::Settings, sentence)
    }

    /// The same at this place of the settings file.
    pub(crate) fn at(self, at: Range<usize>) -> Error {
        Error { at: Some(at), ..self }
    }

    /// The place in the settings file, if it has one.
    pub(crate) fn place(&self) -> Option<&Range<usize>> {
        self.at.as_ref()
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
