//! The ledger and the open transactions of a PostgreSQL database.

use super::SAMPLE_ROWS_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::history::{OpenTransaction, SeenRow};
use std::time::Duration;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, NoTls, Row};

/// What our own connections are called, so that none of them is taken for a service's.
const OUR_NAME: &str = "samekey-sim-sampler";

/// A large body lies in a table of its own; the answer is the same wherever it lies.
const ROWS: &str = "
select
  cast(extract(epoch from clock_timestamp()) * 1000000 as bigint) as clock,
  keys.org_id, keys.key, keys.fence, keys.revision, keys.holder, keys.state, keys.answer_status,
  sha256(
    coalesce(keys.answer_headers, ''::bytea) || '\\x00'::bytea
    || coalesce(keys.answer_body, ''::bytea) || coalesce(answers.body, ''::bytea)
  ) as answer_sha,
  cast(extract(epoch from keys.since) * 1000000 as bigint) as since,
  cast(extract(epoch from keys.lease_ends) * 1000000 as bigint) as lease_ends,
  cast(extract(epoch from keys.keep_until) * 1000000 as bigint) as keep_until
from (select) as always
left join samekey.keys as keys on true
left join samekey.answers as answers
  on answers.org_id = keys.org_id
  and answers.key = keys.key
  and answers.answer_day = keys.answer_day
limit $1";

const OPEN_CLAIMS: &str = "select org_id, key from samekey.open_claims";

const TRANSACTIONS: &str = "
select
  pid, coalesce(state, '') as state, left(query, 200) as statement,
  cast(extract(epoch from clock_timestamp() - xact_start) * 1000000 as bigint) as age,
  case
    when state like 'idle in transaction%'
      then cast(extract(epoch from clock_timestamp() - state_change) * 1000000 as bigint)
    else 0
  end as held
from pg_stat_activity
where datname = current_database()
  and backend_type = 'client backend'
  and application_name <> $1
  and xact_start is not null";

const WAITING: &str = "
select count(*) as waiting
from pg_stat_activity
where datname = current_database()
  and application_name <> $1
  and wait_event_type = 'Lock'";

pub(super) async fn rows(url: &str, client: &mut Option<Client>) -> Result<(i64, Vec<SeenRow>)> {
    let limit = i64::try_from(SAMPLE_ROWS_MAX).unwrap_or(i64::MAX).saturating_add(1);
    let found = query(url, client, ROWS, &[&limit]).await?;
    let mut clock = 0;
    let mut rows = Vec::with_capacity(found.len());
    for row in &found {
        clock = get(row, "clock")?;
        // Without keys there is one row, with nothing but the clock.
        let Some(org) = get::<Option<String>>(row, "org_id")? else { continue };
        rows.push(seen(row, org)?);
    }
    Ok((clock, rows))
}

fn seen(row: &Row, org: String) -> Result<SeenRow> {
    let status: Option<i16> = get(row, "answer_status")?;
    let answer_sha: Vec<u8> = get(row, "answer_sha")?;
    Ok(SeenRow {
        org,
        key: get(row, "key")?,
        fence: get(row, "fence")?,
        revision: get(row, "revision")?,
        holder: get(row, "holder")?,
        state: get(row, "state")?,
        status: status.and_then(|status| u16::try_from(status).ok()),
        answer_sha: answer_sha.try_into().unwrap_or_default(),
        since_micros: get(row, "since")?,
        lease_ends_micros: get(row, "lease_ends")?,
        keep_until_micros: get(row, "keep_until")?,
    })
}

pub(super) async fn open_claims(
    url: &str,
    client: &mut Option<Client>,
) -> Result<Vec<(String, String)>> {
    let found = query(url, client, OPEN_CLAIMS, &[]).await?;
    found.iter().map(|row| Ok((get(row, "org_id")?, get(row, "key")?))).collect()
}

pub(super) async fn activity(
    url: &str,
    client: &mut Option<Client>,
) -> Result<(Vec<OpenTransaction>, u64)> {
    let found = query(url, client, TRANSACTIONS, &[&OUR_NAME]).await?;
    let open: Result<Vec<_>> = found.iter().map(transaction).collect();
    let waiting = query(url, client, WAITING, &[&OUR_NAME]).await?;
    let waiting: i64 = waiting.first().map_or(Ok(0), |row| get(row, "waiting"))?;
    Ok((open?, u64::try_from(waiting).unwrap_or(0)))
}

fn transaction(row: &Row) -> Result<OpenTransaction> {
    let span = |column: &str| -> Result<Duration> {
        let micros: i64 = get(row, column)?;
        Ok(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
    };
    Ok(OpenTransaction {
        pid: get(row, "pid")?,
        age: span("age")?,
        held: span("held")?,
        state: get(row, "state")?,
        statement: get(row, "statement")?,
    })
}

/// Runs a query, on a new connection where there is none; a connection that failed is given up.
async fn query(
    url: &str,
    client: &mut Option<Client>,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>> {
    let connected = match client.take().filter(|client| !client.is_closed()) {
        Some(connected) => connected,
        None => connect(url).await?,
    };
    let rows = connected.query(sql, values).await.map_err(refused)?;
    *client = Some(connected);
    Ok(rows)
}

async fn connect(url: &str) -> Result<Client> {
    let mut config: tokio_postgres::Config = url.parse().map_err(refused)?;
    config.application_name(OUR_NAME);
    let (client, connection) = config.connect(NoTls).await.map_err(refused)?;
    tokio::spawn(connection);
    Ok(client)
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, column: &str) -> Result<T> {
    row.try_get(column).map_err(refused)
}

fn refused(cause: tokio_postgres::Error) -> Error {
    let detail = cause.as_db_error().map(ToString::to_string);
    let detail = detail.unwrap_or_else(|| cause.to_string());
    Error::new(ErrorKind::Database, format!("cannot look into the database: {detail}"))
}
