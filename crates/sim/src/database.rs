//! A database of its own for each test, in the cluster that `scripts/test` starts for the run.
//!
//! nextest runs each test in its own process, so the cluster cannot belong to one of them: the
//! program `test-cluster` starts it, names it in [`VARIABLE`] and stops it after the run.

use crate::error::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use tokio_postgres::NoTls;

/// The environment variable with the address of the run's cluster, as its superuser.
pub const VARIABLE: &str = "SAMEKEY_TEST_POSTGRES";

/// Longer than any statement here takes on a loaded machine.
const STATEMENT_BOUND: Duration = Duration::from_secs(60);

/// An empty database, dropped together with this handle, whoever is still connected to it.
#[derive(Debug)]
pub struct FreshDatabase {
    name: String,
    url: String,
    admin_url: String,
}

/// Creates an empty database in the run's cluster.
///
/// # Panics
/// When there is no cluster or it refuses: a test without its database has failed, and the message
/// says what to do.
pub async fn fresh_database() -> FreshDatabase {
    match FreshDatabase::create().await {
        Ok(database) => database,
        Err(failure) => panic!("{failure}"),
    }
}

/// [`fresh_database`] for a test without a runtime.
///
/// # Panics
/// As [`fresh_database`].
pub fn fresh_database_blocking() -> FreshDatabase {
    match FreshDatabase::create_blocking() {
        Ok(database) => database,
        Err(failure) => panic!("{failure}"),
    }
}

impl FreshDatabase {
    /// Creates an empty database in the run's cluster, as [`fresh_database`] does.
    ///
    /// # Errors
    /// `Missing` when [`VARIABLE`] names no cluster, `Database` when the cluster refuses.
    pub async fn create() -> Result<Self> {
        let database = Self::planned()?;
        run(&database.admin_url, &database.creation()).await?;
        Ok(database)
    }

    fn create_blocking() -> Result<Self> {
        let database = Self::planned()?;
        execute(&database.admin_url, &database.creation())?;
        Ok(database)
    }

    /// A handle with a name that is not taken; dropping it is harmless before the creation.
    fn planned() -> Result<Self> {
        let admin_url = admin_url(std::env::var(VARIABLE).ok())?;
        let name = unused_name();
        let url = with_database(&admin_url, &name);
        Ok(Self { name, url, admin_url })
    }

    fn creation(&self) -> String {
        format!("create database {}", quoted(&self.name))
    }

    /// A copy of it as it is now. Nobody may be connected to it: whoever still is, is thrown out, and what they
    /// had not committed is not in the copy.
    ///
    /// # Errors
    /// `Missing` and `Database`, as for [`FreshDatabase::create`].
    pub async fn copy(&self) -> Result<Self> {
        let copy = Self::planned()?;
        let end = format!(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '{}'",
            self.name.replace('\'', "''")
        );
        run(&self.admin_url, &end).await?;
        let (name, template) = (quoted(&copy.name), quoted(&self.name));
        run(&copy.admin_url, &format!("create database {name} template {template}")).await?;
        Ok(copy)
    }

    /// The database's address, as the superuser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A new connection to the database; its driving task ends with the client.
    ///
    /// # Errors
    /// `Database` when the server refuses or cannot be reached.
    pub async fn client(&self) -> Result<tokio_postgres::Client> {
        let (client, connection) =
            tokio_postgres::connect(&self.url, NoTls).await.map_err(refused(&self.name))?;
        tokio::spawn(connection);
        Ok(client)
    }
}

impl Drop for FreshDatabase {
    fn drop(&mut self) {
        let statement = format!("drop database if exists {} with (force)", quoted(&self.name));
        if let Err(failure) = execute(&self.admin_url, &statement) {
            eprintln!("fresh database: {failure}");
        }
    }
}

/// Runs statements and waits for them, from blocking and from async callers alike: the work is done
/// by a thread with a runtime of its own.
pub(crate) fn execute(url: &str, statements: &str) -> Result<()> {
    let work = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| Error::system("start a runtime", cause))?
            .block_on(run(url, statements))
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(Error::system("run statements", "their thread panicked")))
}

/// A name as SQL wants it inside a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

async fn run(url: &str, statements: &str) -> Result<()> {
    let work = async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // Both halves in one task: the connection ends when the client is dropped.
        let statements = async {
            let result = client.batch_execute(statements).await;
            drop(client);
            result
        };
        let (result, _) = tokio::join!(statements, connection);
        result
    };
    match tokio::time::timeout(STATEMENT_BOUND, work).await {
        Ok(result) => result.map_err(refused(statements)),
        Err(_) => Err(Error::new(
            ErrorKind::TimedOut,
            format!("the test cluster took over {STATEMENT_BOUND:?} for: {statements}"),
        )),
    }
}

fn refused(what: &str) -> impl FnOnce(tokio_postgres::Error) -> Error {
    move |cause| {
        let detail = cause.as_db_error().map(ToString::to_string);
        let detail = detail.unwrap_or_else(|| cause.to_string());
        Error::new(ErrorKind::Database, format!("the test cluster refused: {what}: {detail}"))
    }
}

fn admin_url(variable: Option<String>) -> Result<String> {
    variable.filter(|url| !url.is_empty()).ok_or_else(|| {
        Error::new(
            ErrorKind::Missing,
            format!(
                "found no {VARIABLE} in the environment; this test needs the cluster that \
                 scripts/test starts; run scripts/test, or this one test with: \
                 scripts/with-cluster cargo nextest run NAME"
            ),
        )
    })
}

/// The same address with another database: the path of the URL is replaced, its query kept.
fn with_database(url: &str, name: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(a, q)| (a, Some(q)));
    let server = match address.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.split('/').next().unwrap_or(rest)),
        None => address.to_owned(),
    };
    query.map_or_else(|| format!("{server}/{name}"), |query| format!("{server}/{name}?{query}"))
}

/// Unique within the cluster: process, moment and a counter.
fn unused_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let micros = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros());
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("samekey_test_{}_{micros}_{number}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::{admin_url, with_database};
    use crate::error::ErrorKind;

    #[test]
    fn without_a_cluster_the_message_says_what_to_run() {
        for variable in [None, Some(String::new())] {
            let failure = admin_url(variable).unwrap_err();
            assert_eq!(failure.kind(), ErrorKind::Missing);
            assert!(failure.to_string().contains("run scripts/test"), "{failure}");
        }
    }

    #[test]
    fn only_the_database_of_an_address_is_replaced() {
        assert_eq!(with_database("postgres://a:b@h:1/postgres", "x"), "postgres://a:b@h:1/x");
        assert_eq!(with_database("postgres://h", "x"), "postgres://h/x");
        assert_eq!(with_database("postgres://h/p?a=b/c", "x"), "postgres://h/x?a=b/c");
    }
}
