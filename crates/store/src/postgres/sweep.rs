//! Removing what is over: rows first, then the partitions whose rows are all gone.

use super::cells::Cell;
use super::connection::{ANSWER_TIME_MAX, Connection, within};
use super::failure::{self, Phase};
use super::value::{Day, Moment};
use super::{Core, sql};
use crate::error::{Kind, StoreError};
use crate::{SWEEP_BATCH_MAX, SweepPass};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many organisations' rows are removed before the next ones are sent: it bounds what the server
/// has to buffer.
const ORGS_AT_ONCE: usize = 32;

/// How long a partition that is to be dropped waits for the statements that use it. New ones queue
/// up behind it, so it is short; the next day tries again.
const DROP_LOCK_WAIT: &str = "100ms";

/// How long the search for free rows may take: it reads the whole table, once after a restore.
const FREE_FIND_TIME_MAX: Duration = Duration::from_secs(600);

/// How many old partitions one pass drops, so that a long pause is not made up for all at once.
const DROPS_MAX: usize = 8;

/// Rows of one organisation that were found.
#[derive(Default)]
struct Found {
    keys: Vec<String>,
    revisions: Vec<i64>,
}

pub(super) async fn sweep(core: &Core, batch: u32) -> Result<SweepPass, StoreError> {
    let batch = batch.clamp(1, SWEEP_BATCH_MAX);
    let connection = core.connection().await?;
    let find = &sql::SWEEP_FIND;
    #[cfg(samekey_bugs)]
    let find: &'static sql::Sql = Box::leak(Box::new(sql::Sql {
        text: crate::bugs::sweep_find(find.text),
        types: find.types,
    }));
    let found = connection.read(find, &[&i64::from(batch)]).await?;
    let mut orgs: BTreeMap<String, Found> = BTreeMap::new();
    let mut now = None;
    for row in &found {
        let read = || -> Result<(Moment, String, String, i64), tokio_postgres::Error> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))
        };
        let (seen_at, org, key, revision) = read().map_err(|_| failure::column())?;
        now = Some(seen_at);
        let rows = orgs.entry(org).or_default();
        rows.keys.push(key);
        rows.revisions.push(revision);
    }
    let mut removed = 0;
    if let Some(now) = now {
        removed = delete(&connection, orgs, now).await?;
    }
    let more = found.len() >= usize::try_from(batch).unwrap_or(usize::MAX);
    connection.release();
    if !more {
        maintain(core).await?;
    }
    Ok(SweepPass { removed, more })
}

/// Removes free rows, over or not. Whoever holds one of them may free it again, so that there may be
/// more until all that were found are gone.
pub(super) async fn drop_free(core: &Core, batch: u32) -> Result<SweepPass, StoreError> {
    let batch = batch.clamp(1, SWEEP_BATCH_MAX);
    let connection = core.connection().await?;
    let ready = connection.ready(&sql::FREE_FIND).await?;
    let batch_rows = i64::from(batch);
    let parameters: [Cell<'_>; 1] = [&batch_rows];
    let find = connection.run(&ready, &parameters);
    let found = within(FREE_FIND_TIME_MAX, Phase::BeforeCommit, find)
        .await?
        .map_err(|error| failure::statement(&error, Phase::BeforeCommit))?;
    let mut orgs: BTreeMap<String, Found> = BTreeMap::new();
    for row in &found {
        let read = || -> Result<(String, String, i64), tokio_postgres::Error> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
        };
        let (org, key, revision) = read().map_err(|_| failure::column())?;
        let rows = orgs.entry(org).or_default();
        rows.keys.push(key);
        rows.revisions.push(revision);
    }
    let removed = delete(&connection, orgs, Moment(i64::MAX)).await?;
    connection.release();
    let all = u64::try_from(found.len()).unwrap_or(u64::MAX);
    Ok(SweepPass { removed, more: removed < all || all >= u64::from(batch) })
}

/// Removes what was found, per organisation, if it is still as it was found and nobody holds it.
async fn delete(
    connection: &Connection,
    orgs: BTreeMap<String, Found>,
    now: Moment,
) -> Result<u64, StoreError> {
    let ready = connection.ready(&sql::SWEEP_DELETE).await?;
    let before = |error: tokio_postgres::Error| failure::statement(&error, Phase::BeforeCommit);
    let begin = connection.batch_execute("begin read write");
    within(ANSWER_TIME_MAX, Phase::BeforeCommit, begin).await?.map_err(before)?;
    let mut removed: u64 = 0;
    let orgs: Vec<(String, Found)> = orgs.into_iter().collect();
    for some in orgs.chunks(ORGS_AT_ONCE) {
        let deletes = some.iter().map(|(org, rows)| {
            let ready = &ready;
            let now = &now;
            async move {
                let parameters: [Cell<'_>; 4] = [org, &rows.keys, &rows.revisions, now];
                connection.run(ready, &parameters).await
            }
        });
        for deleted in within(ANSWER_TIME_MAX, Phase::BeforeCommit, join_all(deletes)).await? {
            let rows = deleted.map_err(before)?;
            removed = removed.saturating_add(u64::try_from(rows.len()).unwrap_or(u64::MAX));
        }
    }
    let commit = connection.batch_execute("commit");
    within(ANSWER_TIME_MAX, Phase::Commit, commit)
        .await?
        .map_err(|error| failure::statement(&error, Phase::Commit))?;
    Ok(removed)
}

/// Makes the partitions of the days ahead and drops those whose keys are gone, once a day and
/// process. A role that may not do so leaves large answers in their rows, which is sound.
async fn maintain(core: &Core) -> Result<(), StoreError> {
    let connection = core.connection().await?;
    let rows = connection.read(&sql::CLOCK, &[]).await?;
    let row = rows.first().ok_or_else(failure::missing)?;
    let now: Moment = row.try_get(0).map_err(|_| failure::column())?;
    let today = Day::of_micros(now.0);
    if !core.days.is_stale(today) {
        connection.release();
        return Ok(());
    }
    let mut there = days(&connection).await?;
    let days_ahead = i32::from(core.options.answer_days_ahead);
    for row in connection.read(&sql::ANSWER_DAYS_AHEAD, &[&days_ahead]).await? {
        let partition = Partition::read(&row)?;
        if there.contains_key(&partition.day) {
            continue;
        }
        match change(&connection, &partition.create()).await {
            Ok(()) => {
                there.insert(partition.day, partition.name);
            }
            Err(error) if error.kind() == Kind::Forbidden => break,
            // Another process makes them at the same time; the next pass sees them.
            Err(error) if is_contention(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let over = there.range(..today).take(DROPS_MAX);
    for (day, name) in over {
        if is_used(&connection, *day).await? {
            continue;
        }
        match change(&connection, &format!("drop table if exists samekey.{name}")).await {
            Ok(()) => {}
            Err(error) if error.kind() == Kind::Forbidden => break,
            Err(error) if is_contention(&error) => {}
            Err(error) => return Err(error),
        }
    }
    core.days.set(there.into_keys().filter(|day| *day >= today).collect(), Some(today));
    connection.release();
    Ok(())
}

fn is_contention(error: &StoreError) -> bool {
    // 42P07, 42710, 42P17 and 23505: the table, or what belongs to it, is there already.
    matches!(error.kind(), Kind::LockTimeout | Kind::Conflict)
        || matches!(error.sqlstate(), Some("42P07" | "42710" | "42P17" | "23505"))
}

async fn is_used(connection: &Connection, day: Day) -> Result<bool, StoreError> {
    let bounds: [Cell<'_>; 2] = [&day.start(), &day.plus(1).start()];
    let rows = connection.read(&sql::ANSWER_DAY_USED, &bounds).await?;
    let row = rows.first().ok_or_else(failure::missing)?;
    row.try_get(0).map_err(|_| failure::column())
}

/// Changes the schema in a transaction of its own, without waiting long for a lock.
async fn change(connection: &Connection, statement: &str) -> Result<(), StoreError> {
    let text = format!("set local lock_timeout = '{DROP_LOCK_WAIT}'; {statement}");
    // Several statements in one message are one transaction.
    within(ANSWER_TIME_MAX, Phase::Commit, connection.batch_execute(&text))
        .await?
        .map_err(|error| failure::statement(&error, Phase::Commit))
}

/// A partition that there should be.
struct Partition {
    name: String,
    first_day: String,
    next_day: String,
    day: Day,
}

impl Partition {
    fn read(row: &tokio_postgres::Row) -> Result<Partition, StoreError> {
        let read = || -> Result<Partition, tokio_postgres::Error> {
            Ok(Partition {
                name: row.try_get(0)?,
                first_day: row.try_get(1)?,
                next_day: row.try_get(2)?,
                day: row.try_get(3)?,
            })
        };
        read().map_err(|_| failure::column())
    }

    /// It is made beside its parent and then attached, which blocks nobody.
    fn create(&self) -> String {
        let Partition { name, first_day, next_day, .. } = self;
        format!(
            "create table samekey.{name} (like samekey.answers including all); \
             alter table samekey.answers attach partition samekey.{name} \
             for values from ('{first_day}') to ('{next_day}')"
        )
    }
}

/// The days for which there is a partition, with its name.
pub(super) async fn days(connection: &Connection) -> Result<BTreeMap<Day, String>, StoreError> {
    let rows = connection.read(&sql::ANSWER_DAYS, &[]).await?;
    let mut days = BTreeMap::new();
    for row in &rows {
        let read = || -> Result<(Day, String), tokio_postgres::Error> {
            Ok((row.try_get(1)?, row.try_get(0)?))
        };
        let (day, name) = read().map_err(|_| failure::column())?;
        days.insert(day, name);
    }
    Ok(days)
}
