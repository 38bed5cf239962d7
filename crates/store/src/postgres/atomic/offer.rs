//! Begin and claim in one go: the insert of an offer, and what came of it.

use super::before_commit;
use crate::error::{Kind, StoreError};
use crate::phrases::{BEGIN_PLAINLY, ISOLATION, lock_wait};
use crate::postgres::cells::{Cell, Cells};
use crate::postgres::connection::{ANSWER_TIME_MAX, Connection, within};
use crate::postgres::failure::{self, Phase};
use crate::postgres::value::{Moment, Span};
use crate::postgres::{Core, sql};
use crate::row::Row;
use crate::sqlstate::NOT_OURS;
use futures_util::future::join;
use samekey_core::key::Scope;
use samekey_core::record::Record;
use samekey_core::time::Time;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What came of an offer.
pub(super) enum Offered {
    /// It stands since then.
    Stands(Time),
    /// The key has a row.
    There,
    /// Another transaction holds the key.
    Busy,
    /// The session begins its transactions with another isolation level.
    Otherwise,
}

/// Begins a transaction with the insert of an offer. Unless the offer stands, or there is a row, it has to be
/// rolled back.
pub(super) async fn offered(
    core: &Core,
    connection: &Connection,
    scope: &Scope,
    offer: &Record,
    wait: Duration,
) -> Result<Offered, StoreError> {
    let ready = connection.ready(&sql::INSERT_OR_LOAD).await?;
    let cells: Cells<Span> = Cells::of(Row::of(offer));
    let (org, key) = (scope.org.as_str(), scope.key.as_str());
    let mut parameters: Vec<Cell<'_>> = vec![&org, &key];
    parameters.extend(cells.all());
    let (bound, unbound) = (lock_wait(wait), &core.phrases.lock_timeout);
    parameters.extend([&bound as Cell<'_>, unbound]);
    let otherwise = core.begins_otherwise.load(Ordering::Relaxed);
    let begin = if otherwise { core.phrases.begin } else { BEGIN_PLAINLY };
    let work = join(connection.batch_execute(begin), connection.run(&ready, &parameters));
    let limit = ANSWER_TIME_MAX.saturating_add(wait);
    let (begun, claimed) = within(limit, Phase::BeforeCommit, work).await?;
    let rows = match begun.and(claimed).map_err(before_commit) {
        Ok(rows) => rows,
        // The insert found itself outside of a transaction that was begun before it. That it was not begun is
        // told first; else both were read off the clock in the same microsecond.
        Err(error) if error.sqlstate() == Some(NOT_OURS) => return Err(failure::came_and_went()),
        Err(error) if error.kind() == Kind::LockTimeout => return Ok(Offered::Busy),
        Err(error) => return Err(error),
    };
    let Some(row) = rows.first() else { return Ok(Offered::There) };
    let isolation: &str = row.try_get(1).map_err(|_| failure::column())?;
    if isolation != ISOLATION {
        // From here on every transaction says which one it needs.
        core.begins_otherwise.store(true, Ordering::Relaxed);
        return Ok(Offered::Otherwise);
    }
    Ok(Offered::Stands(claimed_at(core, connection, row).await?))
}

/// The moment of a claim that stands, in a transaction whose commit will be kept.
async fn claimed_at(
    core: &Core,
    connection: &Connection,
    row: &tokio_postgres::Row,
) -> Result<Time, StoreError> {
    let now: Moment = row.try_get(0).map_err(|_| failure::column())?;
    let kept: &str = row.try_get(2).map_err(|_| failure::column())?;
    if let Some(words) = core.phrases.make_durable(kept) {
        let set = connection.batch_execute(&words);
        within(ANSWER_TIME_MAX, Phase::BeforeCommit, set).await?.map_err(before_commit)?;
    }
    Ok(Time::from_micros(now.0))
}
