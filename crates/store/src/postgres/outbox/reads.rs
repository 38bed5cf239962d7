//! What is read of the outbox without a lock, and what is rare: lists, counts and the sweep.

use super::super::Core;
use super::super::cells::Cell;
use super::super::connection::{ANSWER_TIME_MAX, Connection, within};
use super::super::failure::{self, Phase};
use super::super::sql::Sql;
use super::super::value::{Moment, Span};
use super::cells::{self, command, get, id, seen};
use super::sql;
use crate::error::StoreError;
use crate::outbox::row::{count, damaged, signed};
use crate::outbox::{
    Action, AttemptNote, Command, CommandCount, CommandId, Listed, Moved, SeenDelivery, Show,
};
use crate::{Decided, LIST_PAGE_MAX, SWEEP_BATCH_MAX, SweepPass};
use samekey_core::key::Org;
use samekey_core::lease::Fence;
use samekey_core::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;

async fn rows(
    core: &Core,
    sql: &'static Sql,
    parameters: &[Cell<'_>],
) -> Result<Vec<Row>, StoreError> {
    let connection = core.connection().await?;
    let rows = connection.read(sql, parameters).await?;
    connection.release();
    Ok(rows)
}

/// The database's clock.
pub(super) async fn now(core: &Core) -> Result<Time, StoreError> {
    let rows = rows(core, &super::super::sql::CLOCK, &[]).await?;
    rows.first().map(cells::now).transpose()?.ok_or_else(failure::missing)
}

fn org_of(row: &Row, column: usize) -> Result<Org, StoreError> {
    Org::stored(&get::<String>(row, column)?).map_err(|_| damaged("org_id"))
}

pub(super) async fn command_of(
    core: &Core,
    org: &Org,
    id: CommandId,
) -> Result<Option<Command>, StoreError> {
    let (name, bits) = (org.as_str(), id.bytes().to_vec());
    let rows = rows(core, &sql::COMMAND, &[&name, &bits]).await?;
    rows.first().map(|row| command(row, 2, org)).transpose()
}

pub(super) async fn delivery_of(
    core: &Core,
    org: &Org,
    id: CommandId,
) -> Result<Option<SeenDelivery>, StoreError> {
    let (name, bits) = (org.as_str(), id.bytes().to_vec());
    let rows = rows(core, &sql::DELIVERY, &[&name, &bits]).await?;
    rows.first().map(|row| seen(row, 2)).transpose()
}

/// What is said to a move that was not written.
pub(super) async fn stands(
    connection: &Connection,
    org: &Org,
    id: CommandId,
) -> Result<Moved, StoreError> {
    let (name, bits) = (org.as_str(), id.bytes().to_vec());
    let rows = connection.read(&sql::DELIVERY, &[&name, &bits]).await?;
    let Some(row) = rows.first() else { return Ok(Moved::Gone) };
    let stands = seen(row, 2)?;
    Ok(if get(row, 1)? { Moved::Changed(stands) } else { Moved::past(stands) })
}

pub(super) async fn orgs_with_due(
    core: &Core,
    destination: &str,
    after: Option<&Org>,
    limit: u32,
) -> Result<Vec<Org>, StoreError> {
    // No organisation is empty, so this is before all of them.
    let after = after.map_or("", Org::as_str);
    let limit = i64::from(limit.min(LIST_PAGE_MAX));
    let rows = rows(core, &sql::ORGS_WITH_DUE, &[&destination, &after, &limit]).await?;
    rows.iter().map(|row| org_of(row, 0)).collect()
}

pub(super) async fn next_due(
    core: &Core,
    destination: &str,
) -> Result<Option<(Time, Time)>, StoreError> {
    let rows = rows(core, &sql::NEXT_DUE, &[&destination, &""]).await?;
    let row = rows.first().ok_or_else(failure::missing)?;
    let due = get::<Option<Moment>>(row, 1)?;
    let now = get::<Moment>(row, 0)?;
    Ok(due.map(|due| (Time::from_micros(due.0), Time::from_micros(now.0))))
}

pub(super) async fn note(
    core: &Core,
    org: &Org,
    id: CommandId,
    note: &AttemptNote,
) -> Result<(), StoreError> {
    let connection = core.connection().await?;
    let ready = connection.ready(&sql::ATTEMPT_INSERT).await?;
    let (name, bits) = (org.as_str(), id.bytes().to_vec());
    let (number, fence) = (count(note.number), signed(note.fence.number()));
    let began = Moment(note.began.micros());
    let status = note.status.and_then(|status| i16::try_from(status).ok());
    let parameters: [Cell<'_>; 8] =
        [&name, &bits, &note.kind, &number, &fence, &began, &note.came_to, &status];
    // One statement by itself is a transaction of its own.
    within(ANSWER_TIME_MAX, Phase::Commit, connection.run(&ready, &parameters))
        .await?
        .map_err(|error| failure::statement(&error, Phase::Commit))?;
    connection.release();
    Ok(())
}

pub(super) async fn attempts(
    core: &Core,
    org: &Org,
    id: CommandId,
) -> Result<Vec<AttemptNote>, StoreError> {
    let (name, bits, limit) = (org.as_str(), id.bytes().to_vec(), i64::from(LIST_PAGE_MAX));
    let rows = rows(core, &sql::ATTEMPTS, &[&name, &bits, &limit]).await?;
    rows.iter()
        .map(|row| {
            Ok(AttemptNote {
                kind: get(row, 0)?,
                number: u32::try_from(get::<i32>(row, 1)?).map_err(|_| damaged("number"))?,
                fence: fence(row, 2)?,
                began: Time::from_micros(get::<Moment>(row, 3)?.0),
                noted: Time::from_micros(get::<Moment>(row, 4)?.0),
                came_to: get(row, 5)?,
                status: get::<Option<i16>>(row, 6)?
                    .map(|status| u16::try_from(status).map_err(|_| damaged("status")))
                    .transpose()?,
            })
        })
        .collect()
}

pub(super) async fn accounts(
    core: &Core,
    org: &Org,
    id: CommandId,
) -> Result<Vec<Decided>, StoreError> {
    let (name, bits, limit) = (org.as_str(), id.bytes().to_vec(), i64::from(LIST_PAGE_MAX));
    let rows = rows(core, &sql::COMMAND_DECISIONS, &[&name, &bits, &limit]).await?;
    rows.iter()
        .map(|row| {
            Ok(Decided {
                at: Time::from_micros(get::<Moment>(row, 0)?.0),
                seen: fence(row, 1)?,
                decision: get(row, 2)?,
                person: get(row, 3)?,
                note: get(row, 4)?,
                evidence: get(row, 5)?,
            })
        })
        .collect()
}

fn fence(row: &Row, column: usize) -> Result<Fence, StoreError> {
    let number = u64::try_from(get::<i64>(row, column)?).map_err(|_| damaged("fence"))?;
    Ok(Fence::new(number))
}

pub(super) async fn list(
    core: &Core,
    show: &Show,
    after: Option<(&Org, CommandId)>,
    limit: u32,
) -> Result<Vec<Listed>, StoreError> {
    let connection = core.connection().await?;
    // As above: before all of them.
    let (org, id) = after.map_or(("", Vec::new()), |(org, id)| (org.as_str(), id.bytes().to_vec()));
    let limit = limit.min(LIST_PAGE_MAX);
    let (of, to) = (show.org.as_ref().map(Org::as_str), &show.destination);
    let mut listed = Vec::new();
    for (sql, states) in
        [(&sql::LIST_UNFINISHED, show.unfinished()), (&sql::LIST_FINISHED, show.finished())]
    {
        if states.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        let rows_max = i64::from(limit);
        let parameters: [Cell<'_>; 6] = [&org, &id, &of, to, &states, &rows_max];
        for row in connection.read(sql, &parameters).await? {
            listed.push(listed_of(&row)?);
        }
    }
    connection.release();
    listed.sort_by(|one, other| (&one.action.org, one.id).cmp(&(&other.action.org, other.id)));
    // It may have finished between the two statements.
    listed.dedup_by(|later, one| (&one.action.org, one.id) == (&later.action.org, later.id));
    listed.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(listed)
}

fn listed_of(row: &Row) -> Result<Listed, StoreError> {
    let generation: i32 = get(row, 6)?;
    Ok(Listed {
        id: id(row, 2)?,
        action: Action {
            org: org_of(row, 1)?,
            destination: get(row, 3)?,
            operation: get(row, 4)?,
            business_ref: get(row, 5)?,
        },
        generation: u32::try_from(generation).map_err(|_| damaged("generation"))?,
        seen: seen(row, 7)?,
    })
}

pub(super) async fn count_commands(core: &Core) -> Result<Vec<CommandCount>, StoreError> {
    let rows = rows(core, &sql::COUNT_COMMANDS, &[]).await?;
    rows.iter()
        .map(|row| {
            let count = u64::try_from(get::<i64>(row, 2)?).unwrap_or(0);
            Ok(CommandCount { destination: get(row, 0)?, state: get(row, 1)?, count })
        })
        .collect()
}

pub(super) async fn sweep(
    core: &Core,
    retention: Duration,
    batch: u32,
) -> Result<SweepPass, StoreError> {
    let batch = i64::from(batch.clamp(1, SWEEP_BATCH_MAX));
    let connection = core.connection().await?;
    let span = Span(i64::try_from(retention.as_micros()).unwrap_or(i64::MAX).min(SPAN_MAX));
    let found = connection.read(&sql::SWEEP_COMMANDS_FIND, &[&span, &batch]).await?;
    let mut orgs: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    let mut before = Moment(i64::MIN);
    for row in &found {
        before = Moment(get::<Moment>(row, 0)?.0.saturating_sub(span.0));
        orgs.entry(get(row, 1)?).or_default().push(get(row, 2)?);
    }
    let ready = connection.ready(&sql::SWEEP_COMMANDS_DELETE).await?;
    let mut removed: u64 = 0;
    for (org, ids) in orgs {
        let parameters: [Cell<'_>; 3] = [&org, &ids, &before];
        let gone = within(ANSWER_TIME_MAX, Phase::Commit, connection.run(&ready, &parameters))
            .await?
            .map_err(|error| failure::statement(&error, Phase::Commit))?;
        removed = removed.saturating_add(u64::try_from(gone.len()).unwrap_or(u64::MAX));
    }
    connection.release();
    let all = i64::try_from(found.len()).unwrap_or(i64::MAX);
    Ok(SweepPass { removed, more: all >= batch })
}

/// The longest retention that the database can take from its now: a thousand years.
const SPAN_MAX: i64 = 1_000 * 366 * 86_400_000_000;
