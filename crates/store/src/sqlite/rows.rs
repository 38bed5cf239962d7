//! The statements on rows, typed. Each runs on a connection whose transaction is the caller's matter.

use crate::error::StoreError;
use crate::memory::host_now;
use crate::row::{Row, check_offer, check_swap};
use crate::{Arrived, LIST_PAGE_MAX, OpenRecord, SWEEP_BATCH_MAX, Seen, Swap, SweepPass};
use rusqlite::{Connection, OptionalExtension, params};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::record::Record;
use samekey_core::time::Time;

const INSERT: &str = include_str!("../../sql/sqlite/insert_or_load.sql");
const LOAD: &str = include_str!("../../sql/sqlite/load.sql");
const SWAP: &str = include_str!("../../sql/sqlite/swap.sql");
const SWEEP_FIND: &str = include_str!("../../sql/sqlite/sweep_find.sql");
const SWEEP_DELETE: &str = include_str!("../../sql/sqlite/sweep_delete.sql");
const OPEN_INSERT: &str = include_str!("../../sql/sqlite/open_insert.sql");
const OPEN_DELETE: &str = include_str!("../../sql/sqlite/open_delete.sql");
const LIST_OPEN: &str = include_str!("../../sql/sqlite/list_open.sql");

/// Inserts the offer, counted from now, or loads what is there. Open claims are not noted: for a
/// claim that commits while it is open, [`note`] has to follow.
pub(super) fn arrive(
    connection: &Connection,
    scope: &Scope,
    offer: &Record,
) -> Result<Arrived, StoreError> {
    check_offer(offer)?;
    let now = host_now();
    let record = offer.clone().counted_from(now);
    let row = Row::of(&record);
    let inserted = connection.prepare_cached(INSERT)?.execute(params![
        scope.org.as_str(),
        scope.key.as_str(),
        row.fence,
        row.holder,
        row.revision,
        row.keep_until,
        row.state,
        row.since,
        row.request_version,
        row.request_sha,
        row.frame_sha,
        row.principal_sha,
        row.lease_ends,
        row.run_ends,
        row.life,
        row.reason,
        row.last_send,
        row.asked,
        row.not_found,
        row.ask_after,
        row.answer_status,
        row.answer_headers,
        row.answer_body,
    ])?;
    Ok(if inserted == 1 {
        Arrived::Inserted(Seen { record, now })
    } else {
        Arrived::Found(load(connection, scope)?)
    })
}

/// Loads the row of a key.
///
/// The clock is read first: a lease that is judged by it may seem to last longer than it does,
/// never shorter.
pub(super) fn load(connection: &Connection, scope: &Scope) -> Result<Seen, StoreError> {
    let now = host_now();
    let row = connection
        .prepare_cached(LOAD)?
        .query_row(params![scope.org.as_str(), scope.key.as_str()], |row| read(row, 0))
        .optional()?;
    let record = row.map_or(Ok(Record::ABSENT), Row::into_record)?;
    Ok(Seen { record, now })
}

/// Replaces `seen` by `next` if nobody wrote in between. Open claims are not noted, see [`arrive`].
pub(super) fn swap(
    connection: &Connection,
    scope: &Scope,
    seen: &Record,
    next: &Record,
) -> Result<Swap, StoreError> {
    check_swap(seen, next)?;
    let row = Row::of(next);
    let expected = Row::of(seen);
    let written = connection.prepare_cached(SWAP)?.execute(params![
        scope.org.as_str(),
        scope.key.as_str(),
        row.fence,
        row.holder,
        row.revision,
        row.keep_until,
        row.state,
        row.since,
        row.request_version,
        row.request_sha,
        row.frame_sha,
        row.principal_sha,
        row.lease_ends,
        row.run_ends,
        row.life,
        row.reason,
        row.last_send,
        row.asked,
        row.not_found,
        row.ask_after,
        row.answer_status,
        row.answer_headers,
        row.answer_body,
        expected.holder,
        expected.fence,
        expected.revision,
    ])?;
    Ok(if written == 1 { Swap::Written } else { Swap::Changed(load(connection, scope)?) })
}

/// Notes whether a key is open now, in the table through which recovery finds it. It does not go by
/// what was seen before: an open claim that is missing there would be lost to recovery.
pub(super) fn note(
    connection: &Connection,
    scope: &Scope,
    record: &Record,
) -> Result<(), StoreError> {
    let sql = if record.is_open() { OPEN_INSERT } else { OPEN_DELETE };
    connection.prepare_cached(sql)?.execute(params![scope.org.as_str(), scope.key.as_str()])?;
    Ok(())
}

/// Removes finished rows whose time is over.
pub(super) fn sweep(connection: &Connection, batch: u32) -> Result<SweepPass, StoreError> {
    let batch = batch.clamp(1, SWEEP_BATCH_MAX);
    let over: Vec<(String, String, i64)> = connection
        .prepare_cached(SWEEP_FIND)?
        // Found and removed in one transaction, so that the walk always starts at the beginning.
        .query_map(params![host_now().micros(), i64::MIN, "", "", batch], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(3)?))
        })?
        .collect::<Result<_, _>>()?;
    let mut delete = connection.prepare_cached(SWEEP_DELETE)?;
    let mut removed: u64 = 0;
    for (org, key, revision) in &over {
        let gone = delete.execute(params![org, key, revision])?;
        removed = removed.saturating_add(u64::try_from(gone).unwrap_or(0));
    }
    Ok(SweepPass { removed, more: removed == u64::from(batch) })
}

/// Lists open records.
pub(super) fn list_open(
    connection: &Connection,
    after: Option<&Scope>,
    limit: u32,
) -> Result<Vec<OpenRecord>, StoreError> {
    let now = host_now();
    // No org and no key is empty, so that the empty text lies before them all.
    let (org, key) = after.map_or(("", ""), |scope| (scope.org.as_str(), scope.key.as_str()));
    let mut statement = connection.prepare_cached(LIST_OPEN)?;
    let rows = statement.query_map(params![org, key, limit.min(LIST_PAGE_MAX)], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, read(row, 2)?))
    })?;
    rows.map(|row| {
        let (org, key, row) = row?;
        Ok(OpenRecord { scope: scope_of(&org, &key)?, seen: seen(row, now)? })
    })
    .collect()
}

fn seen(row: Row, now: Time) -> Result<Seen, StoreError> {
    Ok(Seen { record: row.into_record()?, now })
}

fn scope_of(org: &str, key: &str) -> Result<Scope, StoreError> {
    match (Org::new(org), Key::new(key)) {
        (Ok(org), Ok(key)) => Ok(Scope { org, key }),
        (Err(_), _) | (_, Err(_)) => Err(StoreError::new(
            crate::Kind::Damaged,
            "a row of the ledger has an org or a key that no request can have; it was changed by hand",
        )),
    }
}

/// Reads the columns of a row in the order of `load.sql`, from the column `first` on.
fn read(row: &rusqlite::Row<'_>, first: usize) -> Result<Row, rusqlite::Error> {
    let mut columns = first..;
    let mut next = || columns.next().unwrap_or(first);
    Ok(Row {
        fence: row.get(next())?,
        holder: row.get(next())?,
        revision: row.get(next())?,
        keep_until: row.get(next())?,
        state: row.get(next())?,
        since: row.get(next())?,
        request_version: row.get(next())?,
        request_sha: row.get(next())?,
        frame_sha: row.get(next())?,
        principal_sha: row.get(next())?,
        lease_ends: row.get(next())?,
        run_ends: row.get(next())?,
        life: row.get(next())?,
        reason: row.get(next())?,
        last_send: row.get(next())?,
        asked: row.get(next())?,
        not_found: row.get(next())?,
        ask_after: row.get(next())?,
        answer_status: row.get(next())?,
        answer_headers: row.get(next())?,
        answer_body: row.get(next())?,
    })
}
