//! A service with commands of every kind, its own count of effects, and callers for it.
//!
//! The effect of a command is one row in the table `effects`, written by the handler's own statement in the
//! transaction that it was given, and counted by a connection that samekey knows nothing of. What a
//! handler does beside it is told by the test through [`script::Script`].

pub mod caller;
pub mod proxied;
pub mod reach;
pub mod script;
pub mod service;
pub mod shop;
pub mod stores;
pub mod wire;

pub use caller::Reply;
pub use script::Script;
pub use stores::Which;

use samekey::Setup;
use samekey_core::policy::Choices;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A running service on one database.
pub struct Harness {
    pub address: SocketAddr,
    pub app: Arc<service::App>,
    database: Arc<stores::Database>,
    _server: service::Served,
}

impl Harness {
    /// A service with the default policies on a fresh database.
    pub async fn start(which: Which) -> Harness {
        Harness::with(which, Setup::default(), |_| {}).await
    }

    /// The same with every route's choices changed by `change`, and a setup of its own.
    pub async fn with(which: Which, setup: Setup, change: impl Fn(&mut Choices)) -> Harness {
        let database = Arc::new(stores::Database::fresh(which).await);
        Harness::on(database, setup, change).await
    }

    /// One more process, as it were: another engine, pool and listener on the same database.
    pub async fn another(&self) -> Harness {
        Harness::on(Arc::clone(&self.database), Setup::default(), |_| {}).await
    }

    /// One more with a setup and choices of its own.
    pub async fn another_with(&self, setup: Setup, change: impl Fn(&mut Choices)) -> Harness {
        Harness::on(Arc::clone(&self.database), setup, change).await
    }

    async fn on(
        database: Arc<stores::Database>,
        setup: Setup,
        change: impl Fn(&mut Choices),
    ) -> Harness {
        let backend = database.backend(setup).await;
        let app = Arc::new(service::App::new(backend, change));
        let (address, server) = service::serve(Arc::clone(&app)).await;
        Harness { address, app, database, _server: server }
    }

    /// The engine, its database and a route of its own are what a test needs that brings its handler.
    pub fn backend(&self) -> &stores::Backend {
        &self.app.backend
    }

    /// The database behind the service.
    pub fn database(&self) -> &stores::Database {
        &self.database
    }

    /// How often a handler came to its end.
    pub fn calls(&self) -> u64 {
        self.app.calls.load(Ordering::SeqCst)
    }

    /// How often the effect `reference` has happened.
    pub async fn effects(&self, reference: &str) -> u64 {
        self.database.effects(reference).await
    }

    /// Rows of the ledger that are in this state.
    pub async fn rows_in_state(&self, state: &str) -> u64 {
        self.database.rows_in_state(state).await
    }

    /// Sends a command as principal A1 and reads the whole answer.
    pub async fn post(&self, path: &str, key: &str, body: &str) -> Reply {
        self.send("POST", path, &[("idempotency-key", key)], body).await
    }

    /// Sends anything, as principal A1 unless `headers` carry an authorization.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Reply {
        caller::send(self.address, method, path, headers, body.into()).await
    }
}

/// The body of a plain order with this reference.
pub fn order(reference: &str) -> String {
    format!(r#"{{"ref":"{reference}","amount":1}}"#)
}

/// A key and a reference that no other test uses.
pub fn fresh(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes a test on SQLite and one on PostgreSQL of one async function that takes a `Which`.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use super::super::harness::Which;
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() { super::$name(Which::Sqlite).await }
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() { super::$name(Which::Postgres).await }
        }
    )+};
}
pub(crate) use on_both;

/// These bytes, packed as gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}
