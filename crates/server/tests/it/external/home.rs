//! Where a ledger lives: in memory, in a file, in a database of the run's cluster.

use crate::harness::proxied::{options, service_url};
use samekey::store::memory::MemoryLedger;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::store::sqlite::SqliteLedger;
use samekey::store::{
    Arrived, Decided, Intent, Ledger, OpenCount, OpenRecord, Seen, StoreError, Swap, SweepPass,
};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::record::Record;
use samekey_sim::database::FreshDatabase;
use std::sync::Arc;

/// A store that a test can open several times, as several processes do.
pub trait Home: Sized + Send + Sync + 'static {
    type Ledger: Ledger;
    async fn fresh() -> Self;
    async fn open(&self) -> Self::Ledger;
}

pub struct Memory(Arc<MemoryLedger>);

pub struct Sqlite(tempfile::TempDir);

pub struct Postgres(FreshDatabase);

impl Home for Memory {
    type Ledger = Together;

    async fn fresh() -> Memory {
        Memory(Arc::new(MemoryLedger::new()))
    }

    async fn open(&self) -> Together {
        Together(Arc::clone(&self.0))
    }
}

impl Sqlite {
    fn address(&self) -> String {
        format!("sqlite:{}", self.0.path().join("test.db").display())
    }
}

impl Home for Sqlite {
    type Ledger = SqliteLedger;

    async fn fresh() -> Sqlite {
        let home = Sqlite(tempfile::tempdir().unwrap());
        SqliteLedger::migrate(&home.address()).unwrap();
        home
    }

    async fn open(&self) -> SqliteLedger {
        SqliteLedger::open(&self.address()).unwrap()
    }
}

impl Home for Postgres {
    type Ledger = PostgresLedger;

    async fn fresh() -> Postgres {
        let database = samekey_sim::database::fresh_database().await;
        postgres::migrate(&postgres::connect(database.url()).unwrap()).await.unwrap();
        Postgres(database)
    }

    async fn open(&self) -> PostgresLedger {
        let pool = postgres::connect(&service_url(self.0.url())).unwrap();
        PostgresLedger::open(pool, options()).await.unwrap()
    }
}

/// One memory ledger that several engines share.
#[derive(Clone)]
pub struct Together(pub Arc<MemoryLedger>);

impl Ledger for Together {
    async fn insert_or_load(
        &self,
        scope: &Scope,
        offer: &Record,
        intent: &Intent,
    ) -> Result<Arrived, StoreError> {
        self.0.insert_or_load(scope, offer, intent).await
    }

    async fn load(&self, scope: &Scope) -> Result<Seen, StoreError> {
        self.0.load(scope).await
    }

    async fn reclaim(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        intent: &Intent,
    ) -> Result<Swap, StoreError> {
        self.0.reclaim(scope, seen, next, intent).await
    }

    async fn swap(&self, scope: &Scope, seen: &Record, next: &Record) -> Result<Swap, StoreError> {
        self.0.swap(scope, seen, next).await
    }

    async fn decide(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        decided: &Decided,
    ) -> Result<Swap, StoreError> {
        self.0.decide(scope, seen, next, decided).await
    }

    async fn decisions(&self, scope: &Scope) -> Result<Vec<Decided>, StoreError> {
        self.0.decisions(scope).await
    }

    async fn intent(&self, scope: &Scope) -> Result<Option<Intent>, StoreError> {
        self.0.intent(scope).await
    }

    async fn orgs_with_open(
        &self,
        route: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> Result<Vec<Org>, StoreError> {
        self.0.orgs_with_open(route, after, limit).await
    }

    async fn due(&self, route: &str, org: &Org, limit: u32) -> Result<Vec<Key>, StoreError> {
        self.0.due(route, org, limit).await
    }

    async fn count_open(&self) -> Result<Vec<OpenCount>, StoreError> {
        self.0.count_open().await
    }

    async fn shared(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.shared(name).await
    }

    async fn share_once(&self, name: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.0.share_once(name, bytes).await
    }

    async fn share(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.share(name, bytes).await
    }

    async fn drop_free(&self, batch: u32) -> Result<SweepPass, StoreError> {
        self.0.drop_free(batch).await
    }

    async fn sweep(&self, batch: u32) -> Result<SweepPass, StoreError> {
        self.0.sweep(batch).await
    }

    async fn list_open(
        &self,
        after: Option<&Scope>,
        limit: u32,
    ) -> Result<Vec<OpenRecord>, StoreError> {
        self.0.list_open(after, limit).await
    }
}
