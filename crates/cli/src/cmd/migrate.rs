//! `samekey migrate`: brings a database's schema to what this program needs, or prints how.

use crate::database::{DatabaseFlag, block_on};
use crate::exit::Stopped;
use crate::output::say;
use clap::ValueEnum;
use samekey::store::address::Address;
use samekey::store::postgres;
use samekey::store::sqlite::{self, SqliteLedger};
use std::process::ExitCode;

/// Bring a database's schema to the version that this program needs
///
/// Migrations go forward only; running this again changes nothing. A database that a newer
/// samekey has migrated is refused. Stop no service for it: an older one that meets the newer
/// schema refuses to start and says so. It waits for a lock for ten seconds at
/// the most, and commands wait behind it: run it when nothing reads the tables
/// for long, as a dump does.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    samekey migrate --database postgres://app@localhost/shop\n  \
    samekey migrate --print postgres > samekey.sql")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseFlag,
    /// Print the statements instead, for a migration tool of your own
    #[arg(long, value_enum, value_name = "DIALECT")]
    print: Option<Dialect>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Dialect {
    Postgres,
    Sqlite,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    match arguments.print {
        Some(Dialect::Postgres) => say(&postgres::MIGRATIONS.print())?,
        Some(Dialect::Sqlite) => say(&sqlite::MIGRATIONS.print())?,
        None => migrate(&arguments.database.address()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn migrate(address: &Address) -> Result<(), Stopped> {
    let (version, applied) = match address {
        Address::Postgres(url) => {
            let applied =
                block_on(async { Ok(postgres::migrate(&postgres::connect(url)?).await?) })?;
            (postgres::MIGRATIONS.newest(), applied)
        }
        Address::Sqlite(address) => {
            let applied = SqliteLedger::migrate(address)?.len();
            (sqlite::MIGRATIONS.newest(), u32::try_from(applied).unwrap_or(u32::MAX))
        }
    };
    say(&format!(
        "the schema of samekey is at version {version}; migrations applied now: {applied}\n"
    ))
}
