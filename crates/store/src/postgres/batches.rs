//! The two kinds of groups: offers and swaps. Each is one transaction that is sent in one go:
//! begin with a short lock timeout, one statement over arrays, commit.

use super::answers::{self, Placement};
use super::cells::{self, Arrays, Cell, Found};
use super::connection::{ANSWER_TIME_MAX, Connection, Ready, within};
use super::failure::{self, Phase};
use super::group::{Batch, Results};
use super::intents::Intents;
use super::value::{Day, Moment, Span};
use super::{Core, sql};
use crate::error::StoreError;
use crate::row::{Row, due_at};
use crate::{Arrived, Intent, Seen, Swap};
use futures_util::future::{join_all, join4};
use samekey_core::key::Scope;
use samekey_core::record::Record;
use std::sync::Arc;

/// How a group begins. Its plan is made once and kept: for arrays the server would else plan anew
/// every time, which costs about as much as a group of thirty. It may be made while the table is still
/// empty; so it is held to the index from the start, whatever the server thinks of the table then. The lock
/// timeout is long enough for another group's commit, and short enough that one open atomic key
/// delays the others by next to nothing.
const BEGIN: &str = "begin isolation level read committed read write; \
                     set local lock_timeout = '25ms'; \
                     set local plan_cache_mode = force_generic_plan; \
                     set local enable_seqscan = off; \
                     set local enable_hashjoin = off; \
                     set local enable_mergejoin = off";

/// Inserts or loads.
pub(super) struct Offers(pub(super) Arc<Core>);

/// Compares and sets.
pub(super) struct Swaps(pub(super) Arc<Core>);

pub(super) struct Offer {
    pub(super) scope: Scope,
    pub(super) record: Record,
    pub(super) intent: Intent,
}

pub(super) struct Change {
    pub(super) scope: Scope,
    pub(super) seen: Record,
    pub(super) next: Record,
}

impl Batch for Offers {
    type Entry = Offer;
    type Answer = Arrived;

    fn scope(entry: &Offer) -> &Scope {
        &entry.scope
    }

    async fn together(&self, entries: &[Offer]) -> Result<Results<Arrived>, StoreError> {
        let connection = self.0.connection().await?;
        let ready = connection.ready(&sql::CLAIM_GROUP).await?;
        let scopes = Scopes::of(entries.iter().map(|entry| &entry.scope));
        let mut columns: Arrays<Span> = Arrays::default();
        let mut intents = Intents::default();
        for entry in entries {
            columns.push(Row::of(&entry.record));
            intents.push(&entry.record, &entry.intent);
        }
        let mut parameters: Vec<Cell<'_>> = vec![&scopes.orgs, &scopes.keys];
        parameters.extend(columns.all());
        parameters.extend(intents.all());
        let rows = commit(&connection, &ready, &parameters, &[]).await?;

        let mut answers: Vec<Option<Result<Arrived, StoreError>>> = Vec::new();
        answers.resize_with(entries.len(), || None);
        for row in &rows {
            let place = scopes.place(row)?;
            let (Some(slot), Some(entry)) = (answers.get_mut(place), entries.get(place)) else {
                return Err(failure::missing());
            };
            *slot = match cells::found(row, 2)? {
                Found::Inserted(now) => {
                    Some(Ok(Arrived::Inserted(cells::inserted(&entry.record, now))))
                }
                // The row was committed by another transaction after our snapshot was taken.
                Found::Nothing(_) => None,
                found @ Found::Row { .. } => {
                    let seen = answers::complete(&connection, &entry.scope, found).await;
                    seen.transpose().map(|seen| seen.map(Arrived::Found))
                }
            };
        }
        let missing = entries.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
        let loads = missing.map(|(entry, _)| load(&connection, &entry.scope));
        let mut loaded = join_all(loads).await.into_iter();
        let mut arrived = Vec::with_capacity(entries.len());
        for answer in answers {
            arrived.push(match answer {
                Some(answer) => answer,
                // It may have been swept since; then the caller sees a key that is free, and comes
                // again with its offer.
                None => loaded.next().ok_or_else(failure::missing)?.map(Arrived::Found),
            });
        }
        connection.release();
        Ok(arrived)
    }
}

impl Batch for Swaps {
    type Entry = Change;
    type Answer = Swap;

    fn scope(entry: &Change) -> &Scope {
        &entry.scope
    }

    async fn together(&self, entries: &[Change]) -> Result<Results<Swap>, StoreError> {
        let connection = self.0.connection().await?;
        let ready = connection.ready(&sql::SWAP_GROUP).await?;
        let scopes = Scopes::of(entries.iter().map(|entry| &entry.scope));
        let mut compared: Compared = Compared::default();
        let mut columns: Arrays<Moment> = Arrays::default();
        let (mut days, mut bodies) = (Vec::new(), Vec::new());
        let (mut due, mut closes) = (Vec::new(), Vec::new());
        let mut outdated = Vec::new();
        for entry in entries {
            compared.push(Row::of(&entry.seen));
            let mut row = Row::of(&entry.next);
            let placement = Placement::of(&entry.next, &mut row, &self.0.days);
            if let Some(day) = answers::outdated(&entry.seen, &placement) {
                outdated.push((&entry.scope, day));
            }
            columns.push(row);
            days.push(placement.day);
            bodies.push(placement.body);
            due.push(due_at(&entry.next).map(|at| Moment(at.micros())));
            closes.push(entry.seen.is_open() && !entry.next.is_open());
        }
        let mut parameters: Vec<Cell<'_>> = vec![&scopes.orgs, &scopes.keys];
        parameters.extend(compared.all());
        parameters.extend(columns.all());
        let last: [Cell<'_>; 4] = [&days, &bodies, &due, &closes];
        parameters.extend(last);
        let rows = commit(&connection, &ready, &parameters, &outdated).await?;

        let mut written = vec![false; entries.len()];
        for row in &rows {
            *written.get_mut(place(row)?).ok_or_else(failure::missing)? = true;
        }
        let changed = entries.iter().zip(&written).filter(|(_, written)| !**written);
        let loads = changed.map(|(entry, _)| load(&connection, &entry.scope));
        let mut loaded = join_all(loads).await.into_iter();
        let mut swaps = Vec::with_capacity(entries.len());
        for written in written {
            swaps.push(if written {
                Ok(Swap::Written)
            } else {
                loaded.next().ok_or_else(failure::missing)?.map(Swap::Changed)
            });
        }
        connection.release();
        Ok(swaps)
    }
}

/// Sends begin, the statement, what has to go with it, and commit in one go.
async fn commit(
    connection: &Connection,
    ready: &Ready,
    parameters: &[Cell<'_>],
    outdated: &[(&Scope, Day)],
) -> Result<Vec<tokio_postgres::Row>, StoreError> {
    let removals = outdated.iter().map(|(scope, day)| answers::remove(connection, scope, *day));
    // First polled in this order, they are sent in this order.
    let work = join4(
        connection.batch_execute(BEGIN),
        connection.run(ready, parameters),
        join_all(removals),
        connection.batch_execute("commit"),
    );
    let (begun, rows, removed, committed) = within(ANSWER_TIME_MAX, Phase::Commit, work).await?;
    // What the server refused before the commit was not committed. What was lost on the way may be.
    let refused = |error: &tokio_postgres::Error| {
        let phase = if error.code().is_some() { Phase::BeforeCommit } else { Phase::Commit };
        failure::statement(error, phase)
    };
    begun.map_err(|error| refused(&error))?;
    let rows = rows.map_err(|error| refused(&error))?;
    for removed in removed {
        removed.map_err(|error| refused(&error))?;
    }
    committed.map_err(|error| failure::statement(&error, Phase::Commit))?;
    Ok(rows)
}

/// Loads a key's row as it stands now.
pub(super) async fn load(connection: &Connection, scope: &Scope) -> Result<Seen, StoreError> {
    for _ in 0..answers::FETCHES_MAX {
        let rows = connection.read(&sql::LOAD, &[&scope.org.as_str(), &scope.key.as_str()]).await?;
        let row = rows.first().ok_or_else(failure::missing)?;
        if let Some(seen) = answers::complete(connection, scope, cells::found(row, 0)?).await? {
            return Ok(seen);
        }
    }
    Err(answers::gone())
}

fn place(row: &tokio_postgres::Row) -> Result<usize, StoreError> {
    // The database counts from 1.
    let place: i64 = row.try_get(0).map_err(|_| failure::column())?;
    usize::try_from(place.saturating_sub(1)).map_err(|_| failure::missing())
}

struct Scopes<'a> {
    orgs: Vec<&'a str>,
    keys: Vec<&'a str>,
}

impl<'a> Scopes<'a> {
    /// The place of the entry that a result row, which begins with its scope, belongs to. Groups are
    /// sorted by scope and have every scope once.
    fn place(&self, row: &tokio_postgres::Row) -> Result<usize, StoreError> {
        let org: &str = row.try_get(0).map_err(|_| failure::column())?;
        let key: &str = row.try_get(1).map_err(|_| failure::column())?;
        let first = self.orgs.partition_point(|one| *one < org);
        let end = self.orgs.partition_point(|one| *one <= org);
        let keys = self.keys.get(first..end).unwrap_or_default();
        let place = keys.binary_search(&key).map_err(|_| failure::missing())?;
        Ok(first.saturating_add(place))
    }

    fn of(scopes: impl Iterator<Item = &'a Scope>) -> Scopes<'a> {
        let (orgs, keys) = scopes.map(|scope| (scope.org.as_str(), scope.key.as_str())).unzip();
        Scopes { orgs, keys }
    }
}

#[derive(Default)]
struct Compared {
    fence: Vec<i64>,
    holder: Vec<Vec<u8>>,
    revision: Vec<i64>,
}

impl Compared {
    fn push(&mut self, row: Row) {
        self.fence.push(row.fence);
        self.holder.push(row.holder);
        self.revision.push(row.revision);
    }

    fn all(&self) -> [Cell<'_>; 3] {
        [&self.fence, &self.holder, &self.revision]
    }
}
