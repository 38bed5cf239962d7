//! What lies beside the rows: the intents of open records, what of them is due, and the accounts of
//! decisions. Each statement runs on a connection whose transaction is the caller's matter.

use super::rows::scope_of;
use crate::error::{Kind, StoreError};
use crate::memory::host_now;
use crate::row::due_at;
use crate::{Decided, Intent, LIST_PAGE_MAX, OpenCount, OutboundKey};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::lease::Fence;
use samekey_core::record::Record;
use samekey_core::time::Time;

const OPEN_INSERT: &str = include_str!("../../sql/sqlite/open_insert.sql");
const OPEN_KEEP: &str = include_str!("../../sql/sqlite/open_keep.sql");
const OPEN_MOVE: &str = include_str!("../../sql/sqlite/open_move.sql");
const OPEN_DELETE: &str = include_str!("../../sql/sqlite/open_delete.sql");
const INTENT: &str = include_str!("../../sql/sqlite/intent.sql");
const ORGS_WITH_OPEN: &str = include_str!("../../sql/sqlite/orgs_with_open.sql");
const DUE: &str = include_str!("../../sql/sqlite/due.sql");
const COUNT_OPEN: &str = include_str!("../../sql/sqlite/count_open.sql");
const DECISION_INSERT: &str = include_str!("../../sql/sqlite/decision_insert.sql");
const DECISIONS: &str = include_str!("../../sql/sqlite/decisions.sql");

/// Keeps the intent of a record that was claimed just now, if it is open.
pub(super) fn claim(
    connection: &Connection,
    scope: &Scope,
    record: &Record,
    intent: &Intent,
) -> Result<(), StoreError> {
    if !record.is_open() {
        return follow(connection, scope, record);
    }
    connection.prepare_cached(OPEN_INSERT)?.execute(params![
        scope.org.as_str(),
        scope.key.as_str(),
        intent.route,
        intent.outbound_key.bytes(),
        due_at(record).map(Time::micros),
        intent.request.as_deref(),
    ])?;
    Ok(())
}

/// After a swap: an open record's intent is due when the record says so; a finished record has none.
/// It does not go by what was seen before.
pub(super) fn follow(
    connection: &Connection,
    scope: &Scope,
    record: &Record,
) -> Result<(), StoreError> {
    let (org, key) = (scope.org.as_str(), scope.key.as_str());
    if record.is_open() {
        let due = due_at(record).map(Time::micros);
        connection.prepare_cached(OPEN_MOVE)?.execute(params![org, key, due])?;
    } else {
        connection.prepare_cached(OPEN_DELETE)?.execute(params![org, key])?;
    }
    Ok(())
}

/// As [`follow`], after an atomic command: a record that it leaves open would not be listed without
/// a row here, whoever claimed it.
pub(super) fn keep(
    connection: &Connection,
    scope: &Scope,
    record: &Record,
) -> Result<(), StoreError> {
    if record.is_open() {
        let mut statement = connection.prepare_cached(OPEN_KEEP)?;
        statement.execute(params![scope.org.as_str(), scope.key.as_str()])?;
    }
    follow(connection, scope, record)
}

/// The intent of an open record.
pub(super) fn load(connection: &Connection, scope: &Scope) -> Result<Option<Intent>, StoreError> {
    let row = connection
        .prepare_cached(INTENT)?
        .query_row(params![scope.org.as_str(), scope.key.as_str()], |row| {
            let outbound_key: Option<Vec<u8>> = row.get(1)?;
            let request: Option<Vec<u8>> = row.get(2)?;
            Ok((row.get::<_, String>(0)?, outbound_key, request))
        })
        .optional()?;
    // What was claimed before intents were kept has none.
    let Some((route, Some(outbound_key), request)) = row else { return Ok(None) };
    let bits = outbound_key.try_into().map_err(|_| damaged("outbound_key"))?;
    Ok(Some(Intent {
        route,
        outbound_key: OutboundKey::from_bytes(bits),
        request: request.map(Bytes::from),
    }))
}

/// Organisations with open records of a route.
pub(super) fn orgs(
    connection: &Connection,
    route: &str,
    after: Option<&Org>,
    limit: u32,
) -> Result<Vec<Org>, StoreError> {
    // No org is empty, so that the empty text lies before them all.
    let after = after.map_or("", Org::as_str);
    let mut statement = connection.prepare_cached(ORGS_WITH_OPEN)?;
    let rows = statement.query_map(params![route, after, limit.min(LIST_PAGE_MAX)], |row| {
        row.get::<_, String>(0)
    })?;
    rows.map(|org| Org::stored(&org?).map_err(|_| damaged("org_id"))).collect()
}

/// Keys of a route and organisation that are due, by the host's clock.
pub(super) fn due(
    connection: &Connection,
    route: &str,
    org: &Org,
    limit: u32,
) -> Result<Vec<Key>, StoreError> {
    let mut statement = connection.prepare_cached(DUE)?;
    let limit = limit.min(LIST_PAGE_MAX);
    let rows = statement
        .query_map(params![org.as_str(), route, host_now().micros(), limit], |row| {
            row.get::<_, String>(0)
        })?;
    rows.map(|key| Ok(scope_of(org.as_str(), &key?)?.key)).collect()
}

/// How many records are open.
pub(super) fn count(connection: &Connection) -> Result<Vec<OpenCount>, StoreError> {
    let mut statement = connection.prepare_cached(COUNT_OPEN)?;
    let rows = statement.query_map([], |row| {
        let count: i64 = row.get(2)?;
        let (route, state) = (row.get(0)?, row.get(1)?);
        Ok(OpenCount { route, state, count: u64::try_from(count).unwrap_or(0) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Adds the account of a decision.
pub(super) fn account(
    connection: &Connection,
    scope: &Scope,
    decided: &Decided,
) -> Result<(), StoreError> {
    connection.prepare_cached(DECISION_INSERT)?.execute(params![
        scope.org.as_str(),
        scope.key.as_str(),
        host_now().micros(),
        i64::try_from(decided.seen.number()).unwrap_or(i64::MAX),
        decided.decision,
        decided.person,
        decided.note,
        decided.evidence,
    ])?;
    Ok(())
}

/// The accounts of a key, the oldest first.
pub(super) fn decisions(
    connection: &Connection,
    scope: &Scope,
) -> Result<Vec<Decided>, StoreError> {
    let mut statement = connection.prepare_cached(DECISIONS)?;
    let parameters = params![scope.org.as_str(), scope.key.as_str(), LIST_PAGE_MAX];
    let rows = statement.query_map(parameters, |row| {
        let seen: i64 = row.get(1)?;
        let decided = Decided {
            at: Time::from_micros(row.get(0)?),
            seen: Fence::NONE,
            decision: row.get(2)?,
            person: row.get(3)?,
            note: row.get(4)?,
            evidence: row.get(5)?,
        };
        Ok((seen, decided))
    })?;
    rows.map(|row| {
        let (seen, decided) = row?;
        let seen = u64::try_from(seen).map_err(|_| damaged("seen_fence"))?;
        Ok(Decided { seen: Fence::new(seen), ..decided })
    })
    .collect()
}

fn damaged(column: &'static str) -> StoreError {
    StoreError::new(
        Kind::Damaged,
        format!(
            "a row of the ledger cannot be read: column {column} holds nothing that this version knows; it was changed by hand"
        ),
    )
}
