//! Commands that are enqueued in transactions of the application on the file.

use super::file::File;
use crate::commands::{command, failed, id, offered};
use crate::outbox::{NOW, advanced, ids, put, stands, taken};
use crate::records::{after, done, offer, scope};
use samekey_store::outbox::{Command, Enqueued, Outbox};
use samekey_store::sqlite::outbox::enqueue;
use samekey_store::sqlite::{AtomicEnd, MIGRATIONS, SqliteLedger};
use samekey_store::{Arrived, Kind};

#[tokio::test]
async fn t73_b80_a_command_stands_or_falls_with_a_write_of_the_application() {
    let file = File::migrated();
    file.raw().execute_batch("create table orders (id integer primary key)").unwrap();
    let ledger = file.open();
    for commits in [false, true] {
        let enqueued = ledger
            .write_tx(move |tx| {
                tx.connection().execute("insert into orders values (7)", []).unwrap();
                let enqueued = tx.enqueue(&command("org", 7), &offered(NOW));
                if commits { AtomicEnd::Commit(enqueued) } else { AtomicEnd::RollBack(enqueued) }
            })
            .await;
        assert_eq!(enqueued, Ok(Ok(Enqueued::New)));
        assert_eq!(file.count("select count(*) from orders"), i64::from(commits));
        assert_eq!(ids(&taken(&ledger, "org", 10).await).len(), usize::from(commits));
    }
}

/// The main use: an order, its key and the command to charge for it are one.
#[tokio::test]
async fn s4_the_key_the_effect_and_the_command_are_committed_together() {
    let file = File::migrated();
    file.raw().execute_batch("create table orders (id integer primary key)").unwrap();
    let ledger = file.open();
    for round in 0..3 {
        let ended = ledger
            .atomic(scope("org", "key"), offer(1), move |tx| {
                let Arrived::Inserted(seen) = tx.arrived().clone() else { panic!("it was there") };
                tx.connection().execute("insert into orders values (7)", []).unwrap();
                assert_eq!(tx.enqueue(&command("org", 7), &offered(NOW)), Ok(Enqueued::New));
                if round == 0 {
                    return AtomicEnd::RollBack(());
                }
                if round == 1 {
                    tx.undo().unwrap();
                    return AtomicEnd::RollBack(());
                }
                tx.settle(&after(&seen.record, done(seen.now, 1))).unwrap();
                AtomicEnd::Commit(())
            })
            .await;
        assert_eq!(ended, Ok(()));
        for table in ["orders", "samekey_keys", "samekey_commands", "samekey_outbox"] {
            let rows = file.count(&format!("select count(*) from {table}"));
            assert_eq!(rows, i64::from(round == 2), "{table}");
        }
    }
}

/// On a connection of the application's own, beside the ledger's.
#[tokio::test]
async fn a_command_is_enqueued_on_another_connection() {
    let file = File::migrated();
    let ledger = file.open();
    let mut own = file.raw();
    let refused = enqueue(&own, &command("org", 1), &offered(NOW)).expect_err("a refusal");
    assert_eq!(refused.kind(), Kind::Misused, "no transaction would hold it together");
    for commits in [false, true] {
        let tx = own.transaction().unwrap();
        assert_eq!(enqueue(&tx, &command("org", 1), &offered(NOW)), Ok(Enqueued::New));
        if commits {
            tx.commit().unwrap();
        } else {
            tx.rollback().unwrap();
        }
        assert_eq!(ids(&taken(&ledger, "org", 10).await).len(), usize::from(commits));
    }
}

/// A job may read the outbox, and write it by its handle only.
#[tokio::test]
async fn a_job_writes_no_row_of_the_outbox_past_its_handle() {
    let file = File::migrated();
    let ledger = file.open();
    put(&ledger, &command("org", 1), NOW).await;
    let refused = ledger
        .write_tx(|tx| {
            let _ = tx.connection().execute("delete from samekey_outbox", []);
            AtomicEnd::Commit(())
        })
        .await;
    assert_eq!(refused.map_err(|error| error.kind()), Err(Kind::Misused));
    let past = ledger.write(|c| AtomicEnd::Commit(enqueue(c, &command("org", 2), &offered(NOW))));
    assert!(past.await.is_err());
    assert_eq!(ids(&taken(&ledger, "org", 10).await), [id(1)]);
}

/// What failed stays in the inbox when the transaction of its successor is rolled back.
#[tokio::test]
async fn a_successor_stands_or_falls_with_its_transaction() {
    let file = File::migrated();
    let ledger = file.open();
    let first = command("org", 1);
    let seen = put(&ledger, &first, NOW).await;
    let failed = advanced(&ledger, &first, &seen.delivery, failed(seen.now)).await;
    for commits in [false, true] {
        let next = Command { id: id(2), generation: 2, ..first.clone() };
        let enqueued = ledger
            .write_tx(move |tx| {
                let enqueued = tx.enqueue(&next, &offered(NOW));
                if commits { AtomicEnd::Commit(enqueued) } else { AtomicEnd::RollBack(enqueued) }
            })
            .await;
        assert_eq!(enqueued, Ok(Ok(Enqueued::New)));
        let counts = ledger.count_commands().await.unwrap();
        assert_eq!(counts[0].state, if commits { "waiting" } else { "failed" });
        assert_eq!(stands(&ledger, &first).await.delivery, failed);
    }
}

#[tokio::test]
async fn p35_a_file_of_version_2_gets_an_outbox() {
    let file = File::missing();
    let by_hand = file.raw();
    for step in &MIGRATIONS.list[..2] {
        by_hand.execute_batch(step.sql).unwrap();
        by_hand.execute_batch(&MIGRATIONS.record(step)).unwrap();
    }
    drop(by_hand);
    let refused = SqliteLedger::open(&file.address()).map(drop).expect_err("a refusal");
    assert_eq!(refused.kind(), Kind::Schema);
    assert_eq!(SqliteLedger::migrate(&file.address()), Ok(&MIGRATIONS.list[2..]));
    let ledger = file.open();
    put(&ledger, &command("org", 1), NOW).await;
    assert_eq!(ids(&taken(&ledger, "org", 10).await), [id(1)]);
}

/// What the constraints refuse, and what a damaged row is told as.
#[tokio::test]
async fn a_row_of_the_outbox_that_no_machine_makes_is_refused() {
    let file = File::migrated();
    let ledger = file.open();
    let one = command("org", 1);
    put(&ledger, &one, NOW).await;
    for fault in [
        "due = null",
        "grounds = null",
        "state = 'succeeded', due = null, grounds = null",
        "holder = x''",
        "revision = 0",
        "asked = 1",
        "proof = 'executed'",
        "answer_status = 200",
    ] {
        let refused = file.raw().execute(&format!("update samekey_outbox set {fault}"), []);
        assert!(refused.is_err(), "{fault}");
    }
    file.raw().execute("update samekey_outbox set doubt = 'canary'", []).unwrap();
    let error = ledger.delivery(&one.action.org, one.id).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
}
