//! Reads that are no replay: what recovery, operators and a starting process ask for.

use super::cells::{self, Cell};
use super::connection::Connection;
use super::failure;
use super::sql::{self, Sql};
use super::value::Moment;
use super::{Core, answers};
use crate::error::{Kind, StoreError};
use crate::{Decided, Intent, LIST_PAGE_MAX, OpenCount, OpenRecord, OutboundKey};
use bytes::Bytes;
use samekey_core::key::{Key, Org, Scope};
use samekey_core::lease::Fence;
use samekey_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

/// Runs one statement on a connection of its own.
async fn rows(
    core: &Core,
    sql: &'static Sql,
    parameters: &[Cell<'_>],
) -> Result<Vec<Row>, StoreError> {
    let connection = core.connection().await?;
    let rows = connection.read(sql, parameters).await?;
    connection.release();
    Ok(rows)
}

fn get<T: FromSqlOwned>(row: &Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|_| failure::column())
}

fn org(text: &str) -> Result<Org, StoreError> {
    Org::stored(text).map_err(|_| damaged("org_id"))
}

fn key(text: &str) -> Result<Key, StoreError> {
    Key::new(text).map_err(|_| damaged("key"))
}

pub(super) async fn intent(core: &Core, scope: &Scope) -> Result<Option<Intent>, StoreError> {
    let rows = rows(core, &sql::INTENT, &[&scope.org.as_str(), &scope.key.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    // What was claimed before intents were kept has none.
    let Some(outbound_key) = get::<Option<Vec<u8>>>(row, 1)? else { return Ok(None) };
    let bits = outbound_key.try_into().map_err(|_| damaged("outbound_key"))?;
    Ok(Some(Intent {
        route: get(row, 0)?,
        outbound_key: OutboundKey::from_bytes(bits),
        request: get::<Option<Vec<u8>>>(row, 2)?.map(Bytes::from),
    }))
}

pub(super) async fn decisions(core: &Core, scope: &Scope) -> Result<Vec<Decided>, StoreError> {
    let limit = i64::from(LIST_PAGE_MAX);
    let parameters: [Cell<'_>; 3] = [&scope.org.as_str(), &scope.key.as_str(), &limit];
    let rows = rows(core, &sql::DECISIONS, &parameters).await?;
    rows.iter()
        .map(|row| {
            let seen: i64 = get(row, 1)?;
            Ok(Decided {
                at: Time::from_micros(get::<Moment>(row, 0)?.0),
                seen: Fence::new(u64::try_from(seen).map_err(|_| damaged("seen_fence"))?),
                decision: get(row, 2)?,
                person: get(row, 3)?,
                note: get(row, 4)?,
                evidence: get(row, 5)?,
            })
        })
        .collect()
}

pub(super) async fn orgs_with_open(
    core: &Core,
    route: &str,
    after: Option<&Org>,
    limit: u32,
) -> Result<Vec<Org>, StoreError> {
    // No organisation is empty, so this is before all of them.
    let after = after.map_or("", Org::as_str);
    let limit = i64::from(limit.min(LIST_PAGE_MAX));
    let rows = rows(core, &sql::ORGS_WITH_OPEN, &[&route, &after, &limit]).await?;
    rows.iter().map(|row| org(&get::<String>(row, 0)?)).collect()
}

pub(super) async fn due(
    core: &Core,
    route: &str,
    org: &Org,
    limit: u32,
) -> Result<Vec<Key>, StoreError> {
    let limit = i64::from(limit.min(LIST_PAGE_MAX));
    let rows = rows(core, &sql::DUE, &[&org.as_str(), &route, &limit]).await?;
    rows.iter().map(|row| key(&get::<String>(row, 0)?)).collect()
}

pub(super) async fn count_open(core: &Core) -> Result<Vec<OpenCount>, StoreError> {
    let rows = rows(core, &sql::COUNT_OPEN, &[]).await?;
    rows.iter()
        .map(|row| {
            let count: i64 = get(row, 2)?;
            Ok(OpenCount {
                route: get(row, 0)?,
                state: get(row, 1)?,
                count: u64::try_from(count).unwrap_or(0),
            })
        })
        .collect()
}

pub(super) async fn shared(core: &Core, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let rows = rows(core, &sql::SHARED, &[&name]).await?;
    rows.first().map(|row| get(row, 0)).transpose()
}

pub(super) async fn list_open(
    core: &Core,
    after: Option<&Scope>,
    limit: u32,
) -> Result<Vec<OpenRecord>, StoreError> {
    let connection = core.connection().await?;
    // As above: before all of them.
    let (org, key) = after.map_or(("", ""), |scope| (scope.org.as_str(), scope.key.as_str()));
    let limit = i64::from(limit.min(LIST_PAGE_MAX));
    let rows = connection.read(&sql::LIST_OPEN, &[&org, &key, &limit]).await?;
    let mut open = Vec::with_capacity(rows.len());
    for row in &rows {
        open.extend(open_record(&connection, row).await?);
    }
    connection.release();
    Ok(open)
}

/// The record of a listed row; nothing where it was finished and its body removed in between.
async fn open_record(connection: &Connection, row: &Row) -> Result<Option<OpenRecord>, StoreError> {
    let scope = Scope { org: org(&get::<String>(row, 0)?)?, key: key(&get::<String>(row, 1)?)? };
    let found = cells::found(row, 2)?;
    let seen = answers::complete(connection, &scope, found).await?;
    let route = get(row, 25)?;
    Ok(seen.filter(|seen| seen.record.is_open()).map(|seen| OpenRecord { scope, route, seen }))
}

fn damaged(column: &'static str) -> StoreError {
    StoreError::new(
        Kind::Damaged,
        format!(
            "a row of the ledger cannot be read: column {column} holds nothing that this version knows; it was changed by hand"
        ),
    )
}
