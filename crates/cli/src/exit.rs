//! Exit codes: the same few for every subcommand.

use samekey::store::{Kind, StoreError};
use std::process::ExitCode;

/// What the program's end means to whoever started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Understood and reached, and what was asked for could not be decided.
    NothingDecided,
    /// Words or files that cannot be understood.
    Usage,
    /// Something that cannot be reached, or not used as it is.
    Unreachable,
    /// Something may have been done, and nobody knows.
    Unknown,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(match code {
            Code::NothingDecided => 1,
            Code::Usage => 2,
            Code::Unreachable => 3,
            Code::Unknown => 4,
        })
    }
}

/// Why a subcommand ends early: the code and one sentence.
#[derive(Debug)]
pub struct Stopped {
    /// The exit code.
    pub code: Code,
    /// What was found, what is expected, what to do.
    pub sentence: String,
}

impl Stopped {
    /// Ends with this code and sentence.
    pub fn new(code: Code, sentence: impl Into<String>) -> Stopped {
        Stopped { code, sentence: sentence.into() }
    }
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Stopped {
        let code = match error.kind() {
            Kind::Address => Code::Usage,
            Kind::CommitUnknown => Code::Unknown,
            Kind::Unreachable
            | Kind::PoolExhausted
            | Kind::LockTimeout
            | Kind::Conflict
            | Kind::StatementTimeout
            | Kind::ReadOnly
            | Kind::Full
            | Kind::Schema
            | Kind::Unsafe
            | Kind::Forbidden
            | Kind::Damaged
            | Kind::Misused
            | Kind::Ended
            | Kind::Panicked
            | Kind::Other => Code::Unreachable,
        };
        Stopped::new(code, error.to_string())
    }
}
