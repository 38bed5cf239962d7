//! A few threads that only read, each with a connection of its own, so that a replay never waits for
//! a commit. What was acknowledged is committed, and what is committed is seen by every read that
//! begins later.

use super::writer::{spawn, stopped};
use crate::error::{Kind, StoreError};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// How many connections read at once. Rows come from memory; more threads than a small machine has
/// cores would only wait for each other.
pub const READERS: usize = 4;

/// How many reads wait at the most; see [`super::QUEUE_MAX`].
const QUEUE_MAX: usize = 1_024;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The threads' queue.
#[derive(Debug)]
pub(super) struct Readers {
    queue: mpsc::Sender<Read>,
    ended: Vec<oneshot::Receiver<()>>,
}

impl Readers {
    /// Starts the threads; `open` makes a connection for each.
    pub(super) fn start(
        open: impl Fn() -> Result<Connection, StoreError>,
    ) -> Result<Readers, StoreError> {
        let (queue, reads) = mpsc::channel::<Read>(QUEUE_MAX);
        let reads = Arc::new(Mutex::new(reads));
        let mut ended = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let connection = open()?;
            let reads = Arc::clone(&reads);
            let (ending, end) = oneshot::channel();
            spawn("samekey-reader", move || {
                work(&connection, &reads);
                drop(connection);
                drop(ending);
            })?;
            ended.push(end);
        }
        Ok(Readers { queue, ended })
    }

    /// Runs `read` on one of the connections.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (to, from) = oneshot::channel();
        let read: Read = Box::new(move |connection| {
            let answer = catch_unwind(AssertUnwindSafe(|| read(connection)));
            let _ = to.send(answer.map_err(StoreError::panicked));
        });
        self.queue.try_send(read).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::new(
                Kind::PoolExhausted,
                "too many reads wait for the database file; try again, or send fewer at once",
            ),
            mpsc::error::TrySendError::Closed(_) => stopped(),
        })?;
        from.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Takes no more reads, and returns when those that wait are done.
    pub(super) async fn close(self) {
        drop(self.queue);
        for end in self.ended {
            let _ = end.await;
        }
    }
}

fn work(connection: &Connection, reads: &Mutex<mpsc::Receiver<Read>>) {
    loop {
        let next = reads.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(read) = next else { return };
        // A read catches its panics; what is left is the destructor of an answer that nobody takes.
        if catch_unwind(AssertUnwindSafe(|| read(connection))).is_err() {
            tracing::error!("a value of a caller panicked when it was dropped");
        }
        // A read that leaves a transaction open would show the next one yesterday's rows.
        if !connection.is_autocommit()
            && let Err(error) = connection.execute_batch("rollback")
        {
            tracing::error!(error = %StoreError::from(error), "a read could not be ended");
        }
    }
}
