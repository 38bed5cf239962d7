//! Begin and lock in one go, and what was found behind the lock.

use super::before_commit;
use crate::error::{Kind, StoreError};
use crate::phrases::{BEGIN_PLAINLY, ISOLATION, READ_ONLY, lock_timeout};
use crate::postgres::cells::Cell;
use crate::postgres::connection::{ANSWER_TIME_MAX, Connection, Ready, within};
use crate::postgres::failure::{self, Phase};
use crate::postgres::value::Moment;
use crate::postgres::{Core, sql};
use futures_util::future::{join3, join4};
use samekey_core::key::Scope;
use samekey_core::time::Time;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_postgres::Row;

/// What came of asking for a key.
pub(super) enum Locked {
    /// It has no row, and nobody else may give it one while this transaction, of that moment, is open.
    New(Time),
    /// It has a row.
    There,
    /// Another transaction holds it.
    Busy,
    /// The session begins its transactions with another isolation level.
    Otherwise,
}

/// Begins a transaction and locks the key in it. Unless the key is new, or there is a row, the transaction has
/// to be rolled back.
pub(super) async fn locked(
    core: &Core,
    connection: &Connection,
    scope: &Scope,
    wait: Duration,
) -> Result<Locked, StoreError> {
    let lock = connection.ready(&sql::LOCK).await?;
    let look = connection.ready(&sql::LOOK).await?;
    #[cfg(samekey_bugs)]
    let lock = super::bugs::lock(lock);
    let (org, key) = (scope.org.as_str(), scope.key.as_str());
    let parameters: [Cell<'_>; 2] = [&org, &key];
    let otherwise = core.begins_otherwise.load(Ordering::Relaxed);
    let begin = if otherwise { core.phrases.begin } else { BEGIN_PLAINLY };
    let work = join3(
        connection.batch_execute(begin),
        connection.run(&lock, &parameters),
        connection.run(&look, &parameters),
    );
    let (begun, told, there) = within(ANSWER_TIME_MAX, Phase::BeforeCommit, work).await?;
    let told = begun.and(told).map_err(before_commit)?;
    let mut there = there.map_err(before_commit)?;
    let told = told.first().ok_or_else(failure::missing)?;
    if get::<&str>(told, 1)? != ISOLATION {
        // From here on every transaction says which one it needs.
        core.begins_otherwise.store(true, Ordering::Relaxed);
        return Ok(Locked::Otherwise);
    }
    if get::<&str>(told, 4)? == READ_ONLY {
        return Err(failure::read_only());
    }
    // A row that is there is there for everybody.
    if there.is_empty() && !get::<bool>(told, 3)? {
        match waited(core, connection, &look, &parameters, wait).await {
            Ok(rows) => there = rows,
            Err(error) if error.kind() == Kind::LockTimeout => return Ok(Locked::Busy),
            Err(error) => return Err(error),
        }
    }
    if !there.is_empty() {
        return Ok(Locked::There);
    }
    if let Some(words) = core.phrases.make_durable(get(told, 2)?) {
        let set = connection.batch_execute(&words);
        within(ANSWER_TIME_MAX, Phase::BeforeCommit, set).await?.map_err(before_commit)?;
    }
    Ok(Locked::New(Time::from_micros(get::<Moment>(told, 0)?.0)))
}

/// Waits for the lock, and looks again: whoever had it may have written the row. The lock timeout covers the
/// lock alone.
async fn waited(
    core: &Core,
    connection: &Connection,
    look: &Ready,
    parameters: &[Cell<'_>],
    wait: Duration,
) -> Result<Vec<Row>, StoreError> {
    let lock = connection.ready(&sql::LOCK_WAIT).await?;
    let bound = lock_timeout(wait);
    let work = join4(
        connection.batch_execute(&bound),
        connection.run(&lock, parameters),
        connection.batch_execute(&core.phrases.unbound),
        connection.run(look, parameters),
    );
    let limit = ANSWER_TIME_MAX.saturating_add(wait);
    let (bound, locked, unbound, there) = within(limit, Phase::BeforeCommit, work).await?;
    bound.and(locked).and(unbound).and(there).map_err(before_commit)
}

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    column: usize,
) -> Result<T, StoreError> {
    row.try_get(column).map_err(|_| failure::column())
}
