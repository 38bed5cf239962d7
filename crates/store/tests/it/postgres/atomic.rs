//! The caller's transaction.

use super::Fixture;
use crate::records::{after, done, kept, offer, owner, scope};
use samekey_core::key::Scope;
use samekey_core::record::{Record, State};
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::postgres::{Durability, Open, Options, PostgresLedger};
use samekey_store::{Kind, Ledger, Seen, Swap};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_millis(200);
pub const PAY: &str = "insert into payments values (7)";

pub async fn with_payments() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.execute("create table payments (amount bigint not null)").await;
    fixture
}

pub async fn payments(fixture: &Fixture) -> i64 {
    fixture.number("select count(*) from payments").await
}

pub async fn claim(ledger: &PostgresLedger, key: &Scope, number: u8) -> (Open, Seen) {
    match ledger.begin(key, &offer(number), WAIT).await.unwrap() {
        Begun::Claimed(open, seen) => (open, seen),
        Begun::Found(..) => panic!("found"),
        Begun::Busy => panic!("busy"),
    }
}

pub async fn find(ledger: &PostgresLedger, key: &Scope) -> (Open, Seen) {
    match ledger.begin(key, &offer(99), WAIT).await.unwrap() {
        Begun::Found(open, seen) => (open, seen),
        Begun::Claimed(..) => panic!("claimed"),
        Begun::Busy => panic!("busy"),
    }
}

pub fn finished(seen: &Seen) -> Record {
    after(&seen.record, done(seen.now, 1))
}

fn freed(seen: &Seen) -> Record {
    after(&seen.record, State::Free)
}

#[tokio::test]
async fn s4_the_effect_and_the_key_are_committed_together() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    assert_eq!(fixture.number("select count(*) from samekey.keys").await, 0);
    open.tx().execute(PAY, &[]).await.unwrap();
    assert_eq!(payments(&fixture).await, 0);
    let next = finished(&seen);
    open.settle(&key, &seen.record, &next).await.unwrap();
    assert_eq!(payments(&fixture).await, 1);
    assert_eq!(fixture.ledger.load(&key).await.unwrap().record, next);

    let (open, found) = find(&fixture.ledger, &key).await;
    assert_eq!(found.record, next);
    open.roll_back().await.unwrap();
    assert_eq!(fixture.idle_in_transaction().await, 0);
}

#[tokio::test]
async fn the_row_says_what_the_machine_decided_in_the_databases_time() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    assert_eq!(seen.record, offer(1).counted_from(seen.now));
    open.settle(&key, &seen.record, &freed(&seen)).await.unwrap();
    let loaded = fixture.ledger.load(&key).await.unwrap();
    assert_eq!(loaded.record, freed(&seen));
    assert!(loaded.now >= seen.now);
}

#[tokio::test]
async fn t48_the_lock_timeout_covers_the_claim_only() {
    let fixture = with_payments().await;
    let timeout = async |open: &Open| -> String {
        open.tx().query_one("show lock_timeout", &[]).await.unwrap().get(0)
    };
    let key = scope("org", "key");
    let (mut open, seen) = claim(&fixture.ledger, &key, 1).await;
    assert_eq!(timeout(&open).await, "0");
    open.undo(&key).await.unwrap();
    assert_eq!(timeout(&open).await, "0");
    open.settle(&key, &seen.record, &freed(&seen)).await.unwrap();
    let (mut open, seen) = find(&fixture.ledger, &key).await;
    let next = after(&seen.record, offer(2).counted_from(seen.now).state);
    assert_eq!(open.reclaim(&key, &seen.record, &next).await.unwrap(), Swap::Written);
    assert_eq!(timeout(&open).await, "0");
    open.roll_back().await.unwrap();
}

/// A handler waits for locks as long as its role, its database or its pool lets it, never as a claim does.
#[tokio::test]
async fn t48_a_handler_has_the_lock_timeout_that_the_ledger_found() {
    let fixture = with_payments().await;
    let name: String =
        fixture.outside.query_one("select current_database()", &[]).await.unwrap().get(0);
    fixture.execute(&format!("alter database \"{name}\" set lock_timeout = '7s'")).await;
    let ledger = fixture.another(1).await;
    let timeout = async |open: &Open| -> String {
        open.tx().query_one("show lock_timeout", &[]).await.unwrap().get(0)
    };
    let key = scope("org", "key");
    let (open, seen) = claim(&ledger, &key, 1).await;
    assert_eq!(timeout(&open).await, "7s");
    open.settle(&key, &seen.record, &freed(&seen)).await.unwrap();
    let (mut open, seen) = find(&ledger, &key).await;
    let next = after(&seen.record, offer(2).counted_from(seen.now).state);
    assert_eq!(open.reclaim(&key, &seen.record, &next).await.unwrap(), Swap::Written);
    assert_eq!(timeout(&open).await, "7s");
    open.roll_back().await.unwrap();
}

#[tokio::test]
async fn a_key_that_another_transaction_holds_is_busy_after_the_wait() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (holder, seen) = claim(&fixture.ledger, &key, 1).await;
    let start = Instant::now();
    let begun = fixture.ledger.begin(&key, &offer(2), Duration::from_millis(50)).await.unwrap();
    assert!(matches!(begun, Begun::Busy));
    assert!(start.elapsed() >= Duration::from_millis(50));
    // No wait at all is not an endless one.
    let begun = fixture.ledger.begin(&key, &offer(2), Duration::ZERO).await.unwrap();
    assert!(matches!(begun, Begun::Busy));
    // Nothing but the holder is in a transaction.
    assert_eq!(fixture.idle_in_transaction().await, 1);
    holder.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
    assert_eq!(fixture.idle_in_transaction().await, 0);
}

#[tokio::test]
async fn a_claim_that_waited_finds_what_the_holder_committed() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (holder, seen) = claim(&fixture.ledger, &key, 1).await;
    let (ledger, same) = (fixture.ledger.clone(), key.clone());
    let waiting = tokio::spawn(async move {
        match ledger.begin(&same, &offer(2), Duration::from_secs(30)).await.unwrap() {
            Begun::Found(open, seen) => {
                open.roll_back().await.unwrap();
                seen
            }
            Begun::Claimed(..) | Begun::Busy => panic!("not found"),
        }
    });
    fixture.until_waiting_for_a_lock(1).await;
    holder.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
    assert_eq!(waiting.await.unwrap().record, finished(&seen));
}

#[tokio::test]
async fn a_claim_that_waited_runs_when_the_holder_gave_up() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (holder, _) = claim(&fixture.ledger, &key, 1).await;
    let (ledger, same) = (fixture.ledger.clone(), key.clone());
    let waiting = tokio::spawn(async move { claim_long(&ledger, &same).await });
    fixture.until_waiting_for_a_lock(1).await;
    holder.roll_back().await.unwrap();
    let (open, seen) = waiting.await.unwrap();
    assert_eq!(seen.record.holder, owner(2));
    open.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
}

async fn claim_long(ledger: &PostgresLedger, key: &Scope) -> (Open, Seen) {
    match ledger.begin(key, &offer(2), Duration::from_secs(30)).await.unwrap() {
        Begun::Claimed(open, seen) => (open, seen),
        Begun::Found(..) | Begun::Busy => panic!("not claimed"),
    }
}

#[tokio::test]
async fn a_free_row_is_taken_by_one() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    open.settle(&key, &seen.record, &freed(&seen)).await.unwrap();

    let (mut one, seen) = find(&fixture.ledger, &key).await;
    let (mut other, same) = find(&fixture.ledger, &key).await;
    let next = after(&seen.record, offer(2).counted_from(seen.now).state);
    assert_eq!(one.reclaim(&key, &seen.record, &next).await.unwrap(), Swap::Written);
    // The other one cannot tell yet.
    let error = other.reclaim(&key, &same.record, &next).await.unwrap_err();
    assert_eq!(error.kind(), Kind::LockTimeout);
    other.roll_back().await.unwrap();

    // What is undone is not the claim.
    one.tx().execute(PAY, &[]).await.unwrap();
    one.undo(&key).await.unwrap();
    let taken = Seen { record: next, now: seen.now };
    one.settle(&key, &taken.record, &finished(&taken)).await.unwrap();
    assert_eq!(payments(&fixture).await, 0);

    let (mut late, _) = find(&fixture.ledger, &key).await;
    let next = after(&seen.record, offer(3).counted_from(seen.now).state);
    match late.reclaim(&key, &seen.record, &next).await.unwrap() {
        Swap::Changed(now) => assert_eq!(now.record, finished(&taken)),
        Swap::Written => panic!("it was not free any longer"),
    }
    late.roll_back().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t43_of_200_parallel_begins_in_two_processes_one_claims() {
    let fixture = Arc::new(with_payments().await);
    let other = fixture.another(8).await;
    let mut begins = Vec::new();
    for number in 0..200_u8 {
        let ledger = if number % 2 == 0 { fixture.ledger.clone() } else { other.clone() };
        begins.push(tokio::spawn(async move {
            let key = scope("org", "key");
            loop {
                match ledger.begin(&key, &offer(number), Duration::from_millis(20)).await {
                    Ok(Begun::Claimed(open, seen)) => {
                        open.tx().execute(PAY, &[]).await.unwrap();
                        open.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
                        return 1;
                    }
                    Ok(Begun::Found(open, seen)) => {
                        assert!(matches!(seen.record.state, State::Done(_)));
                        open.roll_back().await.unwrap();
                        return 0;
                    }
                    Ok(Begun::Busy) => {}
                    Err(error) => assert_eq!(error.kind(), Kind::PoolExhausted, "{error}"),
                }
            }
        }));
    }
    let mut claimed = 0;
    for begin in begins {
        claimed += begin.await.unwrap();
    }
    assert_eq!(claimed, 1);
    assert_eq!(payments(&fixture).await, 1);
}

#[tokio::test]
async fn a_handler_that_keeps_its_transaction_commits_nothing() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    let kept = open.tx();
    kept.execute(PAY, &[]).await.unwrap();
    let error = open.settle(&key, &seen.record, &finished(&seen)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misused);
    // What it still sends goes nowhere.
    kept.execute(PAY, &[]).await.unwrap_err();
    drop(kept);
    assert_eq!(payments(&fixture).await, 0);
    let (open, _) = claim(&fixture.ledger, &key, 2).await;
    open.roll_back().await.unwrap();
}

/// `COMMIT` of an aborted transaction answers `ROLLBACK` without an error.
#[tokio::test]
async fn b41_a_transaction_whose_failure_was_swallowed_is_not_settled() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    open.tx().execute("insert into payments values (null)", &[]).await.unwrap_err();
    let error = open.settle(&key, &seen.record, &finished(&seen)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misused, "{error}");
    assert_eq!(fixture.number("select count(*) from samekey.keys").await, 0);
    assert_eq!(fixture.idle_in_transaction().await, 0);

    let open = fixture.ledger.begin_unkeyed().await.unwrap();
    open.tx().execute("insert into payments values (null)", &[]).await.unwrap_err();
    let error = open.commit_unkeyed().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misused, "{error}");
}

/// Whoever settles with another view of the row than the row itself commits nothing at all.
#[tokio::test]
async fn s10_a_settlement_under_another_fence_commits_nothing() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    for wrong in ["fence", "holder", "revision"] {
        let (open, seen) = claim(&fixture.ledger, &key, 1).await;
        open.tx().execute(PAY, &[]).await.unwrap();
        let mut other = seen.record.clone();
        match wrong {
            "fence" => other.fence = other.fence.next(),
            "holder" => other.holder = owner(9),
            _ => other.revision += 1,
        }
        let next = after(&other, done(seen.now, 1));
        let error = open.settle(&key, &other, &next).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Misused, "{wrong}: {error}");
        assert_eq!(payments(&fixture).await, 0, "{wrong}");
    }
}

#[tokio::test]
async fn no_committed_row_is_ever_running() {
    let fixture = with_payments().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    let next = after(&seen.record, seen.record.state.clone());
    let error = open.settle(&key, &seen.record, &next).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misused);
    assert_eq!(fixture.number("select count(*) from samekey.keys").await, 0);
}

#[tokio::test]
async fn a_commit_that_the_server_refuses_is_no_secret_and_no_loss() {
    let fixture = with_payments().await;
    fixture.execute("alter table payments add unique (amount) deferrable initially deferred").await;
    fixture.execute(PAY).await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    open.tx().execute(PAY, &[]).await.unwrap();
    let error = open.settle(&key, &seen.record, &finished(&seen)).await.unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (Kind::Other, Some("23505")));
    assert_eq!(payments(&fixture).await, 1);
    assert_eq!(fixture.number("select count(*) from samekey.keys").await, 0);
    assert_eq!(fixture.idle_in_transaction().await, 0);
}

#[tokio::test]
async fn a_command_without_a_key_is_a_transaction_like_any_other() {
    let fixture = with_payments().await;
    let open = fixture.ledger.begin_unkeyed().await.unwrap();
    open.tx().execute(PAY, &[]).await.unwrap();
    open.commit_unkeyed().await.unwrap();
    assert_eq!(payments(&fixture).await, 1);
    let open = fixture.ledger.begin_unkeyed().await.unwrap();
    open.tx().execute(PAY, &[]).await.unwrap();
    open.roll_back().await.unwrap();
    let open = fixture.ledger.begin_unkeyed().await.unwrap();
    open.tx().batch_execute("commit").await.unwrap();
    assert_eq!(open.commit_unkeyed().await.unwrap_err().kind(), Kind::Ended);
    assert_eq!(payments(&fixture).await, 1);
}

#[tokio::test]
async fn a_large_answer_comes_back_to_the_byte() {
    let fixture = with_payments().await;
    let body: &'static [u8] =
        Box::leak((0..65_536_u32).map(|n| (n % 251) as u8).collect::<Vec<u8>>().into_boxed_slice());
    for (name, days) in [("no-partition", 0_i64), ("partition", 1)] {
        if days == 1 {
            fixture.ledger.sweep(100).await.unwrap();
        }
        let key = scope("org", name);
        let (open, seen) = claim(&fixture.ledger, &key, 1).await;
        let mut next = finished(&seen);
        if let State::Done(done) = &mut next.state {
            done.receipt = kept(201, body);
        }
        open.settle(&key, &seen.record, &next).await.unwrap();
        assert_eq!(fixture.ledger.load(&key).await.unwrap().record, next, "{name}");
        let (open, found) = find(&fixture.ledger, &key).await;
        assert_eq!(found.record, next, "{name}");
        open.roll_back().await.unwrap();
        assert_eq!(fixture.number("select count(*) from samekey.answers").await, days, "{name}");
    }
}

/// So may the isolation level that a session begins with. A claim that finds another one begins again.
#[tokio::test]
async fn a_transaction_is_isolated_as_it_was_when_the_ledger_was_opened() {
    let fixture = Fixture::with(1, Options::default()).await;
    let client = fixture.ledger.pool().get().await.unwrap();
    client.batch_execute("set default_transaction_isolation = serializable").await.unwrap();
    drop(client);
    for name in ["first", "second"] {
        let key = scope("org", name);
        let (open, seen) = claim(&fixture.ledger, &key, 1).await;
        let setting = "select current_setting('transaction_isolation')";
        let found: String = open.tx().query_one(setting, &[]).await.unwrap().get(0);
        assert_eq!(found, "read committed", "{name}");
        open.settle(&key, &seen.record, &freed(&seen)).await.unwrap();
    }
}

/// How commits are kept may be changed for the role, the database or a session of the pool while a
/// service runs.
#[tokio::test]
async fn p34_a_transaction_is_kept_as_it_was_when_the_ledger_was_opened() {
    const SETTING: &str = "select current_setting('synchronous_commit')";
    for (durability, expected) in [(Durability::Required, "on"), (Durability::Waived, "off")] {
        let options = Options { durability, ..Options::default() };
        let fixture = Fixture::with(1, options).await;
        let client = fixture.ledger.pool().get().await.unwrap();
        client.batch_execute("set synchronous_commit = off").await.unwrap();
        drop(client);
        let (open, _) = claim(&fixture.ledger, &scope("org", "key"), 1).await;
        let found: String = open.tx().query_one(SETTING, &[]).await.unwrap().get(0);
        assert_eq!(found, expected, "{durability:?}");
        open.roll_back().await.unwrap();
        let open = fixture.ledger.begin_unkeyed().await.unwrap();
        let found: String = open.tx().query_one(SETTING, &[]).await.unwrap().get(0);
        assert_eq!(found, expected, "{durability:?}, without a key");
        open.roll_back().await.unwrap();
    }
}

/// The table does not look at leases. Whoever reads a row that says otherwise than any machine runs nothing.
#[tokio::test]
async fn b25_a_running_row_without_a_lease_is_not_read() {
    let fixture = Fixture::new().await;
    let key = scope("org", "key");
    let (open, seen) = claim(&fixture.ledger, &key, 1).await;
    open.settle(&key, &seen.record, &finished(&seen)).await.unwrap();
    for lease in ["null", "since", "since - interval '1 second'"] {
        fixture
            .execute(&format!(
                "update samekey.keys
                 set state = 'running', lease_ends = {lease}, run_ends = since + interval '1 hour',
                     answer_status = null, answer_headers = null, answer_body = null"
            ))
            .await;
        let error = fixture.ledger.load(&key).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged, "{lease}");
        let error = fixture.ledger.begin(&key, &offer(2), WAIT).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged, "{lease}");
        let faults = include_str!("../../../sql/postgres/row_faults.sql");
        let found = fixture.outside.query(faults, &[&"", &"", &10_i64]).await.unwrap();
        assert_eq!(found.len(), 1, "{lease}");
    }
    assert_eq!(fixture.idle_in_transaction().await, 0);
}
