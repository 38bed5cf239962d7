//! B11: many writers, the sweep and a backup on one file, and nobody hears of a lock.

use super::bench::{effect, with_effects};
use super::file::File;
use crate::conformance::Aging;
use crate::records::{HOUR, after, done, intent, offer, scope};
use samekey_store::sqlite::rusqlite::Connection;
use samekey_store::sqlite::{AtomicEnd, AtomicTx};
use samekey_store::{Arrived, Ledger, Swap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const WRITERS: usize = 16;
const COMMANDS: usize = 25;
const BACKUPS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_writers_a_sweep_and_a_backup_get_along() {
    let file = Arc::new(File::migrated());
    let ledger = Arc::new(with_effects(&file).await);
    // Something for the sweep.
    for number in 0..200 {
        let key = scope("old", &format!("{number}"));
        let Ok(Arrived::Inserted(seen)) = ledger.insert_or_load(&key, &offer(1), &intent()).await
        else {
            panic!("no claim")
        };
        let next = after(&seen.record, done(seen.now, 1));
        assert_eq!(ledger.swap(&key, &seen.record, &next).await, Ok(Swap::Written));
    }
    file.age(2 * HOUR).await;

    let over = Arc::new(AtomicBool::new(false));
    let sweeper = tokio::spawn({
        let (ledger, over) = (Arc::clone(&ledger), Arc::clone(&over));
        async move {
            let mut removed = 0;
            while !over.load(Ordering::SeqCst) || removed < 200 {
                removed += ledger.sweep(7).await.expect("an answer").removed;
                tokio::task::yield_now().await;
            }
            removed
        }
    });
    let backup = tokio::task::spawn_blocking({
        let file = Arc::clone(&file);
        move || {
            for number in 0..BACKUPS {
                let copy = file.directory().join(format!("copy-{number}.db"));
                file.raw().execute("vacuum into ?1", [copy.to_str()]).expect("a copy");
                let copy = Connection::open(copy).expect("a copy");
                let count = |sql| copy.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("sql");
                let keys = count("select count(*) from samekey_keys where org_id = 'new'");
                assert_eq!(count("select count(*) from effects"), keys, "a copy of one moment");
            }
        }
    });
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                for number in 0..COMMANDS {
                    let what = format!("{writer}-{number}");
                    let name = what.clone();
                    let job = move |tx: &AtomicTx<'_>| {
                        let Arrived::Inserted(seen) = tx.arrived() else { panic!("a new key") };
                        effect(tx.connection(), &name).expect("written");
                        AtomicEnd::Commit(tx.settle(&after(&seen.record, done(tx.now(), 1))))
                    };
                    let ended = ledger.atomic(scope("new", &what), offer(1), job).await;
                    assert_eq!(ended, Ok(Ok(Swap::Written)));
                    let external = scope("new-external", &what);
                    let Ok(Arrived::Inserted(seen)) =
                        ledger.insert_or_load(&external, &offer(2), &intent()).await
                    else {
                        panic!("no claim")
                    };
                    let next = after(&seen.record, done(seen.now, 1));
                    let swap = ledger.swap(&external, &seen.record, &next).await;
                    assert_eq!(swap, Ok(Swap::Written));
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer without an error");
    }
    backup.await.expect("a backup without an error");
    over.store(true, Ordering::SeqCst);
    assert_eq!(sweeper.await.expect("a sweep without an error"), 200);
    let count = i64::try_from(WRITERS * COMMANDS).unwrap();
    assert_eq!(file.count("select count(*) from effects"), count);
    assert_eq!(file.count("select count(*) from samekey_keys"), 2 * count);
    let totals = ledger.totals();
    assert!(totals.jobs > totals.groups, "commits were shared: {totals:?}");
}
