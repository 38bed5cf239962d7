//! The two databases, as the service uses them and as the tests count in them.

use super::proxied::{options, service_url};
use super::script::Turn;
use super::service::{App, reference_of};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use samekey::store::postgres::{self, PostgresLedger};
use samekey::store::sqlite::{AtomicEnd, SqliteLedger};
use samekey::{BoxError, Caller, Engine, Route, Setup};
use samekey_sim::database::FreshDatabase;
use std::sync::Arc;

/// Which database a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Sqlite,
    Postgres,
}

const TABLE: &str = "create table if not exists effects (org text not null, reference text not null, order_number text unique)";

/// A check that runs at the end of each transaction, and waits there for a lock.
const HOLD: &str = "
    create function hold() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock_shared(42); return null; end $$;
    create constraint trigger hold after insert or update on samekey.keys
        deferrable initially deferred for each row execute function hold()";

/// Commits that wait; see [`Database::hold_commits`].
pub struct Held(tokio_postgres::Client);

impl Held {
    /// Returns once a commit waits.
    pub async fn reached(&self) {
        let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
        for _ in 0..6_000 {
            let waiting: i64 = self.0.query_one(waiting, &[]).await.unwrap().get(0);
            if waiting > 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("no commit came within a minute");
    }

    /// Lets them go.
    pub async fn release(self) {
        self.0.execute("select pg_advisory_unlock(42)", &[]).await.unwrap();
    }
}

async fn client(database: &FreshDatabase) -> tokio_postgres::Client {
    database.client().await.unwrap()
}

/// A database of one test's own.
pub enum Database {
    Sqlite { directory: tempfile::TempDir },
    Postgres { database: FreshDatabase, count: tokio_postgres::Client },
}

/// A store with an engine on it.
pub enum Backend {
    Sqlite(Engine<SqliteLedger>),
    Postgres(Engine<PostgresLedger>),
}

impl Database {
    pub async fn fresh(which: Which) -> Database {
        match which {
            Which::Sqlite => {
                let directory = tempfile::tempdir().unwrap();
                let database = Database::Sqlite { directory };
                SqliteLedger::migrate(&database.address()).unwrap();
                let ledger = SqliteLedger::open(&database.address()).unwrap();
                ledger
                    .write(|connection| {
                        connection.execute_batch(TABLE).unwrap();
                        AtomicEnd::Commit(())
                    })
                    .await
                    .unwrap();
                database
            }
            Which::Postgres => {
                let database = samekey_sim::database::fresh_database().await;
                let count = client(&database).await;
                count.batch_execute(TABLE).await.unwrap();
                postgres::migrate(&postgres::connect(database.url()).unwrap()).await.unwrap();
                Database::Postgres { database, count }
            }
        }
    }

    pub fn address(&self) -> String {
        match self {
            Database::Sqlite { directory } => {
                format!("sqlite:{}", directory.path().join("test.db").display())
            }
            Database::Postgres { database, .. } => {
                // The cluster of the tests asks nobody for a password, so it takes any.
                database.url().replace("cluster-password", "canary-password")
            }
        }
    }

    pub async fn backend(&self, setup: Setup) -> Backend {
        match self {
            Database::Sqlite { .. } => {
                Backend::Sqlite(Engine::with(SqliteLedger::open(&self.address()).unwrap(), setup))
            }
            Database::Postgres { .. } => {
                let pool = postgres::connect(&service_url(&self.address())).unwrap();
                let ledger = PostgresLedger::open(pool, options()).await.unwrap();
                Backend::Postgres(Engine::with(ledger, setup))
            }
        }
    }

    pub async fn effects(&self, reference: &str) -> u64 {
        self.count("select count(*) from effects where reference = $1", reference).await
    }

    /// Since when the key is in its state, and until when it is kept, in microseconds.
    pub async fn times_of(&self, key: &str) -> (i64, i64) {
        match self {
            Database::Sqlite { directory } => {
                let connection =
                    rusqlite::Connection::open(directory.path().join("test.db")).unwrap();
                let sql = "select since, keep_until from samekey_keys where key = ?1";
                connection.query_row(sql, [key], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
            }
            Database::Postgres { count, .. } => {
                let sql = "select (extract(epoch from since) * 1000000)::bigint,
                    (extract(epoch from keep_until) * 1000000)::bigint
                    from samekey.keys where key = $1";
                let row = count.query_one(sql, &[&key]).await.unwrap();
                (row.get(0), row.get(1))
            }
        }
    }

    pub async fn rows_in_state(&self, state: &str) -> u64 {
        match self {
            Database::Sqlite { .. } => {
                self.count("select count(*) from samekey_keys where state = $1", state).await
            }
            Database::Postgres { .. } => {
                self.count("select count(*) from samekey.keys where state = $1", state).await
            }
        }
    }

    /// Takes the ledger away from under the service.
    pub async fn destroy(&self) {
        match self {
            Database::Sqlite { directory } => {
                let connection =
                    rusqlite::Connection::open(directory.path().join("test.db")).unwrap();
                connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                connection.execute("drop table samekey_keys", []).unwrap();
            }
            Database::Postgres { count, .. } => {
                count.batch_execute("drop schema samekey cascade").await.unwrap();
            }
        }
    }

    /// Removes every record, as a sweep does whose time has come.
    pub async fn remove_all_records(&self) {
        match self {
            Database::Sqlite { directory } => {
                let path = directory.path().join("test.db");
                let removed = tokio::task::spawn_blocking(move || {
                    let connection = rusqlite::Connection::open(path).unwrap();
                    connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                    connection.execute("delete from samekey_keys", []).unwrap()
                });
                removed.await.unwrap();
            }
            Database::Postgres { count, .. } => {
                count.execute("delete from samekey.keys", &[]).await.unwrap();
            }
        }
    }

    /// From now on every commit that writes a key waits until the test lets it go. PostgreSQL only.
    pub async fn hold_commits(&self) -> Held {
        let Database::Postgres { database, count } = self else { panic!("only on PostgreSQL") };
        count.batch_execute(HOLD).await.unwrap();
        let lock = client(database).await;
        lock.execute("select pg_advisory_lock(42)", &[]).await.unwrap();
        Held(lock)
    }

    async fn count(&self, sql: &'static str, argument: &str) -> u64 {
        let counted: i64 = match self {
            Database::Sqlite { directory } => {
                let connection =
                    rusqlite::Connection::open(directory.path().join("test.db")).unwrap();
                connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                connection.query_row(sql, [argument], |row| row.get(0)).unwrap()
            }
            Database::Postgres { count, .. } => {
                count.query_one(sql, &[&argument]).await.unwrap().get(0)
            }
        };
        u64::try_from(counted).unwrap()
    }
}

impl Backend {
    /// Runs the one handler of the harness as a command of `route`.
    pub async fn run(
        &self,
        app: Arc<App>,
        route: &Route,
        caller: &Caller,
        request: Request,
    ) -> Response {
        let org = caller.org.as_str().to_owned();
        let response = match self {
            Backend::Postgres(engine) => {
                let handler = move |tx: postgres::Tx, request: samekey::Request| {
                    let (app, org) = (Arc::clone(&app), org.clone());
                    async move {
                        let reference = reference_of(request.body());
                        let turn = app.scripts.turn(&reference);
                        let insert = "insert into effects (org, reference) values ($1, $2)";
                        tx.execute(insert, &[&org, &reference]).await?;
                        let turn = tokio::task::spawn_blocking(move || passed(turn)).await?;
                        finish(&app, &turn, &reference)
                    }
                };
                engine.atomic(route, caller, request, handler).await
            }
            Backend::Sqlite(engine) => {
                let handler = move |connection: &rusqlite::Connection,
                                    request: &samekey::Request| {
                    let reference = reference_of(request.body());
                    let turn = app.scripts.turn(&reference);
                    connection.execute(
                        "insert into effects (org, reference) values (?1, ?2)",
                        [&org, &reference],
                    )?;
                    finish(&app, &passed(turn), &reference)
                };
                engine.atomic(route, caller, request, handler).await
            }
        };
        response.into_response()
    }
}

fn passed(mut turn: Turn) -> Turn {
    turn.pass_gate();
    turn
}

fn finish(app: &App, turn: &Turn, reference: &str) -> Result<samekey::Answer, BoxError> {
    assert!(!turn.panics, "the test wants this handler to panic");
    if turn.fails {
        return Err("the test wants this handler to fail".into());
    }
    Ok(app.answer(turn, reference))
}
