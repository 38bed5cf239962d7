//! B11: many writers, the sweep and a backup on one SQLite file.

use super::harness::reach::Order;
use super::harness::stores::Backend;
use super::harness::{Harness, Which, fresh};
use futures_util::future::join_all;
use samekey::SweepPlan;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const CALLERS: usize = 16;
const ORDERS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_nobody_meets_a_locked_file() {
    let harness = Harness::start(Which::Sqlite).await;
    let Backend::Sqlite(engine) = &harness.app.backend else { panic!("not on SQLite") };
    let plan = SweepPlan {
        every: Duration::from_millis(2),
        between: Duration::from_millis(1),
        ..SweepPlan::default()
    };
    let sweeper = engine.spawn_sweeper(plan);
    let (over, backups) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let backup = std::thread::spawn({
        let (over, backups) = (Arc::clone(&over), Arc::clone(&backups));
        let file = harness.sqlite_file();
        move || {
            let connection = rusqlite::Connection::open(&file).unwrap();
            connection.busy_timeout(Duration::from_secs(5)).unwrap();
            while !over.load(Ordering::SeqCst) {
                let n = backups.fetch_add(1, Ordering::SeqCst);
                let copy = file.with_extension(format!("copy-{n}"));
                connection.execute("vacuum into ?1", [copy.to_str().unwrap()]).unwrap();
                // A whole copy opens, and has the ledger in it.
                let copied = rusqlite::Connection::open(&copy).unwrap();
                let count = "select count(*) from samekey_keys";
                let _: i64 = copied.query_row(count, [], |row| row.get(0)).unwrap();
                drop(copied);
                std::fs::remove_file(&copy).unwrap();
            }
        }
    });
    let reference = fresh("ref");
    let distinct = (0..CALLERS).map(|_| async {
        for _ in 0..ORDERS {
            let reply = Order::of(&fresh("key"), &reference).send(harness.address).await.unwrap();
            assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
        }
    });
    join_all(distinct).await;
    assert_eq!(harness.effects(&reference).await, u64::try_from(CALLERS * ORDERS).unwrap());
    let reference = fresh("ref");
    let one = Order::of(&fresh("key"), &reference);
    let replies = join_all((0..CALLERS).map(|_| one.send(harness.address))).await;
    for reply in replies {
        let reply = reply.unwrap();
        let is_busy = reply.code().as_deref() == Some("samekey.in-progress");
        assert!(reply.status == 201 || is_busy, "{}", String::from_utf8_lossy(&reply.body));
    }
    assert_eq!(harness.effects(&reference).await, 1);
    over.store(true, Ordering::SeqCst);
    backup.join().unwrap();
    drop(sweeper);
    assert!(backups.load(Ordering::SeqCst) > 1, "the backup never ran beside the writers");
}
