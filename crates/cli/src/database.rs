//! The database that a subcommand works on.

use crate::exit::{Code, Stopped};
use samekey::store::address::Address;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::store::sqlite::SqliteLedger;
use std::future::Future;

/// The flag that names the database.
#[derive(clap::Args, Debug)]
pub struct DatabaseFlag {
    /// Database: sqlite:FILE or postgres://USER:PASSWORD@HOST:PORT/DATABASE
    #[arg(long, env = "SAMEKEY_DATABASE", hide_env_values = true, value_name = "URL")]
    database: Option<String>,
}

impl DatabaseFlag {
    /// The address, or the sentence that asks for one.
    pub fn address(&self) -> Result<Address, Stopped> {
        match &self.database {
            Some(text) => Ok(Address::parse(text)?),
            None => Err(Stopped::new(
                Code::Usage,
                // What writes commands down takes no default: in another folder it would be another outbox.
                "no database is named; give --database sqlite:FILE or --database postgres://…, or set SAMEKEY_DATABASE; \
                 a gateway that was given none has sqlite:samekey.db in the folder that it was started in",
            )),
        }
    }
}

/// The ledger of keys in either database.
pub enum Store {
    /// In PostgreSQL.
    Postgres(PostgresLedger),
    /// In SQLite.
    Sqlite(SqliteLedger),
}

impl DatabaseFlag {
    /// Opens the ledger in the database.
    pub async fn open(&self) -> Result<Store, Stopped> {
        Ok(match self.address()? {
            Address::Postgres(url) => {
                let pool = postgres::connect(&url)?;
                Store::Postgres(PostgresLedger::open(pool, postgres::Options::default()).await?)
            }
            Address::Sqlite(address) => Store::Sqlite(SqliteLedger::open(&address)?),
        })
    }
}

/// Runs a future to its end on a runtime with all processors.
pub fn block_on_all<T>(future: impl Future<Output = Result<T, Stopped>>) -> Result<T, Stopped> {
    run_on(&mut tokio::runtime::Builder::new_multi_thread(), future)
}

/// Runs a future to its end on a small runtime.
pub fn block_on<T>(future: impl Future<Output = Result<T, Stopped>>) -> Result<T, Stopped> {
    run_on(&mut tokio::runtime::Builder::new_current_thread(), future)
}

fn run_on<T>(
    builder: &mut tokio::runtime::Builder,
    future: impl Future<Output = Result<T, Stopped>>,
) -> Result<T, Stopped> {
    builder
        .enable_all()
        .build()
        .map_err(|error| {
            Stopped::new(Code::Unreachable, format!("no runtime could be started: {error}"))
        })?
        .block_on(future)
}
