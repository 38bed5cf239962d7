//! What SQLite's result codes mean here. Its messages name tables, values and paths, so none of
//! them leaves; the code does, and the name of a constraint of our own.

use crate::error::{Kind, StoreError};
use rusqlite::{ErrorCode, ffi};

#[allow(clippy::wildcard_enum_match_arm, reason = "the driver's enum is open")]
/// Keeps the kind and the result code, and drops SQLite's own words.
impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match &error {
            rusqlite::Error::SqliteFailure(failure, message) => {
                of_code(*failure, message.as_deref())
            }
            rusqlite::Error::SqlInputError { error, .. } => of_code(*error, None),
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::InvalidColumnType(..) => StoreError::new(
                Kind::Damaged,
                "a column holds a value of another type than the schema says; the row was changed by hand",
            ),
            _ => {
                StoreError::new(Kind::Other, "a statement was not understood by the SQLite driver")
            }
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the driver's enum is open")]
fn of_code(failure: rusqlite::ffi::Error, message: Option<&str>) -> StoreError {
    let (kind, sentence) = match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            Kind::LockTimeout,
            "another process held the database file locked for too long; try again, and keep its write transactions short",
        ),
        ErrorCode::FileLockingProtocolFailed => (
            Kind::LockTimeout,
            "the database file could not be locked; it may lie on a network file system, which cannot keep it safe",
        ),
        ErrorCode::DiskFull => {
            (Kind::Full, "there is no room left for the database file; make room, then try again")
        }
        ErrorCode::ReadOnly => (
            Kind::ReadOnly,
            "the database file can only be read; give this process the right to write it and its directory",
        ),
        // The index of the log is a file of its own; it grows before anything is written.
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => (
            Kind::Full,
            "there is no room left for a file beside the database file; make room, then try again",
        ),
        ErrorCode::CannotOpen => (
            Kind::Unreachable,
            "the database file, or one beside it, cannot be opened; see that it, its directory and the rights are there",
        ),
        ErrorCode::SystemIoFailure => {
            (Kind::Unreachable, "reading or writing the database file failed; see the system's log")
        }
        ErrorCode::NotADatabase => {
            (Kind::Address, "the file is not an SQLite database; name another file, or a new one")
        }
        ErrorCode::DatabaseCorrupt => {
            (Kind::Damaged, "the database file is damaged; stop, and restore it from a backup")
        }
        ErrorCode::PermissionDenied => {
            (Kind::Forbidden, "the system does not let this process use the database file")
        }
        ErrorCode::AuthorizationForStatementDenied => (
            Kind::Misused,
            "a job tried a statement that is not its own: transactions, and the rows of keys, are kept by the ledger",
        ),
        ErrorCode::ConstraintViolation => return constraint(failure, message),
        ErrorCode::SchemaChanged => {
            (Kind::Schema, "the schema was changed while a statement ran; try again")
        }
        ErrorCode::TooBig => (Kind::Other, "a value is larger than SQLite can keep"),
        ErrorCode::OutOfMemory => (Kind::Other, "SQLite had no memory left"),
        ErrorCode::OperationAborted | ErrorCode::OperationInterrupted => {
            (Kind::StatementTimeout, "a statement was interrupted")
        }
        _ => (Kind::Other, "SQLite refused a statement"),
    };
    StoreError::new(kind, sentence).with_sqlstate(failure.extended_code.to_string())
}

/// SQLite says `CHECK constraint failed: <name>`. Names of our own schema may be told.
fn constraint(failure: rusqlite::ffi::Error, message: Option<&str>) -> StoreError {
    let ours = message.and_then(|message| message.rsplit_once(": ")).map(|(_, name)| name).filter(
        |name| {
            name.starts_with("samekey_")
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        },
    );
    let sentence = match ours {
        Some(name) => format!("the constraint {name} refused a row; this is a defect, report it"),
        None => "a constraint of the schema refused a row".to_owned(),
    };
    StoreError::new(Kind::Other, sentence).with_sqlstate(failure.extended_code.to_string())
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the driver's enum is open")]
/// What a failed commit means. Where the journal was already being written, nobody can say whether
/// it stands after a crash.
pub(super) fn of_commit(error: rusqlite::Error) -> StoreError {
    let certain = match &error {
        rusqlite::Error::SqliteFailure(failure, _) => matches!(
            failure.code,
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::ConstraintViolation
        ),
        _ => false,
    };
    let found = StoreError::from(error);
    if certain {
        return found;
    }
    let unknown = StoreError::new(
        Kind::CommitUnknown,
        "the commit failed while it was being written; whether it stands is only known by asking again",
    );
    match found.sqlstate() {
        Some(code) => unknown.with_sqlstate(code),
        None => unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32, message: &str) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()))
    }

    #[test]
    fn s14_no_word_of_sqlite_leaves() {
        for code in 1..=26 {
            let error = StoreError::from(failure(code, "near \"4111\": /home/anna/orders.db"));
            let text = format!("{error} {error:?}");
            assert!(!text.contains("4111") && !text.contains("anna"), "{text}");
            assert_eq!(error.sqlstate(), Some(code.to_string().as_str()));
        }
    }

    #[test]
    fn a_constraint_of_ours_is_named_and_no_other() {
        let ours = failure(275, "CHECK constraint failed: samekey_keys_holder_length");
        assert!(StoreError::from(ours).to_string().contains("samekey_keys_holder_length"));
        for message in
            ["UNIQUE constraint failed: orders.card", "CHECK constraint failed: samekey_4111"]
        {
            let text = StoreError::from(failure(275, message)).to_string();
            assert!(!text.contains("card") && !text.contains("4111"), "{text}");
        }
    }

    #[test]
    fn a_full_disk_is_told_as_one_wherever_it_is_noticed() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE] {
            let full = StoreError::from(failure(code, "disk I/O error"));
            assert_eq!(full.kind(), Kind::Full);
            assert!(full.to_string().contains("no room left"), "{full}");
        }
        let other = StoreError::from(failure(ffi::SQLITE_IOERR_READ, "disk I/O error"));
        assert_eq!(other.kind(), Kind::Unreachable);
    }

    #[test]
    fn a_commit_that_broke_off_in_writing_is_unknown() {
        let sync = failure(ffi::SQLITE_IOERR_FSYNC, "disk I/O error");
        assert!(of_commit(sync).may_have_committed());
        let full = of_commit(failure(ffi::SQLITE_FULL, "database or disk is full"));
        assert_eq!(full.kind(), Kind::Full);
        assert!(!full.may_have_committed());
    }
}
