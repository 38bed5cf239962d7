//! A record as arguments of a statement, and a row of a result as a record, for sqlx.

use super::value::{Day, Moment, Span};
use crate::error::StoreError;
use crate::row::Row;
use crate::sqlstate;
use samekey_core::time::Time;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Decode, Encode, Postgres, Row as _, Type};

/// A statement with its arguments so far.
pub(super) type Bound = Query<'static, Postgres, PgArguments>;

/// How a number of microseconds goes to the database.
pub(super) trait Micros:
    Type<Postgres> + Encode<'static, Postgres> + Send + 'static
{
    fn from_micros(micros: i64) -> Self;
}

impl Micros for Moment {
    fn from_micros(micros: i64) -> Moment {
        Moment(micros)
    }
}

impl Micros for Span {
    fn from_micros(micros: i64) -> Span {
        Span(micros)
    }
}

/// Binds all columns of the row, in their order.
pub(super) fn all<T: Micros>(query: Bound, row: Row) -> Bound {
    let query = query.bind(row.fence).bind(row.holder).bind(row.revision);
    let query = query.bind(T::from_micros(row.keep_until)).bind(row.state);
    let query = query.bind(row.since.map(T::from_micros)).bind(row.request_version);
    let query = query.bind(row.request_sha).bind(row.frame_sha).bind(row.principal_sha);
    let query = query.bind(row.lease_ends.map(T::from_micros));
    let query = query.bind(row.run_ends.map(T::from_micros));
    let query = query.bind(row.life).bind(row.reason).bind(row.last_send.map(T::from_micros));
    let query = query.bind(row.asked).bind(row.not_found);
    let query = query.bind(row.ask_after.map(T::from_micros));
    query.bind(row.answer_status).bind(row.answer_headers).bind(row.answer_body)
}

/// Binds what a compare-and-set compares.
pub(super) fn compared(query: Bound, row: Row) -> Bound {
    query.bind(row.fence).bind(row.holder).bind(row.revision)
}

/// Binds what changes when an owner settles its own claim.
pub(super) fn settled(query: Bound, row: Row) -> Bound {
    let query = query.bind(row.revision).bind(Moment(row.keep_until)).bind(row.state);
    let query = query.bind(row.since.map(Moment)).bind(row.request_version);
    let query = query.bind(row.request_sha).bind(row.frame_sha).bind(row.principal_sha);
    query.bind(row.answer_status).bind(row.answer_headers).bind(row.answer_body)
}

/// What a row of a result says about a key.
pub(super) enum Found {
    /// There is no row, at this moment.
    Nothing(Time),
    /// There is this row, and its body may lie elsewhere.
    Row { row: Box<Row>, answer_day: Option<Day>, now: Time },
}

/// Reads the columns `seen_at, fence, …`.
pub(super) fn found(result: &PgRow) -> Result<Found, StoreError> {
    let now = Time::from_micros(get::<Moment>(result, 0)?.0);
    let Some(fence) = get(result, 1)? else { return Ok(Found::Nothing(now)) };
    let row = Row {
        fence,
        holder: get(result, 2)?,
        revision: get(result, 3)?,
        keep_until: get::<Moment>(result, 4)?.0,
        state: get(result, 5)?,
        since: micros(result, 6)?,
        request_version: get(result, 7)?,
        request_sha: get(result, 8)?,
        frame_sha: get(result, 9)?,
        principal_sha: get(result, 10)?,
        lease_ends: micros(result, 11)?,
        run_ends: micros(result, 12)?,
        life: get(result, 13)?,
        reason: get(result, 14)?,
        last_send: micros(result, 15)?,
        asked: get(result, 16)?,
        not_found: get(result, 17)?,
        ask_after: micros(result, 18)?,
        answer_status: get(result, 19)?,
        answer_headers: get(result, 20)?,
        answer_body: get(result, 21)?,
    };
    Ok(Found::Row { row: Box::new(row), answer_day: get(result, 22)?, now })
}

/// Reads a column.
pub(super) fn get<'r, T>(result: &'r PgRow, column: usize) -> Result<T, StoreError>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    result.try_get(column).map_err(|_| sqlstate::column())
}

fn micros(result: &PgRow, column: usize) -> Result<Option<i64>, StoreError> {
    Ok(get::<Option<Moment>>(result, column)?.map(|moment| moment.0))
}
