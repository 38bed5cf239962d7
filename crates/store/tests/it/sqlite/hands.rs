//! What other hands, other clocks and bad disks do to a file.

use super::file::File;
use crate::records::{HOUR, MINUTE, after, done, identity, intent, offer, owner, scope};
use samekey_core::policy::Policy;
use samekey_core::record::Record;
use samekey_core::step::{Arrival, Claim, Input, Verdict, step};
use samekey_store::sqlite::SqliteLedger;
use samekey_store::{Arrived, Kind, Ledger, Swap};
use std::io::{Seek, SeekFrom, Write};

/// Adds these microseconds to every time in the file: as if the clock had gone back by as much.
fn put_off(file: &File, micros: i64) {
    file.raw()
        .execute(
            "update samekey_keys set keep_until = keep_until + ?1, since = since + ?1, \
             lease_ends = lease_ends + ?1, run_ends = run_ends + ?1",
            [micros],
        )
        .expect("put off");
}

#[tokio::test]
async fn a_clock_that_goes_back_ends_no_lease_and_sweeps_nothing() {
    let file = File::migrated();
    let ledger = file.open();
    let (runs, ended) = (scope("org", "runs"), scope("org", "ended"));
    assert!(ledger.insert_or_load(&runs, &offer(1), &intent()).await.is_ok());
    let Ok(Arrived::Inserted(seen)) = ledger.insert_or_load(&ended, &offer(1), &intent()).await
    else {
        panic!("no claim")
    };
    let next = after(&seen.record, done(seen.now, 1));
    assert_eq!(ledger.swap(&ended, &seen.record, &next).await, Ok(Swap::Written));
    for back in [MINUTE * 2, HOUR * 2, HOUR * 24 * 400] {
        put_off(&file, i64::try_from(back.as_micros()).unwrap());
        let seen = ledger.load(&runs).await.expect("an answer");
        let claim = Claim { request: identity(1), owner: owner(2), arrival: Arrival::Ordinary };
        let (next, verdict) =
            step(seen.record.clone(), Input::Claim(claim), seen.now, &Policy::default());
        assert!(matches!(verdict, Verdict::InProgress(_)), "{verdict:?}");
        assert_eq!(next, seen.record);
        assert_eq!(ledger.sweep(10).await.expect("an answer").removed, 0);
    }
}

#[tokio::test]
async fn a_row_that_was_changed_by_hand_is_told_and_never_taken_for_a_free_key() {
    let file = File::migrated();
    let ledger = file.open();
    let key = scope("org", "key");
    assert!(ledger.insert_or_load(&key, &offer(1), &intent()).await.is_ok());
    let by_hand = file.raw();
    by_hand.pragma_update(None, "ignore_check_constraints", "on").expect("a setting");
    for change in [
        "state = 'of tomorrow'",
        "state = 'running', lease_ends = null",
        "lease_ends = since, request_sha = x'01'",
        "request_sha = zeroblob(32), holder = x'02'",
        "holder = zeroblob(16), fence = -1",
        "fence = 1, revision = -1",
        "revision = 1, state = 'review', reason = 'weather', life = 1",
        "state = 'done', answer_status = 200, answer_headers = x'ff00ff'",
        "answer_headers = null, answer_status = 199",
        "answer_status = 600",
        "answer_status = 0",
        "answer_status = -1",
    ] {
        by_hand.execute_batch(&format!("update samekey_keys set {change}")).expect(change);
        let error = ledger.load(&key).await.expect_err(change);
        assert_eq!(error.kind(), Kind::Damaged, "{change}");
        assert!(!error.is_transient());
        let error = ledger.insert_or_load(&key, &offer(2), &intent()).await.expect_err(change);
        assert_eq!(error.kind(), Kind::Damaged, "{change}");
        let listed = ledger.list_open(None, 10).await.expect_err(change);
        assert_eq!(listed.kind(), Kind::Damaged, "{change}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_told_and_never_taken_for_an_empty_one() {
    let file = File::migrated();
    let ledger = file.open();
    let keys: Vec<_> = (0..50).map(|number| scope("org", &format!("key-{number}"))).collect();
    for key in &keys {
        assert!(ledger.insert_or_load(key, &offer(1), &intent()).await.is_ok());
    }
    ledger.close().await;
    let bytes = std::fs::metadata(file.path()).expect("a file").len();
    let mut disk = std::fs::OpenOptions::new().write(true).open(file.path()).expect("a file");
    // The first page, with the schema, is left whole.
    disk.seek(SeekFrom::Start(4_096)).expect("a place");
    disk.write_all(&vec![0xA5; usize::try_from(bytes - 4_096).unwrap()]).expect("written");
    drop(disk);
    let told = match SqliteLedger::open(&file.address()) {
        Err(error) => vec![error.kind()],
        Ok(ledger) => {
            let mut told = Vec::new();
            for key in &keys {
                match ledger.insert_or_load(key, &offer(2), &intent()).await {
                    Ok(Arrived::Found(seen)) => assert_ne!(seen.record, Record::ABSENT),
                    Ok(Arrived::Inserted(_)) => panic!("a key that was used is new"),
                    Err(error) => told.push(error.kind()),
                }
            }
            told
        }
    };
    assert!(!told.is_empty() && told.iter().all(|kind| *kind == Kind::Damaged), "{told:?}");
}
