//! A delivery as parameters of a statement, one or many at once, and rows of a result as deliveries and
//! commands. Parameters and results have the columns of [`DeliveryRow`] in one order everywhere.

use super::super::cells::{Cell, Micros};
use super::super::failure;
use super::super::value::Moment;
use crate::OutboundKey;
use crate::error::StoreError;
use crate::outbox::row::{DeliveryRow, damaged};
use crate::outbox::{Action, Command, CommandId, SeenDelivery};
use bytes::Bytes;
use samekey_core::key::Org;
use samekey_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

/// How many columns a delivery has.
const COLUMNS: usize = 23;

/// A command as parameters.
pub(super) struct CommandCells<'a> {
    org: &'a str,
    id: Vec<u8>,
    generation: i32,
    key: Vec<u8>,
    request: &'a [u8],
    command: &'a Command,
}

impl<'a> CommandCells<'a> {
    pub(super) fn of(command: &'a Command) -> CommandCells<'a> {
        CommandCells {
            org: command.action.org.as_str(),
            id: command.id.bytes().to_vec(),
            generation: i32::try_from(command.generation).unwrap_or(i32::MAX),
            key: command.key.bytes().to_vec(),
            request: &command.request,
            command,
        }
    }

    pub(super) fn all(&self) -> [Cell<'_>; 9] {
        [
            &self.org,
            &self.id,
            &self.command.action.destination,
            &self.command.action.operation,
            &self.command.action.business_ref,
            &self.generation,
            &self.command.order_key,
            &self.key,
            &self.request,
        ]
    }
}

/// Many commands as parameters: an array for each column.
#[derive(Default)]
pub(super) struct CommandArrays<'a> {
    orgs: Vec<&'a str>,
    ids: Vec<Vec<u8>>,
    destinations: Vec<&'a str>,
    operations: Vec<&'a str>,
    references: Vec<&'a str>,
    generations: Vec<i32>,
    order_keys: Vec<Option<&'a str>>,
    keys: Vec<Vec<u8>>,
    requests: Vec<&'a [u8]>,
}

impl<'a> CommandArrays<'a> {
    pub(super) fn push(&mut self, command: &'a Command) {
        let cells = CommandCells::of(command);
        self.orgs.push(cells.org);
        self.ids.push(cells.id);
        self.destinations.push(&command.action.destination);
        self.operations.push(&command.action.operation);
        self.references.push(&command.action.business_ref);
        self.generations.push(cells.generation);
        self.order_keys.push(command.order_key.as_deref());
        self.keys.push(cells.key);
        self.requests.push(&command.request);
    }

    pub(super) fn all(&self) -> [Cell<'_>; 9] {
        [
            &self.orgs,
            &self.ids,
            &self.destinations,
            &self.operations,
            &self.references,
            &self.generations,
            &self.order_keys,
            &self.keys,
            &self.requests,
        ]
    }
}

/// Many deliveries as parameters: an array for each column.
#[derive(Default)]
pub(super) struct Arrays<T> {
    fence: Vec<i64>,
    holder: Vec<Vec<u8>>,
    revision: Vec<i64>,
    began: Vec<T>,
    gives_up: Vec<T>,
    sends: Vec<i32>,
    attempts: Vec<i32>,
    first_send: Vec<Option<T>>,
    last_send: Vec<Option<T>>,
    doubt: Vec<Option<String>>,
    last: Vec<Option<String>>,
    proof: Vec<Option<String>>,
    asked_by: Vec<String>,
    state: Vec<String>,
    due: Vec<Option<T>>,
    grounds: Vec<Option<String>>,
    since: Vec<Option<T>>,
    asked: Vec<Option<i32>>,
    not_found: Vec<Option<i32>>,
    reason: Vec<Option<String>>,
    answer_status: Vec<Option<i16>>,
    answer_headers: Vec<Option<Vec<u8>>>,
    answer_body: Vec<Option<Vec<u8>>>,
}

impl<T: Micros> Arrays<T> {
    pub(super) fn push(&mut self, row: DeliveryRow) {
        self.fence.push(row.fence);
        self.holder.push(row.holder);
        self.revision.push(row.revision);
        self.began.push(T::from_micros(row.began));
        self.gives_up.push(T::from_micros(row.gives_up));
        self.sends.push(row.sends);
        self.attempts.push(row.attempts);
        self.first_send.push(row.first_send.map(T::from_micros));
        self.last_send.push(row.last_send.map(T::from_micros));
        self.doubt.push(row.doubt);
        self.last.push(row.last);
        self.proof.push(row.proof);
        self.asked_by.push(row.asked_by);
        self.state.push(row.state);
        self.due.push(row.due.map(T::from_micros));
        self.grounds.push(row.grounds);
        self.since.push(row.since.map(T::from_micros));
        self.asked.push(row.asked);
        self.not_found.push(row.not_found);
        self.reason.push(row.reason);
        self.answer_status.push(row.answer_status);
        self.answer_headers.push(row.answer_headers);
        self.answer_body.push(row.answer_body);
    }

    pub(super) fn all(&self) -> [Cell<'_>; COLUMNS] {
        [
            &self.fence,
            &self.holder,
            &self.revision,
            &self.began,
            &self.gives_up,
            &self.sends,
            &self.attempts,
            &self.first_send,
            &self.last_send,
            &self.doubt,
            &self.last,
            &self.proof,
            &self.asked_by,
            &self.state,
            &self.due,
            &self.grounds,
            &self.since,
            &self.asked,
            &self.not_found,
            &self.reason,
            &self.answer_status,
            &self.answer_headers,
            &self.answer_body,
        ]
    }
}

/// One delivery as parameters.
pub(super) struct Cells<T> {
    fence: i64,
    holder: Vec<u8>,
    revision: i64,
    began: T,
    gives_up: T,
    sends: i32,
    attempts: i32,
    first_send: Option<T>,
    last_send: Option<T>,
    doubt: Option<String>,
    last: Option<String>,
    proof: Option<String>,
    asked_by: String,
    state: String,
    due: Option<T>,
    grounds: Option<String>,
    since: Option<T>,
    asked: Option<i32>,
    not_found: Option<i32>,
    reason: Option<String>,
    answer_status: Option<i16>,
    answer_headers: Option<Vec<u8>>,
    answer_body: Option<Vec<u8>>,
}

impl<T: Micros> Cells<T> {
    pub(super) fn of(row: DeliveryRow) -> Cells<T> {
        Cells {
            fence: row.fence,
            holder: row.holder,
            revision: row.revision,
            began: T::from_micros(row.began),
            gives_up: T::from_micros(row.gives_up),
            sends: row.sends,
            attempts: row.attempts,
            first_send: row.first_send.map(T::from_micros),
            last_send: row.last_send.map(T::from_micros),
            doubt: row.doubt,
            last: row.last,
            proof: row.proof,
            asked_by: row.asked_by,
            state: row.state,
            due: row.due.map(T::from_micros),
            grounds: row.grounds,
            since: row.since.map(T::from_micros),
            asked: row.asked,
            not_found: row.not_found,
            reason: row.reason,
            answer_status: row.answer_status,
            answer_headers: row.answer_headers,
            answer_body: row.answer_body,
        }
    }

    pub(super) fn all(&self) -> [Cell<'_>; COLUMNS] {
        [
            &self.fence,
            &self.holder,
            &self.revision,
            &self.began,
            &self.gives_up,
            &self.sends,
            &self.attempts,
            &self.first_send,
            &self.last_send,
            &self.doubt,
            &self.last,
            &self.proof,
            &self.asked_by,
            &self.state,
            &self.due,
            &self.grounds,
            &self.since,
            &self.asked,
            &self.not_found,
            &self.reason,
            &self.answer_status,
            &self.answer_headers,
            &self.answer_body,
        ]
    }
}

/// Reads the columns of a delivery that begin at `first`.
pub(super) fn delivery(result: &Row, first: usize) -> Result<DeliveryRow, StoreError> {
    let mut columns = first..;
    let mut next = || columns.next().unwrap_or(first);
    Ok(DeliveryRow {
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
    })
}

/// Reads `id, destination, …` of a command, which begin at `first`.
pub(super) fn command(result: &Row, first: usize, org: &Org) -> Result<Command, StoreError> {
    let mut columns = first..;
    let mut next = || columns.next().unwrap_or(first);
    let id = id(result, next())?;
    let (destination, operation) = (get(result, next())?, get(result, next())?);
    let business_ref = get(result, next())?;
    let generation: i32 = get(result, next())?;
    let order_key = get(result, next())?;
    let key: Vec<u8> = get(result, next())?;
    let request: Vec<u8> = get(result, next())?;
    Ok(Command {
        id,
        action: Action { org: org.clone(), destination, operation, business_ref },
        generation: u32::try_from(generation).map_err(|_| damaged("generation"))?,
        order_key,
        key: OutboundKey::from_bytes(key.try_into().map_err(|_| damaged("key"))?),
        request: Bytes::from(request),
    })
}

/// Reads an id.
pub(super) fn id(result: &Row, column: usize) -> Result<CommandId, StoreError> {
    let bits: Vec<u8> = get(result, column)?;
    Ok(CommandId::from_bytes(bits.try_into().map_err(|_| damaged("id"))?))
}

/// Reads the clock, which comes first in every row.
pub(super) fn now(result: &Row) -> Result<Time, StoreError> {
    Ok(Time::from_micros(get::<Moment>(result, 0)?.0))
}

/// Reads the clock, and a delivery that begins at `first`.
pub(super) fn seen(result: &Row, first: usize) -> Result<SeenDelivery, StoreError> {
    Ok(SeenDelivery { delivery: delivery(result, first)?.into_delivery()?, now: now(result)? })
}

/// Reads a column.
pub(super) fn get<T: FromSqlOwned>(row: &Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|_| failure::column())
}
