//! Enqueuing in a transaction of sqlx. The SQL is that of the PostgreSQL adapter, and so is what it promises; all
//! else about commands goes through that adapter.

use super::cells::{Bound, get};
use super::session;
use super::value::{Moment, Span};
use crate::OutboundKey;
use crate::error::StoreError;
use crate::outbox::check::{check_command, id_taken, may_follow};
use crate::outbox::row::{DeliveryRow, damaged, signed};
use crate::outbox::{Action, Command, CommandId, Enqueued};
use crate::sqlstate::{Phase, came_and_went};
use ::sqlx::PgConnection;
use ::sqlx::postgres::PgRow;
use bytes::Bytes;
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;

const ENQUEUE: &str = include_str!("../../sql/postgres/enqueue.sql");
const ENQUEUE_NEXT: &str = include_str!("../../sql/postgres/enqueue_next.sql");
const LATEST: &str = include_str!("../../sql/postgres/latest.sql");

/// How often a command is looked at again that changed while it was to be followed.
const LOOKS_MAX: u32 = 5;

/// Inserts a command in the caller's own transaction, or finds the latest one of its action; see
/// [`Outbox::enqueue`](crate::outbox::Outbox::enqueue). It is one round trip, but where a command follows an
/// earlier one, or where another transaction has just committed the same action.
///
/// Nothing of it stands unless the caller's transaction commits, and then nothing can lose it.
///
/// # Errors
/// [`crate::Kind::Misused`] for a command that the tables do not hold; else what the database says. After an
/// error PostgreSQL has given the transaction up.
pub async fn enqueue(
    connection: &mut PgConnection,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    check_command(command, delivery)?;
    if command.generation == 1 {
        return insert(connection, command, delivery).await;
    }
    for _ in 0..LOOKS_MAX {
        let Some((before, stands)) = latest(connection, &command.action).await? else {
            return insert(connection, command, delivery).await;
        };
        if !may_follow(&before, &stands, command.generation) {
            return Ok(Enqueued::Found(Box::new(before), Box::new(stands)));
        }
        if stands.is_finished() {
            return insert(connection, command, delivery).await;
        }
        let query = bound(ENQUEUE_NEXT, command, delivery)
            .bind(before.id.bytes().to_vec())
            .bind(signed(stands.fence.number()))
            .bind(stands.holder.bytes().to_vec())
            .bind(signed(stands.revision));
        if !rows(connection, query).await.map_err(told)?.is_empty() {
            return Ok(Enqueued::New);
        }
    }
    Err(came_and_went())
}

async fn insert(
    connection: &mut PgConnection,
    command: &Command,
    delivery: &Delivery,
) -> Result<Enqueued, StoreError> {
    let rows = rows(connection, bound(ENQUEUE, command, delivery)).await?;
    if let Some(row) = rows.first() {
        if get(row, 1)? {
            return Ok(Enqueued::New);
        }
        let (found, stands) = both(row, &command.action.org)?;
        if found.generation >= command.generation {
            return Ok(Enqueued::Found(Box::new(found), Box::new(stands)));
        }
    }
    // What stands in the way was committed after the statement's snapshot was taken.
    let (found, stands) = latest(connection, &command.action).await?.ok_or_else(id_taken)?;
    Ok(Enqueued::Found(Box::new(found), Box::new(stands)))
}

async fn latest(
    connection: &mut PgConnection,
    action: &Action,
) -> Result<Option<(Command, Delivery)>, StoreError> {
    let query = ::sqlx::query(LATEST)
        .bind(action.org.as_str().to_owned())
        .bind(action.destination.clone())
        .bind(action.operation.clone())
        .bind(action.business_ref.clone());
    let rows = rows(connection, query).await?;
    rows.first().map(|row| both(row, &action.org)).transpose()
}

async fn rows(connection: &mut PgConnection, query: Bound) -> Result<Vec<PgRow>, StoreError> {
    let rows = query.fetch_all(connection).await;
    rows.map_err(|error| session::statement(&error, Phase::BeforeCommit))
}

fn bound(text: &'static str, command: &Command, delivery: &Delivery) -> Bound {
    let row = DeliveryRow::of(delivery);
    ::sqlx::query(text)
        .bind(command.action.org.as_str().to_owned())
        .bind(command.id.bytes().to_vec())
        .bind(command.action.destination.clone())
        .bind(command.action.operation.clone())
        .bind(command.action.business_ref.clone())
        .bind(i32::try_from(command.generation).unwrap_or(i32::MAX))
        .bind(command.order_key.clone())
        .bind(command.key.bytes().to_vec())
        .bind(command.request.to_vec())
        .bind(row.fence)
        .bind(row.holder)
        .bind(row.revision)
        .bind(Span(row.began))
        .bind(Span(row.gives_up))
        .bind(row.sends)
        .bind(row.attempts)
        .bind(row.first_send.map(Span))
        .bind(row.last_send.map(Span))
        .bind(row.doubt)
        .bind(row.last)
        .bind(row.proof)
        .bind(row.asked_by)
        .bind(row.state)
        .bind(row.due.map(Span))
        .bind(row.grounds)
        .bind(row.since.map(Span))
        .bind(row.asked)
        .bind(row.not_found)
        .bind(row.reason)
        .bind(row.answer_status)
        .bind(row.answer_headers)
        .bind(row.answer_body)
}

/// Reads a command and its delivery as `latest.sql` has them.
fn both(result: &PgRow, org: &Org) -> Result<(Command, Delivery), StoreError> {
    let bits = |column, name| -> Result<[u8; 16], StoreError> {
        get::<Vec<u8>>(result, column)?.try_into().map_err(|_| damaged(name))
    };
    let generation: i32 = get(result, 6)?;
    let command = Command {
        id: CommandId::from_bytes(bits(2, "id")?),
        action: Action {
            org: org.clone(),
            destination: get(result, 3)?,
            operation: get(result, 4)?,
            business_ref: get(result, 5)?,
        },
        generation: u32::try_from(generation).map_err(|_| damaged("generation"))?,
        order_key: get(result, 7)?,
        key: OutboundKey::from_bytes(bits(8, "key")?),
        request: Bytes::from(get::<Vec<u8>>(result, 9)?),
    };
    let first = 10;
    let mut columns = first..;
    let mut next = || columns.next().unwrap_or(first);
    let row = DeliveryRow {
        fence: get(result, next())?,
        holder: get(result, next())?,
        revision: get(result, next())?,
        began: get::<Moment>(result, next())?.0,
        gives_up: get::<Moment>(result, next())?.0,
        sends: get(result, next())?,
        attempts: get(result, next())?,
        first_send: get::<Option<Moment>>(result, next())?.map(|at| at.0),
        last_send: get::<Option<Moment>>(result, next())?.map(|at| at.0),
        doubt: get(result, next())?,
        last: get(result, next())?,
        proof: get(result, next())?,
        asked_by: get(result, next())?,
        state: get(result, next())?,
        due: get::<Option<Moment>>(result, next())?.map(|at| at.0),
        grounds: get(result, next())?,
        since: get::<Option<Moment>>(result, next())?.map(|at| at.0),
        asked: get(result, next())?,
        not_found: get(result, next())?,
        reason: get(result, next())?,
        answer_status: get(result, next())?,
        answer_headers: get(result, next())?,
        answer_body: get(result, next())?,
    };
    Ok((command, row.into_delivery()?))
}

/// The row of the one before was held, so that no other successor can be in the way: only the id can.
fn told(error: StoreError) -> StoreError {
    if error.sqlstate() == Some("23505") { id_taken() } else { error }
}
