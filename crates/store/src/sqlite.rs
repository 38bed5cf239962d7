//! The ledger in an SQLite file, for one service on one host.
//!
//! One thread writes and commits in groups, a few others read; see [`SqliteLedger::atomic`] for a
//! command whose effect lies in the same file. A second process may use the file at the same time:
//! each waits for the other's write transactions, for [`BUSY_WAIT`] at most.
//!
//! There is no server whose clock could be asked, so the host's is taken, by the thread that writes.
//! When it goes back, leases end later than they should, never earlier. The file has to lie on a
//! local disk: network file systems break SQLite's locks.
//!
//! Read next: `sqlite/writer.rs`, then `sqlite/atomic.rs`, then `sql/sqlite/`.

mod address;
mod atomic;
mod fault;
mod file;
mod guard;
mod intents;
mod job;
pub mod outbox;
mod readers;
mod rows;
mod schema;
mod shared;
mod whereabouts;
mod writer;

pub use atomic::AtomicTx;
pub use file::{BUSY_WAIT, LIBRARY_MIN};
pub use job::AtomicEnd;
pub use readers::READERS;
/// The driver, in the version whose `Connection` jobs are handed.
pub use rusqlite;
pub use schema::MIGRATIONS;
pub use writer::{GROUP_MAX, QUEUE_MAX};

use crate::error::StoreError;
use crate::migrate::Migration;
use crate::row::{check_offer, check_stays, check_swap};
use crate::{
    Arrived, Decided, Intent, Ledger, OpenCount, OpenRecord, SWEEP_BATCH_MAX, Seen, Swap, SweepPass,
};
use job::{Place, Task, Work};
use readers::Readers;
use rusqlite::Connection;
use samekey_core::key::{Key, Org, Scope};
use samekey_core::record::Record;
use std::time::Duration;
use whereabouts::Whereabouts;
use writer::Writer;

/// What the writer has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Commits.
    pub groups: u64,
    /// Jobs in them. Divided by the groups: how many shared a commit.
    pub jobs: u64,
}

/// A ledger in an SQLite file.
///
/// ```
/// use samekey_core::record::Record;
/// use samekey_core::step::{Arrival, Claim, Input, Verdict, step};
/// # use samekey_core::{fingerprint::{Digest, V1}, key::{Key, Org, Scope}, lease::Owner};
/// # use samekey_core::{policy::Policy, receipt::{Answer, Receipt}, record::Identity, time::Time};
/// use samekey_store::Arrived;
/// use samekey_store::sqlite::{AtomicEnd, SqliteLedger};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// # let address = format!("sqlite:{}/orders.db", directory.path().display());
/// SqliteLedger::migrate(&address)?;
/// let ledger = SqliteLedger::open(&address)?;
/// let table = "create table orders (id integer primary key, amount integer not null)";
/// ledger.write(|connection| AtomicEnd::Commit(connection.execute(table, []))).await??;
///
/// # let scope = Scope { org: Org::new("acme")?, key: Key::new("order-7")? };
/// # let request = Identity {
/// #     version: V1.version,
/// #     digest: Digest { request_sha: [1; 32], frame_sha: [2; 32] },
/// #     principal_sha: None,
/// # };
/// # let claim = Claim { request, owner: Owner::from_bytes([1; 16]), arrival: Arrival::Ordinary };
/// let policy = Policy::default();
/// let (offer, _) = step(Record::ABSENT, Input::Claim(claim), Time::EPOCH, &policy);
/// let verdict = ledger.atomic(scope, offer, move |tx| {
///     let Arrived::Inserted(seen) = tx.arrived() else { return AtomicEnd::RollBack(None) };
///     // The order, its key and the answer are committed together, or not at all.
///     if tx.connection().execute("insert into orders (amount) values (700)", []).is_err() {
///         return AtomicEnd::RollBack(None);
///     }
///     let answer = Answer { status: 201, headers: Vec::new(), body: "{\"id\":1}".into() };
///     let settle = Input::Settle(seen.record.hold(), Receipt::Kept(answer));
///     let (done, verdict) = step(seen.record.clone(), settle, tx.now(), &policy);
///     match tx.settle(&done) {
///         Ok(samekey_store::Swap::Written) => AtomicEnd::Commit(Some(verdict)),
///         _ => AtomicEnd::RollBack(None),
///     }
/// });
/// assert_eq!(verdict.await?, Some(Verdict::Settled));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it lets the jobs that wait run to their end in the background;
/// [`SqliteLedger::close`] waits for them.
#[derive(Debug)]
pub struct SqliteLedger {
    writer: Writer,
    readers: Readers,
}

impl SqliteLedger {
    /// Makes the file if there is none, and brings its schema to the newest of [`MIGRATIONS`]. Says
    /// which migrations it applied. It blocks for a moment, and for [`BUSY_WAIT`] at most where another
    /// process has the file locked.
    ///
    /// The address is `sqlite:` and a file, as in `sqlite:orders.db` or `sqlite:///var/lib/orders.db`.
    ///
    /// # Errors
    /// Says what is wrong with the address, the file, its directory, the rights or the schema.
    pub fn migrate(address: &str) -> Result<&'static [Migration], StoreError> {
        schema::migrate(&mut file::create(&address::path_of(address)?)?)
    }

    /// Opens a file that has been migrated, and starts the threads. It never makes a file: a mistyped
    /// address would become an empty ledger, in which every key is new.
    ///
    /// # Errors
    /// As [`SqliteLedger::migrate`]; [`crate::Kind::Schema`] where the schema has another version, and
    /// [`crate::Kind::Unsafe`] where the library or the file system cannot keep the promise.
    pub fn open(address: &str) -> Result<SqliteLedger, StoreError> {
        let path = address::path_of(address)?;
        // The writer first: it makes the files beside the database that readers need.
        let writer = file::writer(&path)?;
        let readers = Readers::start(|| file::reader(&path))?;
        let whereabouts = Whereabouts::of(&path)?;
        Ok(SqliteLedger { writer: Writer::start(writer, whereabouts)?, readers })
    }

    /// Runs an atomic command: claims `scope` with `offer` (see [`Ledger::insert_or_load`]) or finds
    /// its row, and hands both to `job`, on the writer's thread, in one transaction.
    ///
    /// The answer comes after the commit. If the returned future is dropped before that, the job may
    /// still run and commit; the row tells.
    ///
    /// # Errors
    /// Nothing of the job stands after one, but see [`StoreError::may_have_committed`]. A panic comes
    /// back as [`crate::Kind::Panicked`]; [`crate::Kind::Conflict`] means that another job ended the
    /// shared transaction, and that this one may be run again.
    pub async fn atomic<T: Send + 'static>(
        &self,
        scope: Scope,
        offer: Record,
        job: impl FnOnce(&AtomicTx<'_>) -> AtomicEnd<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.atomic_within(Duration::MAX, scope, offer, job).await
    }

    /// The same with a limit: a statement of the job that is still running then is broken off with
    /// SQLite's error `SQLITE_INTERRUPT`. What the job does besides its statements is not.
    ///
    /// # Errors
    /// As [`SqliteLedger::atomic`].
    pub async fn atomic_within<T: Send + 'static>(
        &self,
        limit: Duration,
        scope: Scope,
        offer: Record,
        job: impl FnOnce(&AtomicTx<'_>) -> AtomicEnd<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.hand_in(Work::Once(Some(Box::new(move |place: &Place<'_>| {
            atomic::run(place, &scope, &offer, limit, job)
        }))))
        .await
    }

    /// Runs a write of the application's own tables in the same file, without a key. What was said of
    /// [`AtomicTx::connection`] holds here too.
    ///
    /// # Errors
    /// As [`SqliteLedger::atomic`].
    pub async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> AtomicEnd<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_within(Duration::MAX, job).await
    }

    /// The same with a limit, as that of [`SqliteLedger::atomic_within`].
    ///
    /// # Errors
    /// As [`SqliteLedger::atomic`].
    pub async fn write_within<T: Send + 'static>(
        &self,
        limit: Duration,
        job: impl FnOnce(&Connection) -> AtomicEnd<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.hand_in(Work::Once(Some(Box::new(move |place: &Place<'_>| {
            match place.guard.theirs(limit, || job(place.connection)) {
                AtomicEnd::Commit(answer) => AtomicEnd::Commit(Ok(answer)),
                AtomicEnd::RollBack(answer) => AtomicEnd::RollBack(Ok(answer)),
            }
        }))))
        .await
    }

    /// Runs a read of any table in the file, on a connection that cannot write. It sees everything
    /// that was acknowledged before it was asked for.
    ///
    /// # Errors
    /// [`crate::Kind::PoolExhausted`] where too many reads wait, [`crate::Kind::Panicked`] for a panic.
    pub async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.ask(job).await
    }

    /// What the writer has done so far.
    pub fn totals(&self) -> Totals {
        let (groups, jobs) = self.writer.totals();
        Totals { groups, jobs }
    }

    /// Takes no more work, and returns when what waits is done and the file is closed.
    pub async fn close(self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    async fn hand_in<T: Send + 'static>(&self, work: Work<T>) -> Result<T, StoreError> {
        let (job, answer) = Task::boxed(work);
        self.writer.hand_in(job)?;
        answer.await.unwrap_or_else(|_| Err(job::lost()))
    }

    async fn again<T: Send + 'static>(
        &self,
        work: impl FnMut(&Place<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.hand_in(Work::Again(Box::new(work))).await
    }

    /// Swaps, and writes what lies beside the row if that was written.
    async fn swap_and(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        beside: impl Fn(&Connection, &Scope, &Record) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Swap, StoreError> {
        let (scope, seen, next) = (scope.clone(), seen.clone(), next.clone());
        self.again(move |place| {
            let swap = rows::swap(place.connection, &scope, &seen, &next)?;
            if swap == Swap::Written {
                beside(place.connection, &scope, &next)?;
            }
            Ok(swap)
        })
        .await
    }
}

impl Ledger for SqliteLedger {
    async fn insert_or_load(
        &self,
        scope: &Scope,
        offer: &Record,
        intent: &Intent,
    ) -> Result<Arrived, StoreError> {
        check_offer(offer)?;
        // Most arrivals at an existing key are replays, which need not wait for the writer.
        let seen = self.load(scope).await?;
        if seen.record != Record::ABSENT {
            return Ok(Arrived::Found(seen));
        }
        let (scope, offer, intent) = (scope.clone(), offer.clone(), intent.clone());
        self.again(move |place| {
            let arrived = rows::arrive(place.connection, &scope, &offer)?;
            if let Arrived::Inserted(seen) = &arrived {
                intents::claim(place.connection, &scope, &seen.record, &intent)?;
            }
            Ok(arrived)
        })
        .await
    }

    async fn load(&self, scope: &Scope) -> Result<Seen, StoreError> {
        let scope = scope.clone();
        self.readers.ask(move |connection| rows::load(connection, &scope)).await?
    }

    async fn reclaim(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        intent: &Intent,
    ) -> Result<Swap, StoreError> {
        check_swap(seen, next)?;
        let intent = intent.clone();
        self.swap_and(scope, seen, next, move |connection, scope, next| {
            intents::claim(connection, scope, next, &intent)
        })
        .await
    }

    async fn swap(&self, scope: &Scope, seen: &Record, next: &Record) -> Result<Swap, StoreError> {
        check_stays(seen, next)?;
        self.swap_and(scope, seen, next, intents::follow).await
    }

    async fn decide(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        decided: &Decided,
    ) -> Result<Swap, StoreError> {
        check_stays(seen, next)?;
        let decided = decided.clone();
        self.swap_and(scope, seen, next, move |connection, scope, next| {
            intents::follow(connection, scope, next)?;
            intents::account(connection, scope, &decided)
        })
        .await
    }

    async fn decisions(&self, scope: &Scope) -> Result<Vec<Decided>, StoreError> {
        let scope = scope.clone();
        self.readers.ask(move |connection| intents::decisions(connection, &scope)).await?
    }

    async fn intent(&self, scope: &Scope) -> Result<Option<Intent>, StoreError> {
        let scope = scope.clone();
        self.readers.ask(move |connection| intents::load(connection, &scope)).await?
    }

    async fn orgs_with_open(
        &self,
        route: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> Result<Vec<Org>, StoreError> {
        let (route, after) = (route.to_owned(), after.cloned());
        self.readers
            .ask(move |connection| intents::orgs(connection, &route, after.as_ref(), limit))
            .await?
    }

    async fn due(&self, route: &str, org: &Org, limit: u32) -> Result<Vec<Key>, StoreError> {
        let (route, org) = (route.to_owned(), org.clone());
        self.readers.ask(move |connection| intents::due(connection, &route, &org, limit)).await?
    }

    async fn count_open(&self) -> Result<Vec<OpenCount>, StoreError> {
        self.readers.ask(intents::count).await?
    }

    async fn shared(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let name = name.to_owned();
        self.readers.ask(move |connection| shared::load(connection, &name)).await?
    }

    async fn share_once(&self, name: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.again(move |place| shared::put_once(place.connection, &name, &bytes)).await
    }

    async fn share(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.again(move |place| shared::put(place.connection, &name, &bytes)).await
    }

    async fn drop_free(&self, batch: u32) -> Result<SweepPass, StoreError> {
        let batch = batch.clamp(1, SWEEP_BATCH_MAX);
        // Looked for by a reader, so that no writer waits while it goes through the whole table.
        let free = self.readers.ask(move |connection| rows::find_free(connection, batch)).await??;
        let found = u64::try_from(free.len()).unwrap_or(u64::MAX);
        let removed = self.again(move |place| rows::remove(place.connection, &free)).await?;
        Ok(SweepPass { removed, more: removed < found || found >= u64::from(batch) })
    }

    async fn sweep(&self, batch: u32) -> Result<SweepPass, StoreError> {
        self.again(move |place| rows::sweep(place.connection, batch)).await
    }

    async fn list_open(
        &self,
        after: Option<&Scope>,
        limit: u32,
    ) -> Result<Vec<OpenRecord>, StoreError> {
        let after = after.cloned();
        self.readers.ask(move |c| rows::list_open(c, after.as_ref(), limit)).await?
    }
}
