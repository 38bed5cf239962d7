//! What all processes on the file share under a name.

use crate::error::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

const SHARED: &str = include_str!("../../sql/sqlite/shared.sql");
const SHARE_ONCE: &str = include_str!("../../sql/sqlite/share_once.sql");
const SHARE: &str = include_str!("../../sql/sqlite/share.sql");

pub(super) fn load(connection: &Connection, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let mut statement = connection.prepare_cached(SHARED)?;
    Ok(statement.query_row(params![name], |row| row.get(0)).optional()?)
}

/// Writes it unless the name is taken; gives what stands there.
pub(super) fn put_once(
    connection: &Connection,
    name: &str,
    bytes: &[u8],
) -> Result<Vec<u8>, StoreError> {
    connection.prepare_cached(SHARE_ONCE)?.execute(params![name, bytes])?;
    // In the same transaction, so that nobody takes it away in between.
    Ok(connection.prepare_cached(SHARED)?.query_row(params![name], |row| row.get(0))?)
}

/// Writes it over what may stand there.
pub(super) fn put(connection: &Connection, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    connection.prepare_cached(SHARE)?.execute(params![name, bytes])?;
    Ok(())
}
