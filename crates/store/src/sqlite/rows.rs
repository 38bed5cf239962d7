//! The statements on rows, typed. Each runs on a connection whose transaction is the caller's matter.

use crate::error::StoreError;
use crate::memory::host_now;
use crate::row::{Row, check_offer, check_swap};
use crate::{Arrived, LIST_PAGE_MAX, OpenRecord, SWEEP_BATCH_MAX, Seen, Swap, SweepPass};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::record::{Record, State};
use samekey_core::time::Time;

const INSERT: &str = include_str!("../../sql/sqlite/insert_or_load.sql");
const LOAD: &str = include_str!("../../sql/sqlite/load.sql");
const SWAP: &str = include_str!("../../sql/sqlite/swap.sql");
const SETTLE: &str = include_str!("../../sql/sqlite/settle.sql");
const SWEEP_FIND: &str = include_str!("../../sql/sqlite/sweep_find.sql");
const SWEEP_DELETE: &str = include_str!("../../sql/sqlite/sweep_delete.sql");
const FREE_FIND: &str = include_str!("../../sql/sqlite/free_find.sql");
const LIST_OPEN: &str = include_str!("../../sql/sqlite/list_open.sql");

/// Inserts the offer, counted from now, or loads what is there. Open claims are not noted: for a
/// claim that commits while it is open, [`super::intents::claim`] has to follow.
pub(super) fn arrive(
    connection: &Connection,
    scope: &Scope,
    offer: &Record,
) -> Result<Arrived, StoreError> {
    check_offer(offer)?;
    let now = host_now();
    let record = offer.clone().counted_from(now);
    Ok(match insert(connection, scope, &record)? {
        Swap::Written => Arrived::Inserted(Seen { record, now }),
        Swap::Changed(seen) => Arrived::Found(seen),
    })
}

/// The columns of a row but its scope, in the order in which the statements that write all of them take
/// them.
fn columns(row: &Row) -> [&dyn ToSql; 21] {
    [
        &row.fence,
        &row.holder,
        &row.revision,
        &row.keep_until,
        &row.state,
        &row.since,
        &row.request_version,
        &row.request_sha,
        &row.frame_sha,
        &row.principal_sha,
        &row.lease_ends,
        &row.run_ends,
        &row.life,
        &row.reason,
        &row.last_send,
        &row.asked,
        &row.not_found,
        &row.ask_after,
        &row.answer_status,
        &row.answer_headers,
        &row.answer_body,
    ]
}

/// Inserts a row, unless the key has one.
pub(super) fn insert(
    connection: &Connection,
    scope: &Scope,
    record: &Record,
) -> Result<Swap, StoreError> {
    let row = Row::of(record);
    let (org, key) = (scope.org.as_str(), scope.key.as_str());
    let mut values: Vec<&dyn ToSql> = vec![&org, &key];
    values.extend(columns(&row));
    let inserted = connection.prepare_cached(INSERT)?.execute(values.as_slice())?;
    swapped(connection, scope, inserted)
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
    if settles(seen, next) {
        let written = connection.prepare_cached(SETTLE)?.execute(params![
            scope.org.as_str(),
            scope.key.as_str(),
            row.revision,
            row.state,
            row.since,
            row.answer_status,
            row.answer_headers,
            row.answer_body,
            expected.holder,
            expected.fence,
            expected.revision,
        ])?;
        return swapped(connection, scope, written);
    }
    let (org, key) = (scope.org.as_str(), scope.key.as_str());
    let mut values: Vec<&dyn ToSql> = vec![&org, &key];
    values.extend(columns(&row));
    values.extend([&expected.holder as &dyn ToSql, &expected.fence, &expected.revision]);
    let written = connection.prepare_cached(SWAP)?.execute(values.as_slice())?;
    swapped(connection, scope, written)
}

/// Finds free rows, over or not, with their revisions.
pub(super) fn find_free(
    connection: &Connection,
    batch: u32,
) -> Result<Vec<(String, String, i64)>, StoreError> {
    let mut statement = connection.prepare_cached(FREE_FIND)?;
    let rows =
        statement.query_map(params![batch], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Removes finished rows that are still as they were found; says how many those were.
pub(super) fn remove(
    connection: &Connection,
    found: &[(String, String, i64)],
) -> Result<u64, StoreError> {
    let mut delete = connection.prepare_cached(SWEEP_DELETE)?;
    let mut removed: u64 = 0;
    for (org, key, revision) in found {
        let gone = delete.execute(params![org, key, revision])?;
        removed = removed.saturating_add(u64::try_from(gone).unwrap_or(0));
    }
    Ok(removed)
}

fn swapped(connection: &Connection, scope: &Scope, written: usize) -> Result<Swap, StoreError> {
    Ok(if written == 1 { Swap::Written } else { Swap::Changed(load(connection, scope)?) })
}

/// Whether all that changes is that a running record gets its answer.
fn settles(seen: &Record, next: &Record) -> bool {
    let (State::Running(running), State::Done(done)) = (&seen.state, &next.state) else {
        return false;
    };
    running.request == done.request
        && seen.hold() == next.hold()
        && seen.keep_until == next.keep_until
}

/// Runs a statement without parameters and rows, prepared once.
pub(super) fn tell(connection: &Connection, statement: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(statement)?.execute([]).map(|_| ())
}

/// Removes finished rows whose time is over.
pub(super) fn sweep(connection: &Connection, batch: u32) -> Result<SweepPass, StoreError> {
    let batch = batch.clamp(1, SWEEP_BATCH_MAX);
    let find = SWEEP_FIND;
    #[cfg(samekey_bugs)]
    let find = crate::bugs::sweep_find(find);
    let over: Vec<(String, String, i64)> = connection
        .prepare_cached(find)?
        // Found and removed in one transaction, so that the walk always starts at the beginning.
        .query_map(params![host_now().micros(), i64::MIN, "", "", batch], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(3)?))
        })?
        .collect::<Result<_, _>>()?;
    let removed = remove(connection, &over)?;
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
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, read(row, 2)?, row.get(23)?))
    })?;
    rows.map(|row| {
        let (org, key, row, route) = row?;
        Ok(OpenRecord { scope: scope_of(&org, &key)?, route, seen: seen(row, now)? })
    })
    .collect()
}

fn seen(row: Row, now: Time) -> Result<Seen, StoreError> {
    Ok(Seen { record: row.into_record()?, now })
}

pub(super) fn scope_of(org: &str, key: &str) -> Result<Scope, StoreError> {
    match (Org::stored(org), Key::new(key)) {
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
