//! Enqueuing in a transaction of the caller's, and in one of our own where a command follows another one.

use super::super::Core;
use super::super::cells::Cell;
use super::super::connection::{ANSWER_TIME_MAX, Connection, within};
use super::super::failure::{self, Phase};
use super::super::sql::Sql;
use super::super::value::{Covered, Span};
use super::cells::{Cells, CommandCells, command, get, seen};
use super::{sql, writes};
use crate::error::StoreError;
use crate::outbox::check::{check_command, id_taken, may_follow};
use crate::outbox::row::{DeliveryRow, signed};
use crate::outbox::{Action, Command, Enqueued, SeenDelivery};
use samekey_core::delivery::Delivery;
use std::future::Future;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

/// How often a command is looked at again that changed while it was to be followed. Each time somebody
/// else has got further, so that more than a few are none of ours.
const LOOKS_MAX: u32 = 5;

/// Who runs our statements: a client of the caller's, or a connection of ours.
pub(super) trait Runs: Sync {
    fn rows(
        &self,
        sql: &'static Sql,
        parameters: &[Cell<'_>],
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;
}

/// A client, which may be in a transaction.
struct Theirs<'c, C>(&'c C);

impl<C: GenericClient + Sync> Runs for Theirs<'_, C> {
    async fn rows(
        &self,
        sql: &'static Sql,
        parameters: &[Cell<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let covered: Vec<Covered<'_>> = parameters.iter().map(|one| Covered(*one)).collect();
        let typed: Vec<(Cell<'_>, Type)> =
            covered.iter().map(|one| one as Cell<'_>).zip(sql.types.iter().cloned()).collect();
        let rows = self.0.query_typed(sql.text, &typed).await;
        rows.map_err(|error| failure::statement(&error, Phase::BeforeCommit))
    }
}

impl Runs for Connection {
    async fn rows(
        &self,
        sql: &'static Sql,
        parameters: &[Cell<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        self.read(sql, parameters).await
    }
}

/// Inserts a command in the caller's own transaction, or finds the latest one of its action; see
/// [`Outbox::enqueue`](crate::outbox::Outbox::enqueue). It is one round trip, but where a command follows
/// an earlier one, or where another transaction has just committed the same action.
///
/// Nothing of it stands unless the caller's transaction commits, and then nothing can lose it. Another
/// transaction that enqueues the same action waits until then.
///
/// # Errors
/// [`crate::Kind::Misused`] for a command that the tables do not hold; else what the database says. After an
/// error PostgreSQL has given the transaction up.
pub async fn enqueue<C: GenericClient + Sync>(
    client: &C,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    check_command(command, delivery)?;
    let enqueued = run(&Theirs(client), command, delivery).await;
    crate::crash_point!("outbox.enqueued");
    enqueued
}

/// The same in a transaction of our own.
pub(super) async fn alone(
    core: &Core,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    let connection = core.connection().await?;
    let begin = writes::begin(core, writes::LOCK_WAIT);
    let begun = within(ANSWER_TIME_MAX, Phase::BeforeCommit, connection.batch_execute(&begin));
    begun.await?.map_err(|error| failure::statement(&error, Phase::BeforeCommit))?;
    let enqueued = match run(&connection, command, delivery).await {
        Ok(enqueued) => enqueued,
        Err(error) => {
            connection.roll_back().await;
            return Err(error);
        }
    };
    let commit = within(ANSWER_TIME_MAX, Phase::Commit, connection.batch_execute("commit"));
    commit.await?.map_err(|error| failure::statement(&error, Phase::Commit))?;
    connection.release();
    Ok(enqueued)
}

async fn run<R: Runs>(
    runs: &R,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    if command.generation == 1 {
        return insert(runs, command, delivery).await;
    }
    for _ in 0..LOOKS_MAX {
        match latest(runs, &command.action).await? {
            Some((before, stands)) if may_follow(&before, &stands.delivery, command.generation) => {
                let inserted = if stands.delivery.is_finished() {
                    return insert(runs, command, delivery).await;
                } else {
                    follow(runs, command, delivery, &before, &stands.delivery).await?
                };
                if inserted {
                    return Ok(Enqueued::New);
                }
                // Somebody has written to the one before: what became of it decides.
            }
            Some((before, stands)) => {
                return Ok(Enqueued::Found(Box::new(before), Box::new(stands.delivery)));
            }
            // All before it were swept.
            None => return insert(runs, command, delivery).await,
        }
    }
    Err(failure::came_and_went())
}

/// Inserts it where the action has no later one.
async fn insert<R: Runs>(
    runs: &R,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    let (first, cells) = (CommandCells::of(command), Cells::<Span>::of(DeliveryRow::of(delivery)));
    let mut parameters: Vec<Cell<'_>> = first.all().to_vec();
    parameters.extend(cells.all());
    let rows = runs.rows(&sql::ENQUEUE, &parameters).await?;
    match rows.first() {
        Some(row) if get(row, 1)? => Ok(Enqueued::New),
        Some(row) => {
            let (found_there, stands) = both(row, command)?;
            // It is told by the snapshot from before one of the same generation was waited for.
            if found_there.generation < command.generation {
                return found(runs, command).await;
            }
            Ok(Enqueued::Found(Box::new(found_there), Box::new(stands.delivery)))
        }
        // What stands in the way was committed after our snapshot was taken.
        None => found(runs, command).await,
    }
}

/// Inserts it in place of one that has failed; false where that one was written to.
async fn follow<R: Runs>(
    runs: &R,
    command: &Command,
    delivery: &Delivery,
    before: &Command,
    failed: &Delivery,
) -> Result<bool, StoreError> {
    let (first, cells) = (CommandCells::of(command), Cells::<Span>::of(DeliveryRow::of(delivery)));
    let id = before.id.bytes().to_vec();
    let (fence, revision) = (signed(failed.fence.number()), signed(failed.revision));
    let holder = failed.holder.bytes().to_vec();
    let mut parameters: Vec<Cell<'_>> = first.all().to_vec();
    parameters.extend(cells.all());
    let compared: [Cell<'_>; 4] = [&id, &fence, &holder, &revision];
    parameters.extend(compared);
    let inserted = runs.rows(&sql::ENQUEUE_NEXT, &parameters).await;
    Ok(!inserted.map_err(told)?.is_empty())
}

/// What stands in the way of a command that was not inserted.
pub(super) async fn found<R: Runs>(runs: &R, command: &Command) -> Result<Enqueued, StoreError> {
    match latest(runs, &command.action).await? {
        Some((found, stands)) => Ok(Enqueued::Found(Box::new(found), Box::new(stands.delivery))),
        None => Err(id_taken()),
    }
}

/// The latest command of an action.
pub(super) async fn latest<R: Runs>(
    runs: &R,
    action: &Action,
) -> Result<Option<(Command, SeenDelivery)>, StoreError> {
    let org = action.org.as_str();
    let parameters: [Cell<'_>; 4] =
        [&org, &action.destination, &action.operation, &action.business_ref];
    let rows = runs.rows(&sql::LATEST, &parameters).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some((command(row, 2, &action.org)?, seen(row, 10)?)))
}

fn both(row: &Row, wanted: &Command) -> Result<(Command, SeenDelivery), StoreError> {
    Ok((command(row, 2, &wanted.action.org)?, seen(row, 10)?))
}

/// The row of the one before was held, so that no other successor can be in the way: only the id can.
fn told(error: StoreError) -> StoreError {
    if error.sqlstate() == Some("23505") { id_taken() } else { error }
}
