//! What a database must be before it is used, and how it becomes that.

use super::connection::{ANSWER_TIME_MAX, Connection, within};
use super::failure::{self, Phase};
use super::{Durability, Options, sql};
use crate::error::{Kind, StoreError};
use crate::migrate::{Migration, Migrations, Plan};
use deadpool_postgres::Pool;

/// The migrations of the PostgreSQL schema.
pub static MIGRATIONS: Migrations = Migrations {
    database: "PostgreSQL",
    recorded_in: "samekey.migrations",
    list: &[Migration {
        number: 1,
        name: "keys",
        sql: include_str!("../../sql/postgres/migrations/0001_keys.sql"),
    }],
};

/// The oldest server that is supported, as `server_version_num` counts: PostgreSQL 15.
const SERVER_VERSION_MIN: i32 = 150_000;

/// The lock under which one migrator works at a time: the bytes of "samekey".
const MIGRATION_LOCK: i64 = 0x73_61_6d_65_6b_65_79;

/// Brings the schema to the version of this code: forward only, each step in a transaction of its
/// own, one migrator at a time. Returns how many steps were applied; 0 where all was in place.
///
/// # Errors
/// [`Kind::Schema`] for a schema that is newer than this code, or has a gap. [`Kind::Unsafe`] for a
/// server that is too old. [`Kind::LockTimeout`] when another migrator takes too long.
pub async fn migrate(pool: &Pool) -> Result<u32, StoreError> {
    let options = Options::default();
    let connection = Connection::of(pool, &options).await?;
    check_server_version(&facts(&connection).await?)?;
    let mut applied = 0;
    // Each pass looks again, because another migrator may have come in between.
    for _ in 0..=MIGRATIONS.list.len() {
        let Some(step) = next_step(&connection).await? else {
            if applied > 0 {
                try_compression(&connection).await?;
            }
            connection.release();
            return Ok(applied);
        };
        let text = format!("{}\n;\n{}", step.sql.trim_end(), MIGRATIONS.record(step));
        batch(&connection, &text, Phase::BeforeCommit).await?;
        batch(&connection, "commit", Phase::Commit).await?;
        applied = applied.saturating_add(1);
    }
    Err(StoreError::new(Kind::Schema, "the migrations do not come to an end"))
}

/// Opens a transaction under the migrators' lock and says what is to be done in it. Without
/// anything to do the transaction is over.
async fn next_step(connection: &Connection) -> Result<Option<&'static Migration>, StoreError> {
    // The second statement is a message of its own: its snapshot has to be taken under the lock.
    let open = format!(
        "begin isolation level read committed read write; \
         set local lock_timeout = '10s'; \
         select pg_advisory_xact_lock({MIGRATION_LOCK})"
    );
    batch(connection, &open, Phase::BeforeCommit).await?;
    let found =
        if facts(connection).await?.has_schema { versions(connection).await? } else { vec![] };
    let plan = MIGRATIONS.plan(&found);
    match plan {
        Plan::Apply([step, ..]) => Ok(Some(step)),
        Plan::Apply([]) | Plan::InPlace => {
            batch(connection, "rollback", Phase::BeforeCommit).await?;
            Ok(None)
        }
        Plan::Newer { .. } | Plan::Gap { .. } => Err(refusal(plan)),
    }
}

/// Large answers are stored with lz4 where the server was built with it; elsewhere with what it has.
async fn try_compression(connection: &Connection) -> Result<(), StoreError> {
    let text = include_str!("../../sql/postgres/answer_compression.sql");
    match within(ANSWER_TIME_MAX, Phase::BeforeCommit, connection.batch_execute(text)).await? {
        Ok(()) => Ok(()),
        Err(error) if error.code().is_some_and(|code| code.code().starts_with("0A")) => Ok(()),
        Err(error) => Err(failure::statement(&error, Phase::BeforeCommit)),
    }
}

async fn batch(connection: &Connection, text: &str, phase: Phase) -> Result<(), StoreError> {
    within(ANSWER_TIME_MAX.saturating_mul(6), phase, connection.batch_execute(text))
        .await?
        .map_err(|error| failure::statement(&error, phase))
}

/// Refuses a server or schema with which the promise cannot be kept.
pub(crate) async fn check(connection: &Connection, options: &Options) -> Result<(), StoreError> {
    let facts = facts(connection).await?;
    check_server_version(&facts)?;
    if facts.in_recovery || facts.read_only != "off" {
        return Err(StoreError::new(
            Kind::ReadOnly,
            "the database takes no writes: it is a standby, or set to read-only; connect to the primary",
        ));
    }
    check_isolation(&facts)?;
    match options.durability {
        Durability::Required => check_durability(&facts)?,
        Durability::Waived => {}
    }
    let found = if facts.has_schema { versions(connection).await? } else { vec![] };
    match MIGRATIONS.plan(&found) {
        Plan::InPlace => Ok(()),
        plan @ (Plan::Apply(_) | Plan::Newer { .. } | Plan::Gap { .. }) => Err(refusal(plan)),
    }
}

fn refusal(plan: Plan) -> StoreError {
    MIGRATIONS
        .refusal(plan)
        .unwrap_or_else(|| StoreError::new(Kind::Schema, "the schema is in place"))
}

fn check_server_version(facts: &Facts) -> Result<(), StoreError> {
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

struct Facts {
    server_version: i32,
    in_recovery: bool,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    isolation: String,
    read_only: String,
    has_schema: bool,
}

async fn facts(connection: &Connection) -> Result<Facts, StoreError> {
    let rows = connection.run_once(&sql::SERVER_FACTS, &[]).await;
    let rows = rows.map_err(|error| failure::statement(&error, Phase::BeforeCommit))?;
    let row = rows.first().ok_or_else(super::cells::missing)?;
    let read = || -> Result<Facts, tokio_postgres::Error> {
        Ok(Facts {
            server_version: row.try_get(0)?,
            in_recovery: row.try_get(1)?,
            fsync: row.try_get(2)?,
            full_page_writes: row.try_get(3)?,
            synchronous_commit: row.try_get(4)?,
            isolation: row.try_get(5)?,
            read_only: row.try_get(6)?,
            has_schema: row.try_get(7)?,
        })
    };
    read().map_err(|_| failure::column())
}

async fn versions(connection: &Connection) -> Result<Vec<i32>, StoreError> {
    let rows = connection.run_once(&sql::SCHEMA_VERSION, &[]).await;
    let rows = rows.map_err(|error| failure::statement(&error, Phase::BeforeCommit))?;
    rows.iter().map(|row| row.try_get(0).map_err(|_| failure::column())).collect()
}
