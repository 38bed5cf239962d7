//! A connection of an sqlx pool that goes back only when somebody says that it is clean.
//!
//! sqlx counts open transactions when it is told of one, and a `begin` that is dropped half-way is
//! not counted (0.8.4 to 0.9.0): its connection goes back to the pool inside a transaction. So
//! transactions are opened here by a plain statement, and a session that is dropped is closed.

use crate::error::StoreError;
use crate::sqlstate::{self, Phase};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Error, Executor, PgConnection, PgPool, Postgres};
use std::future::Future;
use std::time::Duration;

/// How long the server has to answer one of our own statements, beyond what it may wait for a lock.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection; see the module.
pub(super) struct Session {
    connection: Option<PoolConnection<Postgres>>,
}

impl Session {
    pub(super) async fn of(pool: &PgPool) -> Result<Session, StoreError> {
        let connection =
            pool.acquire().await.map_err(|error| statement(&error, Phase::BeforeCommit))?;
        Ok(Session { connection: Some(connection) })
    }

    /// The connection itself.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        match &mut self.connection {
            Some(connection) => connection,
            None => unreachable!("only release and drop take it, and both end this value"),
        }
    }

    /// Runs a text of our own without arguments.
    pub(super) async fn batch(&mut self, text: String, phase: Phase) -> Result<(), StoreError> {
        let work = self.connection().execute(sqlx::raw_sql(AssertSqlSafe(text)));
        within(ANSWER_TIME_MAX, phase, work)
            .await?
            .map(|_| ())
            .map_err(|error| statement(&error, phase))
    }

    /// Gives the connection back. Only for one that is in no transaction.
    pub(super) fn release(mut self) {
        drop(self.connection.take());
    }

    /// Ends the transaction and gives the connection back; closes it where that cannot be had.
    pub(super) async fn roll_back(mut self) {
        if self.batch("rollback".to_owned(), Phase::BeforeCommit).await.is_ok() {
            self.release();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.close_on_drop();
        }
    }
}

/// Waits for an answer, but not for ever.
pub(super) async fn within<T>(
    limit: Duration,
    phase: Phase,
    work: impl Future<Output = T>,
) -> Result<T, StoreError> {
    tokio::time::timeout(limit, work).await.map_err(|_| sqlstate::timed_out(phase))
}

/// What an error of sqlx means.
pub(super) fn statement(error: &Error, phase: Phase) -> StoreError {
    if let Some(database) = error.as_database_error() {
        let constraint = database.constraint().filter(|name| sqlstate::is_ours(name));
        return match database.code() {
            Some(code) => sqlstate::by_code(&code, constraint, phase),
            None => sqlstate::lost(phase),
        };
    }
    if matches!(error, Error::PoolTimedOut) {
        return sqlstate::no_free_connection();
    }
    if matches!(error, Error::ColumnDecode { .. } | Error::ColumnNotFound(_) | Error::Decode(_)) {
        return sqlstate::column();
    }
    sqlstate::lost(phase)
}

/// The SQLSTATE of an error that the server itself sent.
pub(super) fn code(error: &Error) -> Option<String> {
    error.as_database_error().and_then(|database| database.code()).map(|code| code.into_owned())
}
