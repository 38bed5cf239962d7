//! Atomic commands: the key's row, the effect and the answer stand or fall together.

use super::bench::{effect, effects, with_effects};
use super::file::File;
use crate::records::{after, done, intent, kept, offer, running, scope, states};
use samekey_core::key::Scope;
use samekey_core::lease::Fence;
use samekey_core::record::{Record, State};
use samekey_store::sqlite::{AtomicEnd, AtomicTx, SqliteLedger};
use samekey_store::{Arrived, Kind, Ledger, StoreError, Swap};

fn key() -> Scope {
    scope("org", "key")
}

fn seen(tx: &AtomicTx<'_>) -> Record {
    match tx.arrived() {
        Arrived::Inserted(seen) | Arrived::Found(seen) => seen.record.clone(),
    }
}

fn settled(tx: &AtomicTx<'_>, claim: &Record) -> Record {
    after(claim, done(tx.now(), 1))
}

/// The whole command: claim, effect, settle.
fn command(tx: &AtomicTx<'_>) -> Result<Swap, StoreError> {
    effect(tx.connection(), "order")?;
    tx.settle(&settled(tx, &seen(tx)))
}

async fn stands(ledger: &SqliteLedger) -> Record {
    ledger.load(&key()).await.expect("an answer").record
}

fn open_claims(file: &File) -> i64 {
    file.count("select count(*) from samekey_open_claims")
}

#[tokio::test]
async fn s4_key_effect_and_answer_are_committed_together() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let ended = ledger.atomic(key(), offer(1), |tx| {
        assert!(matches!(tx.arrived(), Arrived::Inserted(_)));
        AtomicEnd::Commit(command(tx))
    });
    assert_eq!(ended.await, Ok(Ok(Swap::Written)));
    let record = stands(&ledger).await;
    assert!(matches!(&record.state, State::Done(done) if done.receipt == kept(201, b"paid")));
    assert_eq!((record.revision, record.fence), (2, Fence::new(1)));
    assert_eq!(effects(&file), ["order"]);
    assert_eq!(open_claims(&file), 0, "it never was open for anybody");
    let again = ledger.atomic(key(), offer(2), |tx| match tx.arrived() {
        Arrived::Found(seen) => AtomicEnd::Commit(seen.record.clone()),
        Arrived::Inserted(_) => panic!("it was there"),
    });
    assert_eq!(again.await, Ok(record));
}

#[tokio::test]
async fn s4_rolled_back_is_as_never_begun() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let ended = ledger.atomic(key(), offer(1), |tx| AtomicEnd::RollBack(command(tx)));
    assert_eq!(ended.await, Ok(Ok(Swap::Written)));
    assert_eq!(stands(&ledger).await, Record::ABSENT);
    let panic = ledger
        .atomic(key(), offer(1), |tx| -> AtomicEnd<()> {
            command(tx).expect("written");
            panic!("in a handler");
        })
        .await
        .expect_err("a panic");
    assert_eq!(panic.kind(), Kind::Panicked);
    assert_eq!(stands(&ledger).await, Record::ABSENT);
    assert_eq!(effects(&file), Vec::<String>::new());
    let ended = ledger.atomic(key(), offer(2), |tx| AtomicEnd::Commit(command(tx)));
    assert_eq!(ended.await, Ok(Ok(Swap::Written)), "and the key can be used");
}

#[tokio::test]
async fn an_answer_without_effect_undoes_the_handler_and_keeps_the_claim() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let ended = ledger.atomic(key(), offer(1), |tx| {
        let refuse = || {
            effect(tx.connection(), "order")?;
            tx.settle(&settled(tx, &seen(tx)))?;
            tx.undo()?;
            effect(tx.connection(), "note of the refusal")?;
            tx.settle(&settled(tx, &seen(tx)))
        };
        AtomicEnd::Commit(refuse())
    });
    assert_eq!(ended.await, Ok(Ok(Swap::Written)));
    assert_eq!(effects(&file), ["note of the refusal"]);
    assert_eq!(stands(&ledger).await.revision, 2, "settled once, on the claim");
}

#[tokio::test]
async fn a_free_key_is_claimed_again_with_its_next_fence() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let Ok(Arrived::Inserted(first)) = ledger.insert_or_load(&key(), &offer(1), &intent()).await
    else {
        panic!("no claim")
    };
    let free = after(&first.record, State::Free);
    assert_eq!(ledger.swap(&key(), &first.record, &free).await, Ok(Swap::Written));
    let ended = ledger.atomic(key(), offer(2), |tx| {
        let run = || {
            let found = seen(tx);
            assert_eq!(found.state, State::Free);
            let claim = Record {
                fence: found.fence.next(),
                revision: found.revision + 1,
                ..running(tx.now(), 2)
            };
            assert_eq!(tx.reclaim(&claim)?, Swap::Written);
            effect(tx.connection(), "undone")?;
            tx.undo()?;
            effect(tx.connection(), "order")?;
            tx.settle(&settled(tx, &claim))
        };
        AtomicEnd::Commit(run())
    });
    assert_eq!(ended.await, Ok(Ok(Swap::Written)));
    let record = stands(&ledger).await;
    assert_eq!((record.fence, record.revision), (Fence::new(2), 4));
    assert_eq!(effects(&file), ["order"]);
    assert_eq!(open_claims(&file), 0);
}

#[tokio::test]
async fn no_committed_atomic_command_is_ever_running() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let ended = ledger.atomic(key(), offer(1), |tx| {
        effect(tx.connection(), "order").expect("written");
        AtomicEnd::Commit(())
    });
    assert_eq!(ended.await.map_err(|error| error.kind()), Err(Kind::Misused));
    assert_eq!(stands(&ledger).await, Record::ABSENT);
    assert_eq!(effects(&file), Vec::<String>::new());
}

#[tokio::test]
async fn s10_a_settlement_needs_the_claim_as_it_was_made() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let ended = ledger.atomic(key(), offer(1), |tx| {
        let once = settled(tx, &seen(tx));
        assert_eq!(tx.settle(&once), Ok(Swap::Written));
        let same = tx.settle(&once).map_err(|error| error.kind());
        AtomicEnd::Commit(same)
    });
    assert_eq!(ended.await, Ok(Err(Kind::Misused)), "the same revision does not pass twice");
    // A program beside this one may do what a job may not.
    let meanwhile = file.raw();
    let ended = ledger.atomic(scope("org", "other"), offer(1), move |tx| {
        let busy = meanwhile
            .busy_timeout(std::time::Duration::ZERO)
            .and_then(|()| meanwhile.execute_batch("update samekey_keys set revision = 99"));
        assert!(busy.is_err(), "the row is locked while the command runs");
        AtomicEnd::Commit(command(tx))
    });
    assert_eq!(ended.await, Ok(Ok(Swap::Written)));
}

#[tokio::test]
async fn a_row_that_is_open_is_kept_in_sight_by_an_atomic_command_too() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    assert!(ledger.insert_or_load(&key(), &offer(1), &intent()).await.is_ok());
    assert_eq!(open_claims(&file), 1);
    // Found running with its lease over: the machine says review, and the command writes that down.
    let ended = ledger.atomic(key(), offer(2), |tx| {
        let found = seen(tx);
        let review = states(tx.now())
            .into_iter()
            .find(|state| matches!(state, State::Review(_)))
            .expect("a review");
        AtomicEnd::Commit(tx.settle(&after(&found, review)))
    });
    assert_eq!(ended.await, Ok(Ok(Swap::Written)));
    let listed = ledger.list_open(None, 10).await.expect("an answer");
    assert_eq!(listed.len(), 1);
    let ended = ledger.atomic(key(), offer(2), |tx| {
        let found = seen(tx);
        AtomicEnd::Commit(tx.settle(&after(&found, done(tx.now(), 1))))
    });
    assert_eq!(ended.await, Ok(Ok(Swap::Written)));
    assert_eq!(ledger.list_open(None, 10).await, Ok(Vec::new()));
    assert_eq!(open_claims(&file), 0);
}

#[tokio::test]
async fn nobody_sees_a_command_before_it_is_committed() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let beside = file.raw();
    let ended = ledger.atomic(key(), offer(1), move |tx| {
        let done = command(tx);
        let count = |sql| beside.query_row(sql, [], |row| row.get::<_, i64>(0));
        let keys = count("select count(*) from samekey_keys");
        let effects = count("select count(*) from effects");
        AtomicEnd::Commit((done, keys, effects))
    });
    assert_eq!(ended.await, Ok((Ok(Swap::Written), Ok(0), Ok(0))));
}

#[tokio::test]
async fn s4_a_command_that_tries_to_commit_is_undone_as_a_whole() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    for sql in [
        "commit",
        "rollback",
        "rollback to samekey_work",
        "release samekey_work",
        "insert or rollback into effects (id, what) values (1, 'a'), (1, 'b')",
    ] {
        let ended = ledger.atomic(key(), offer(1), move |tx| {
            effect(tx.connection(), "order").expect("written");
            assert!(tx.connection().execute_batch(sql).is_err());
            let settled = tx.settle(&settled(tx, &seen(tx)));
            AtomicEnd::Commit(settled)
        });
        assert_eq!(ended.await.map_err(|error| error.kind()), Err(Kind::Misused), "{sql}");
        assert_eq!(stands(&ledger).await, Record::ABSENT, "{sql}");
        assert_eq!(effects(&file), Vec::<String>::new(), "{sql}");
    }
}

#[tokio::test]
async fn many_commands_under_one_key_have_one_effect() {
    let file = File::migrated();
    let ledger = std::sync::Arc::new(with_effects(&file).await);
    let tasks: Vec<_> = (1..=16_u8)
        .map(|number| {
            let ledger = std::sync::Arc::clone(&ledger);
            tokio::spawn(async move {
                let job = |tx: &AtomicTx<'_>| match tx.arrived() {
                    Arrived::Inserted(_) => AtomicEnd::Commit(command(tx).map(|_| "ran")),
                    Arrived::Found(_) => AtomicEnd::Commit(Ok("replayed")),
                };
                ledger.atomic(key(), offer(number), job).await
            })
        })
        .collect();
    let mut ran = 0;
    for task in tasks {
        let answer = task.await.expect("a task").expect("a commit").expect("an answer");
        ran += i32::from(answer == "ran");
    }
    assert_eq!(ran, 1);
    assert_eq!(effects(&file), ["order"]);
}

/// After the transaction has ended under it, each statement of a job would commit by itself, and
/// the key would be done without its effect.
#[tokio::test]
async fn s5_a_command_whose_transaction_is_gone_settles_nothing() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let Ok(Arrived::Inserted(first)) = ledger.insert_or_load(&key(), &offer(1), &intent()).await
    else {
        panic!("no claim")
    };
    let free = after(&first.record, State::Free);
    assert_eq!(ledger.swap(&key(), &first.record, &free).await, Ok(Swap::Written));
    let ended = ledger.atomic(key(), offer(2), |tx| {
        let sql = "insert or rollback into effects (id, what) values (1, 'a'), (1, 'b')";
        assert!(tx.connection().execute_batch(sql).is_err());
        let found = seen(tx);
        let claim = Record {
            revision: found.revision + 1,
            fence: found.fence.next(),
            ..running(tx.now(), 2)
        };
        assert_eq!(tx.reclaim(&claim).map_err(|error| error.kind()), Err(Kind::Misused));
        assert_eq!(tx.settle(&claim).map_err(|error| error.kind()), Err(Kind::Misused));
        assert_eq!(tx.undo().map_err(|error| error.kind()), Err(Kind::Misused));
        assert!(effect(tx.connection(), "past the end").is_err());
        AtomicEnd::Commit(())
    });
    assert_eq!(ended.await.map_err(|error| error.kind()), Err(Kind::Misused));
    assert_eq!(stands(&ledger).await, free);
    assert_eq!(effects(&file), Vec::<String>::new());
}
