//! The one error of this crate: a sentence for the person who reads the failed test.

use std::fmt;

/// What went wrong, in the coarse classes that a test may want to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No PostgreSQL server, no database or no built program was found where one is needed.
    Missing,
    /// A program did not start, or ended before it was ready.
    NotStarted,
    /// Something did not happen within its bound.
    TimedOut,
    /// The database refused a statement or could not be reached.
    Database,
    /// The operating system refused a file, a folder, a port or a signal.
    System,
}

/// A failure of the test's surroundings, never a verdict about samekey.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    sentence: String,
}

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, sentence: impl Into<String>) -> Self {
        Self { kind, sentence: sentence.into() }
    }

    /// An operating-system error with what was being done, as in "cannot create /x: permission
    /// denied".
    pub(crate) fn system(doing: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::new(ErrorKind::System, format!("cannot {doing}: {cause}"))
    }

    /// The class of this failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}
