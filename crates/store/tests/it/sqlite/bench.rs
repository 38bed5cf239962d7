//! What the tests of the writer share: a table of effects, a writer that is held up, and futures
//! that have handed their job in.

use super::file::File;
use samekey_store::StoreError;
use samekey_store::sqlite::rusqlite::Connection;
use samekey_store::sqlite::{AtomicEnd, SqliteLedger};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::Duration;

/// The longest that a held writer waits for its release: a test that forgot it fails, not hangs.
const HELD_MAX: Duration = Duration::from_secs(20);

/// An open ledger with a table of the application's own beside it.
pub async fn with_effects(file: &File) -> SqliteLedger {
    let ledger = file.open();
    let made = ledger
        .write(|connection| {
            AtomicEnd::Commit(connection.execute_batch(
                "create table effects (id integer primary key, what text not null unique) strict",
            ))
        })
        .await;
    assert_eq!(made, Ok(Ok(())));
    ledger
}

pub fn effect(connection: &Connection, what: &str) -> Result<usize, StoreError> {
    let mut insert = connection.prepare_cached("insert into effects (what) values (?1)")?;
    Ok(insert.execute([what])?)
}

pub fn effects(file: &File) -> Vec<String> {
    let connection = file.raw();
    let mut select =
        connection.prepare("select what from effects order by what").expect("a statement");
    let rows = select.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows")
}

/// A future whose job is in the queue.
pub type Queued<'l, T> = Pin<Box<dyn Future<Output = T> + 'l>>;

/// Polls a future once, which hands its job in.
pub fn queue<'l, T>(future: impl Future<Output = T> + 'l) -> Queued<'l, T> {
    let mut future: Queued<'l, T> = Box::pin(future);
    let first = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending(), "its thread is held up");
    future
}

/// The writer, held up in a job of its own: whatever is handed in meanwhile becomes the next group.
pub struct Held<'l> {
    release: mpsc::Sender<()>,
    job: Queued<'l, Result<(), StoreError>>,
}

impl<'l> Held<'l> {
    pub fn writer(ledger: &'l SqliteLedger) -> Held<'l> {
        let (release, released) = mpsc::channel();
        let (start, started) = mpsc::channel();
        let job = queue(ledger.write(move |_| {
            start.send(()).expect("somebody waits");
            released.recv_timeout(HELD_MAX).expect("a release");
            AtomicEnd::Commit(())
        }));
        started.recv_timeout(HELD_MAX).expect("the writer starts");
        Held { release, job }
    }

    pub async fn release(self) {
        self.release.send(()).expect("the writer waits");
        assert_eq!(self.job.await, Ok(()));
    }
}
