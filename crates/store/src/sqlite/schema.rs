//! Brings a file to the schema, and refuses one that has another.

use crate::error::{Kind, StoreError};
use crate::migrate::{Migration, Migrations, Plan};
use rusqlite::{Connection, TransactionBehavior};

/// The steps of the schema on SQLite. `samekey migrate --print` prints them.
pub const MIGRATIONS: Migrations = Migrations {
    database: "SQLite",
    recorded_in: "samekey_migrations",
    list: &[
        Migration {
            number: 1,
            name: "keys",
            sql: include_str!("../../sql/sqlite/migrations/0001_keys.sql"),
        },
        Migration {
            number: 2,
            name: "intents",
            sql: include_str!("../../sql/sqlite/migrations/0002_intents.sql"),
        },
        Migration {
            number: 3,
            name: "outbox",
            sql: include_str!("../../sql/sqlite/migrations/0003_outbox.sql"),
        },
    ],
};

const PRESENT: &str = include_str!("../../sql/sqlite/schema_present.sql");
const VERSION: &str = include_str!("../../sql/sqlite/schema_version.sql");

/// How many rows the table of migrations may have before it is taken for somebody else's.
const STEPS_MAX: usize = 10_000;

/// Applies what is missing, in one transaction; says what that was.
pub(super) fn migrate(connection: &mut Connection) -> Result<&'static [Migration], StoreError> {
    // Immediate, so that of two that start at once the second finds the work done.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let plan = MIGRATIONS.plan(&found(&transaction)?);
    let missing = match plan {
        Plan::InPlace => return Ok(&[]),
        Plan::Apply(missing) => missing,
        Plan::Newer { .. } | Plan::Gap { .. } => {
            return Err(MIGRATIONS.refusal(plan).unwrap_or_else(|| {
                StoreError::new(Kind::Schema, "the schema cannot be brought to this version")
            }));
        }
    };
    for migration in missing {
        transaction.execute_batch(migration.sql)?;
        transaction.execute_batch(&MIGRATIONS.record(migration))?;
    }
    transaction.commit()?;
    Ok(missing)
}

/// Refuses a file whose schema is not the one that this program reads and writes.
pub(super) fn check(connection: &Connection) -> Result<(), StoreError> {
    let plan = MIGRATIONS.plan(&found(connection)?);
    MIGRATIONS.refusal(plan).map_or(Ok(()), Err)
}

fn found(connection: &Connection) -> Result<Vec<i32>, StoreError> {
    let tables: i64 = connection.query_row(PRESENT, [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(VERSION)?;
    let numbers = statement.query_map([], |row| row.get(0))?;
    let numbers = numbers.take(STEPS_MAX).collect::<Result<Vec<_>, _>>()?;
    if numbers.is_empty() { Err(MIGRATIONS.emptied()) } else { Ok(numbers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_a_gap() {
        let numbers: Vec<i32> = MIGRATIONS.list.iter().map(|step| step.number).collect();
        assert_eq!(numbers, (1..=MIGRATIONS.newest()).collect::<Vec<_>>());
    }
}
