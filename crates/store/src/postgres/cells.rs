//! A record as parameters of a statement, one or many at once, and a row of a result as a record.
//!
//! Parameters and results have the columns of [`Row`] in one order everywhere.

use super::failure;
use super::value::{Day, Moment, Span};
use crate::Seen;
use crate::error::StoreError;
use crate::row::{DONE, Row};
use samekey_core::record::Record;
use samekey_core::time::Time;
use tokio_postgres::types::{FromSqlOwned, ToSql};

/// A reference to a parameter, as the driver takes it.
pub(crate) type Cell<'a> = &'a (dyn ToSql + Sync);

/// How a number of microseconds goes to the database: as a moment, or as a span that the database
/// adds to its own now.
pub(crate) trait Micros: ToSql + Sync + Send {
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

/// One record as parameters.
pub(crate) struct Cells<T> {
    row: Row,
    keep_until: T,
    since: Option<T>,
    lease_ends: Option<T>,
    run_ends: Option<T>,
    last_send: Option<T>,
    ask_after: Option<T>,
}

impl<T: Micros> Cells<T> {
    pub(crate) fn of(row: Row) -> Cells<T> {
        Cells {
            keep_until: T::from_micros(row.keep_until),
            since: row.since.map(T::from_micros),
            lease_ends: row.lease_ends.map(T::from_micros),
            run_ends: row.run_ends.map(T::from_micros),
            last_send: row.last_send.map(T::from_micros),
            ask_after: row.ask_after.map(T::from_micros),
            row,
        }
    }

    /// All columns of the row.
    pub(crate) fn all(&self) -> [Cell<'_>; 21] {
        [
            &self.row.fence,
            &self.row.holder,
            &self.row.revision,
            &self.keep_until,
            &self.row.state,
            &self.since,
            &self.row.request_version,
            &self.row.request_sha,
            &self.row.frame_sha,
            &self.row.principal_sha,
            &self.lease_ends,
            &self.run_ends,
            &self.row.life,
            &self.row.reason,
            &self.last_send,
            &self.row.asked,
            &self.row.not_found,
            &self.ask_after,
            &self.row.answer_status,
            &self.row.answer_headers,
            &self.row.answer_body,
        ]
    }

    /// The columns that change when an owner settles its own claim.
    pub(crate) fn settled(&self) -> [Cell<'_>; 11] {
        [
            &self.row.revision,
            &self.keep_until,
            &self.row.state,
            &self.since,
            &self.row.request_version,
            &self.row.request_sha,
            &self.row.frame_sha,
            &self.row.principal_sha,
            &self.row.answer_status,
            &self.row.answer_headers,
            &self.row.answer_body,
        ]
    }

    /// The columns of a hold.
    pub(crate) fn held(&self) -> [Cell<'_>; 2] {
        [&self.row.fence, &self.row.holder]
    }

    /// The columns that a compare-and-set compares.
    pub(crate) fn compared(&self) -> [Cell<'_>; 3] {
        [&self.row.fence, &self.row.holder, &self.row.revision]
    }
}

/// Many records as parameters: an array for each column.
#[derive(Default)]
pub(crate) struct Arrays<T> {
    fence: Vec<i64>,
    holder: Vec<Vec<u8>>,
    revision: Vec<i64>,
    keep_until: Vec<T>,
    state: Vec<String>,
    since: Vec<Option<T>>,
    request_version: Vec<Option<i16>>,
    request_sha: Vec<Option<Vec<u8>>>,
    frame_sha: Vec<Option<Vec<u8>>>,
    principal_sha: Vec<Option<Vec<u8>>>,
    lease_ends: Vec<Option<T>>,
    run_ends: Vec<Option<T>>,
    life: Vec<Option<i64>>,
    reason: Vec<Option<String>>,
    last_send: Vec<Option<T>>,
    asked: Vec<Option<i32>>,
    not_found: Vec<Option<i32>>,
    ask_after: Vec<Option<T>>,
    answer_status: Vec<Option<i16>>,
    answer_headers: Vec<Option<Vec<u8>>>,
    answer_body: Vec<Option<Vec<u8>>>,
}

impl<T: Micros + Default> Arrays<T> {
    pub(crate) fn push(&mut self, row: Row) {
        self.fence.push(row.fence);
        self.holder.push(row.holder);
        self.revision.push(row.revision);
        self.keep_until.push(T::from_micros(row.keep_until));
        self.state.push(row.state);
        self.since.push(row.since.map(T::from_micros));
        self.request_version.push(row.request_version);
        self.request_sha.push(row.request_sha);
        self.frame_sha.push(row.frame_sha);
        self.principal_sha.push(row.principal_sha);
        self.lease_ends.push(row.lease_ends.map(T::from_micros));
        self.run_ends.push(row.run_ends.map(T::from_micros));
        self.life.push(row.life);
        self.reason.push(row.reason);
        self.last_send.push(row.last_send.map(T::from_micros));
        self.asked.push(row.asked);
        self.not_found.push(row.not_found);
        self.ask_after.push(row.ask_after.map(T::from_micros));
        self.answer_status.push(row.answer_status);
        self.answer_headers.push(row.answer_headers);
        self.answer_body.push(row.answer_body);
    }

    pub(crate) fn all(&self) -> [Cell<'_>; 21] {
        [
            &self.fence,
            &self.holder,
            &self.revision,
            &self.keep_until,
            &self.state,
            &self.since,
            &self.request_version,
            &self.request_sha,
            &self.frame_sha,
            &self.principal_sha,
            &self.lease_ends,
            &self.run_ends,
            &self.life,
            &self.reason,
            &self.last_send,
            &self.asked,
            &self.not_found,
            &self.ask_after,
            &self.answer_status,
            &self.answer_headers,
            &self.answer_body,
        ]
    }
    /// The columns that a claim has.
    pub(crate) fn claimed(&self) -> [Cell<'_>; 12] {
        [
            &self.fence,
            &self.holder,
            &self.revision,
            &self.keep_until,
            &self.state,
            &self.since,
            &self.request_version,
            &self.request_sha,
            &self.frame_sha,
            &self.principal_sha,
            &self.lease_ends,
            &self.run_ends,
        ]
    }

    /// The columns that change when an owner settles its own claim, but those that become empty.
    pub(crate) fn settled(&self) -> [Cell<'_>; 7] {
        [
            &self.revision,
            &self.keep_until,
            &self.state,
            &self.since,
            &self.answer_status,
            &self.answer_headers,
            &self.answer_body,
        ]
    }
}

/// What a row of a result says about a key. A large body is still to be fetched.
pub(crate) enum Found {
    /// There is no row, at this moment.
    Nothing(Time),
    /// There is this row.
    Row {
        /// The columns.
        row: Box<Row>,
        /// Where the body lies, when it is not in the row.
        answer_day: Option<Day>,
        /// The database's clock.
        now: Time,
    },
}

/// Reads the columns `seen_at, fence, …` that begin at `first`.
pub(crate) fn found(result: &tokio_postgres::Row, first: usize) -> Result<Found, StoreError> {
    let reader = Reader { result, first };
    let now = Time::from_micros(reader.get::<Moment>(0)?.0);
    let Some(fence) = reader.get::<Option<i64>>(1)? else { return Ok(Found::Nothing(now)) };
    let row = Row {
        fence,
        holder: reader.get(2)?,
        revision: reader.get(3)?,
        keep_until: reader.get::<Moment>(4)?.0,
        state: reader.get(5)?,
        since: reader.micros(6)?,
        request_version: reader.get(7)?,
        request_sha: reader.get(8)?,
        frame_sha: reader.get(9)?,
        principal_sha: reader.get(10)?,
        lease_ends: reader.micros(11)?,
        run_ends: reader.micros(12)?,
        life: reader.get(13)?,
        reason: reader.get(14)?,
        last_send: reader.micros(15)?,
        asked: reader.get(16)?,
        not_found: reader.get(17)?,
        ask_after: reader.micros(18)?,
        answer_status: reader.get(19)?,
        answer_headers: reader.get(20)?,
        answer_body: reader.get(21)?,
    };
    Ok(Found::Row { row: Box::new(row), answer_day: reader.get(22)?, now })
}

/// Reads the columns of `replay.sql`.
pub(crate) fn replayed(result: &tokio_postgres::Row) -> Result<Found, StoreError> {
    let reader = Reader { result, first: 0 };
    let row = Row {
        fence: reader.get(1)?,
        holder: reader.get(2)?,
        revision: reader.get(3)?,
        keep_until: reader.get::<Moment>(4)?.0,
        state: DONE.to_owned(),
        since: reader.micros(5)?,
        request_version: reader.get(6)?,
        request_sha: reader.get(7)?,
        frame_sha: reader.get(8)?,
        principal_sha: reader.get(9)?,
        answer_status: reader.get(10)?,
        answer_headers: reader.get(11)?,
        answer_body: reader.get(12)?,
        ..Row::default()
    };
    let now = Time::from_micros(reader.get::<Moment>(0)?.0);
    Ok(Found::Row { row: Box::new(row), answer_day: reader.get(13)?, now })
}

struct Reader<'a> {
    result: &'a tokio_postgres::Row,
    first: usize,
}

impl Reader<'_> {
    fn get<T: FromSqlOwned>(&self, column: usize) -> Result<T, StoreError> {
        self.result.try_get(self.first.saturating_add(column)).map_err(|_| failure::column())
    }

    fn micros(&self, column: usize) -> Result<Option<i64>, StoreError> {
        Ok(self.get::<Option<Moment>>(column)?.map(|moment| moment.0))
    }
}

/// The record of an offer that was inserted at `now`.
pub(crate) fn inserted(offer: &Record, now: Time) -> Seen {
    Seen { record: offer.clone().counted_from(now), now }
}
