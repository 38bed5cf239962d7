//! Databases as input: read, and only read.
#![cfg(all(feature = "postgres", feature = "sqlite"))]

use std::path::Path;
use std::process::{Command, Stdio};

use samekey_forensics::database::rows_of;
use samekey_forensics::{ErrorKind, Options, analyse};

use crate::support::{cluster, labels};

const TABLE: &str = "create table payments (id text, order_id text, created_at text, amount text);\
    insert into payments values\
    ('P1', 'ORD-1', '2026-09-07 10:00:00', '5.00'),\
    ('P2', 'ORD-1', '2026-09-07 10:00:02', '5.00'),\
    ('P3', 'ORD-2', '2026-09-07 10:00:02', null);";

#[test]
fn sqlite_is_read_and_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(TABLE).unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let url = format!("sqlite:{}", path.display());
    let input = rows_of(&url, "select * from payments;").unwrap();
    let report = analyse(vec![input], &Options::default(), &|_| {}).unwrap();
    assert_eq!((labels(&report), report.rows), (vec!["ORD-1"], 3));
    assert_eq!(cluster(&report, "ORD-1").at_stake_minor, Some(500));
    for query in ["delete from payments returning *", "nonsense", ""] {
        let error = rows_of(&url, query).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{query}: {error}");
    }
    let error = rows_of("sqlite:/nonexistent/x.db", "select 1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// The server that the gate gives to all tests, or one of this test's own on a socket in its own
/// folder, gone with the test.
enum Server {
    Given(String),
    Own(Own),
}

struct Own {
    folder: tempfile::TempDir,
    user: Option<&'static str>,
}

impl Server {
    fn find() -> Self {
        match std::env::var("SAMEKEY_TEST_POSTGRES") {
            Ok(url) => Self::Given(url),
            Err(_) => Self::Own(Own::start()),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Given(url) => url.clone(),
            Self::Own(own) => {
                let folder = path(own.folder.path()).replace('/', "%2F");
                format!("postgresql://reader@{folder}/postgres")
            }
        }
    }
}

impl Own {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The server refuses to run as root; then it runs as the least of all users.
        let root = Command::new("id").arg("-u").output().unwrap().stdout.starts_with(b"0\n");
        let own = Self { folder, user: root.then_some("nobody") };
        if root {
            let owned = Command::new("chown").arg("nobody").arg(own.folder.path()).status();
            assert!(owned.unwrap().success());
        }
        let data = own.folder.path().join("data");
        own.run("initdb", &["-D", path(&data), "-U", "reader", "-A", "trust", "--no-sync"]);
        let sockets = format!("-c listen_addresses='' -c fsync=off -k {}", path(own.folder.path()));
        let start =
            ["-D", path(&data), "-w", "-t", "60", "-o", &sockets, "-l", "/dev/null", "start"];
        own.run("pg_ctl", &start);
        own
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = match self.user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", user, "--regid", "nogroup", "--clear-groups", program]);
                command
            }
            None => Command::new(program),
        };
        let done = command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(done.expect("PostgreSQL's programs on the path").success(), "{program}");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        self.run("pg_ctl", &["-D", path(&data), "-w", "-m", "immediate", "stop"]);
    }
}

/// Runs statements as the owner of the database, not as the reader under test.
fn execute(url: &str, statements: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        let driver = tokio::spawn(connection);
        client.batch_execute(statements).await.unwrap();
        drop(client);
        driver.await.unwrap().unwrap();
    });
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn postgresql_is_read_and_never_written() {
    let server = Server::find();
    let url = server.url();
    // The server may be shared: the table is this run's own.
    let table = format!("forensics_{}", std::process::id());
    execute(
        &url,
        &format!(
            "create table {table} (id text, order_id text, created_at timestamptz, \
             amount numeric(10, 2), note text);\
             insert into {table} values\
             ('P1', 'ORD-1', '2026-09-07 12:00:00+02', 1205.00, 'a, \"b\"'),\
             ('P2', 'ORD-1', '2026-09-07 10:00:02.5+00', 1205.00, E'two\\nlines'),\
             ('P3', 'ORD-2', '2026-09-07 10:00:02+00', null, null);"
        ),
    );
    let input = rows_of(&url, &format!("select * from {table} order by id;")).unwrap();
    let report = analyse(vec![input], &Options::default(), &|_| {}).unwrap();
    assert_eq!((labels(&report), report.rows), (vec!["ORD-1"], 3));
    let one = cluster(&report, "ORD-1");
    assert_eq!((one.gaps_s.as_slice(), one.at_stake_minor), (&[2.5][..], Some(120_500)));
    for (query, word) in [
        (format!("delete from {table} returning *"), "read-only"),
        (format!("with gone as (delete from {table} returning *) select * from gone"), "read-only"),
        ("select * from nowhere".to_owned(), "nowhere"),
        (format!("select 1) to stdout; drop table {table}; --"), "refused"),
    ] {
        let error = rows_of(&url, &query).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{query}: {error}");
        assert!(error.to_string().contains(word), "{query}: {error}");
    }
    let again = analyse(
        vec![rows_of(&url, &format!("select * from {table}")).unwrap()],
        &Options::default(),
        &|_| {},
    );
    assert_eq!(again.unwrap().rows, 3);
    execute(&url, &format!("drop table {table}"));
    let error = rows_of("postgres://nobody:secret@127.0.0.1:1/none", "select 1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(!error.to_string().contains("secret"), "{error}");
}
