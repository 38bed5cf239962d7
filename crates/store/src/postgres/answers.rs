//! Where the bodies of large answers lie.
//!
//! A body of up to [`INLINE_BODY_BYTES_MAX`] stands in the row of its key, as does every body of a
//! record that is not finished. A larger one lies in the table `samekey.answers`, in the partition
//! of the day on which the key's retention ends, and the row's column `answer_day` says so. When
//! that day is over and its keys are swept, the partition is dropped, which costs next to nothing.
//!
//! No write depends on a partition that may not be there: a body goes to a partition only when this
//! process has seen it, and stands in the row otherwise. Partitions are made ahead by the sweep, by
//! a role that may do so.

use super::cells::Found;
use super::connection::Connection;
use super::failure::{self, Phase};
use super::sql;
use super::value::Day;
use crate::Seen;
use crate::error::{Kind, StoreError};
use crate::row::Row;
use samekey_core::key::Scope;
use samekey_core::receipt::Receipt;
use samekey_core::record::{Record, State};
use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

/// The largest body in bytes that stands in its key's row. Beyond about this size the server moves
/// a value out of its row anyhow.
pub const INLINE_BODY_BYTES_MAX: usize = 2_048;

/// How often a row is loaded anew when its body was removed between two looks.
pub(super) const FETCHES_MAX: usize = 3;

/// The days whose partitions this process has seen, and the day on which it looked after them.
#[derive(Default)]
pub(crate) struct Days(RwLock<Known>);

#[derive(Default)]
struct Known {
    days: BTreeSet<Day>,
    tended: Option<Day>,
}

impl Days {
    pub(super) fn set(&self, days: BTreeSet<Day>, tended: Option<Day>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known { days, tended };
    }

    pub(super) fn contains(&self, day: Day) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).days.contains(&day)
    }

    /// Whether nobody has looked after the partitions today.
    pub(super) fn is_stale(&self, today: Day) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).tended != Some(today)
    }
}

/// What of a record's next row goes to the partition of a day.
#[derive(Default)]
pub(crate) struct Placement {
    pub(crate) day: Option<Day>,
    pub(crate) body: Option<Vec<u8>>,
}

impl Placement {
    /// Decides where the body lies, and takes it out of the row if that is elsewhere.
    pub(crate) fn of(record: &Record, row: &mut Row, days: &Days) -> Placement {
        match large_day(record) {
            Some(day) if days.contains(day) => {
                Placement { day: Some(day), body: row.answer_body.take() }
            }
            Some(_) | None => Placement::default(),
        }
    }
}

/// The day to which a record's body belongs, if it is finished and large.
fn large_day(record: &Record) -> Option<Day> {
    let State::Done(done) = &record.state else { return None };
    match &done.receipt {
        Receipt::Kept(answer) if answer.body.len() > INLINE_BODY_BYTES_MAX => {
            Some(Day::of_micros(record.keep_until.micros()))
        }
        Receipt::Kept(_) | Receipt::Fact { .. } => None,
    }
}

/// The day in which a body may lie that the next row no longer shows.
pub(super) fn outdated(seen: &Record, next: &Placement) -> Option<Day> {
    large_day(seen).filter(|day| next.day != Some(*day))
}

/// Removes such a body.
pub(super) async fn remove(
    connection: &Connection,
    scope: &Scope,
    day: Day,
) -> Result<(), tokio_postgres::Error> {
    let parameters: [super::cells::Cell<'_>; 3] = [&scope.org.as_str(), &scope.key.as_str(), &day];
    // Planned anew, so that only the partition of this day is looked at and locked.
    connection.run_once(&sql::ANSWER_DELETE, &parameters).await.map(|_| ())
}

/// The record of a row with its body; nothing where the body was removed in between.
pub(super) async fn complete(
    connection: &Connection,
    scope: &Scope,
    found: Found,
) -> Result<Option<Seen>, StoreError> {
    let (mut row, answer_day, now) = match found {
        Found::Nothing(now) => return Ok(Some(Seen { record: Record::ABSENT, now })),
        Found::Row { row, answer_day, now } => (row, answer_day, now),
    };
    if let Some(day) = answer_day {
        let parameters: [super::cells::Cell<'_>; 3] =
            [&scope.org.as_str(), &scope.key.as_str(), &day];
        let rows = connection.run_once(&sql::ANSWER_LOAD, &parameters).await;
        let rows = rows.map_err(|error| failure::statement(&error, Phase::BeforeCommit))?;
        let Some(body) = rows.first() else { return Ok(None) };
        row.answer_body = Some(body.try_get(0).map_err(|_| failure::column())?);
    }
    Ok(Some(Seen { record: row.into_record()?, now }))
}

/// A row shows a body that is nowhere.
pub(super) fn gone() -> StoreError {
    StoreError::new(
        Kind::Damaged,
        "the body of a stored answer is missing from its partition; find out who removed it before its keys were swept",
    )
}
