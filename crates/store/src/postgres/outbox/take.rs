//! Taking what is due: one short transaction of two or three round trips, in the middle of which Rust decides.

use super::super::Core;
use super::super::cells::Cell;
use super::super::connection::{ANSWER_TIME_MAX, Connection, within};
use super::super::failure::{self, Phase};
use super::cells::{command, delivery, get, id, now};
use super::sql;
use super::writes::{Advances, begin};
use crate::error::StoreError;
use crate::outbox::check::check_advance;
use crate::outbox::{Command, CommandId, SeenDelivery, TAKE_MAX, Taken};
use futures_util::future::{join, join3};
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a turn of an order key waits for another worker that is taking one of the same at this moment.
const TURN_WAIT: Duration = Duration::from_millis(500);

/// A row that is due, and locked.
struct Due {
    id: CommandId,
    order_key: Option<String>,
    before: Delivery,
}

pub(super) async fn take<F>(
    core: &Core,
    org: &Org,
    destination: &str,
    limit: u32,
    decide: F,
) -> Result<Vec<Taken>, StoreError>
where
    F: FnMut(Delivery, Time) -> Option<Delivery>,
{
    let connection = core.connection().await?;
    match within_transaction(core, &connection, org, destination, limit, decide).await {
        Ok(taken) => {
            connection.release();
            Ok(taken)
        }
        Err(error) => {
            // A server that answered, in order, is good for the next one; else the connection closes.
            if !error.may_have_committed() {
                connection.roll_back().await;
            }
            Err(error)
        }
    }
}

async fn within_transaction<F>(
    core: &Core,
    connection: &Connection,
    org: &Org,
    destination: &str,
    limit: u32,
    mut decide: F,
) -> Result<Vec<Taken>, StoreError>
where
    F: FnMut(Delivery, Time) -> Option<Delivery>,
{
    let begin = begin(core, TURN_WAIT);
    let find = connection.ready(&sql::TAKE_FIND).await?;
    let advance = connection.ready(&sql::ADVANCE_GROUP).await?;
    let fetch = connection.ready(&sql::TAKE_COMMANDS).await?;
    let name = org.as_str();
    let limit = i64::from(limit.min(TAKE_MAX));
    let parameters: [Cell<'_>; 3] = [&name, &destination, &limit];
    let work = join(connection.batch_execute(&begin), connection.run(&find, &parameters));
    let (begun, rows) = within(ANSWER_TIME_MAX, Phase::BeforeCommit, work).await?;
    begun.map_err(before_commit)?;
    let rows = rows.map_err(before_commit)?;
    let Some(first) = rows.first() else { return end(connection).await };
    let now = now(first)?;
    let mut due = Vec::with_capacity(rows.len());
    for row in &rows {
        let before = delivery(row, 3)?.into_delivery()?;
        due.push(Due { id: id(row, 1)?, order_key: get(row, 2)?, before });
    }
    turns(connection, org, destination, &mut due).await?;
    let mut moves: Vec<(CommandId, Delivery, Delivery)> = Vec::with_capacity(due.len());
    for one in due {
        let Some(next) = decide(one.before.clone(), now) else { continue };
        if next.revision != one.before.revision {
            check_advance(&one.before, &next)?;
            moves.push((one.id, one.before, next));
        }
    }
    if moves.is_empty() {
        return end(connection).await;
    }
    crate::crash_point!("outbox.take-decided");
    let mut advances = Advances::default();
    for (id, before, next) in &moves {
        advances.push_parts(org, *id, before, next, None);
    }
    let ids: Vec<Vec<u8>> = moves.iter().map(|(id, _, _)| id.bytes().to_vec()).collect();
    let parameters = advances.parameters();
    let wanted: [Cell<'_>; 2] = [&name, &ids];
    let work = join3(
        connection.run(&fetch, &wanted),
        connection.run(&advance, &parameters),
        connection.batch_execute("commit"),
    );
    let (fetched, written, committed) = within(ANSWER_TIME_MAX, Phase::Commit, work).await?;
    let refused = |error: tokio_postgres::Error| {
        let phase = if error.code().is_some() { Phase::BeforeCommit } else { Phase::Commit };
        failure::statement(&error, phase)
    };
    let (fetched, written) = (fetched.map_err(refused)?, written.map_err(refused)?);
    committed.map_err(|error| failure::statement(&error, Phase::Commit))?;
    crate::crash_point!("outbox.taken");
    let written = advances.written(&written)?;
    let mut commands: BTreeMap<CommandId, Command> = BTreeMap::new();
    for row in &fetched {
        let command = command(row, 2, org)?;
        commands.insert(command.id, command);
    }
    let mut taken = Vec::with_capacity(moves.len());
    for ((id, before, next), written) in moves.into_iter().zip(written) {
        // The rows were locked, so that nobody can have written to them.
        if !written {
            return Err(failure::missing());
        }
        let command = commands.remove(&id).ok_or_else(failure::missing)?;
        taken.push(Taken { command, before, seen: SeenDelivery { delivery: next, now } });
    }
    Ok(taken)
}

/// Takes the turns of those that have an order key; drops those whose turn it is not.
async fn turns(
    connection: &Connection,
    org: &Org,
    destination: &str,
    due: &mut Vec<Due>,
) -> Result<(), StoreError> {
    let mut wanted: Vec<(&str, Vec<u8>)> = due
        .iter()
        .filter_map(|one| Some((one.order_key.as_deref()?, one.id.bytes().to_vec())))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    // In one order for all workers, so that no two wait for each other.
    wanted.sort_unstable();
    let (order_keys, ids): (Vec<&str>, Vec<Vec<u8>>) = wanted.into_iter().unzip();
    let name = org.as_str();
    let parameters: [Cell<'_>; 4] = [&name, &destination, &order_keys, &ids];
    let rows = connection.read(&sql::TAKE_TURNS, &parameters).await?;
    let own: BTreeSet<CommandId> = rows.iter().map(|row| id(row, 0)).collect::<Result<_, _>>()?;
    due.retain(|one| one.order_key.is_none() || own.contains(&one.id));
    Ok(())
}

/// Nothing was written but turns.
async fn end(connection: &Connection) -> Result<Vec<Taken>, StoreError> {
    within(ANSWER_TIME_MAX, Phase::BeforeCommit, connection.batch_execute("commit"))
        .await?
        .map_err(before_commit)?;
    Ok(Vec::new())
}

fn before_commit(error: tokio_postgres::Error) -> StoreError {
    failure::statement(&error, Phase::BeforeCommit)
}
