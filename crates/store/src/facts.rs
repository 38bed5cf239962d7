//! What a PostgreSQL server and its schema must be, decided from what they say of themselves.

use crate::error::{Kind, StoreError};
use crate::migrate::{Migration, Migrations, Plan};

/// The migrations of the PostgreSQL schema.
pub static MIGRATIONS: Migrations = Migrations {
    database: "PostgreSQL",
    recorded_in: "samekey.migrations",
    list: &[
        Migration {
            number: 1,
            name: "keys",
            sql: include_str!("../sql/postgres/migrations/0001_keys.sql"),
        },
        Migration {
            number: 2,
            name: "intents",
            sql: include_str!("../sql/postgres/migrations/0002_intents.sql"),
        },
        Migration {
            number: 3,
            name: "outbox",
            sql: include_str!("../sql/postgres/migrations/0003_outbox.sql"),
        },
        Migration {
            number: 4,
            name: "unchecked",
            sql: include_str!("../sql/postgres/migrations/0004_unchecked.sql"),
        },
    ],
};

/// The oldest server that is supported, as `server_version_num` counts: PostgreSQL 15.
const SERVER_VERSION_MIN: i32 = 150_000;

/// Whether the server must keep what it confirms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A server with `fsync`, `full_page_writes` or `synchronous_commit` off is refused.
    #[default]
    Required,
    /// Any server is taken. After a crash keys may be forgotten and commands run twice: for tests.
    Waived,
}

/// What a server says of itself.
pub(crate) struct Facts {
    pub(crate) server_version: i32,
    pub(crate) in_recovery: bool,
    pub(crate) fsync: String,
    pub(crate) full_page_writes: String,
    pub(crate) synchronous_commit: String,
    pub(crate) isolation: String,
    pub(crate) read_only: String,
    pub(crate) lock_timeout: String,
    pub(crate) has_schema: bool,
}

/// Refuses a server or schema with which the promise cannot be kept. `versions` are the migrations
/// that it has recorded.
pub(crate) fn check(
    facts: &Facts,
    versions: &[i32],
    durability: Durability,
) -> Result<(), StoreError> {
    check_server_version(facts)?;
    if facts.in_recovery || facts.read_only != "off" {
        return Err(StoreError::new(
            Kind::ReadOnly,
            "the database takes no writes: it is a standby, or set to read-only; connect to the primary",
        ));
    }
    check_isolation(facts)?;
    match durability {
        Durability::Required => check_durability(facts)?,
        Durability::Waived => {}
    }
    if facts.has_schema && versions.is_empty() {
        return Err(MIGRATIONS.emptied());
    }
    match MIGRATIONS.plan(versions) {
        Plan::InPlace => Ok(()),
        plan @ (Plan::Apply(_) | Plan::Newer { .. } | Plan::Gap { .. }) => Err(refusal(plan)),
    }
}

/// The sentence for a schema that is not in place.
pub(crate) fn refusal(plan: Plan) -> StoreError {
    MIGRATIONS
        .refusal(plan)
        .unwrap_or_else(|| StoreError::new(Kind::Schema, "the schema is in place"))
}

/// Refuses a server that is too old.
pub(crate) fn check_server_version(facts: &Facts) -> Result<(), StoreError> {
    if facts.server_version >= SERVER_VERSION_MIN {
        return Ok(());
    }
    Err(StoreError::new(
        Kind::Unsafe,
        format!(
            "the server is PostgreSQL {}, and at least {} is needed; upgrade it",
            facts.server_version / 10_000,
            SERVER_VERSION_MIN / 10_000
        ),
    ))
}

/// Our statements are written for READ COMMITTED, where a statement sees what was committed before
/// it began.
fn check_isolation(facts: &Facts) -> Result<(), StoreError> {
    if facts.isolation == "read committed" {
        return Ok(());
    }
    Err(StoreError::new(
        Kind::Unsafe,
        "default_transaction_isolation is not `read committed`; set it so for this role, your own transactions may begin with another",
    ))
}

fn check_durability(facts: &Facts) -> Result<(), StoreError> {
    let broken = [
        ("fsync", facts.fsync.as_str()),
        ("full_page_writes", facts.full_page_writes.as_str()),
        ("synchronous_commit", facts.synchronous_commit.as_str()),
    ]
    .into_iter()
    .find(|(_, value)| *value == "off");
    match broken {
        None => Ok(()),
        Some((setting, _)) => Err(StoreError::new(
            Kind::Unsafe,
            format!(
                "the server has {setting} = off: after a crash it may have forgotten keys that it confirmed, and commands would run twice; switch it on, or waive durability explicitly"
            ),
        )),
    }
}
