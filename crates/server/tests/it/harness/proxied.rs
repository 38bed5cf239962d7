//! The service with something between it and its database, or with a pool of another size.

use super::service::{App, serve};
use super::stores::{Backend, Database};
use super::{Harness, Which};
use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod, Runtime};
use samekey::store::postgres::{self, PostgresLedger, Statements};
use samekey::{Engine, Listener, Setup, Signal};
use samekey_core::policy::Choices;
use samekey_sim::proxy::Proxy;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Names a pooler in transaction mode, as HOST:PORT, through which services reach their database.
const POOLER: &str = "SAMEKEY_TEST_POOLER";

/// A database's address as a service is given it.
pub fn service_url(url: &str) -> String {
    let Ok(pooler) = std::env::var(POOLER) else { return url.to_owned() };
    let (user, rest) = url.split_once('@').unwrap();
    let (_, database) = rest.split_once('/').unwrap();
    format!("{user}@{pooler}/{database}")
}

/// A pool without bounds in time of its own, so that a slow machine fails no test.
fn pool(url: &str, connections: usize) -> postgres::Pool {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(url.parse().unwrap(), tokio_postgres::NoTls, recycling);
    postgres::Pool::builder(manager).max_size(connections).runtime(Runtime::Tokio1).build().unwrap()
}

/// The store's options, for the database of the run.
pub fn options() -> postgres::Options {
    let statements = match std::env::var_os(POOLER) {
        Some(_) => Statements::Unprepared,
        None => Statements::Prepared,
    };
    postgres::Options { statements, ..postgres::Options::default() }
}

/// What a service of these tests has beside the usual.
#[derive(Clone)]
pub struct Pooled {
    pub connections: usize,
    /// How long a command waits for a free connection; by default as long as a test may.
    pub acquire_max: Duration,
    /// The policy `wait` of its routes.
    pub wait: Duration,
    pub setup: Setup,
}

impl Default for Pooled {
    fn default() -> Pooled {
        Pooled {
            connections: 2,
            acquire_max: super::reach::BOUND,
            wait: Choices::default().wait,
            setup: Setup::default(),
        }
    }
}

impl Pooled {
    /// With so many connections.
    pub fn of(connections: usize) -> Pooled {
        Pooled { connections, ..Pooled::default() }
    }
}

/// The signals of a service, in order.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<Signal>>>);

impl Heard {
    /// A set-up that writes every signal down here.
    pub fn setup(&self) -> Setup {
        let heard = Arc::clone(&self.0);
        let listener: Listener =
            Arc::new(move |_: &str, signal| heard.lock().unwrap().push(signal));
        Setup::default().listener(listener)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Signal> {
        self.0.lock().unwrap().clone()
    }

    /// How often this signal came.
    pub fn count(&self, wanted: Signal) -> usize {
        self.0.lock().unwrap().iter().filter(|signal| **signal == wanted).count()
    }
}

impl Harness {
    /// A service on a fresh PostgreSQL database, reached through a proxy.
    pub async fn behind_proxy(pooled: Pooled) -> (Harness, Proxy) {
        let database = Arc::new(Database::fresh(Which::Postgres).await);
        let proxy = Proxy::before(&database.address()).unwrap();
        let harness = Harness::at(database, proxy.url(), pooled).await;
        (harness, proxy)
    }

    /// A service on a fresh PostgreSQL database with a pool of its own size.
    pub async fn pooled(pooled: Pooled) -> Harness {
        let database = Arc::new(Database::fresh(Which::Postgres).await);
        let url = service_url(&database.address());
        Harness::at(database, &url, pooled).await
    }

    /// One more service on the same database, straight or through a proxy.
    pub async fn another_at(&self, url: Option<&str>, pooled: Pooled) -> Harness {
        let straight = service_url(&self.database.address());
        Harness::at(Arc::clone(&self.database), url.unwrap_or(&straight), pooled).await
    }

    async fn at(database: Arc<Database>, url: &str, pooled: Pooled) -> Harness {
        let options = postgres::Options { acquire_max: pooled.acquire_max, ..options() };
        let pool = pool(url, pooled.connections);
        let ledger = PostgresLedger::open(pool, options).await.unwrap();
        let backend = Backend::Postgres(Engine::with(ledger, pooled.setup));
        let wait = pooled.wait;
        let app = Arc::new(App::new(backend, move |choices| choices.wait = wait));
        let (address, server) = serve(Arc::clone(&app)).await;
        Harness { address, app, database, _server: server }
    }

    /// The database file of a harness on SQLite.
    pub fn sqlite_file(&self) -> std::path::PathBuf {
        match &*self.database {
            Database::Sqlite { directory } => directory.path().join("test.db"),
            Database::Postgres { .. } => panic!("this harness is on PostgreSQL"),
        }
    }

    /// The engine on PostgreSQL, for a test that brings its own handler.
    pub fn engine(&self) -> &Engine<PostgresLedger> {
        match &self.app.backend {
            Backend::Postgres(engine) => engine,
            Backend::Sqlite(_) => panic!("this harness is on SQLite"),
        }
    }

    /// A connection of the test's own to the PostgreSQL database, past every proxy.
    pub fn direct(&self) -> &tokio_postgres::Client {
        match &*self.database {
            Database::Postgres { count, .. } => count,
            Database::Sqlite { .. } => panic!("this harness is on SQLite"),
        }
    }

    /// How many connections of the database match this condition on `pg_stat_activity`.
    pub async fn backends(&self, condition: &str) -> i64 {
        let sql = format!(
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and {condition}"
        );
        self.direct().query_one(&sql, &[]).await.unwrap().get(0)
    }

    /// Waits until every command that has begun has ended.
    pub async fn drain(&self) {
        let grace = super::reach::BOUND;
        let drained = match &self.app.backend {
            Backend::Postgres(engine) => engine.drain(grace).await,
            Backend::Sqlite(engine) => engine.drain(grace).await,
        };
        assert!(drained, "commands never ended");
    }

    /// Rows of keys, whatever their state.
    pub async fn rows(&self) -> u64 {
        let mut rows = 0;
        for state in ["free", "running", "unknown", "review", "done", "closed"] {
            rows += self.rows_in_state(state).await;
        }
        rows
    }

    /// Asserts that no row is open.
    pub async fn assert_nothing_open(&self) {
        for state in ["running", "unknown", "review"] {
            assert_eq!(self.rows_in_state(state).await, 0, "a row is left {state}");
        }
    }
}
