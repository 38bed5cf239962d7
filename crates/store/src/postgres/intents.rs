//! What is written beside a row: intents and accounts of decisions.
//!
//! A new claim's intent goes with its group. What is rare (a key that is taken again, a decision) is a
//! transaction of two steps: the compare-and-set first, and what lies beside it only where that wrote.

use super::answers::{self, Placement};
use super::cells::{Cell, Cells};
use super::connection::{ANSWER_TIME_MAX, Connection, Ready, within};
use super::failure::{self, Phase};
use super::sql::{self, Sql};
use super::value::{Moment, Span};
use super::{Core, batches};
use crate::error::StoreError;
use crate::row::{Row, due_at};
use crate::{Decided, Intent, Swap};
use futures_util::future::{join, join_all};
use samekey_core::key::Scope;
use samekey_core::record::Record;

/// The intents of a group of offers: an array for each column.
#[derive(Default)]
pub(super) struct Intents<'a> {
    routes: Vec<&'a str>,
    outbound_keys: Vec<Vec<u8>>,
    due: Vec<Option<Span>>,
    requests: Vec<Option<&'a [u8]>>,
}

impl<'a> Intents<'a> {
    pub(super) fn push(&mut self, offer: &Record, intent: &'a Intent) {
        self.routes.push(&intent.route);
        self.outbound_keys.push(intent.outbound_key.bytes().to_vec());
        // The offer's times are counted from the epoch, so that this is a span.
        self.due.push(due_at(offer).map(|at| Span(at.micros())));
        self.requests.push(intent.request.as_deref());
    }

    /// Those of claims, which are due when their lease ends.
    pub(super) fn claimed(&self) -> [Cell<'_>; 3] {
        [&self.routes, &self.outbound_keys, &self.requests]
    }

    pub(super) fn all(&self) -> [Cell<'_>; 4] {
        [&self.routes, &self.outbound_keys, &self.due, &self.requests]
    }
}

/// What is written together with a swap.
#[derive(Clone, Copy)]
pub(super) enum Beside<'a> {
    /// The intent of the record's new life.
    Intent(&'a Intent),
    /// What a person decided.
    Account(&'a Decided),
}

/// A statement with its parameters.
type Told<'a> = (&'static Sql, Vec<Cell<'a>>);

/// Replaces `seen` by `next` if nobody wrote in between, and writes what lies beside it.
pub(super) async fn write(
    core: &Core,
    scope: &Scope,
    seen: &Record,
    next: &Record,
    beside: Beside<'_>,
) -> Result<Swap, StoreError> {
    let connection = core.connection().await?;
    let (org, key) = (scope.org.as_str(), scope.key.as_str());
    let compared: Cells<Moment> = Cells::of(Row::of(seen));
    let mut row = Row::of(next);
    let placement = Placement::of(next, &mut row, &core.days);
    let cells: Cells<Moment> = Cells::of(row);
    let mut swap: Vec<Cell<'_>> = vec![&org, &key];
    swap.extend(compared.compared());
    swap.extend(cells.all());
    swap.push(&placement.day);

    let due = due_at(next).map(|at| Moment(at.micros()));
    let columns = Columns::of(beside);
    let mut follow: Vec<Told<'_>> = columns.told(&org, &key, next, &due);
    if placement.body.is_some() {
        follow.push((&sql::ANSWER_INSERT, vec![&org, &key, &placement.day, &placement.body]));
    }
    let outdated = answers::outdated(seen, &placement);
    if let Some(day) = &outdated {
        follow.push((&sql::ANSWER_DELETE, vec![&org, &key, day]));
    }
    // Made ready before the transaction begins, so that the row is locked for two round trips only.
    let ready = connection.ready(&sql::SWAP).await?;
    let mut readied = Vec::with_capacity(follow.len());
    for (sql, parameters) in follow {
        readied.push((connection.ready(sql).await?, parameters));
    }
    match compare_and_set(core, &connection, &ready, &swap).await {
        Ok(true) => {}
        Ok(false) => {
            let changed = batches::load(&connection, scope).await?;
            connection.roll_back().await;
            return Ok(Swap::Changed(changed));
        }
        Err(error) => {
            // A server that answered, in order, is good for the next one; else the connection closes.
            if error.sqlstate().is_some() {
                connection.roll_back().await;
            }
            return Err(error);
        }
    }
    commit(&connection, &readied).await?;
    connection.release();
    Ok(Swap::Written)
}

/// Opens the transaction and swaps in it; says whether a row was written.
async fn compare_and_set(
    core: &Core,
    connection: &Connection,
    ready: &Ready,
    parameters: &[Cell<'_>],
) -> Result<bool, StoreError> {
    let begin = format!(
        "begin isolation level read committed read write; set local lock_timeout = {}",
        core.options.reclaim_wait.as_millis().clamp(1, 60_000)
    );
    let work = join(connection.batch_execute(&begin), connection.run(ready, parameters));
    let limit = ANSWER_TIME_MAX.saturating_add(core.options.reclaim_wait);
    let (begun, rows) = within(limit, Phase::BeforeCommit, work).await?;
    let before = |error: tokio_postgres::Error| failure::statement(&error, Phase::BeforeCommit);
    begun.map_err(before)?;
    Ok(!rows.map_err(before)?.is_empty())
}

/// Sends what follows and the commit in one go. A commit behind a statement that failed commits
/// nothing.
async fn commit(
    connection: &Connection,
    follow: &[(Ready, Vec<Cell<'_>>)],
) -> Result<(), StoreError> {
    let runs = follow.iter().map(|(ready, parameters)| connection.run(ready, parameters));
    let work = join(join_all(runs), connection.batch_execute("commit"));
    let (written, committed) = within(ANSWER_TIME_MAX, Phase::Commit, work).await?;
    for one in written {
        one.map_err(|error| {
            let phase = if error.code().is_some() { Phase::BeforeCommit } else { Phase::Commit };
            failure::statement(&error, phase)
        })?;
    }
    committed.map_err(|error| failure::statement(&error, Phase::Commit))
}

/// The columns of what lies beside a row.
enum Columns<'a> {
    Intent { route: &'a str, outbound_key: Vec<u8>, request: Option<&'a [u8]> },
    Account { seen_fence: i64, decided: &'a Decided },
}

impl<'a> Columns<'a> {
    fn of(beside: Beside<'a>) -> Columns<'a> {
        match beside {
            Beside::Intent(intent) => Columns::Intent {
                route: &intent.route,
                outbound_key: intent.outbound_key.bytes().to_vec(),
                request: intent.request.as_deref(),
            },
            Beside::Account(decided) => Columns::Account {
                seen_fence: i64::try_from(decided.seen.number()).unwrap_or(i64::MAX),
                decided,
            },
        }
    }

    /// The statements that keep the intent of an open record, or remove that of a finished one, and
    /// add the account.
    fn told<'b>(
        &'b self,
        org: &'b &'b str,
        key: &'b &'b str,
        next: &Record,
        due: &'b Option<Moment>,
    ) -> Vec<Told<'b>> {
        let mut told: Vec<Told<'b>> = Vec::new();
        match self {
            Columns::Intent { route, outbound_key, request } if next.is_open() => {
                told.push((&sql::OPEN_INSERT, vec![org, key, route, outbound_key, due, request]))
            }
            Columns::Account { .. } if next.is_open() => {
                told.push((&sql::OPEN_MOVE, vec![org, key, due]));
            }
            Columns::Intent { .. } | Columns::Account { .. } => {
                told.push((&sql::OPEN_DELETE, vec![org, key]));
            }
        }
        if let Columns::Account { seen_fence, decided } = self {
            let Decided { decision, person, note, evidence, seen: _, at: _ } = *decided;
            told.push((
                &sql::DECISION_INSERT,
                vec![org, key, seen_fence, decision, person, note, evidence],
            ));
        }
        told
    }
}

/// Writes what all processes share, by one of the two statements for it.
pub(super) async fn share(
    core: &Core,
    sql: &'static Sql,
    name: &str,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let connection = core.connection().await?;
    let ready = connection.ready(sql).await?;
    let parameters: [Cell<'_>; 2] = [&name, &bytes];
    // One statement by itself is a transaction of its own.
    within(ANSWER_TIME_MAX, Phase::Commit, connection.run(&ready, &parameters))
        .await?
        .map_err(|error| failure::statement(&error, Phase::Commit))?;
    connection.release();
    Ok(())
}
