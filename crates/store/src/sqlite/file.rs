//! Opens the database file with settings under which the promise holds, or says why not.

use super::schema;
use crate::error::{Kind, StoreError};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// The oldest SQLite that is taken, as `major * 1_000_000 + minor * 1_000 + patch`. Releases before
/// 3.51.3 can lose a checkpoint of the write-ahead log when two connections reset it at once.
pub const LIBRARY_MIN: i32 = 3_051_003;

/// How long a statement waits for another process that has the file locked. It bounds how long a
/// backup or a second service can hold up every writer of this one.
pub const BUSY_WAIT: Duration = Duration::from_secs(5);

/// How many prepared statements a connection keeps: ours are two dozen, the rest is for the application.
const STATEMENTS_MAX: usize = 64;

/// The size in bytes to which the write-ahead log is cut back after a checkpoint; a long reader may
/// have made it grow.
const LOG_BYTES_KEPT: i64 = 64 << 20;

const ONLY_READ: &str =
    "the database file can only be read; give this process the right to write it and its directory";

/// Opens a file that may be new, for a migration.
pub(super) fn create(path: &Path) -> Result<Connection, StoreError> {
    writable(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
}

/// Opens the writer's connection. The file has to be there, with the schema that this program knows:
/// a mistyped name must not become an empty ledger in which every key is new.
pub(super) fn writer(path: &Path) -> Result<Connection, StoreError> {
    let connection = writable(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    schema::check(&connection)?;
    Ok(connection)
}

/// What the writer keeps of the file in memory: 16 MiB. New keys fall anywhere into the index, and with
/// the default of 2 MiB its pages are read from the system again and again.
const CACHE_KIB: i64 = 16 * 1024;

/// After how many pages in the log the database file is brought up to date. The default of a thousand
/// makes a busy ledger stop for it many times a second; this is 16 MiB, which a reader that starts
/// after a crash goes through in a moment.
const CHECKPOINT_PAGES: i64 = 4_000;

/// Opens a connection that cannot write.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

fn writable(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    check_library(rusqlite::version_number())?;
    let connection = open(path, flags)?;
    // Without the right to write, SQLite opens the file all the same, and only for reading.
    if connection.is_readonly("main")? {
        return Err(StoreError::new(Kind::ReadOnly, ONLY_READ));
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    set(&connection, "journal_mode", "wal", "wal")?;
    set(&connection, "synchronous", "full", "2")?;
    set(&connection, "foreign_keys", "on", "1")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
    Ok(connection)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    // One thread uses a connection at a time, so that SQLite's own mutex is not needed.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(BUSY_WAIT)?;
        // The file is only looked at when it is first read.
        connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    });
    opened.map_err(|error| why_not(path, error))
}

/// SQLite says "cannot open" for many reasons; the one that applies is worth a sentence.
fn why_not(path: &Path, error: rusqlite::Error) -> StoreError {
    let cannot_open = error.sqlite_error_code() == Some(ErrorCode::CannotOpen);
    let found = StoreError::from(error);
    if !cannot_open {
        return found;
    }
    let directory =
        path.parent().is_none_or(|parent| parent.as_os_str().is_empty() || parent.is_dir());
    let (kind, sentence) = if !directory {
        (
            Kind::Address,
            "the directory of the database file does not exist; make it, or name another file",
        )
    } else if path.is_dir() {
        (Kind::Address, "the address names a directory; name a file in it")
    } else if !path.exists() {
        (
            Kind::Address,
            "there is no database file at the address; see that it is the right one, then make it with `samekey migrate`",
        )
    } else if std::fs::File::open(path).is_ok() {
        // It is there and can be read: what cannot be made are the files beside it.
        (Kind::ReadOnly, ONLY_READ)
    } else {
        (
            Kind::Forbidden,
            "the system does not let this process open the database file; give it the right to",
        )
    };
    StoreError::new(kind, sentence)
}

/// Makes a setting and looks whether it holds: SQLite answers with what it did, not with an error.
fn set(
    connection: &Connection,
    name: &'static str,
    value: &'static str,
    holds: &'static str,
) -> Result<(), StoreError> {
    connection.execute_batch(&format!("pragma {name} = {value}"))?;
    let found = connection.pragma_query_value(None, name, |row| row.get(0))?;
    let found = match found {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Null | Value::Real(_) | Value::Blob(_) => String::new(),
    };
    if found.eq_ignore_ascii_case(holds) {
        return Ok(());
    }
    Err(StoreError::new(
        Kind::Unsafe,
        format!(
            "the setting {name} = {value} does not hold for the database file; it has to lie on a local disk that can share memory"
        ),
    ))
}

fn check_library(number: i32) -> Result<(), StoreError> {
    if number >= LIBRARY_MIN {
        return Ok(());
    }
    let dotted = |number: i32| {
        format!("{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000)
    };
    Err(StoreError::new(
        Kind::Unsafe,
        format!(
            "the SQLite library is {}, and {} is the oldest that is safe here; build with the bundled one",
            dotted(number),
            dotted(LIBRARY_MIN)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_library_is_refused_and_the_bundled_one_is_not() {
        assert_eq!(check_library(rusqlite::version_number()), Ok(()));
        assert_eq!(check_library(LIBRARY_MIN), Ok(()));
        let refusal = check_library(LIBRARY_MIN - 1).unwrap_err();
        assert_eq!(refusal.kind(), Kind::Unsafe);
        assert!(refusal.to_string().contains("3.51.2") && refusal.to_string().contains("3.51.3"));
    }
}
