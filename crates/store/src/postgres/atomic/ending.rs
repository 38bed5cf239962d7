//! What a transaction that is over leaves of its connection.

use super::before_commit;
use crate::error::{Kind, StoreError};
use crate::postgres::cells::Cell;
use crate::postgres::connection::{ANSWER_TIME_MAX, Connection, within};
use crate::postgres::failure::{self, Phase};
use crate::postgres::sql;
use crate::postgres::value::Moment;
use crate::sqlstate::{NOT_OURS, SECOND_ROW};
use futures_util::future::join;
use samekey_core::time::Time;

/// Rolls everything back, if the transaction is the one that was begun.
pub(super) async fn rolled_back(connection: &Connection, started: Time) -> Result<(), StoreError> {
    let started = Moment(started.micros());
    let parameters: [Cell<'_>; 1] = [&started];
    // Not prepared: in a transaction in which a statement failed, nothing can be.
    let still_open = connection.run_once(&sql::STILL_OPEN, &parameters);
    let work = join(still_open, connection.batch_execute("rollback"));
    let (still_open, ended) = within(ANSWER_TIME_MAX, Phase::BeforeCommit, work).await?;
    ended.map_err(before_commit)?;
    let Err(error) = still_open else { return Ok(()) };
    failure::may_roll_back(error.code().map(|code| code.code()))
        .unwrap_or_else(|| Err(before_commit(error)))
}

/// A handler has kept its [`super::Tx`]: whatever it still runs would run outside of its transaction.
pub(super) async fn kept_beyond_its_end(connection: &Connection) -> StoreError {
    // Rolled back first: to end one's own session is a statement like any other.
    let end = "rollback; select pg_terminate_backend(pg_backend_pid())";
    let ended = connection.batch_execute(end);
    let _ = within(ANSWER_TIME_MAX, Phase::BeforeCommit, ended).await;
    StoreError::new(
        Kind::Misused,
        "the handler kept its transaction beyond its end; nothing was committed; drop every Tx before the handler returns",
    )
}

/// The last statement before the commit failed. While the server says so itself, the commit behind
/// it committed nothing.
pub(super) async fn not_settled(
    connection: Connection,
    error: &tokio_postgres::Error,
) -> StoreError {
    let Some(code) = error.code().map(|code| code.code().to_owned()) else {
        return failure::statement(error, Phase::Commit);
    };
    // The commit has ended the transaction already; this makes sure of it.
    connection.roll_back().await;
    match code.as_str() {
        NOT_OURS => failure::claim_lost(&code),
        SECOND_ROW => failure::taken_meanwhile().with_sqlstate(&code),
        _ => failure::statement(error, Phase::BeforeCommit),
    }
}

/// The commit failed. The connection is good only if the server refused it in order, and then the transaction may
/// be open still: a cancel can come before the server has begun to commit.
pub(super) async fn not_committed(
    connection: Connection,
    error: &tokio_postgres::Error,
) -> StoreError {
    let failure = failure::statement(error, Phase::Commit);
    if failure.may_have_committed() {
        drop(connection);
    } else {
        connection.roll_back().await;
    }
    failure
}
