//! The statements of the outbox, typed. Each runs on a connection whose transaction is the caller's matter.

use crate::error::StoreError;
use crate::memory::host_now;
use crate::outbox::check::{check_advance, id_taken, may_follow};
use crate::outbox::row::{DeliveryRow, count, counted_from, damaged, signed};
use crate::outbox::{
    Action, AttemptNote, Command, CommandId, Enqueued, Moved, SeenDelivery, TAKE_MAX, Taken,
};
use crate::{Decided, OutboundKey};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_core::time::Time;

const ENQUEUE: &str = include_str!("../../../sql/sqlite/enqueue.sql");
const OUTBOX_INSERT: &str = include_str!("../../../sql/sqlite/outbox_insert.sql");
const OUTBOX_DELETE: &str = include_str!("../../../sql/sqlite/outbox_delete.sql");
const ORDER_KEY_INSERT: &str = include_str!("../../../sql/sqlite/order_key_insert.sql");
const ORDER_KEY_DELETE: &str = include_str!("../../../sql/sqlite/order_key_delete.sql");
const ORDER_TURN_DELETE: &str = include_str!("../../../sql/sqlite/order_turn_delete.sql");
const COMMAND: &str = include_str!("../../../sql/sqlite/command.sql");
const LATEST: &str = include_str!("../../../sql/sqlite/latest.sql");
const DELIVERY: &str = include_str!("../../../sql/sqlite/delivery.sql");
const TAKE_FIND: &str = include_str!("../../../sql/sqlite/take_find.sql");
const TAKE_TURNS: &str = include_str!("../../../sql/sqlite/take_turns.sql");
const ADVANCE: &str = include_str!("../../../sql/sqlite/advance.sql");
const FINISHED_INSERT: &str = include_str!("../../../sql/sqlite/finished_insert.sql");
const ATTEMPT_INSERT: &str = include_str!("../../../sql/sqlite/attempt_insert.sql");
const COMMAND_DECISION_INSERT: &str =
    include_str!("../../../sql/sqlite/command_decision_insert.sql");

/// Whether the guard of the writer's connection lets this turn write commands. It is asked when a statement is
/// prepared, and one that was kept from another turn would pass it unasked.
pub(super) fn may_enqueue(connection: &Connection) -> Result<(), StoreError> {
    connection.prepare(ENQUEUE)?;
    Ok(())
}

/// Inserts a command, or finds the latest one of its action. In the transaction of the one writer nobody comes
/// in between.
pub(super) fn enqueue(
    connection: &Connection,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    let org = &command.action.org;
    match latest(connection, &command.action)? {
        Some((before, stands)) if may_follow(&before, &stands.delivery, command.generation) => {
            let failed = &stands.delivery;
            // What was read a moment ago in this transaction is there still, unless it was refused.
            finish(connection, org, before.id, failed, failed)?;
        }
        Some((before, stands)) => {
            return Ok(Enqueued::Found(Box::new(before), Box::new(stands.delivery)));
        }
        None => {}
    }
    let now = host_now();
    let inserted = connection.prepare_cached(ENQUEUE)?.execute(params![
        org.as_str(),
        command.id.bytes(),
        command.action.destination,
        command.action.operation,
        command.action.business_ref,
        command.generation,
        command.order_key,
        command.key.bytes(),
        &command.request[..],
        now.micros(),
    ])?;
    if inserted == 0 {
        return Err(id_taken());
    }
    let row = DeliveryRow::of(&counted_from(delivery.clone(), now));
    let (name, id) = (org.as_str(), command.id.bytes());
    let first: [&dyn ToSql; 4] = [&name, &id, &command.action.destination, &command.order_key];
    let mut values = first.to_vec();
    values.extend(columns(&row));
    connection.prepare_cached(OUTBOX_INSERT)?.execute(values.as_slice())?;
    if let Some(order_key) = &command.order_key {
        let values = params![name, command.action.destination, order_key, id];
        connection.prepare_cached(ORDER_KEY_INSERT)?.execute(values)?;
    }
    Ok(Enqueued::New)
}

/// The latest command of an action.
pub(super) fn latest(
    connection: &Connection,
    action: &Action,
) -> Result<Option<(Command, SeenDelivery)>, StoreError> {
    let Action { org, destination, operation, business_ref } = action;
    let values = params![org.as_str(), destination, operation, business_ref];
    let row = connection
        .prepare_cached(LATEST)?
        .query_row(values, |row| Ok(read_command(row, org)))
        .optional()?;
    let Some(command) = row.transpose()? else { return Ok(None) };
    let (_, stands) = delivery(connection, org, command.id)?.ok_or_else(|| damaged("id"))?;
    Ok(Some((command, stands)))
}

/// A command.
pub(super) fn command(
    connection: &Connection,
    org: &Org,
    id: CommandId,
) -> Result<Option<Command>, StoreError> {
    let row = connection
        .prepare_cached(COMMAND)?
        .query_row(params![org.as_str(), id.bytes()], |row| Ok(read_command(row, org)))
        .optional()?;
    row.transpose()
}

/// Where a command stands, and whether it is among the hot ones.
pub(super) fn delivery(
    connection: &Connection,
    org: &Org,
    id: CommandId,
) -> Result<Option<(bool, SeenDelivery)>, StoreError> {
    // The clock is read first, see `rows::load`.
    let now = host_now();
    let row = connection
        .prepare_cached(DELIVERY)?
        .query_row(params![org.as_str(), id.bytes()], |row| {
            Ok((row.get::<_, bool>(0)?, read_delivery(row, 1)?))
        })
        .optional()?;
    let Some((is_hot, row)) = row else { return Ok(None) };
    Ok(Some((is_hot, SeenDelivery { delivery: row.into_delivery()?, now })))
}

/// Takes what is due; see [`crate::outbox::Outbox::take`].
pub(super) fn take(
    connection: &Connection,
    org: &Org,
    destination: &str,
    limit: u32,
    decide: &mut impl FnMut(Delivery, Time) -> Option<Delivery>,
) -> Result<Vec<Taken>, StoreError> {
    let now = host_now();
    let mut statement = connection.prepare_cached(TAKE_FIND)?;
    let values = params![org.as_str(), destination, now.micros(), limit.min(TAKE_MAX)];
    let due: Vec<([u8; 16], Option<String>, DeliveryRow)> = statement
        .query_map(values, |row| Ok((row.get(0)?, row.get(1)?, read_delivery(row, 2)?)))?
        .collect::<Result<_, _>>()?;
    let mut taken = Vec::new();
    for (bits, order_key, row) in due {
        let (id, before) = (CommandId::from_bytes(bits), row.into_delivery()?);
        if let Some(order_key) = order_key {
            // It was found because it is its turn.
            let values = params![org.as_str(), destination, order_key, bits];
            connection.prepare_cached(TAKE_TURNS)?.execute(values)?;
        }
        let Some(next) = decide(before.clone(), now) else { continue };
        if next.revision == before.revision {
            continue;
        }
        check_advance(&before, &next)?;
        if !write(connection, org, id, &before, &next)? {
            return Err(damaged("revision"));
        }
        let command = command(connection, org, id)?.ok_or_else(|| damaged("id"))?;
        taken.push(Taken { command, before, seen: SeenDelivery { delivery: next, now } });
    }
    Ok(taken)
}

/// Replaces `seen` by `next` if nobody wrote in between.
pub(super) fn advance(
    connection: &Connection,
    org: &Org,
    id: CommandId,
    seen: &Delivery,
    next: &Delivery,
) -> Result<Moved, StoreError> {
    if write(connection, org, id, seen, next)? {
        return Ok(Moved::Written);
    }
    Ok(match delivery(connection, org, id)? {
        None => Moved::Gone,
        Some((true, stands)) => Moved::Changed(stands),
        Some((false, stands)) => Moved::past(stands),
    })
}

fn write(
    connection: &Connection,
    org: &Org,
    id: CommandId,
    seen: &Delivery,
    next: &Delivery,
) -> Result<bool, StoreError> {
    if next.is_finished() {
        return finish(connection, org, id, seen, next);
    }
    let (name, bits) = (org.as_str(), id.bytes());
    let (row, expected) = (DeliveryRow::of(next), DeliveryRow::of(seen));
    let mut values: Vec<&dyn ToSql> = vec![&name, &bits];
    values.extend(columns(&row));
    values.extend([&expected.holder as &dyn ToSql, &expected.fence, &expected.revision]);
    Ok(connection.prepare_cached(ADVANCE)?.execute(values.as_slice())? == 1)
}

/// Takes a row out of the hot ones, and keeps how it ended.
fn finish(
    connection: &Connection,
    org: &Org,
    id: CommandId,
    seen: &Delivery,
    last: &Delivery,
) -> Result<bool, StoreError> {
    let (name, bits) = (org.as_str(), id.bytes());
    let expected = DeliveryRow::of(seen);
    let gone: Option<(String, Option<String>)> = connection
        .prepare_cached(OUTBOX_DELETE)?
        .query_row(params![name, bits, expected.holder, expected.fence, expected.revision], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((destination, order_key)) = gone else { return Ok(false) };
    if let Some(order_key) = order_key {
        for statement in [ORDER_KEY_DELETE, ORDER_TURN_DELETE] {
            let values = params![name, destination, order_key, bits];
            connection.prepare_cached(statement)?.execute(values)?;
        }
    }
    let (row, now) = (DeliveryRow::of(last), host_now().micros());
    let mut values: Vec<&dyn ToSql> = vec![&name, &bits, &now];
    values.extend(last_columns(&row));
    connection.prepare_cached(FINISHED_INSERT)?.execute(values.as_slice())?;
    Ok(true)
}

/// Adds a note, if there is such a command.
pub(super) fn note(
    connection: &Connection,
    org: &Org,
    id: CommandId,
    note: &AttemptNote,
) -> Result<(), StoreError> {
    connection.prepare_cached(ATTEMPT_INSERT)?.execute(params![
        org.as_str(),
        id.bytes(),
        host_now().micros(),
        note.kind,
        count(note.number),
        signed(note.fence.number()),
        note.began.micros(),
        note.came_to,
        note.status,
    ])?;
    Ok(())
}

/// Adds the account of a decision.
pub(super) fn account(
    connection: &Connection,
    org: &Org,
    id: CommandId,
    decided: &Decided,
) -> Result<(), StoreError> {
    connection.prepare_cached(COMMAND_DECISION_INSERT)?.execute(params![
        org.as_str(),
        id.bytes(),
        host_now().micros(),
        signed(decided.seen.number()),
        decided.decision,
        decided.person,
        decided.note,
        decided.evidence,
    ])?;
    Ok(())
}

/// The columns of a delivery in the order in which the statements that write all of them take them.
fn columns(row: &DeliveryRow) -> [&dyn ToSql; 23] {
    [
        &row.fence,
        &row.holder,
        &row.revision,
        &row.began,
        &row.gives_up,
        &row.sends,
        &row.attempts,
        &row.first_send,
        &row.last_send,
        &row.doubt,
        &row.last,
        &row.proof,
        &row.asked_by,
        &row.state,
        &row.due,
        &row.grounds,
        &row.since,
        &row.asked,
        &row.not_found,
        &row.reason,
        &row.answer_status,
        &row.answer_headers,
        &row.answer_body,
    ]
}

/// Those that a finished one has.
fn last_columns(row: &DeliveryRow) -> [&dyn ToSql; 19] {
    [
        &row.fence,
        &row.holder,
        &row.revision,
        &row.began,
        &row.gives_up,
        &row.sends,
        &row.attempts,
        &row.first_send,
        &row.last_send,
        &row.doubt,
        &row.last,
        &row.proof,
        &row.asked_by,
        &row.state,
        &row.since,
        &row.reason,
        &row.answer_status,
        &row.answer_headers,
        &row.answer_body,
    ]
}

/// Reads the columns of a delivery that begin at `first`.
pub(super) fn read_delivery(row: &Row<'_>, first: usize) -> Result<DeliveryRow, rusqlite::Error> {
    let mut columns = first..;
    let mut next = || columns.next().unwrap_or(first);
    Ok(DeliveryRow {
        fence: row.get(next())?,
        holder: row.get(next())?,
        revision: row.get(next())?,
        began: row.get(next())?,
        gives_up: row.get(next())?,
        sends: row.get(next())?,
        attempts: row.get(next())?,
        first_send: row.get(next())?,
        last_send: row.get(next())?,
        doubt: row.get(next())?,
        last: row.get(next())?,
        proof: row.get(next())?,
        asked_by: row.get(next())?,
        state: row.get(next())?,
        due: row.get(next())?,
        grounds: row.get(next())?,
        since: row.get(next())?,
        asked: row.get(next())?,
        not_found: row.get(next())?,
        reason: row.get(next())?,
        answer_status: row.get(next())?,
        answer_headers: row.get(next())?,
        answer_body: row.get(next())?,
    })
}

fn read_command(row: &Row<'_>, org: &Org) -> Result<Command, StoreError> {
    Ok(Command {
        id: CommandId::from_bytes(row.get(0)?),
        action: Action {
            org: org.clone(),
            destination: row.get(1)?,
            operation: row.get(2)?,
            business_ref: row.get(3)?,
        },
        generation: row.get(4)?,
        order_key: row.get(5)?,
        key: OutboundKey::from_bytes(row.get(6)?),
        request: Bytes::from(row.get::<_, Vec<u8>>(7)?),
    })
}
