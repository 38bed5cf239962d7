//! The one error type of the crate: what a caller can act on is its kind, the sentence is for a person.

use std::fmt;

/// What went wrong, for programs that act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Another process listens on the address already.
    AddressInUse,
    /// A fault plan cannot be understood; the message names the field.
    Plan,
    /// The ledger file cannot be read or written.
    Ledger,
    /// A folder or file of an exercise cannot be used.
    Exercise,
    /// The operating system refused something else.
    System,
}

/// A failure of the world around the lab; the display text is one sentence for a person.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// What went wrong, for programs.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// True where the same call may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            Kind::AddressInUse => true,
            Kind::Plan | Kind::Ledger | Kind::Exercise | Kind::System => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
