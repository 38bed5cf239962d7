//! What keeps a caller's job from ending the transaction that it shares with others.
//!
//! A job gets the writer's own connection. If it could commit, it would commit the half of itself
//! that is done, and with it jobs of other callers whose savepoints are open. So while a job runs,
//! SQLite asks this guard about every statement; and it asks about every commit, because a
//! transaction may also end under a job (a full disk, `or rollback`), and then each statement that
//! follows, of the job or of ours, would commit by itself. Only the writer's own commit passes.
//!
//! A job may have a limit. A statement of it that goes on beyond is broken off here, since all other
//! writers wait for it.

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What all names of ours begin with, tables and savepoints.
const OURS: &str = "samekey_";

/// After how many steps of its machine SQLite asks whether a statement may go on: a few milliseconds
/// of work, so that asking costs nothing that can be measured.
const STEPS_BETWEEN_LOOKS: i32 = 100_000;

/// Settings of a connection on which the promise stands. A job may read them, not make them.
const SETTINGS: [&str; 9] = [
    "busy_timeout",
    "foreign_keys",
    "ignore_check_constraints",
    "journal_mode",
    "locking_mode",
    "query_only",
    "recursive_triggers",
    "synchronous",
    "writable_schema",
];

/// Whose turn it is on the connection, and whether a turn was misused.
#[derive(Debug)]
pub(super) struct Guard {
    theirs: AtomicBool,
    committing: AtomicBool,
    misused: AtomicBool,
    since: Instant,
    /// When their turn is over, in microseconds after `since`.
    until: AtomicU64,
}

/// Gives the turn back, also when a job panics.
struct Turn<'g> {
    flag: &'g AtomicBool,
    before: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.flag.store(self.before, Ordering::SeqCst);
    }
}

impl Guard {
    /// A guard that watches this connection from now on.
    pub(super) fn watching(connection: &mut Connection) -> Result<Arc<Guard>, rusqlite::Error> {
        let guard = Arc::new(Guard {
            theirs: AtomicBool::new(false),
            committing: AtomicBool::new(false),
            misused: AtomicBool::new(false),
            since: Instant::now(),
            until: AtomicU64::new(u64::MAX),
        });
        let at_statement = Arc::clone(&guard);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            at_statement.allows(&context.action)
        }))?;
        let at_commit = Arc::clone(&guard);
        // `true` turns the commit into a rollback.
        connection.commit_hook(Some(move || at_commit.refuses_commit()))?;
        let at_step = Arc::clone(&guard);
        // `true` breaks the statement off.
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || at_step.is_over()))?;
        Ok(guard)
    }

    /// Runs the caller's code; its statements are broken off after `limit`.
    pub(super) fn theirs<T>(&self, limit: Duration, run: impl FnOnce() -> T) -> T {
        let until = micros(self.since.elapsed().saturating_add(limit));
        self.until.store(until, Ordering::SeqCst);
        let _turn = turn(&self.theirs, true);
        run()
    }

    /// Runs code of ours, within the caller's or not.
    pub(super) fn ours<T>(&self, run: impl FnOnce() -> T) -> T {
        let _turn = turn(&self.theirs, false);
        run()
    }

    /// Runs the one statement that may commit.
    pub(super) fn committing<T>(&self, run: impl FnOnce() -> T) -> T {
        let _turn = turn(&self.committing, true);
        run()
    }

    /// Whether a turn was misused since this was asked last.
    pub(super) fn was_misused(&self) -> bool {
        self.misused.swap(false, Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.theirs.load(Ordering::SeqCst)
            && micros(self.since.elapsed()) > self.until.load(Ordering::SeqCst)
    }

    fn allows(&self, action: &AuthAction<'_>) -> Authorization {
        if self.theirs.load(Ordering::SeqCst) && is_ours(action) {
            self.misused.store(true, Ordering::SeqCst);
            return Authorization::Deny;
        }
        Authorization::Allow
    }

    fn refuses_commit(&self) -> bool {
        let refused = !self.committing.load(Ordering::SeqCst);
        if refused {
            self.misused.store(true, Ordering::SeqCst);
        }
        refused
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn turn(flag: &AtomicBool, to: bool) -> Turn<'_> {
    Turn { flag, before: flag.swap(to, Ordering::SeqCst) }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the driver's enum is open")]
/// What only the ledger may do: end or begin the transaction, touch its savepoints, write its tables
/// and make its settings. Reading them is everybody's, and so are savepoints with other names.
fn is_ours(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Transaction { .. } => true,
        AuthAction::Pragma { pragma_name: name, pragma_value: Some(_) } => {
            SETTINGS.iter().any(|setting| setting.eq_ignore_ascii_case(name))
        }
        AuthAction::Savepoint { savepoint_name: name, .. }
        | AuthAction::Insert { table_name: name }
        | AuthAction::Update { table_name: name, .. }
        | AuthAction::Delete { table_name: name }
        | AuthAction::DropTable { table_name: name }
        | AuthAction::AlterTable { table_name: name, .. }
        | AuthAction::CreateTrigger { table_name: name, .. }
        | AuthAction::CreateIndex { table_name: name, .. } => {
            name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
        }
        _ => false,
    }
}
