//! The writer: jobs share a commit and nothing else.

use super::bench::{Held, effect, effects, queue, with_effects};
use super::file::File;
use crate::records::{after, done, intent, offer, scope};
use samekey_core::record::Record;
use samekey_store::sqlite::rusqlite::Connection;
use samekey_store::sqlite::{AtomicEnd, GROUP_MAX, QUEUE_MAX, SqliteLedger, Totals};
use samekey_store::{Arrived, Kind, Ledger, Seen, StoreError, Swap};
use std::sync::mpsc;
use std::time::Duration;

/// Claims this many keys; a settlement of them can be run again by the writer.
async fn claims(ledger: &SqliteLedger, count: usize) -> Vec<Seen> {
    let mut all = Vec::new();
    for number in 0..count {
        match ledger
            .insert_or_load(&scope("org", &format!("key-{number}")), &offer(1), &intent())
            .await
        {
            Ok(Arrived::Inserted(seen)) => all.push(seen),
            other => panic!("{other:?}"),
        }
    }
    all
}

async fn settle(ledger: &SqliteLedger, number: usize, seen: &Seen) -> Result<Swap, StoreError> {
    let next = after(&seen.record, done(seen.now, 1));
    ledger.swap(&scope("org", &format!("key-{number}")), &seen.record, &next).await
}

async fn is_done(ledger: &SqliteLedger, number: usize) -> bool {
    let seen = ledger.load(&scope("org", &format!("key-{number}"))).await.expect("an answer");
    !seen.record.is_open() && seen.record != Record::ABSENT
}

/// A write of one effect, committed if it worked.
fn write(what: &'static str) -> impl FnOnce(&Connection) -> AtomicEnd<Result<usize, StoreError>> {
    move |connection| match effect(connection, what) {
        Ok(count) => AtomicEnd::Commit(Ok(count)),
        Err(error) => AtomicEnd::RollBack(Err(error)),
    }
}

#[tokio::test]
async fn jobs_that_wait_share_a_commit() {
    let file = File::migrated();
    let ledger = file.open();
    let count = GROUP_MAX + 6;
    let claims = claims(&ledger, count).await;
    let before = ledger.totals();
    let held = Held::writer(&ledger);
    let waiting: Vec<_> = claims
        .iter()
        .enumerate()
        .map(|(number, seen)| queue(settle(&ledger, number, seen)))
        .collect();
    held.release().await;
    for answer in waiting {
        assert_eq!(answer.await, Ok(Swap::Written));
    }
    let Totals { groups, jobs } = ledger.totals();
    assert_eq!(groups - before.groups, 3, "the held one, a full group, and the rest");
    assert_eq!(jobs - before.jobs, 1 + u64::try_from(count).unwrap());
}

#[tokio::test]
async fn s3_no_job_is_answered_before_its_commit() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let held = Held::writer(&ledger);
    let mut first = queue(ledger.write(write("first")));
    let (start, started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let second = queue(ledger.write(move |connection| {
        start.send(effect(connection, "second")).expect("somebody waits");
        released.recv_timeout(Duration::from_secs(20)).expect("a release");
        AtomicEnd::Commit(())
    }));
    held.release().await;
    // The second job runs, so the first one has ended: but their commit is still to come.
    assert_eq!(started.recv_timeout(Duration::from_secs(20)), Ok(Ok(1)));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending(), "an answer before the commit");
    assert_eq!(effects(&file), Vec::<String>::new());
    release.send(()).expect("the writer waits");
    assert_eq!(first.await, Ok(Ok(1)));
    assert_eq!(second.await, Ok(()));
    assert_eq!(effects(&file), ["first", "second"]);
}

#[tokio::test]
async fn a_job_that_fails_is_undone_alone() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let claims = claims(&ledger, 1).await;
    let held = Held::writer(&ledger);
    let first = queue(ledger.write(write("first")));
    let twice = queue(ledger.write(|connection| {
        let done = effect(connection, "half").and_then(|_| effect(connection, "first"));
        AtomicEnd::RollBack(done)
    }));
    let panics = queue(ledger.write(|connection| -> AtomicEnd<()> {
        effect(connection, "panics").expect("written");
        std::panic::panic_any("card 4111");
    }));
    let settles = queue(settle(&ledger, 0, &claims[0]));
    let last = queue(ledger.write(write("last")));
    held.release().await;
    assert_eq!(first.await, Ok(Ok(1)));
    assert_eq!(twice.await.map(|inner| inner.map_err(|error| error.kind())), Ok(Err(Kind::Other)));
    let panic = panics.await.expect_err("a panic");
    assert_eq!(panic.kind(), Kind::Panicked);
    assert!(!format!("{panic:?} {panic}").contains("4111"));
    let payload = panic.into_panic().expect("its payload");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"card 4111"));
    assert_eq!(settles.await, Ok(Swap::Written));
    assert_eq!(last.await, Ok(Ok(1)));
    assert_eq!(effects(&file), ["first", "last"]);
}

#[tokio::test]
async fn a_job_cannot_end_the_transaction_or_write_past_the_ledger() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let claims = claims(&ledger, 17).await;
    for (number, sql) in [
        "commit",
        "end",
        "rollback",
        "begin",
        "savepoint samekey_mine",
        "release samekey_job",
        "rollback to samekey_job",
        "RELEASE SAMEKEY_JOB",
        "update samekey_keys set state = 'free'",
        "delete from samekey_open_claims",
        "insert into samekey_open_claims (org_id, key) values ('o', 'k')",
        "drop table samekey_keys",
        "pragma synchronous = off",
        "pragma foreign_keys = off",
        "PRAGMA query_only = 1",
        "pragma ignore_check_constraints = on",
        "create trigger t after insert on samekey_keys begin delete from effects; end",
    ]
    .into_iter()
    .enumerate()
    {
        let held = Held::writer(&ledger);
        let before = queue(ledger.write(|c| AtomicEnd::Commit(effect(c, "before"))));
        let misuse = queue(ledger.write(move |connection| {
            effect(connection, "of the misuse").expect("written");
            let refused = connection.execute_batch(sql).is_err();
            // The job goes on as if nothing had happened.
            let _ = effect(connection, "after the misuse");
            assert!(refused);
            AtomicEnd::Commit(())
        }));
        let settles = queue(settle(&ledger, number, &claims[number]));
        let last = queue(ledger.write(write("last")));
        held.release().await;
        assert_eq!(before.await, Ok(Ok(1)), "{sql}");
        assert_eq!(misuse.await.map_err(|error| error.kind()), Err(Kind::Misused), "{sql}");
        assert_eq!(settles.await, Ok(Swap::Written), "{sql}");
        assert_eq!(last.await, Ok(Ok(1)), "{sql}");
        assert_eq!(effects(&file), ["before", "last"], "{sql}");
        file.raw().execute_batch("delete from effects").expect("emptied");
        assert!(is_done(&ledger, number).await, "{sql}");
    }
}

#[tokio::test]
async fn a_job_may_have_savepoints_of_its_own_and_read_the_ledger() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    claims(&ledger, 3).await;
    let kept = ledger
        .write(|connection| {
            connection.execute_batch("savepoint mine").expect("a savepoint");
            effect(connection, "undone").expect("written");
            connection.execute_batch("rollback to mine; release mine").expect("undone");
            effect(connection, "kept").expect("written");
            let sql = "select count(*) from samekey_keys";
            AtomicEnd::Commit(connection.query_row(sql, [], |row| row.get::<_, i64>(0)))
        })
        .await;
    assert_eq!(kept, Ok(Ok(3)));
    assert_eq!(effects(&file), ["kept"]);
}

/// `or rollback` ends the transaction of the whole group, and what its job writes next would commit
/// by itself.
#[tokio::test]
async fn a_transaction_that_is_given_up_costs_nobody_a_wrong_answer() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    assert_eq!(ledger.write(write("there")).await, Ok(Ok(1)));
    let claims = claims(&ledger, 2).await;
    let held = Held::writer(&ledger);
    let once = queue(ledger.write(write("once")));
    let again = queue(settle(&ledger, 0, &claims[0]));
    let ends = queue(ledger.write(|connection| {
        let ended = connection
            .execute_batch("insert or rollback into effects (what) values ('there')")
            .is_err();
        let past = effect(connection, "past the end");
        assert!(ended && past.is_err(), "{past:?}");
        AtomicEnd::Commit(())
    }));
    let notices = queue(ledger.write(|connection| {
        let sql = "insert or rollback into effects (what) values ('there')";
        AtomicEnd::RollBack(connection.execute_batch(sql).is_err())
    }));
    let not_yet_run = queue(ledger.write(write("not yet run")));
    let later = queue(settle(&ledger, 1, &claims[1]));
    held.release().await;
    let conflict = once.await.expect_err("its part is gone");
    assert_eq!(conflict.kind(), Kind::Conflict);
    assert!(conflict.is_transient() && !conflict.may_have_committed());
    assert_eq!(again.await, Ok(Swap::Written), "it was run again");
    assert_eq!(ends.await.map_err(|error| error.kind()), Err(Kind::Misused));
    assert_eq!(notices.await, Ok(true), "who wanted it undone is told the truth");
    assert_eq!(not_yet_run.await, Ok(Ok(1)));
    assert_eq!(later.await, Ok(Swap::Written));
    assert_eq!(effects(&file), ["not yet run", "there"]);
    assert!(is_done(&ledger, 0).await && is_done(&ledger, 1).await);
}

#[tokio::test]
async fn a_full_disk_is_told_and_ends_when_there_is_room() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let claims = claims(&ledger, 1).await;
    let limit = |pages: u32| {
        move |connection: &Connection| {
            AtomicEnd::Commit(connection.pragma_update(None, "max_page_count", pages))
        }
    };
    assert_eq!(ledger.write(limit(1)).await, Ok(Ok(())), "no page more than there are");
    let large = |connection: &Connection| {
        let sql = "insert into effects (what) values (hex(zeroblob(100000)))";
        AtomicEnd::RollBack(connection.execute_batch(sql).map_err(StoreError::from))
    };
    let held = Held::writer(&ledger);
    let full = queue(ledger.write(large));
    let settles = queue(settle(&ledger, 0, &claims[0]));
    held.release().await;
    let full = full.await.expect("an answer").expect_err("no room");
    assert_eq!(full.kind(), Kind::Full);
    assert!(full.is_transient() && !full.may_have_committed());
    assert_eq!(settles.await, Ok(Swap::Written), "what needs no room goes on");
    let mut refused = None;
    for number in 0..200 {
        let key = scope("org", &format!("{number}-{}", "k".repeat(200)));
        if let Err(error) = ledger.insert_or_load(&key, &offer(1), &intent()).await {
            assert_eq!(ledger.load(&key).await.expect("an answer").record, Record::ABSENT);
            refused = Some((error.kind(), key));
            break;
        }
    }
    let (kind, key) = refused.expect("no room for keys");
    assert_eq!(kind, Kind::Full);
    assert_eq!(ledger.write(limit(1_000_000)).await, Ok(Ok(())));
    assert!(matches!(
        ledger.insert_or_load(&key, &offer(1), &intent()).await,
        Ok(Arrived::Inserted(_))
    ));
}

#[tokio::test]
async fn a_commit_that_fails_fails_its_cause_and_nothing_else() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let made = ledger
        .write(|connection| {
            AtomicEnd::Commit(connection.execute_batch(
                "create table parts (effect integer not null \
                 references effects (id) deferrable initially deferred) strict",
            ))
        })
        .await;
    assert_eq!(made, Ok(Ok(())));
    let claims = claims(&ledger, 1).await;
    let orphan = |connection: &Connection| {
        AtomicEnd::Commit(connection.execute_batch("insert into parts (effect) values (77)"))
    };
    assert_eq!(ledger.write(orphan).await.map_err(|error| error.kind()), Err(Kind::Other));
    let held = Held::writer(&ledger);
    let cause = queue(ledger.write(orphan));
    let settles = queue(settle(&ledger, 0, &claims[0]));
    held.release().await;
    assert!(cause.await.is_err(), "no answer but an error without a commit");
    assert_eq!(settles.await, Ok(Swap::Written));
    assert_eq!(file.count("select count(*) from parts"), 0);
    assert!(is_done(&ledger, 0).await);
}

#[tokio::test]
async fn who_has_gone_away_is_not_served() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let held = Held::writer(&ledger);
    drop(queue(ledger.write(write("abandoned"))));
    let other = queue(ledger.write(write("other")));
    held.release().await;
    assert_eq!(other.await, Ok(Ok(1)));
    assert_eq!(effects(&file), ["other"]);
}

#[tokio::test]
async fn a_full_queue_is_told_at_once() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let held = Held::writer(&ledger);
    let waiting: Vec<_> =
        (0..QUEUE_MAX).map(|_| queue(ledger.write(|_| AtomicEnd::Commit(())))).collect();
    let refused = ledger.write(write("too many")).await.expect_err("a full queue");
    assert_eq!(refused.kind(), Kind::PoolExhausted);
    held.release().await;
    for answer in waiting {
        assert_eq!(answer.await, Ok(()));
    }
    assert_eq!(effects(&file), Vec::<String>::new());
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[tokio::test]
async fn a_destructor_that_panics_stops_neither_writer_nor_reader() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let held = Held::writer(&ledger);
    let (ran, runs) = mpsc::channel();
    let mut nobody_takes_it = queue(ledger.write(move |_| {
        ran.send(()).expect("somebody waits");
        AtomicEnd::Commit(Some(Bomb))
    }));
    let (go, gone) = mpsc::channel::<()>();
    let same_group = queue(ledger.write(move |connection| {
        gone.recv_timeout(Duration::from_secs(20)).expect("a word");
        AtomicEnd::Commit(effect(connection, "same group"))
    }));
    held.release().await;
    runs.recv_timeout(Duration::from_secs(20)).expect("it ran");
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(nobody_takes_it.as_mut().poll(&mut context).is_pending());
    drop(nobody_takes_it);
    go.send(()).expect("the writer waits");
    let lost = same_group.await.expect_err("its answer went down with the group");
    assert!(lost.may_have_committed(), "{lost}");
    assert_eq!(effects(&file), ["same group"], "and indeed it was");
    assert_eq!(ledger.write(write("after")).await, Ok(Ok(1)));
    for _ in 0..10 {
        let (go, gone) = mpsc::channel::<()>();
        let read = queue(ledger.read(move |_| {
            gone.recv_timeout(Duration::from_secs(20)).expect("a word");
            Some(Bomb)
        }));
        drop(read);
        go.send(()).expect("the reader waits");
    }
    assert_eq!(ledger.read(|_| 7).await, Ok(7));
}

#[tokio::test]
async fn what_was_acknowledged_is_read() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    for number in 1..=100_i64 {
        let text = format!("effect {number}");
        let written = ledger.write(move |c| AtomicEnd::Commit(effect(c, &text))).await;
        assert_eq!(written, Ok(Ok(1)));
        let sql = "select count(*) from effects";
        let read = ledger.read(move |c| c.query_row(sql, [], |row| row.get::<_, i64>(0))).await;
        assert_eq!(read, Ok(Ok(number)));
    }
}

#[tokio::test]
async fn a_read_cannot_write_and_leaves_nothing_open() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let written = ledger.read(|connection| effect(connection, "by a read")).await;
    let kind = written.expect("an answer").expect_err("a refusal").kind();
    assert_eq!(kind, Kind::ReadOnly);
    for _ in 0..20 {
        let began = ledger
            .read(|c| {
                let begun = c.execute_batch("begin");
                let rows = c.query_row("select count(*) from effects", [], |r| r.get::<_, i64>(0));
                (begun, rows)
            })
            .await;
        assert!(matches!(began, Ok((Ok(()), Ok(0)))), "{began:?}");
    }
    let panic = ledger.read(|_| -> i64 { panic!("read") }).await.expect_err("a panic");
    assert_eq!(panic.kind(), Kind::Panicked);
    assert_eq!(ledger.write(write("new")).await, Ok(Ok(1)));
    for _ in 0..20 {
        let sql = "select count(*) from effects";
        let read = ledger.read(move |c| c.query_row(sql, [], |row| row.get::<_, i64>(0))).await;
        assert_eq!(read, Ok(Ok(1)), "no read is shown yesterday's rows");
    }
}

#[tokio::test]
async fn closing_waits_for_what_runs() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let (start, started) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let job = queue(ledger.write(move |connection| {
        start.send(()).expect("somebody waits");
        gone.recv_timeout(Duration::from_secs(20)).expect("a word");
        AtomicEnd::Commit(effect(connection, "running"))
    }));
    started.recv_timeout(Duration::from_secs(20)).expect("it runs");
    // It has begun, so that it is run to its end although nobody asks for its answer any more.
    drop(job);
    let close = queue(ledger.close());
    go.send(()).expect("the writer waits");
    close.await;
    let log = file.directory().join("orders.db-wal");
    assert!(!log.exists(), "the last connection has folded the log into the file");
    assert_eq!(effects(&file), ["running"]);
}

/// A transaction that begins with a read must have the lock all the same: upgraded later, it would
/// be refused at once, whatever the time that a lock is waited for.
#[tokio::test]
async fn b11_a_job_has_the_lock_before_its_first_statement() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let beside = file.raw();
    let ended = ledger.write(move |connection| {
        let sql = "select count(*) from effects";
        let read = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let other = beside
            .busy_timeout(Duration::ZERO)
            .map_err(StoreError::from)
            .and_then(|()| effect(&beside, "of another process"));
        AtomicEnd::Commit((read, other.map_err(|error| error.kind()), effect(connection, "mine")))
    });
    assert_eq!(ended.await, Ok((Ok(0), Err(Kind::LockTimeout), Ok(1))));
}
