//! The ledger of an SQLite file, and whether somebody writes to it.

use super::SAMPLE_ROWS_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::history::{OpenTransaction, SeenRow};
use rusqlite::{Connection, OpenFlags, Row};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a read waits for a moment without a checkpoint or a recovery.
const BUSY_BOUND: Duration = Duration::from_secs(5);

const CLOCK: &str = "select cast(unixepoch('subsec') * 1000000 as integer)";

const ROWS: &str = "
select org_id, key, fence, revision, holder, state, answer_status, answer_headers, answer_body, since,
  lease_ends, keep_until
from samekey_keys
limit ?1";

const OPEN_CLAIMS: &str = "select org_id, key from samekey_open_claims";

pub(super) async fn rows(path: &Path) -> Result<(i64, Vec<SeenRow>)> {
    let limit = i64::try_from(SAMPLE_ROWS_MAX).unwrap_or(i64::MAX).saturating_add(1);
    with(path, BUSY_BOUND, move |connection| {
        // One transaction, so that the clock is not later than a row that is still missing.
        let transaction = connection.transaction()?;
        let clock = transaction.query_row(CLOCK, [], |row| row.get(0))?;
        let mut statement = transaction.prepare(ROWS)?;
        let rows = statement.query_map([limit], seen)?.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok((clock, rows))
    })
    .await
}

fn seen(row: &Row<'_>) -> rusqlite::Result<SeenRow> {
    let headers: Option<Vec<u8>> = row.get("answer_headers")?;
    let body: Option<Vec<u8>> = row.get("answer_body")?;
    let answer = [headers.unwrap_or_default(), vec![0], body.unwrap_or_default()].concat();
    Ok(SeenRow {
        org: row.get("org_id")?,
        key: row.get("key")?,
        fence: row.get("fence")?,
        revision: row.get("revision")?,
        holder: row.get("holder")?,
        state: row.get("state")?,
        status: row.get("answer_status")?,
        answer_sha: Sha256::digest(answer).into(),
        since_micros: row.get("since")?,
        lease_ends_micros: row.get("lease_ends")?,
        keep_until_micros: row.get("keep_until")?,
    })
}

pub(super) async fn open_claims(path: &Path) -> Result<Vec<(String, String)>> {
    with(path, BUSY_BOUND, |connection| {
        let mut statement = connection.prepare(OPEN_CLAIMS)?;
        let claims = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        claims.collect()
    })
    .await
}

/// Two transactions that follow each other without a look in between are taken for one.
pub(super) async fn activity(
    path: &Path,
    locked_since: &mut Option<Instant>,
) -> Result<(Vec<OpenTransaction>, u64)> {
    let is_locked = with(path, Duration::ZERO, |connection| {
        match connection.execute_batch("begin immediate; rollback") {
            Ok(()) => Ok(false),
            Err(cause) if cause.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                Ok(true)
            }
            Err(cause) => Err(cause),
        }
    })
    .await?;
    if !is_locked {
        *locked_since = None;
        return Ok((Vec::new(), 0));
    }
    let since = *locked_since.get_or_insert_with(Instant::now);
    let open = OpenTransaction {
        pid: 0,
        age: since.elapsed(),
        // What its owner does meanwhile does not show.
        held: since.elapsed(),
        state: "holding the write lock".to_owned(),
        statement: String::new(),
    };
    Ok((vec![open], 0))
}

/// Works with a connection of its own, on a thread that may block.
async fn with<T: Send + 'static>(
    path: &Path,
    busy: Duration,
    work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T> {
    let path: PathBuf = path.to_owned();
    let worked = tokio::task::spawn_blocking(move || {
        // Never the one that makes the file.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(busy)?;
        work(&mut connection)
    });
    worked.await.map_err(|cause| Error::system("look into the database", cause))?.map_err(|cause| {
        Error::new(ErrorKind::Database, format!("cannot look into the database: {cause}"))
    })
}
