//! The built program on a database of its own.

use samekey_sim::database::{FreshDatabase, fresh_database};
use samekey_sim::{Process, Program};
use std::net::SocketAddr;

#[derive(Clone, Copy, Debug)]
pub enum Which {
    Sqlite,
    Postgres,
}

/// A database that is gone with this handle.
pub enum Database {
    Sqlite(tempfile::TempDir),
    Postgres(FreshDatabase),
}

impl Database {
    pub async fn fresh(which: Which) -> Database {
        match which {
            Which::Sqlite => Database::Sqlite(tempfile::tempdir().unwrap()),
            Which::Postgres => Database::Postgres(fresh_database().await),
        }
    }

    pub fn address(&self) -> String {
        match self {
            Database::Sqlite(folder) => {
                format!("sqlite:{}", folder.path().join("orders.db").display())
            }
            Database::Postgres(database) => database.url().to_owned(),
        }
    }

    /// Orders whose payment is not entered in the shop's own table.
    pub async fn payments_to_enter(&self) -> i64 {
        const COUNT: &str = "select count(*) from order_payments where state is null";
        match self {
            Database::Sqlite(folder) => {
                let file = folder.path().join("orders.db");
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.query_row(COUNT, [], |row| row.get(0)).unwrap()
            }
            Database::Postgres(database) => {
                let client = database.client().await.unwrap();
                client.query_one(COUNT, &[]).await.unwrap().get(0)
            }
        }
    }

    /// Removes every command that has finished, as after a month; says how many there were.
    pub async fn sweep_all_commands(&self) -> u64 {
        use samekey::store::outbox::Outbox;
        use samekey::store::{postgres, sqlite};
        let swept = match self {
            Database::Sqlite(_) => {
                let address = self.address();
                let store = sqlite::SqliteLedger::open(&address).unwrap();
                store.sweep_commands(std::time::Duration::ZERO, 100).await
            }
            Database::Postgres(database) => {
                let pool = postgres::connect(database.url()).unwrap();
                let options = postgres::Options::default();
                let store = postgres::PostgresLedger::open(pool, options).await.unwrap();
                store.sweep_commands(std::time::Duration::ZERO, 100).await
            }
        };
        swept.unwrap().removed
    }

    /// A process of the service on it, listening.
    pub fn serve(&self, arguments: &[&str]) -> Service {
        self.serve_on(&[&["--listen", "127.0.0.1:0"], arguments].concat())
    }

    /// The same, where the arguments say on which address.
    pub fn serve_on(&self, arguments: &[&str]) -> Service {
        let mut process =
            orders().args(["--database", &self.address()]).args(arguments).start().unwrap();
        let address = process.address().unwrap();
        Service { process, address }
    }
}

pub struct Service {
    pub process: Process,
    pub address: SocketAddr,
}

/// The program, without anything of our own environment that it reads.
pub fn orders() -> Program {
    Program::at(env!("CARGO_BIN_EXE_orders"))
}
