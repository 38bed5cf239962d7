//! The statements of the outbox; see [`super::super::sql`].

use super::super::sql::{Sql, sql};
use tokio_postgres::types::Type;

/// Inserts a command, or shows the latest one of its action.
pub(super) static ENQUEUE: Sql = sql!(
    "enqueue", TEXT, BYTEA, TEXT, TEXT, TEXT, INT4, TEXT, BYTEA, BYTEA, INT8, BYTEA, INT8,
    INTERVAL, INTERVAL, INT4, INT4, INTERVAL, INTERVAL, TEXT, TEXT, TEXT, TEXT, TEXT, INTERVAL,
    TEXT, INTERVAL, INT4, INT4, TEXT, INT2, BYTEA, BYTEA
);
/// Inserts a command in place of one that has failed.
pub(super) static ENQUEUE_NEXT: Sql = sql!(
    "enqueue_next",
    TEXT,
    BYTEA,
    TEXT,
    TEXT,
    TEXT,
    INT4,
    TEXT,
    BYTEA,
    BYTEA,
    INT8,
    BYTEA,
    INT8,
    INTERVAL,
    INTERVAL,
    INT4,
    INT4,
    INTERVAL,
    INTERVAL,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    INTERVAL,
    TEXT,
    INTERVAL,
    INT4,
    INT4,
    TEXT,
    INT2,
    BYTEA,
    BYTEA,
    BYTEA,
    INT8,
    BYTEA,
    INT8
);
/// Inserts a group of commands.
pub(super) static ENQUEUE_GROUP: Sql = sql!(
    "enqueue_group",
    TEXT_ARRAY,
    BYTEA_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    INT4_ARRAY,
    TEXT_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    INTERVAL_ARRAY,
    INTERVAL_ARRAY,
    INT4_ARRAY,
    INT4_ARRAY,
    INTERVAL_ARRAY,
    INTERVAL_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    INTERVAL_ARRAY,
    TEXT_ARRAY,
    INTERVAL_ARRAY,
    INT4_ARRAY,
    INT4_ARRAY,
    TEXT_ARRAY,
    INT2_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY
);
/// A command.
pub(super) static COMMAND: Sql = sql!("command", TEXT, BYTEA);
/// The latest command of an action, and where it stands.
pub(super) static LATEST: Sql = sql!("latest", TEXT, TEXT, TEXT, TEXT);
/// Where a command stands.
pub(super) static DELIVERY: Sql = sql!("delivery", TEXT, BYTEA);
/// Locks what is due of one organisation for a destination.
pub(super) static TAKE_FIND: Sql = sql!("take_find", TEXT, TEXT, INT8);
/// Takes the turns of order keys.
pub(super) static TAKE_TURNS: Sql = sql!("take_turns", TEXT, TEXT, TEXT_ARRAY, BYTEA_ARRAY);
/// The commands that were taken.
pub(super) static TAKE_COMMANDS: Sql = sql!("take_commands", TEXT, BYTEA_ARRAY);
/// Compare-and-set for a group of deliveries, with their notes.
pub(super) static ADVANCE_GROUP: Sql = sql!(
    "advance_group",
    TEXT_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    BOOL_ARRAY,
    INT8_ARRAY,
    BYTEA_ARRAY,
    INT8_ARRAY,
    TIMESTAMPTZ_ARRAY,
    TIMESTAMPTZ_ARRAY,
    INT4_ARRAY,
    INT4_ARRAY,
    TIMESTAMPTZ_ARRAY,
    TIMESTAMPTZ_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    TEXT_ARRAY,
    TIMESTAMPTZ_ARRAY,
    TEXT_ARRAY,
    TIMESTAMPTZ_ARRAY,
    INT4_ARRAY,
    INT4_ARRAY,
    TEXT_ARRAY,
    INT2_ARRAY,
    BYTEA_ARRAY,
    BYTEA_ARRAY,
    TEXT_ARRAY,
    INT4_ARRAY,
    INT8_ARRAY,
    TIMESTAMPTZ_ARRAY,
    TEXT_ARRAY,
    INT2_ARRAY
);
/// Which organisations have something due for a destination.
pub(super) static ORGS_WITH_DUE: Sql = sql!("orgs_with_due", TEXT, TEXT, INT8);
/// When something of a destination is due next.
pub(super) static NEXT_DUE: Sql = sql!("next_due", TEXT, TEXT);
/// Adds a note.
pub(super) static ATTEMPT_INSERT: Sql =
    sql!("attempt_insert", TEXT, BYTEA, TEXT, INT4, INT8, TIMESTAMPTZ, TEXT, INT2);
/// The notes of a command.
pub(super) static ATTEMPTS: Sql = sql!("attempts", TEXT, BYTEA, INT8);
/// Adds the account of a decision.
pub(super) static COMMAND_DECISION_INSERT: Sql =
    sql!("command_decision_insert", TEXT, BYTEA, INT8, TEXT, TEXT, TEXT, TEXT);
/// The accounts of a command.
pub(super) static COMMAND_DECISIONS: Sql = sql!("command_decisions", TEXT, BYTEA, INT8);
/// A page of commands that are unfinished.
pub(super) static LIST_UNFINISHED: Sql =
    sql!("list_unfinished", TEXT, BYTEA, TEXT, TEXT, TEXT_ARRAY, INT8);
/// A page of commands that are finished.
pub(super) static LIST_FINISHED: Sql =
    sql!("list_finished", TEXT, BYTEA, TEXT, TEXT, TEXT_ARRAY, INT8);
/// How many commands are not finished.
pub(super) static COUNT_COMMANDS: Sql = sql!("count_commands");
/// Commands that finished long ago.
pub(super) static SWEEP_COMMANDS_FIND: Sql = sql!("sweep_commands_find", INTERVAL, INT8);
/// Removes commands of one organisation that were found.
pub(super) static SWEEP_COMMANDS_DELETE: Sql =
    sql!("sweep_commands_delete", TEXT, BYTEA_ARRAY, TIMESTAMPTZ);
