//! What an SQLSTATE means to a caller: a kind and a sentence that shows nothing of what was stored.
//!
//! Drivers' own texts show keys, values and hosts, so they never leave this crate.

use crate::error::{Kind, StoreError};

/// Whether a statement that failed may have left something behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing was to be committed yet, or what failed is known to have kept the commit from
    /// happening.
    BeforeCommit,
    /// A commit was sent, and this is what came back for it.
    Commit,
}

/// The constraints that may be named: they are ours, and a shard only adds a suffix to them.
const CONSTRAINTS: [&str; 11] = [
    "keys_",
    "open_claims_",
    "decisions_",
    "meta_",
    "commands_",
    "outbox_",
    "order_keys_",
    "order_turns_",
    "finished_",
    "attempts_",
    "command_decisions_",
];

/// Whether a constraint is one of ours, whose name may be told.
pub(crate) fn is_ours(constraint: &str) -> bool {
    CONSTRAINTS.iter().any(|ours| constraint.starts_with(ours))
}

/// The failure that an SQLSTATE stands for.
pub(crate) fn by_code(code: &str, constraint: Option<&str>, phase: Phase) -> StoreError {
    let (kind, sentence) = match code {
        // The server was told to stop or crashed; a shard behind it broke.
        "57P01" | "57P02" | "57P03" | "57P05" => return lost(phase).with_sqlstate(code),
        _ if code.starts_with("08") => return lost(phase).with_sqlstate(code),
        "40003" => return lost(Phase::Commit).with_sqlstate(code),
        "XX000" if phase == Phase::Commit => return lost(phase).with_sqlstate(code),
        "55P03" => (Kind::LockTimeout, "the row stayed locked by another transaction"),
        "40001" | "40P01" => {
            (Kind::Conflict, "another transaction came in between; run this one again")
        }
        "57014" => (Kind::StatementTimeout, "a statement ran into its time limit"),
        TAKES_NO_WRITES => (
            Kind::ReadOnly,
            "the database takes no writes: it is a standby, or set to read-only; connect to the primary",
        ),
        "53100" => (Kind::Full, "the database's disk is full; free some space"),
        "53300" => (
            Kind::PoolExhausted,
            "the database has no connection left; raise its max_connections or use fewer",
        ),
        "42501" => (
            Kind::Forbidden,
            "the role may not do this in the schema samekey; grant it what sql/postgres/roles.sql lists",
        ),
        _ if code.starts_with("28") => (
            Kind::Forbidden,
            "the database refused the role or its password; check both in the address",
        ),
        "3D000" => (
            Kind::Address,
            "the database of that name does not exist; create it or correct the address",
        ),
        "3F000" | "42P01" | "42703" | "42883" | "42804" => (
            Kind::Schema,
            "the schema samekey is missing or has another version; run `samekey migrate`",
        ),
        "25P02" => (
            Kind::Misused,
            "a statement of the transaction had failed before and the transaction was used on; roll it back",
        ),
        "25P01" | "3B001" => (
            Kind::Misused,
            "the transaction was ended by the code that it was given to; leave commit and rollback to samekey",
        ),
        "26000" | "08P01" => (
            Kind::Other,
            "the server does not know a statement that was prepared on this connection; behind a pooler in transaction mode, switch prepared statements off",
        ),
        _ => match constraint {
            Some(name) => {
                let sentence = format!("the database refused a row by its constraint {name}");
                return StoreError::new(Kind::Other, sentence).with_sqlstate(code);
            }
            None => (Kind::Other, "the database refused a statement"),
        },
    };
    StoreError::new(kind, sentence).with_sqlstate(code)
}

/// What the server says to a write where there can be none.
const TAKES_NO_WRITES: &str = "25006";

/// The transaction takes no writes, so nothing is to run in it.
pub(crate) fn read_only() -> StoreError {
    by_code(TAKES_NO_WRITES, None, Phase::BeforeCommit)
}

/// The connection broke.
pub(crate) fn lost(phase: Phase) -> StoreError {
    match phase {
        Phase::BeforeCommit => StoreError::new(
            Kind::Unreachable,
            "the connection to the database broke, and nothing was written; try again",
        ),
        Phase::Commit => StoreError::new(
            Kind::CommitUnknown,
            "the connection to the database broke after a commit was sent; whether it stands is told by asking again",
        ),
    }
}

/// Nothing came back in time; the connection is not used again.
pub(crate) fn timed_out(phase: Phase) -> StoreError {
    match phase {
        Phase::BeforeCommit => StoreError::new(
            Kind::Unreachable,
            "the database did not answer in time, and nothing was committed; try again",
        ),
        Phase::Commit => StoreError::new(
            Kind::CommitUnknown,
            "the database did not answer a commit in time; whether it stands is told by asking again",
        ),
    }
}

/// No connection became free in time.
pub(crate) fn no_free_connection() -> StoreError {
    StoreError::new(
        Kind::PoolExhausted,
        "no connection became free in time; transactions are open for too long, or the pool is too small",
    )
}

#[cfg(feature = "postgres")]
/// A connection was begun and not answered in time.
pub(crate) fn not_connected() -> StoreError {
    StoreError::new(
        Kind::Unreachable,
        "the database did not answer a new connection in time; check that it runs, and is not stopped or overloaded",
    )
}

#[cfg(feature = "postgres")]
/// No connection can be made.
pub(crate) fn unreachable() -> StoreError {
    StoreError::new(
        Kind::Unreachable,
        "the database cannot be reached; check that it runs and that the address is right",
    )
}

/// A column has another type than this code expects.
pub(crate) fn column() -> StoreError {
    StoreError::new(
        Kind::Schema,
        "a column of the schema samekey has another type than expected; restore the schema that `samekey migrate` makes",
    )
}

/// A result that lacks a row where there has to be one.
pub(crate) fn missing() -> StoreError {
    StoreError::new(Kind::Other, "the database answered with fewer rows than it was asked for")
}

/// The transaction ended, or its claim was changed, before it was settled.
pub(crate) fn claim_lost(code: &str) -> StoreError {
    StoreError::new(
        Kind::Ended,
        "the transaction no longer holds its claim: the code that it was given to ended it, or wrote to the key's row; leave both to samekey",
    )
    .with_sqlstate(code)
}

/// Another request wrote the key's row, although this one had been told that there was none.
pub(crate) fn taken_meanwhile() -> StoreError {
    StoreError::new(Kind::Conflict, "another request took the key meanwhile; run this one again")
}

/// What the server says to a second row of a key.
pub(crate) const SECOND_ROW: &str = "23505";
/// What the server says to a statement in a transaction in which an earlier one failed.
const FAILED_TRANSACTION: &str = "25P02";
/// What it says, by a division, where the transaction is not the one that was begun.
pub(crate) const NOT_OURS: &str = "22012";
/// What an answer to `still_open.sql` means to whoever wants to roll back; nothing where it is another failure. A
/// transaction in which a statement failed cannot be asked, and nothing but a rollback can follow in it.
pub(crate) fn may_roll_back(code: Option<&str>) -> Option<Result<(), StoreError>> {
    match code {
        Some(FAILED_TRANSACTION) => Some(Ok(())),
        Some(NOT_OURS) => Some(Err(claim_lost(NOT_OURS))),
        Some(_) | None => None,
    }
}

/// The row that stood in the way of a claim was swept while it was looked at.
pub(crate) fn came_and_went() -> StoreError {
    StoreError::new(
        Kind::Conflict,
        "the key's row came and went while it was looked at; run this again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_somebody_handles_has_its_kind() {
        let before = |code| by_code(code, None, Phase::BeforeCommit).kind();
        assert_eq!(before("08006"), Kind::Unreachable);
        assert_eq!(before("57P01"), Kind::Unreachable);
        assert_eq!(before("57P03"), Kind::Unreachable);
        assert_eq!(before("55P03"), Kind::LockTimeout);
        assert_eq!(before("40001"), Kind::Conflict);
        assert_eq!(before("40P01"), Kind::Conflict);
        assert_eq!(before("57014"), Kind::StatementTimeout);
        assert_eq!(before("25006"), Kind::ReadOnly);
        assert_eq!(before("53100"), Kind::Full);
        assert_eq!(before("53300"), Kind::PoolExhausted);
        assert_eq!(before("28P01"), Kind::Forbidden);
        assert_eq!(before("42501"), Kind::Forbidden);
        assert_eq!(before("42P01"), Kind::Schema);
        assert_eq!(before("3F000"), Kind::Schema);
        assert_eq!(before("25P02"), Kind::Misused);
        assert_eq!(before("22P02"), Kind::Other);
    }

    #[test]
    fn what_comes_back_for_a_commit_may_be_unknown() {
        let commit = |code| by_code(code, None, Phase::Commit).kind();
        for code in ["08006", "57P01", "57P02", "40003", "XX000"] {
            assert_eq!(commit(code), Kind::CommitUnknown, "{code}");
        }
        // A server that still answers in order has undone the transaction.
        assert_eq!(commit("40001"), Kind::Conflict);
        assert_eq!(commit("23505"), Kind::Other);
        assert_eq!(lost(Phase::Commit).kind(), Kind::CommitUnknown);
    }

    #[test]
    fn a_constraint_of_ours_is_named() {
        let error = by_code("23514", Some("keys_state_known"), Phase::BeforeCommit);
        assert!(error.to_string().contains("keys_state_known"), "{error}");
        assert_eq!(error.sqlstate(), Some("23514"));
    }
}
