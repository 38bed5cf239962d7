//! The caller's transaction that holds a key.
//!
//! A new claim costs one round trip: begin, a lock on the key, and a look whether it has a row are sent in one go. Its row
//! is written once, with its answer. There is no savepoint: what a handler wrote is taken back by rolling everything
//! back and locking anew, which only a refusal pays for. Settling costs one: the row and the commit are sent in one go, which is safe
//! because the statement fails where the row cannot be written, and a commit behind a failure commits nothing.
//!
//! It also fails where the transaction is not the one that has the lock. A transaction is
//! known by its `now()`, which stays the same from its begin to its end.

#[cfg(samekey_bugs)]
mod bugs;
mod ending;
mod lock;

use super::answers::{self, Placement};
use super::cells::{self, Cell, Cells, Found};
use super::connection::{ANSWER_TIME_MAX, Connection, Ready, within};
use super::failure::{self, Phase};
use super::value::{Moment, Span};
use super::{Core, PostgresLedger, sql};
use crate::atomic::{AtomicLedger, Begun, Hold, OpenTransaction};
use crate::error::{Kind, StoreError};
use crate::outbox::{Command, Enqueued};
use crate::phrases::{BEGINS_MAX, lock_timeout};
use crate::row::{Row, check_claim, check_offer, check_settlement, check_swap};
use crate::{Seen, Swap};
use deadpool_postgres::ClientWrapper;
use ending::{kept_beyond_its_end, not_committed, not_settled, rolled_back};
use futures_util::future::{join, join3};
use lock::{Locked, locked};
use samekey_core::delivery::Delivery;
use samekey_core::key::Scope;
use samekey_core::record::Record;
use samekey_core::time::Time;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The parameters of the longest statement that settles.
const PARAMETERS_MAX: usize = 18;

/// An open transaction of the caller's that holds a key.
///
/// It ends by [`OpenTransaction::settle`], [`OpenTransaction::commit_unkeyed`] or
/// [`OpenTransaction::roll_back`]. One that is dropped is rolled back and its connection is closed.
#[must_use = "a transaction that is dropped is rolled back and costs its connection"]
pub struct Open {
    connection: Arc<Connection>,
    core: Arc<Core>,
    started: Time,
    settle: Option<Ready>,
    hold: Hold,
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
        let begin = connection.batch_execute(&self.core.phrases.begin_durably);
        let work = join(begin, connection.run(&ready, &[]));
        let (begun, rows) = within(ANSWER_TIME_MAX, Phase::BeforeCommit, work).await?;
        begun.map_err(before_commit)?;
        let rows = rows.map_err(before_commit)?;
        let started = clock(&rows)?;
        Ok(Open {
            connection: Arc::new(connection),
            core: self.core.clone(),
            started,
            settle: None,
            hold: Hold::None,
        })
    }

    async fn put_in_doubt(
        &self,
        scope: &Scope,
        record: &Record,
        route: &str,
    ) -> Result<bool, StoreError> {
        check_offer(record)?;
        let connection = self.core.connection().await?;
        let ready = connection.ready(&sql::INSERT_OPEN).await?;
        let cells: Cells<Span> = Cells::of(Row::of(record));
        let (org, key) = (scope.org.as_str(), scope.key.as_str());
        let mut parameters: Vec<Cell<'_>> = vec![&org, &key];
        parameters.extend(cells.all());
        parameters.push(&route);
        // One statement by itself is a transaction of its own.
        let written = within(ANSWER_TIME_MAX, Phase::Commit, connection.run(&ready, &parameters))
            .await?
            .map_err(|error| failure::statement(&error, Phase::Commit))?;
        connection.release();
        Ok(!written.is_empty())
    }

    async fn load_committed(&self, scope: &Scope) -> Result<Seen, StoreError> {
        let connection = self.core.connection().await?;
        let parameters: [Cell<'_>; 2] = [&scope.org.as_str(), &scope.key.as_str()];
        let rows = connection.read(&sql::REPLAY, &parameters).await?;
        let replayed = match rows.first() {
            Some(row) => answers::complete(&connection, scope, cells::replayed(row)?).await?,
            None => None,
        };
        let seen = match replayed {
            Some(seen) => seen,
            None => super::batches::load(&connection, scope).await?,
        };
        connection.release();
        Ok(seen)
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
    // Now, so that a connection's first settlement is as quick as the others.
    let settle = connection.ready(&sql::SETTLE_NEW).await?;
    let locked = match locked(core, &connection, scope, wait).await {
        Ok(locked) => locked,
        Err(error) => {
            // Also after a deadlock or a refused begin: the connection is good, its state is not.
            connection.roll_back().await;
            return Err(error);
        }
    };
    let open = |connection, started, settle, hold| Open {
        connection: Arc::new(connection),
        core: core.clone(),
        started,
        settle,
        hold,
    };
    match locked {
        Locked::New(now) => {
            let hold = Hold::Offered(offer.clone(), wait);
            let seen = cells::inserted(offer, now);
            return Ok(Some(Begun::Claimed(open(connection, now, Some(settle), hold), seen)));
        }
        Locked::Busy => {
            connection.roll_back().await;
            return Ok(Some(Begun::Busy));
        }
        Locked::Otherwise => {
            connection.roll_back().await;
            return Ok(None);
        }
        Locked::There => {}
    }
    match reload(&connection, scope).await? {
        Found::Nothing(_) => {
            connection.roll_back().await;
            Ok(None)
        }
        found @ Found::Row { .. } => match answers::complete(&connection, scope, found).await? {
            Some(seen) => {
                Ok(Some(Begun::Found(open(connection, seen.now, None, Hold::None), seen)))
            }
            None => {
                connection.roll_back().await;
                Ok(None)
            }
        },
    }
}

/// The clock of a transaction that has just begun.
fn clock(rows: &[tokio_postgres::Row]) -> Result<Time, StoreError> {
    let row = rows.first().ok_or_else(failure::missing)?;
    let now: Moment = row.try_get(0).map_err(|_| failure::column())?;
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

    /// Takes a free row by compare-and-set.
    async fn take(&self, scope: &Scope, seen: &Record, next: &Record) -> Result<Swap, StoreError> {
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
            connection.batch_execute(&self.core.phrases.unbound),
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

    /// The connection for ourselves alone. Where a handler has kept a [`Tx`], its statements would
    /// run behind the commit, so the session is ended, which rolls back.
    async fn alone(self) -> Result<Connection, StoreError> {
        match Arc::try_unwrap(self.connection) {
            Ok(connection) => Ok(connection),
            Err(shared) => Err(kept_beyond_its_end(&shared).await),
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
        let swap = self.take(scope, seen, next).await?;
        if matches!(swap, Swap::Written) {
            self.hold = Hold::Taken(seen.clone(), next.clone());
        }
        Ok(swap)
    }

    async fn undo(&mut self, scope: &Scope) -> Result<(), StoreError> {
        // Unless all goes well, it holds nothing any longer.
        let hold = std::mem::replace(&mut self.hold, Hold::None);
        if Arc::get_mut(&mut self.connection).is_none() {
            return Err(kept_beyond_its_end(&self.connection).await);
        }
        let connection = &self.connection;
        match &hold {
            Hold::None => rolled_back(connection, self.started).await?,
            // In one go, so that the key is free for no longer than the server needs for the next message.
            Hold::Offered(_, wait) => {
                let locked = locked(&self.core, connection, scope, *wait);
                let (ended, locked) = join(rolled_back(connection, self.started), locked).await;
                ended?;
                match locked? {
                    Locked::New(now) => self.started = now,
                    Locked::There | Locked::Busy | Locked::Otherwise => {
                        return Err(failure::taken_meanwhile());
                    }
                }
            }
            Hold::Taken(seen, next) => {
                rolled_back(connection, self.started).await?;
                let ready = connection.ready(&sql::CLOCK).await?;
                let begin = connection.batch_execute(&self.core.phrases.begin_durably);
                let work = join(begin, connection.run(&ready, &[]));
                let (begun, rows) = within(ANSWER_TIME_MAX, Phase::BeforeCommit, work).await?;
                self.started = clock(&begun.and(rows).map_err(before_commit)?)?;
                match self.take(scope, seen, next).await? {
                    Swap::Written => {}
                    Swap::Changed(_) => return Err(failure::taken_meanwhile()),
                }
            }
        }
        self.hold = hold;
        Ok(())
    }

    async fn settle(
        mut self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
    ) -> Result<(), StoreError> {
        check_settlement(seen, next)?;
        let is_new = match &self.hold {
            Hold::Offered(offer, _) => {
                check_claim(offer, seen)?;
                true
            }
            Hold::None | Hold::Taken(..) => false,
        };
        let (started, core) = (Moment(self.started.micros()), self.core.clone());
        let ready = self.settle.take();
        let connection = self.alone().await?;
        let ready = match ready {
            Some(ready) => ready,
            None => connection.ready(if is_new { &sql::SETTLE_NEW } else { &sql::SETTLE }).await?,
        };
        #[cfg(samekey_bugs)]
        let ready = bugs::before_settling(&connection, is_new, ready).await?;
        let (org, key) = (scope.org.as_str(), scope.key.as_str());
        let mut row = Row::of(next);
        let placement = Placement::of(next, &mut row, &core.days);
        let cells: Cells<Moment> = Cells::of(row);
        let compared: Cells<Moment>;
        let mut parameters: Vec<Cell<'_>> = Vec::with_capacity(PARAMETERS_MAX);
        parameters.extend([&org as Cell<'_>, &key]);
        if is_new {
            parameters.extend(cells.held());
        } else {
            compared = Cells::of(Row::of(seen));
            parameters.extend(compared.compared());
        }
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
        // First polled in this order, they are sent in this order, without waiting for one another.
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
            Err(error) => Err(not_committed(connection, &error).await),
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
            Err(error) => Err(not_committed(connection, &error).await),
        }
    }

    async fn roll_back(self) -> Result<(), StoreError> {
        let started = self.started;
        let is_held = !matches!(self.hold, Hold::None);
        let connection = self.alone().await?;
        if !is_held {
            connection.roll_back().await;
            return Ok(());
        }
        let ended = rolled_back(&connection, started).await;
        if ended.as_ref().map_or_else(|error| error.kind() == Kind::Ended, |()| true) {
            connection.release();
        }
        ended
    }
}

fn before_commit(error: tokio_postgres::Error) -> StoreError {
    failure::statement(&error, Phase::BeforeCommit)
}
