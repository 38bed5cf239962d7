//! A database for a test, and tests on both.

use samekey_sim::database::{FreshDatabase, fresh_database};
use samekey_sim::process::END_BOUND;
use samekey_sim::{Program, process::Finished};
use serde_json::Value;

/// Makes a test on SQLite and one on PostgreSQL of one async function.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() { super::$name(crate::database::Database::fresh(false).await).await }
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() { super::$name(crate::database::Database::fresh(true).await).await }
        }
    )+};
}

/// A database of its own for a test.
pub enum Database {
    Sqlite(tempfile::TempDir),
    Postgres(FreshDatabase),
}

impl Database {
    /// A database of its own with the schema in it.
    pub async fn fresh(on_postgres: bool) -> Database {
        let database = if on_postgres {
            Database::Postgres(fresh_database().await)
        } else {
            Database::Sqlite(tempfile::tempdir().unwrap())
        };
        assert_eq!(database.samekey(&["migrate"]).code(), Some(0));
        database
    }

    /// Its address.
    pub fn url(&self) -> String {
        match self {
            Database::Sqlite(folder) => format!("sqlite:{}", folder.path().join("k.db").display()),
            Database::Postgres(database) => database.url().to_owned(),
        }
    }

    /// The command on this database.
    pub fn samekey(&self, arguments: &[&str]) -> Finished {
        let program = Program::at(env!("CARGO_BIN_EXE_samekey")).args(arguments);
        program.args(["--database", &self.url()]).run(END_BOUND).unwrap()
    }

    /// What a list or a page says, for programs.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.samekey(&[arguments, &["--format", "json"]].concat());
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

impl Database {
    /// Makes every finished command older by so many days.
    pub async fn age_commands(&self, days: u32) {
        use samekey::store::{address::Address, postgres, sqlite::rusqlite};
        match Address::parse(&self.url()).unwrap() {
            Address::Postgres(url) => {
                let client = postgres::connect(&url).unwrap().get().await.unwrap();
                let sql = format!(
                    "update samekey.finished set finished_at = finished_at - interval '{days} days'"
                );
                client.batch_execute(&sql).await.unwrap();
            }
            Address::Sqlite(address) => {
                let path = address.strip_prefix("sqlite:").unwrap();
                let file = rusqlite::Connection::open(path).unwrap();
                let micros = i64::from(days) * 24 * 3600 * 1_000_000;
                let sql = "update samekey_finished set finished_at = finished_at - ?1";
                file.execute(sql, [micros]).unwrap();
            }
        }
    }
}
