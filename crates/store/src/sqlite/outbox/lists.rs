//! What is read of the outbox beside single rows, and the sweep.

use super::rows::read_delivery;
use crate::error::StoreError;
use crate::memory::host_now;
use crate::outbox::row::{DeliveryRow, damaged};
use crate::outbox::{Action, AttemptNote, CommandCount, CommandId, Listed, SeenDelivery, Show};
use crate::{Decided, LIST_PAGE_MAX, SWEEP_BATCH_MAX, SweepPass};
use rusqlite::{Connection, params};
use samekey_core::key::Org;
use samekey_core::lease::Fence;
use samekey_core::time::Time;
use std::time::Duration;

const ORGS_WITH_DUE: &str = include_str!("../../../sql/sqlite/orgs_with_due.sql");
const NEXT_DUE: &str = include_str!("../../../sql/sqlite/next_due.sql");
const ATTEMPTS: &str = include_str!("../../../sql/sqlite/attempts.sql");
const COMMAND_DECISIONS: &str = include_str!("../../../sql/sqlite/command_decisions.sql");
const LIST_UNFINISHED: &str = include_str!("../../../sql/sqlite/list_unfinished.sql");
const LIST_FINISHED: &str = include_str!("../../../sql/sqlite/list_finished.sql");
const COUNT_COMMANDS: &str = include_str!("../../../sql/sqlite/count_commands.sql");
const SWEEP_FIND: &str = include_str!("../../../sql/sqlite/sweep_commands_find.sql");

/// What goes when a command is swept, in this order, because of the foreign keys.
const SWEEP: [&str; 4] = [
    include_str!("../../../sql/sqlite/finished_delete.sql"),
    include_str!("../../../sql/sqlite/attempts_delete.sql"),
    include_str!("../../../sql/sqlite/command_decisions_delete.sql"),
    include_str!("../../../sql/sqlite/sweep_commands_delete.sql"),
];

fn org_of(text: &str) -> Result<Org, StoreError> {
    Org::stored(text).map_err(|_| damaged("org_id"))
}

pub(super) fn orgs_with_due(
    connection: &Connection,
    destination: &str,
    after: Option<&Org>,
    limit: u32,
) -> Result<Vec<Org>, StoreError> {
    // No org is empty, so that the empty text lies before them all.
    let after = after.map_or("", Org::as_str);
    let values = params![destination, after, host_now().micros(), limit.min(LIST_PAGE_MAX)];
    let mut statement = connection.prepare_cached(ORGS_WITH_DUE)?;
    let rows = statement.query_map(values, |row| row.get::<_, String>(0))?;
    rows.map(|org| org_of(&org?)).collect()
}

pub(super) fn next_due(
    connection: &Connection,
    destination: &str,
) -> Result<Option<(Time, Time)>, StoreError> {
    let now = host_now();
    let mut statement = connection.prepare_cached(NEXT_DUE)?;
    let due: Option<i64> = statement.query_row(params![destination, ""], |row| row.get(0))?;
    Ok(due.map(|due| (Time::from_micros(due), now)))
}

pub(super) fn attempts(
    connection: &Connection,
    org: &Org,
    id: CommandId,
) -> Result<Vec<AttemptNote>, StoreError> {
    let mut statement = connection.prepare_cached(ATTEMPTS)?;
    let rows = statement.query_map(params![org.as_str(), id.bytes(), LIST_PAGE_MAX], |row| {
        Ok((
            row.get::<_, i64>(2)?,
            AttemptNote {
                kind: row.get(0)?,
                number: row.get(1)?,
                fence: Fence::NONE,
                began: Time::from_micros(row.get(3)?),
                noted: Time::from_micros(row.get(4)?),
                came_to: row.get(5)?,
                status: row.get(6)?,
            },
        ))
    })?;
    rows.map(|row| {
        let (number, note) = row?;
        Ok(AttemptNote { fence: fence(number)?, ..note })
    })
    .collect()
}

pub(super) fn accounts(
    connection: &Connection,
    org: &Org,
    id: CommandId,
) -> Result<Vec<Decided>, StoreError> {
    let mut statement = connection.prepare_cached(COMMAND_DECISIONS)?;
    let rows = statement.query_map(params![org.as_str(), id.bytes(), LIST_PAGE_MAX], |row| {
        Ok((
            row.get::<_, i64>(1)?,
            Decided {
                at: Time::from_micros(row.get(0)?),
                seen: Fence::NONE,
                decision: row.get(2)?,
                person: row.get(3)?,
                note: row.get(4)?,
                evidence: row.get(5)?,
            },
        ))
    })?;
    rows.map(|row| {
        let (number, account) = row?;
        Ok(Decided { seen: fence(number)?, ..account })
    })
    .collect()
}

fn fence(number: i64) -> Result<Fence, StoreError> {
    Ok(Fence::new(u64::try_from(number).map_err(|_| damaged("fence"))?))
}

pub(super) fn list(
    connection: &Connection,
    show: &Show,
    after: Option<(&Org, CommandId)>,
    limit: u32,
) -> Result<Vec<Listed>, StoreError> {
    // As above: before all of them.
    let (org, id) = after.map_or(("", Vec::new()), |(org, id)| (org.as_str(), id.bytes().to_vec()));
    let limit = limit.min(LIST_PAGE_MAX);
    let now = host_now();
    let of = show.org.as_ref().map(Org::as_str);
    let mut listed = Vec::new();
    // Both in the caller's one transaction, so that none is met twice or not at all.
    for (text, states) in [(LIST_UNFINISHED, show.unfinished()), (LIST_FINISHED, show.finished())] {
        if states.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        let states = states.map(|states| format!(",{},", states.join(",")));
        let mut statement = connection.prepare_cached(text)?;
        let rows =
            statement.query_map(params![org, id, of, show.destination, states, limit], |row| {
                let names: [String; 4] = [row.get(0)?, row.get(2)?, row.get(3)?, row.get(4)?];
                Ok((names, row.get(1)?, row.get(5)?, read_delivery(row, 6)?))
            })?;
        for row in rows {
            listed.push(listed_of(row?, now)?);
        }
    }
    listed.sort_by(|one, other| (&one.action.org, one.id).cmp(&(&other.action.org, other.id)));
    listed.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(listed)
}

/// Names, id, generation and delivery.
type Line = ([String; 4], [u8; 16], u32, DeliveryRow);

fn listed_of((names, id, generation, row): Line, now: Time) -> Result<Listed, StoreError> {
    let [org, destination, operation, business_ref] = names;
    Ok(Listed {
        id: CommandId::from_bytes(id),
        action: Action { org: org_of(&org)?, destination, operation, business_ref },
        generation,
        seen: SeenDelivery { delivery: row.into_delivery()?, now },
    })
}

pub(super) fn count_commands(connection: &Connection) -> Result<Vec<CommandCount>, StoreError> {
    let mut statement = connection.prepare_cached(COUNT_COMMANDS)?;
    let rows = statement.query_map([], |row| {
        let count = u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
        Ok(CommandCount { destination: row.get(0)?, state: row.get(1)?, count })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Removes what finished long ago.
pub(super) fn sweep(
    connection: &Connection,
    retention: Duration,
    batch: u32,
) -> Result<SweepPass, StoreError> {
    let batch = batch.clamp(1, SWEEP_BATCH_MAX);
    let span = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
    let before = host_now().micros().saturating_sub(span);
    let over: Vec<(String, [u8; 16])> = connection
        .prepare_cached(SWEEP_FIND)?
        .query_map(params![before, batch], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (org, id) in &over {
        for statement in SWEEP {
            connection.prepare_cached(statement)?.execute(params![org, id])?;
        }
    }
    let removed = u64::try_from(over.len()).unwrap_or(u64::MAX);
    Ok(SweepPass { removed, more: removed == u64::from(batch) })
}
