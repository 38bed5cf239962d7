//! A database file for one test.

use crate::conformance::Aging;
use samekey_store::sqlite::rusqlite::Connection;
use samekey_store::sqlite::{MIGRATIONS, SqliteLedger};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A file in a directory of its own, removed with it.
pub struct File {
    directory: TempDir,
}

impl File {
    /// A name, and nothing there.
    pub fn missing() -> File {
        File { directory: tempfile::tempdir().expect("a directory") }
    }

    /// A file with the schema.
    pub fn migrated() -> File {
        let file = File::missing();
        let applied = SqliteLedger::migrate(&file.address()).expect("a schema");
        assert_eq!(applied, MIGRATIONS.list);
        file
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("orders.db")
    }

    pub fn address(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    pub fn open(&self) -> SqliteLedger {
        SqliteLedger::open(&self.address()).expect("a ledger")
    }

    /// A connection beside the ledger's, as another program has it.
    pub fn raw(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("a connection");
        connection.busy_timeout(Duration::from_secs(5)).expect("a setting");
        connection
    }

    pub fn count(&self, sql: &str) -> i64 {
        self.raw().query_row(sql, [], |row| row.get(0)).expect("a number")
    }
}

impl Aging for File {
    async fn age(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).expect("a short time");
        self.raw()
            .execute_batch(&format!(
                "update samekey_keys set keep_until = keep_until - {micros}, since = since - {micros}, \
                 lease_ends = lease_ends - {micros}, run_ends = run_ends - {micros}, \
                 last_send = last_send - {micros}, ask_after = ask_after - {micros}; \
                 update samekey_open_claims set due_at = due_at - {micros}; \
                 update samekey_decisions set decided_at = decided_at - {micros}; \
                 update samekey_outbox set began = began - {micros}, gives_up = gives_up - {micros}, \
                 first_send = first_send - {micros}, last_send = last_send - {micros}, \
                 due = due - {micros}, since = since - {micros}; \
                 update samekey_finished set finished_at = finished_at - {micros}, \
                 began = began - {micros}, gives_up = gives_up - {micros}, \
                 since = since - {micros}, first_send = first_send - {micros}, \
                 last_send = last_send - {micros}; \
                 update samekey_attempts set noted = noted - {micros}; \
                 update samekey_command_decisions set decided_at = decided_at - {micros}"
            ))
            .expect("aged");
    }
}
