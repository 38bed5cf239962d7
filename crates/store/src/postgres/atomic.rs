//! The caller's transaction with the key's row claimed in it.
//!
//! A new claim costs one round trip: begin, insert and savepoint are sent in one go, and the insert
//! bounds its own wait for a lock. Settling costs one: the last update and the commit are sent in one go, which is safe
//! because the update fails where it finds no row, and a commit behind a failure commits nothing.
//!
//! The update also demands that the transaction is the one that made the claim. A transaction is
//! known by its `now()`, which stays the same from its begin to its end.

#[cfg(samekey_bugs)]
mod bugs;

use super::answers::{self, Placement};
use super::cells::{self, Cell, Cells, Found};
use super::connection::{ANSWER_TIME_MAX, Connection, Ready, within};
use super::failure::{self, Phase};
use super::value::{Moment, Span};
use super::{Core, PostgresLedger, sql};
use crate::atomic::{AtomicLedger, Begun, OpenTransaction};
use crate::error::{Kind, StoreError};
use crate::outbox::{Command, Enqueued};
use crate::phrases::{BEGIN_PLAINLY, BEGINS_MAX, ISOLATION, lock_timeout, lock_wait};
use crate::row::{Row, check_offer, check_settlement, check_swap};
use crate::{Ledger, Seen, Swap};
use deadpool_postgres::ClientWrapper;
use futures_util::future::{join, join3};
use samekey_core::delivery::Delivery;
use samekey_core::key::Scope;
use samekey_core::record::Record;
use samekey_core::time::Time;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// An open transaction of the caller's, with a key's row in it.
///
/// It ends by [`OpenTransaction::settle`], [`OpenTransaction::commit_unkeyed`] or
/// [`OpenTransaction::roll_back`]. One that is dropped is rolled back and its connection is closed.
#[must_use = "a transaction that is dropped is rolled back and costs its connection"]
pub struct Open {
    connection: Arc<Connection>,
    core: Arc<Core>,
    started: Time,
    settle: Option<Ready>,
}

/// The transaction, as a handler is given it: it runs statements and cannot end the transaction by
/// any method of its own. `commit` and `rollback` as text are found out when it is settled.
///
/// Clones are cheap, and all of them must be dropped before the transaction is settled.
#[derive(Clone)]
pub struct Tx {
    connection: Arc<Connection>,
}

impl Deref for Tx {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.connection
    }
}

impl Tx {
    /// Inserts a command that is to be executed once at a counterparty, together with the key's row and what
    /// else the handler writes, or finds the latest one of its action; see
    /// [`outbox::enqueue`](super::outbox::enqueue).
    ///
    /// # Errors
    /// As there.
    pub async fn enqueue(
        &self,
        command: &Command,
        delivery: &Delivery,
    ) -> Result<Enqueued, StoreError> {
        super::outbox::enqueue::<tokio_postgres::Client>(self, command, delivery).await
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Open")
    }
}

impl AtomicLedger for PostgresLedger {
    type Open = Open;

    async fn begin(
        &self,
        scope: &Scope,
        offer: &Record,
        wait: Duration,
    ) -> Result<Begun<Open>, StoreError> {
        check_offer(offer)?;
        for _ in 0..BEGINS_MAX {
            if let Some(begun) = begin_once(&self.core, scope, offer, wait).await? {
                return Ok(begun);
            }
        }
        Err(failure::came_and_went())
    }

    async fn begin_unkeyed(&self) -> Result<Open, StoreError> {
        let connection = self.core.connection().await?;
        let ready = connection.ready(&sql::CLOCK).await?;
        let work = join(
            connection.batch_execute(&self.core.phrases.begin_durably),
            connection.run(&ready, &[]),
        );
        let (begun, rows) = within(ANSWER_TIME_MAX, Phase::BeforeCommit, work).await?;
        begun.map_err(before_commit)?;
        let rows = rows.map_err(before_commit)?;
        let row = rows.first().ok_or_else(failure::missing)?;
        let now: Moment = row.try_get(0).map_err(|_| failure::column())?;
        let started = Time::from_micros(now.0);
        Ok(Open {
            connection: Arc::new(connection),
            core: self.core.clone(),
            started,
            settle: None,
        })
    }

    async fn load_committed(&self, scope: &Scope) -> Result<Seen, StoreError> {
        self.load(scope).await
    }
}

/// One try; nothing where another one is needed: the row that stood in the way is gone, or the session
/// begins its transactions with another isolation level.
async fn begin_once(
    core: &Arc<Core>,
    scope: &Scope,
    offer: &Record,
    wait: Duration,
) -> Result<Option<Begun<Open>>, StoreError> {
    let connection = core.connection().await?;
    #[cfg(samekey_bugs)]
    let connection = match bugs::look_up_first(core, connection, scope, offer).await? {
        Ok(begun) => return Ok(Some(begun)),
        Err(connection) => connection,
    };
    // Both now, so that a connection's first settlement is as quick as the others.
    let (ready, settle) =
        join(connection.ready(&sql::INSERT_OR_LOAD), connection.ready(&sql::SETTLE)).await;
    let (ready, settle) = (ready?, settle?);
    let cells: Cells<Span> = Cells::of(Row::of(offer));
    let (org, key) = (scope.org.as_str(), scope.key.as_str());
    let mut parameters: Vec<Cell<'_>> = vec![&org, &key];
    parameters.extend(cells.all());
    let (bound, unbound) = (lock_wait(wait), &core.phrases.lock_timeout);
    parameters.extend([&bound as Cell<'_>, unbound]);
    let otherwise = core.begins_otherwise.load(Ordering::Relaxed);
    let begin = if otherwise { core.phrases.begin } else { BEGIN_PLAINLY };
    // First polled in this order, they are sent in this order, without waiting for one another.
    let work = join3(
        connection.batch_execute(begin),
        connection.run(&ready, &parameters),
        connection.batch_execute(&core.phrases.savepoint),
    );
    let limit = ANSWER_TIME_MAX.saturating_add(wait);
    let (begun, claimed, after) = within(limit, Phase::BeforeCommit, work).await?;
    let rows = match begun.and(claimed) {
        Ok(rows) => rows,
        Err(error) => {
            let error = before_commit(error);
            // Also after a deadlock or a refused begin: the connection is good, its state is not.
            connection.roll_back().await;
            return if error.kind() == Kind::LockTimeout {
                Ok(Some(Begun::Busy))
            } else {
                Err(error)
            };
        }
    };
    after.map_err(before_commit)?;
    let open = |connection, started| Open {
        connection: Arc::new(connection),
        core: core.clone(),
        started,
        settle: Some(settle),
    };
    if let Some(row) = rows.first() {
        let isolation: &str = row.try_get(1).map_err(|_| failure::column())?;
        if isolation != ISOLATION {
            // From here on every transaction says which one it needs.
            core.begins_otherwise.store(true, Ordering::Relaxed);
            connection.roll_back().await;
            return Ok(None);
        }
        let now = claimed_at(core, &connection, row).await?;
        return Ok(Some(Begun::Claimed(open(connection, now), cells::inserted(offer, now))));
    }
    match reload(&connection, scope).await? {
        Found::Nothing(_) => {
            connection.roll_back().await;
            Ok(None)
        }
        found @ Found::Row { .. } => match answers::complete(&connection, scope, found).await? {
            Some(seen) => Ok(Some(Begun::Found(open(connection, seen.now), seen))),
            None => {
                connection.roll_back().await;
                Ok(None)
            }
        },
    }
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

async fn reload(connection: &Connection, scope: &Scope) -> Result<Found, StoreError> {
    let rows = connection.read(&sql::LOAD, &[&scope.org.as_str(), &scope.key.as_str()]).await?;
    cells::found(rows.first().ok_or_else(failure::missing)?, 0)
}

impl Open {
    /// The transaction, for a handler.
    pub fn tx(&self) -> Tx {
        Tx { connection: self.connection.clone() }
    }

    /// The connection for ourselves alone. Where a handler has kept a [`Tx`], its statements would
    /// run behind the commit, so the session is ended, which rolls back.
    async fn alone(self) -> Result<Connection, StoreError> {
        match Arc::try_unwrap(self.connection) {
            Ok(connection) => Ok(connection),
            Err(shared) => {
                // Rolled back first: to end one's own session is a statement like any other.
                let end = "rollback; select pg_terminate_backend(pg_backend_pid())";
                let ended = shared.batch_execute(end);
                let _ = within(ANSWER_TIME_MAX, Phase::BeforeCommit, ended).await;
                Err(StoreError::new(
                    Kind::Misused,
                    "the handler kept its transaction beyond its end; nothing was committed; drop every Tx before the handler returns",
                ))
            }
        }
    }
}

impl OpenTransaction for Open {
    async fn reclaim(
        &mut self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
    ) -> Result<Swap, StoreError> {
        check_swap(seen, next)?;
        let connection = &self.connection;
        let ready = connection.ready(&sql::SWAP).await?;
        let (org, key) = (scope.org.as_str(), scope.key.as_str());
        let compared: Cells<Moment> = Cells::of(Row::of(seen));
        let cells: Cells<Moment> = Cells::of(Row::of(next));
        let mut parameters: Vec<Cell<'_>> = vec![&org, &key];
        parameters.extend(compared.compared());
        parameters.extend(cells.all());
        let inline: Option<super::value::Day> = None;
        parameters.push(&inline);
        let bound = lock_timeout(self.core.options.reclaim_wait);
        let work = join3(
            connection.batch_execute(&bound),
            connection.run(&ready, &parameters),
            connection.batch_execute(&self.core.phrases.after_reclaim),
        );
        let (bound, rows, after) = within(ANSWER_TIME_MAX, Phase::BeforeCommit, work).await?;
        bound.map_err(before_commit)?;
        let rows = rows.map_err(before_commit)?;
        after.map_err(before_commit)?;
        if rows.is_empty() {
            return Ok(Swap::Changed(super::batches::load(connection, scope).await?));
        }
        Ok(Swap::Written)
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        let undo = self.connection.batch_execute(&self.core.phrases.undo);
        within(ANSWER_TIME_MAX, Phase::BeforeCommit, undo).await?.map_err(before_commit)
    }

    async fn settle(
        mut self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
    ) -> Result<(), StoreError> {
        check_settlement(seen, next)?;
        let (started, core) = (Moment(self.started.micros()), self.core.clone());
        let ready = self.settle.take();
        let connection = self.alone().await?;
        let ready = match ready {
            Some(ready) => ready,
            None => connection.ready(&sql::SETTLE).await?,
        };
        #[cfg(samekey_bugs)]
        let ready = bugs::before_settling(&connection, scope, seen, ready).await?;
        let (org, key) = (scope.org.as_str(), scope.key.as_str());
        let compared: Cells<Moment> = Cells::of(Row::of(seen));
        let mut row = Row::of(next);
        let placement = Placement::of(next, &mut row, &core.days);
        let cells: Cells<Moment> = Cells::of(row);
        let mut parameters: Vec<Cell<'_>> = vec![&org, &key];
        parameters.extend(compared.compared());
        parameters.push(&started);
        parameters.extend(cells.settled());
        parameters.push(&placement.day);
        let large = match &placement.body {
            Some(_) => Some(connection.ready(&sql::ANSWER_INSERT).await?),
            None => None,
        };
        let body: [Cell<'_>; 4] = [&org, &key, &placement.day, &placement.body];
        let put = async {
            match &large {
                Some(large) => connection.run(large, &body).await.map(|_| ()),
                None => Ok(()),
            }
        };
        let work =
            join3(put, connection.run(&ready, &parameters), connection.batch_execute("commit"));
        let (put, written, committed) = within(ANSWER_TIME_MAX, Phase::Commit, work).await?;
        #[cfg(samekey_bugs)]
        if crate::bugs::planted("commit-result-ignored") {
            return Ok(());
        }
        if let Err(refused) = put.and(written) {
            return Err(not_settled(connection, &refused).await);
        }
        match committed {
            Ok(()) => {
                connection.release();
                Ok(())
            }
            Err(error) => Err(not_committed(connection, &error)),
        }
    }

    async fn commit_unkeyed(self) -> Result<(), StoreError> {
        let started = Moment(self.started.micros());
        let connection = self.alone().await?;
        let ready = connection.ready(&sql::STILL_OPEN).await?;
        let parameters: [Cell<'_>; 1] = [&started];
        let still_open = connection.run(&ready, &parameters);
        let work = join(still_open, connection.batch_execute("commit"));
        let (still_open, committed) = within(ANSWER_TIME_MAX, Phase::Commit, work).await?;
        if let Err(refused) = still_open {
            return Err(not_settled(connection, &refused).await);
        }
        match committed {
            Ok(()) => {
                connection.release();
                Ok(())
            }
            Err(error) => Err(not_committed(connection, &error)),
        }
    }

    async fn roll_back(self) -> Result<(), StoreError> {
        let connection = self.alone().await?;
        connection.roll_back().await;
        Ok(())
    }
}

/// The last statement before the commit failed. While the server says so itself, the commit behind
/// it committed nothing.
async fn not_settled(connection: Connection, error: &tokio_postgres::Error) -> StoreError {
    let Some(code) = error.code().map(|code| code.code().to_owned()) else {
        return failure::statement(error, Phase::Commit);
    };
    // The commit has ended the transaction already; this makes sure of it.
    connection.roll_back().await;
    if code == "22012" {
        return failure::claim_lost(&code);
    }
    failure::statement(error, Phase::BeforeCommit)
}

/// The commit failed. The connection is good only if the server refused it in order.
fn not_committed(connection: Connection, error: &tokio_postgres::Error) -> StoreError {
    let failure = failure::statement(error, Phase::Commit);
    if failure.may_have_committed() {
        drop(connection);
    } else {
        connection.release();
    }
    failure
}

fn before_commit(error: tokio_postgres::Error) -> StoreError {
    failure::statement(&error, Phase::BeforeCommit)
}
