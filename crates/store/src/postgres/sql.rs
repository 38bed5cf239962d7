//! The statements, each in its own file below `sql/postgres`, with the types of their parameters.
//!
//! The types are said and not asked for, so that a statement can be sent in one message without
//! being prepared, and so that a parameter never changes its type by where it stands.

use tokio_postgres::types::Type;

/// One statement.
#[derive(Debug)]
pub(crate) struct Sql {
    /// Its text.
    pub(crate) text: &'static str,
    /// The types of its parameters.
    pub(crate) types: &'static [Type],
}

macro_rules! sql {
    ($name:literal $(, $type:ident)* $(,)?) => {
        Sql {
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/postgres/", $name, ".sql")),
            types: &[$(Type::$type),*],
        }
    };
}
pub(super) use sql;

/// Locks a key for a transaction, if nobody else has it.
pub(crate) static LOCK: Sql = sql!("lock", TEXT, TEXT);
/// Locks it, waiting for whoever has it.
pub(crate) static LOCK_WAIT: Sql = sql!("lock_wait", TEXT, TEXT);
/// Whether a key has a row.
pub(crate) static LOOK: Sql = sql!("look", TEXT, TEXT);

/// Inserts an open record that waits for a person, if there is none.
pub(crate) static INSERT_OPEN: Sql = sql!(
    "insert_open",
    TEXT,
    TEXT,
    INT8,
    BYTEA,
    INT8,
    INTERVAL,
    TEXT,
    INTERVAL,
    INT2,
    BYTEA,
    BYTEA,
    BYTEA,
    INTERVAL,
    INTERVAL,
    INT8,
    TEXT,
    INTERVAL,
    INT4,
    INT4,
    INTERVAL,
    INT2,
    BYTEA,
    BYTEA,
    TEXT,
);

/// Shows a key's row and the clock; the clock alone where there is no row.
pub(crate) static LOAD: Sql = sql!("load", TEXT, TEXT);

/// Shows a finished row with its answer.
pub(crate) static REPLAY: Sql = sql!("replay", TEXT, TEXT);

/// Replaces a row within the caller's transaction if it is as it was seen.
pub(crate) static SWAP: Sql = sql!(
    "swap",
    TEXT,
    TEXT,
    INT8,
    BYTEA,
    INT8,
    INT8,
    BYTEA,
    INT8,
    TIMESTAMPTZ,
    TEXT,
    TIMESTAMPTZ,
    INT2,
    BYTEA,
    BYTEA,
    BYTEA,
    TIMESTAMPTZ,
    TIMESTAMPTZ,
    INT8,
    TEXT,
    TIMESTAMPTZ,
    INT4,
    INT4,
    TIMESTAMPTZ,
    INT2,
    BYTEA,
    BYTEA,
    DATE,
);

/// Inserts the row of a key that this very transaction has locked, with its answer; fails where there is one.
pub(crate) static SETTLE_NEW: Sql = sql!(
    "settle_new",
    TEXT,
    TEXT,
    INT8,
    BYTEA,
    TIMESTAMPTZ,
    INT8,
    TIMESTAMPTZ,
    TEXT,
    TIMESTAMPTZ,
    INT2,
    BYTEA,
    BYTEA,
    BYTEA,
    INT2,
    BYTEA,
    BYTEA,
    DATE,
);

/// Settles the row that this very transaction took; fails where there is none, so that a commit
/// behind it commits nothing.
pub(crate) static SETTLE: Sql = sql!(
    "settle",
    TEXT,
    TEXT,
    INT8,
    BYTEA,
    INT8,
    TIMESTAMPTZ,
    INT8,
    TIMESTAMPTZ,
    TEXT,
    TIMESTAMPTZ,
    INT2,
    BYTEA,
    BYTEA,
    BYTEA,
    INT2,
    BYTEA,
    BYTEA,
    DATE,
);

/// Inserts a group of claims.
pub(crate) static CLAIM_GROUP: Sql = sql!(
    "claim_group",
    TEXT_ARRAY,
    TEXT_ARRAY,
    INT8_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    INTERVAL_ARRAY,
    TEXT_ARRAY,
    INTERVAL_ARRAY,
    INT2_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    INTERVAL_ARRAY,
    INTERVAL_ARRAY,
    TEXT_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
);

/// Inserts a group of offers of any kind.
pub(crate) static OFFER_GROUP: Sql = sql!(
    "offer_group",
    TEXT_ARRAY,
    TEXT_ARRAY,
    INT8_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    INTERVAL_ARRAY,
    TEXT_ARRAY,
    INTERVAL_ARRAY,
    INT2_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    INTERVAL_ARRAY,
    INTERVAL_ARRAY,
    INT8_ARRAY,
    TEXT_ARRAY,
    INTERVAL_ARRAY,
    INT4_ARRAY,
    INT4_ARRAY,
    INTERVAL_ARRAY,
    INT2_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    TEXT_ARRAY,
    BYTEA_ARRAY,
    INTERVAL_ARRAY,
    BYTEA_ARRAY,
);

/// Settles a group of claims for their owners.
pub(crate) static SETTLE_GROUP: Sql = sql!(
    "settle_group",
    TEXT_ARRAY,
    TEXT_ARRAY,
    INT8_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    INT8_ARRAY,
    TIMESTAMPTZ_ARRAY,
    TEXT_ARRAY,
    TIMESTAMPTZ_ARRAY,
    INT2_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
);

/// Compare-and-set for a group of rows.
pub(crate) static SWAP_GROUP: Sql = sql!(
    "swap_group",
    TEXT_ARRAY,
    TEXT_ARRAY,
    INT8_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    INT8_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    TIMESTAMPTZ_ARRAY,
    TEXT_ARRAY,
    TIMESTAMPTZ_ARRAY,
    INT2_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    TIMESTAMPTZ_ARRAY,
    TIMESTAMPTZ_ARRAY,
    INT8_ARRAY,
    TEXT_ARRAY,
    TIMESTAMPTZ_ARRAY,
    INT4_ARRAY,
    INT4_ARRAY,
    TIMESTAMPTZ_ARRAY,
    INT2_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    DATE_ARRAY,
    BYTEA_ARRAY,
    TIMESTAMPTZ_ARRAY,
    BOOL_ARRAY,
);

/// The body of a large answer.
pub(crate) static ANSWER_LOAD: Sql = sql!("answer_load", TEXT, TEXT, DATE);
/// Keeps the body of a large answer.
pub(crate) static ANSWER_INSERT: Sql = sql!("answer_insert", TEXT, TEXT, DATE, BYTEA);
/// Removes the body of an answer that no row shows any longer.
pub(crate) static ANSWER_DELETE: Sql = sql!("answer_delete", TEXT, TEXT, DATE);
/// The partitions of large answers, with their days.
pub(crate) static ANSWER_DAYS: Sql = sql!("answer_days");
/// The partitions that there should be from today on.
pub(crate) static ANSWER_DAYS_AHEAD: Sql = sql!("answer_days_ahead", INT4);
/// Whether a row still shows an answer whose retention ends within a span.
pub(crate) static ANSWER_DAY_USED: Sql = sql!("answer_day_used", TIMESTAMPTZ, TIMESTAMPTZ);

/// Finished rows whose time is over.
pub(crate) static SWEEP_FIND: Sql = sql!("sweep_find", INT8);
/// Removes rows of one organisation that are still as they were found.
pub(crate) static SWEEP_DELETE: Sql =
    sql!("sweep_delete", TEXT, TEXT_ARRAY, INT8_ARRAY, TIMESTAMPTZ);

/// Free rows, over or not.
pub(crate) static FREE_FIND: Sql = sql!("free_find", INT8);

/// Keeps the intent of a key that is taken again.
pub(crate) static OPEN_INSERT: Sql =
    sql!("open_insert", TEXT, TEXT, TEXT, BYTEA, TIMESTAMPTZ, BYTEA);
/// Says when recovery has to look at an open record.
pub(crate) static OPEN_MOVE: Sql = sql!("open_move", TEXT, TEXT, TIMESTAMPTZ);
/// Removes the intent of a record that is finished.
pub(crate) static OPEN_DELETE: Sql = sql!("open_delete", TEXT, TEXT);
/// The intent of an open record.
pub(crate) static INTENT: Sql = sql!("intent", TEXT, TEXT);
/// What is due of a route and organisation.
pub(crate) static DUE: Sql = sql!("due", TEXT, TEXT, INT8);
/// Which organisations have open records of a route.
pub(crate) static ORGS_WITH_OPEN: Sql = sql!("orgs_with_open", TEXT, TEXT, INT8);
/// How many records are open, by route and state.
pub(crate) static COUNT_OPEN: Sql = sql!("count_open");
/// Adds the account of a decision.
pub(crate) static DECISION_INSERT: Sql =
    sql!("decision_insert", TEXT, TEXT, INT8, TEXT, TEXT, TEXT, TEXT);
/// The accounts of a key.
pub(crate) static DECISIONS: Sql = sql!("decisions", TEXT, TEXT, INT8);
/// What is shared under a name.
pub(crate) static SHARED: Sql = sql!("shared", TEXT);
/// Shares something unless the name is taken.
pub(crate) static SHARE_ONCE: Sql = sql!("share_once", TEXT, BYTEA);
/// Shares something in place of what is there.
pub(crate) static SHARE: Sql = sql!("share", TEXT, BYTEA);

/// A page of open records.
pub(crate) static LIST_OPEN: Sql = sql!("list_open", TEXT, TEXT, INT8);

/// The clock of a transaction.
pub(crate) static CLOCK: Sql = sql!("clock");
/// Fails unless this is the open transaction that began at a moment.
pub(crate) static STILL_OPEN: Sql = sql!("still_open", TIMESTAMPTZ);
/// The migrations that were applied.
pub(crate) static SCHEMA_VERSION: Sql = sql!("schema_version");
/// What a server must tell before it is used.
pub(crate) static SERVER_FACTS: Sql = sql!("server_facts");
