//! Looks into the database past every service: the ledger of keys over time, and who holds a
//! transaction open.
//!
//! It reads and never writes, except that on SQLite an open write transaction shows only to who asks
//! for one. It must reach the database itself, neither a pooler nor a proxy.
//!
//! Read next: `sampler/postgres.rs`; `sampler/sqlite.rs` says the same of a file.

mod postgres;
mod sqlite;
mod watch;

use crate::error::{Error, ErrorKind, Result};
use crate::history::{Activity, History, Sample};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use watch::{Watch, Watched};

/// A larger ledger is not for looking at as a whole.
const SAMPLE_ROWS_MAX: usize = 200_000;

/// How long one look may take on a loaded machine.
const LOOK_BOUND: Duration = Duration::from_secs(60);

/// Looks into one database. A lost connection is made anew with the next look.
#[derive(Debug)]
pub struct Sampler {
    history: History,
    reach: Reach,
}

#[derive(Debug)]
enum Reach {
    Postgres { url: String, client: Option<tokio_postgres::Client> },
    Sqlite { path: PathBuf, locked_since: Option<Instant> },
}

impl Sampler {
    /// For a PostgreSQL database by its address, whose connections it does not count itself among.
    pub fn postgres(url: &str, history: &History) -> Self {
        let reach = Reach::Postgres { url: url.to_owned(), client: None };
        Self { history: history.clone(), reach }
    }

    /// For an SQLite database by its file.
    pub fn sqlite(path: impl Into<PathBuf>, history: &History) -> Self {
        let reach = Reach::Sqlite { path: path.into(), locked_since: None };
        Self { history: history.clone(), reach }
    }

    /// Every row of the ledger of keys, as it is now.
    ///
    /// # Errors
    /// `Database` when there is no ledger or it cannot be reached, `TimedOut` when that takes long.
    pub async fn sample(&mut self) -> Result<Sample> {
        let moment = self.history.moment();
        let look = async {
            match &mut self.reach {
                Reach::Postgres { url, client } => postgres::rows(url, client).await,
                Reach::Sqlite { path, .. } => sqlite::rows(path).await,
            }
        };
        let (clock_micros, rows) = bounded(look).await?;
        if rows.len() > SAMPLE_ROWS_MAX {
            let sentence =
                format!("the ledger has over {SAMPLE_ROWS_MAX} keys; sample a smaller run");
            return Err(Error::new(ErrorKind::Database, sentence));
        }
        Ok(Sample { moment, clock_micros, rows })
    }

    /// The keys that recovery would find, as (organisation, key).
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub async fn open_claims(&mut self) -> Result<Vec<(String, String)>> {
        bounded(async {
            match &mut self.reach {
                Reach::Postgres { url, client } => postgres::open_claims(url, client).await,
                Reach::Sqlite { path, .. } => sqlite::open_claims(path).await,
            }
        })
        .await
    }

    /// Every transaction that is open now. SQLite tells only whether somebody writes; for how long is
    /// counted from the first look that met it, so look often.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub async fn activity(&mut self) -> Result<Activity> {
        let moment = self.history.moment();
        let look = async {
            match &mut self.reach {
                Reach::Postgres { url, client } => postgres::activity(url, client).await,
                Reach::Sqlite { path, locked_since } => sqlite::activity(path, locked_since).await,
            }
        };
        let (transactions, waiting) = bounded(look).await?;
        Ok(Activity { moment, until: self.history.moment(), transactions, waiting })
    }

    /// Waits until no transaction is open, as a moment after the last process was killed, but not for longer
    /// than this; gives the last look, whatever it shows.
    ///
    /// # Errors
    /// As [`Sampler::sample`], when the last look failed.
    pub async fn at_rest(&mut self, bound: Duration) -> Result<Activity> {
        let deadline = Instant::now() + bound;
        loop {
            // A connection of before the database's death fails once.
            match self.activity().await {
                Ok(activity) if activity.transactions.is_empty() => return Ok(activity),
                last if Instant::now() > deadline => return last,
                Ok(_) | Err(_) => tokio::time::sleep(REST_POLL).await,
            }
        }
    }
}

/// How often it is looked whether anything is open.
const REST_POLL: Duration = Duration::from_millis(10);

async fn bounded<T>(look: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(LOOK_BOUND, look).await.unwrap_or_else(|_| {
        let sentence = format!("a look into the database took over {LOOK_BOUND:?}");
        Err(Error::new(ErrorKind::TimedOut, sentence))
    })
}
