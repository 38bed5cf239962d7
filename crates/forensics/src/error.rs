//! The one error of this crate: a failure of the world or of what was asked, never a finding.

use std::fmt;

/// What kind of failure an [`Error`] is; a shell turns it into an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// What was asked cannot be done as asked: a wrong option, a file that is not a CSV, no column
    /// to work with. Asking again unchanged gives the same answer.
    Usage,
    /// A database or file that should answer did not.
    Unreachable,
    /// The machine failed: a temporary file could not be written, a read broke off.
    Machine,
}

/// Why the records could not be examined, in one sentence that says what was found, what is
/// expected, and what to do.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

impl Error {
    /// What was asked cannot be done as asked.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, text: text.into() }
    }

    /// A database did not answer.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn unreachable(text: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unreachable, text: text.into() }
    }

    /// The machine failed under us.
    pub(crate) fn machine(what: &str, cause: &std::io::Error) -> Self {
        Self { kind: ErrorKind::Machine, text: format!("{what}: {cause}") }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later without a change.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ErrorKind::Usage => false,
            ErrorKind::Unreachable | ErrorKind::Machine => true,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
