//! The changes of a group.

use super::answers::{self, Days, Placement};
use super::batches::{Change, Scopes, load};
use super::cells::{Arrays, Cell};
use super::connection::Connection;
use super::failure;
use super::group::Results;
use super::sql::{self, Sql};
use super::value::{Day, Moment};
use crate::Swap;
use crate::error::StoreError;
use crate::row::{Row, due_at};
use futures_util::future::join_all;
use samekey_core::key::Scope;
use samekey_core::record::{Record, State};

/// The changes of a group as parameters.
pub(super) struct Swaps<'a> {
    changes: &'a [&'a Change],
    scopes: Scopes<'a>,
    fence: Vec<i64>,
    holder: Vec<Vec<u8>>,
    revision: Vec<i64>,
    columns: Arrays<Moment>,
    days: Vec<Option<Day>>,
    bodies: Vec<Option<Vec<u8>>>,
    due: Vec<Option<Moment>>,
    closes: Vec<bool>,
    outdated: Vec<(&'a Scope, Day)>,
    /// Whether in all of them an owner settles its claim: then few columns change.
    only_settles: bool,
}

impl<'a> Swaps<'a> {
    /// The changes have to be in the order of their scopes.
    pub(super) fn of(changes: &'a [&'a Change], known: &Days) -> Swaps<'a> {
        let mut swaps = Swaps {
            changes,
            scopes: Scopes::of(changes.iter().map(|change| &change.scope)),
            fence: Vec::with_capacity(changes.len()),
            holder: Vec::with_capacity(changes.len()),
            revision: Vec::with_capacity(changes.len()),
            columns: Arrays::default(),
            days: Vec::with_capacity(changes.len()),
            bodies: Vec::with_capacity(changes.len()),
            due: Vec::with_capacity(changes.len()),
            closes: Vec::with_capacity(changes.len()),
            outdated: Vec::new(),
            only_settles: true,
        };
        for change in changes {
            swaps.push(change, known);
        }
        swaps
    }

    fn push(&mut self, change: &'a Change, known: &Days) {
        let (seen, next) = (&change.seen, &change.next);
        self.fence.push(signed(seen.fence.number()));
        self.holder.push(seen.holder.bytes().to_vec());
        self.revision.push(signed(seen.revision));
        let mut row = Row::of(next);
        let placement = Placement::of(next, &mut row, known);
        if let Some(day) = answers::outdated(seen, &placement) {
            self.outdated.push((&change.scope, day));
        }
        self.only_settles &= settles(seen, next) && placement.day.is_none();
        self.columns.push(row);
        self.days.push(placement.day);
        self.bodies.push(placement.body);
        self.due.push(due_at(next).map(|at| Moment(at.micros())));
        self.closes.push(seen.is_open() && !next.is_open());
    }

    /// Bodies that no row shows afterwards.
    pub(super) fn outdated(&self) -> &[(&'a Scope, Day)] {
        &self.outdated
    }

    /// The statement that compares and sets them; none where there are none. It is one for all
    /// of them, so that the rows are locked in the order of their keys.
    pub(super) fn statement(&self) -> Option<&'static Sql> {
        let statement = if self.only_settles { &sql::SETTLE_GROUP } else { &sql::SWAP_GROUP };
        (!self.changes.is_empty()).then_some(statement)
    }

    /// Its parameters.
    pub(super) fn parameters(&self) -> Vec<Cell<'_>> {
        let mut parameters: Vec<Cell<'_>> =
            vec![&self.scopes.orgs, &self.scopes.keys, &self.fence, &self.holder, &self.revision];
        if self.only_settles {
            parameters.extend(self.columns.settled());
        } else {
            parameters.extend(self.columns.all());
            let last: [Cell<'_>; 4] = [&self.days, &self.bodies, &self.due, &self.closes];
            parameters.extend(last);
        }
        parameters
    }

    /// What came of each change, after the commit.
    pub(super) async fn swapped(
        &self,
        connection: &Connection,
        rows: &[tokio_postgres::Row],
    ) -> Result<Results<Swap>, StoreError> {
        let mut written = vec![false; self.changes.len()];
        for row in rows {
            *written.get_mut(place(row)?).ok_or_else(failure::missing)? = true;
        }
        let changed = self.changes.iter().zip(&written).filter(|(_, written)| !**written);
        let loads = changed.map(|(change, _)| load(connection, &change.scope));
        let mut loaded = join_all(loads).await.into_iter();
        let mut swaps = Vec::with_capacity(written.len());
        for written in written {
            swaps.push(if written {
                Ok(Swap::Written)
            } else {
                loaded.next().ok_or_else(failure::missing)?.map(Swap::Changed)
            });
        }
        Ok(swaps)
    }
}

/// Whether an owner settles its own claim, so that only the columns of the answer change, and
/// those of the lease become empty.
fn settles(seen: &Record, next: &Record) -> bool {
    matches!((&seen.state, &next.state), (State::Running(_), State::Done(_)))
        && seen.hold() == next.hold()
        && seen.request() == next.request()
}

fn place(row: &tokio_postgres::Row) -> Result<usize, StoreError> {
    // The database counts from 1.
    let place: i64 = row.try_get(0).map_err(|_| failure::column())?;
    usize::try_from(place.saturating_sub(1)).map_err(|_| failure::missing())
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
