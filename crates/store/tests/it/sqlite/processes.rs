//! Several processes, and processes that are killed.
//!
//! The test program runs itself again as the other process: [`as_a_child`] is its part, and does
//! what the environment says. Children speak by lines on their standard output.

use super::bench::{effect, effects, with_effects};
use super::file::File;
use crate::records::{after, done, intent, offer, scope};
use samekey_core::record::State;
use samekey_store::sqlite::{AtomicEnd, AtomicTx, SqliteLedger};
use samekey_store::{Arrived, Ledger, StoreError, Swap};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

const TASK: &str = "SAMEKEY_STORE_TEST_TASK";
const ADDRESS: &str = "SAMEKEY_STORE_TEST_ADDRESS";

/// What marks a child's word among what the test harness prints.
const WORD: &str = "child says: ";

/// How many commands a child runs for each of its tasks, if nobody kills it.
const COMMANDS_MAX: usize = 5_000;

/// How many keys two processes race for.
const RACES: usize = 60;

/// A child at work. It is killed when it is dropped.
pub struct Other {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _program: tempfile::TempDir,
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself; both are fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Other {
    /// The child's next word; nothing when it has ended.
    fn next(&mut self) -> Option<String> {
        self.lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once(WORD).map(|(_, word)| word.to_owned()))
    }

    /// Everything that it still says until it ends.
    pub fn finish(mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Ends it as `kill -9` does, and returns what it had said until then.
    fn kill(mut self) -> Vec<String> {
        self.process.kill().expect("it can be killed");
        self.finish()
    }
}

/// Runs this program again for one task on a file; as user `uid` where this one may choose.
pub fn child(task: &str, file: &File, uid: u32) -> Other {
    // Another user may not reach the place where the program was built.
    let program = tempfile::tempdir().expect("a directory");
    let path = program.path().join("it");
    std::fs::copy(std::env::current_exe().expect("this program"), &path).expect("a copy");
    let mut command = Command::new(&path);
    let me = std::fs::metadata(program.path()).expect("a directory").uid();
    if me == 0 && uid != 0 {
        use std::os::unix::fs::PermissionsExt;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(program.path(), all).expect("rights");
        command.uid(uid).gid(uid);
    }
    let mut process = command
        .args(["--exact", "sqlite::processes::as_a_child", "--ignored", "--nocapture"])
        .env(TASK, task)
        .env(ADDRESS, file.address())
        .current_dir(program.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process");
    let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
    Other { process, lines, _program: program }
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: then there is nothing left to do.
    if writeln!(out, "\n{WORD}{word}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other tests run it as a process of its own"]
async fn as_a_child() {
    let (Ok(task), Ok(address)) = (std::env::var(TASK), std::env::var(ADDRESS)) else { return };
    match task.as_str() {
        "open" => match SqliteLedger::open(&address) {
            Ok(_) => say("opened"),
            Err(error) => say(&format!("refused {:?}", error.kind())),
        },
        "work" => work(&address).await,
        "die" => die(&address).await,
        "race" => {
            let ledger = SqliteLedger::open(&address).expect("a ledger");
            say("ready");
            for key in race(&ledger, 2).await {
                say(&format!("won {key}"));
            }
        }
        other => panic!("no task {other}"),
    }
}

fn command(tx: &AtomicTx<'_>, what: &str) -> Result<Swap, StoreError> {
    effect(tx.connection(), what)?;
    match tx.arrived() {
        Arrived::Inserted(seen) => tx.settle(&after(&seen.record, done(tx.now(), 1))),
        Arrived::Found(_) => panic!("each key is used once"),
    }
}

async fn atomic(ledger: &SqliteLedger, what: &str) -> Result<Swap, StoreError> {
    let name = what.to_owned();
    let job = move |tx: &AtomicTx<'_>| match command(tx, &name) {
        Ok(swap) => AtomicEnd::Commit(Ok(swap)),
        Err(error) => AtomicEnd::RollBack(Err(error)),
    };
    ledger.atomic(scope("org", what), offer(1), job).await?
}

/// Eight tasks that run commands and say which were acknowledged.
async fn work(address: &str) {
    let ledger = Arc::new(SqliteLedger::open(address).expect("a ledger"));
    let round = std::process::id();
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                for number in 0..COMMANDS_MAX {
                    let what = format!("{round}-{task}-{number}");
                    assert_eq!(atomic(&ledger, &what).await, Ok(Swap::Written));
                    say(&format!("acknowledged {what}"));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
}

/// Ends in the middle of a transaction in which other jobs have done their part.
async fn die(address: &str) {
    let ledger = SqliteLedger::open(address).expect("a ledger");
    assert_eq!(atomic(&ledger, "before").await, Ok(Swap::Written));
    say("acknowledged before");
    let held = super::bench::Held::writer(&ledger);
    let half = super::bench::queue(atomic(&ledger, "in the group"));
    let end = super::bench::queue(ledger.write(|_| -> AtomicEnd<()> { std::process::abort() }));
    held.release().await;
    let _ = half.await;
    say("acknowledged in the group");
    let _ = end.await;
}

fn acknowledged(words: &[String]) -> Vec<String> {
    words.iter().filter_map(|word| word.strip_prefix("acknowledged ")).map(str::to_owned).collect()
}

/// S3 and S4 on what a killed process has left: what was acknowledged is there, and each key is
/// done with its effect or is not there at all.
async fn holds_together(file: &File, acknowledged: &[String]) {
    let ledger = file.open();
    for what in acknowledged {
        let seen = ledger.load(&scope("org", what)).await.expect("an answer");
        assert!(matches!(seen.record.state, State::Done(_)), "lost: {what}");
    }
    let of_effects: BTreeSet<String> = effects(file).into_iter().collect();
    let connection = file.raw();
    let mut select =
        connection.prepare("select key from samekey_keys where state = 'done'").expect("sql");
    let of_keys: BTreeSet<String> = select
        .query_map([], |row| row.get(0))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("rows");
    assert_eq!(of_keys, of_effects, "keys and effects");
    assert_eq!(file.count("select count(*) from samekey_keys where state <> 'done'"), 0);
    assert_eq!(file.count("select count(*) from samekey_open_claims"), 0);
    let sound: String =
        connection.query_row("pragma integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(sound, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_killed_process_loses_nothing_that_it_acknowledged() {
    let file = File::migrated();
    with_effects(&file).await.close().await;
    let mut all = Vec::new();
    for words_before in [1, 30, 77, 150, 211] {
        let mut other = child("work", &file, 0);
        let mut words: Vec<String> =
            (0..words_before).map(|_| other.next().expect("it works")).collect();
        words.extend(other.kill());
        let new = acknowledged(&words);
        assert!(new.len() >= words_before, "{words:?}");
        all.extend(new);
        holds_together(&file, &all).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_who_dies_in_a_transaction_has_acknowledged_none_of_it() {
    let file = File::migrated();
    with_effects(&file).await.close().await;
    let words = child("die", &file, 0).finish();
    assert_eq!(acknowledged(&words), ["before"]);
    holds_together(&file, &["before".to_owned()]).await;
    assert_eq!(effects(&file), ["before"]);
}

/// Claims every key of the race, and says which were won.
async fn race(ledger: &SqliteLedger, number: u8) -> Vec<String> {
    let mut won = Vec::new();
    for race in 0..RACES {
        let key = format!("race-{race}");
        match ledger.insert_or_load(&scope("org", &key), &offer(number), &intent()).await {
            Ok(Arrived::Inserted(_)) => won.push(key),
            Ok(Arrived::Found(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    won
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_two_processes_on_one_file_never_both_have_a_key() {
    let file = File::migrated();
    let ledger = file.open();
    let mut other = child("race", &file, 0);
    assert_eq!(other.next().as_deref(), Some("ready"));
    let mine = race(&ledger, 1).await;
    let theirs: Vec<String> = other
        .finish()
        .iter()
        .filter_map(|word| word.strip_prefix("won "))
        .map(str::to_owned)
        .collect();
    assert_eq!(mine.len() + theirs.len(), RACES, "each key has one owner");
    let both: BTreeSet<&String> = mine.iter().chain(&theirs).collect();
    assert_eq!(both.len(), RACES);
    let listed = ledger.list_open(None, 1_000).await.expect("an answer");
    assert_eq!(listed.len(), RACES, "and what the other process wrote is seen here");
}
