//! A connection out of the pool that goes back only when somebody says that it is clean.
//!
//! A future may be dropped at any await. Whoever holds a [`Connection`] then drops it, and it is
//! closed: a connection inside a transaction never returns to the pool.

use super::Options;
use super::failure::{self, Phase};
use super::sql::Sql;
use super::value::Covered;
use crate::error::StoreError;
use deadpool_postgres::{ClientWrapper, Object, Pool};
use futures_util::TryStreamExt;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::time::Duration;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Statement};

/// How long the server has to answer one of our own statements, beyond what it may wait for a lock.
/// They take milliseconds; a server that is silent for longer is taken for lost.
pub(crate) const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection's first uses, after which its plans are looked at for the first time.
const PLANS_ANEW_FIRST: usize = 16;

/// Whether the plans of a connection that was used so often are made anew.
///
/// A plan is kept until the server has counted the table's rows again, which takes it a minute at the least.
/// On an empty table all indexes cost the same, and one that was made then may read all rows of an
/// organisation when there are thousands. So it is made anew whenever as much was done again: a few dozen times
/// in a connection's life.
fn plans_anew(uses: usize) -> bool {
    uses >= PLANS_ANEW_FIRST && uses.is_power_of_two()
}

/// How statements are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statements {
    /// Each is prepared once on every connection.
    #[default]
    Prepared,
    /// Each is sent whole every time, which costs the server some planning, and works behind a
    /// pooler that hands every transaction to another session.
    Unprepared,
}

/// A statement that can be sent at once.
pub(crate) enum Ready {
    Prepared(Statement),
    Unprepared(&'static Sql),
}

/// A connection of the pool; see the module.
pub(crate) struct Connection {
    object: Option<Object>,
    statements: Statements,
}

impl Connection {
    /// Takes one out of the pool, waiting for as long as the options say.
    pub(crate) async fn of(pool: &Pool, options: &Options) -> Result<Connection, StoreError> {
        match tokio::time::timeout(options.acquire_max, pool.get()).await {
            Ok(Ok(object)) => {
                if plans_anew(Object::metrics(&object).recycle_count) {
                    object.statement_cache.clear();
                }
                Ok(Connection { object: Some(object), statements: options.statements })
            }
            Ok(Err(error)) => Err(failure::pool(&error)),
            // With room for another connection nobody waited for one to become free.
            Err(_) if pool.status().size < pool.status().max_size => Err(failure::not_connected()),
            Err(_) => Err(failure::no_free_connection()),
        }
    }

    /// Makes a statement ready, asking the server only when this connection has not seen it.
    pub(crate) async fn ready(&self, sql: &'static Sql) -> Result<Ready, StoreError> {
        match self.statements {
            Statements::Unprepared => Ok(Ready::Unprepared(sql)),
            Statements::Prepared => {
                let preparing = self.prepare_typed_cached(sql.text, sql.types);
                match within(ANSWER_TIME_MAX, Phase::BeforeCommit, preparing).await? {
                    Ok(statement) => Ok(Ready::Prepared(statement)),
                    Err(error) => Err(failure::statement(&error, Phase::BeforeCommit)),
                }
            }
        }
    }

    /// Sends a statement when it is first polled, and gathers its rows. Statements that are polled
    /// together travel together.
    pub(crate) async fn run(
        &self,
        ready: &Ready,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let covered = parameters.iter().map(|parameter| Covered(*parameter));
        let rows = match ready {
            Ready::Prepared(statement) => self.query_raw(statement, covered).await?,
            Ready::Unprepared(sql) => {
                let typed: Vec<(Covered<'_>, Type)> =
                    covered.zip(sql.types.iter().cloned()).collect();
                self.query_typed_raw(sql.text, typed).await?
            }
        };
        let mut rows = pin!(rows);
        let mut gathered = Vec::new();
        while let Some(row) = rows.try_next().await? {
            gathered.push(row);
        }
        Ok(gathered)
    }

    /// Runs a statement that is planned anew every time, whatever the options say: one whose plan
    /// depends on the value of a parameter.
    pub(crate) async fn run_once(
        &self,
        sql: &'static Sql,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.run(&Ready::Unprepared(sql), parameters).await
    }

    /// Readies and runs one statement outside any transaction.
    pub(crate) async fn read(
        &self,
        sql: &'static Sql,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let ready = self.ready(sql).await?;
        within(ANSWER_TIME_MAX, Phase::BeforeCommit, self.run(&ready, parameters))
            .await?
            .map_err(|error| failure::statement(&error, Phase::BeforeCommit))
    }

    /// Gives the connection back to the pool. Only for one that is in no transaction.
    pub(crate) fn release(mut self) {
        drop(self.object.take());
    }

    /// Ends the transaction, whatever its state, and gives the connection back; closes it where
    /// that cannot be had.
    pub(crate) async fn roll_back(self) {
        let ended = within(ANSWER_TIME_MAX, Phase::BeforeCommit, self.batch_execute("rollback"));
        if let Ok(Ok(())) = ended.await {
            self.release();
        }
    }
}

impl Deref for Connection {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        match &self.object {
            Some(object) => object,
            None => unreachable!("only release and drop take it, and both end this value"),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            // Taken out of the pool it closes when it is dropped, and the server rolls back.
            drop(Object::take(object));
        }
    }
}

/// Waits for an answer, but not for ever.
pub(crate) async fn within<T>(
    limit: Duration,
    phase: Phase,
    work: impl Future<Output = T>,
) -> Result<T, StoreError> {
    tokio::time::timeout(limit, work).await.map_err(|_| failure::timed_out(phase))
}
