//! From what the driver says to what leaves this crate.

pub(crate) use crate::sqlstate::{
    Phase, came_and_went, claim_lost, column, lost, may_roll_back, missing, no_free_connection,
    not_connected, read_only, taken_meanwhile, timed_out,
};

use crate::error::{Kind, StoreError};
use crate::sqlstate::{by_code, is_ours, unreachable};
use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::Error;

/// The failure of a statement on a connection that was open.
pub(crate) fn statement(error: &Error, phase: Phase) -> StoreError {
    let Some(code) = error.code().map(|code| code.code()) else {
        return lost(phase);
    };
    let constraint =
        error.as_db_error().and_then(|database| database.constraint()).filter(|name| is_ours(name));
    by_code(code, constraint, phase)
}

/// The failure to get a connection.
pub(crate) fn pool(error: &PoolError) -> StoreError {
    match error {
        PoolError::Timeout(TimeoutType::Wait) => no_free_connection(),
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) | PoolError::Closed => {
            unreachable()
        }
        PoolError::Backend(error) => connecting(error),
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => StoreError::new(
            Kind::Other,
            "the pool cannot make connections as it is set up; give it a runtime and no failing hook",
        ),
    }
}

/// The failure to connect.
pub(crate) fn connecting(error: &Error) -> StoreError {
    match error.code() {
        Some(code) => by_code(code.code(), None, Phase::BeforeCommit),
        None => unreachable(),
    }
}
