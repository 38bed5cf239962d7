//! What a database must be before it is used, and how it becomes that.

use super::connection::{ANSWER_TIME_MAX, Connection, within};
use super::failure::{self, Phase};
use super::{Options, sql};
use crate::error::{Kind, StoreError};
use crate::facts::{self, Facts, MIGRATIONS, check_server_version, refusal};
use crate::migrate::{Migration, Plan};
use deadpool_postgres::Pool;

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
    let found = recorded(connection, &facts(connection).await?).await?;
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
pub(crate) async fn check(connection: &Connection, options: &Options) -> Result<Facts, StoreError> {
    let facts = facts(connection).await?;
    let versions = recorded(connection, &facts).await?;
    facts::check(&facts, &versions, options.durability)?;
    Ok(facts)
}

/// The migrations that the database has recorded.
async fn recorded(connection: &Connection, facts: &Facts) -> Result<Vec<i32>, StoreError> {
    if !facts.has_schema {
        return Ok(Vec::new());
    }
    let versions = versions(connection).await?;
    if versions.is_empty() { Err(MIGRATIONS.emptied()) } else { Ok(versions) }
}

async fn facts(connection: &Connection) -> Result<Facts, StoreError> {
    let rows = connection.run_once(&sql::SERVER_FACTS, &[]).await;
    let rows = rows.map_err(|error| failure::statement(&error, Phase::BeforeCommit))?;
    let row = rows.first().ok_or_else(failure::missing)?;
    let read = || -> Result<Facts, tokio_postgres::Error> {
        Ok(Facts {
            server_version: row.try_get(0)?,
            in_recovery: row.try_get(1)?,
            fsync: row.try_get(2)?,
            full_page_writes: row.try_get(3)?,
            synchronous_commit: row.try_get(4)?,
            isolation: row.try_get(5)?,
            read_only: row.try_get(6)?,
            lock_timeout: row.try_get(7)?,
            has_schema: row.try_get(8)?,
        })
    };
    read().map_err(|_| failure::column())
}

async fn versions(connection: &Connection) -> Result<Vec<i32>, StoreError> {
    let rows = connection.run_once(&sql::SCHEMA_VERSION, &[]).await;
    let rows = rows.map_err(|error| failure::statement(&error, Phase::BeforeCommit))?;
    rows.iter().map(|row| row.try_get(0).map_err(|_| failure::column())).collect()
}
