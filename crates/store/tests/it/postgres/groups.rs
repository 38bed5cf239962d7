//! Claims and settlements in groups.

use super::Fixture;
use crate::records::{
    after, decided, done, identity, intent, intent_of, kept, offer, owner, scope,
};
use samekey_core::lease::Fence;
use samekey_core::record::{Reason, State, Unknown};
use samekey_core::time::Time;
use samekey_store::{Arrived, Kind, Ledger, Swap};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_get_the_same_answers_as_alone_in_fewer_commits() {
    let fixture = Arc::new(Fixture::new().await);
    let commits = "select xact_commit from pg_stat_database where datname = current_database()";
    fixture.execute("select pg_stat_force_next_flush()").await;
    let before = fixture.number(commits).await;
    let work: Vec<_> = (0..600_u32)
        .map(|number| {
            let ledger = fixture.ledger.clone();
            tokio::spawn(async move {
                // Every third key is offered twice.
                let key = scope("org", &format!("key-{}", number / 3 * 2 + number % 3 % 2));
                match ledger
                    .insert_or_load(&key, &offer((number % 200) as u8), &intent())
                    .await
                    .unwrap()
                {
                    Arrived::Inserted(seen) => {
                        let next = after(&seen.record, done(seen.now, 1));
                        let swap = ledger.swap(&key, &seen.record, &next).await.unwrap();
                        assert_eq!(swap, Swap::Written);
                        match ledger.swap(&key, &seen.record, &next).await.unwrap() {
                            Swap::Changed(now) => assert_eq!(now.record, next),
                            Swap::Written => panic!("written twice"),
                        }
                        1
                    }
                    Arrived::Found(seen) => {
                        assert_eq!(seen.record.fence.number(), 1);
                        0
                    }
                }
            })
        })
        .collect();
    let mut inserted = 0;
    for one in work {
        inserted += one.await.unwrap();
    }
    assert_eq!(inserted, 400);
    assert_eq!(fixture.number("select count(*) from samekey.open_claims").await, 0);
    fixture.execute("select pg_stat_force_next_flush()").await;
    let spent = fixture.number(commits).await - before;
    // Alone they would be 600 claims and 800 swaps, and as many loads of what was changed.
    assert!(spent < 1_200, "{spent} commits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_on_one_key_does_not_block_the_others() {
    let fixture = Arc::new(Fixture::new().await);
    let held = scope("org", "held");
    // An atomic command that is about to commit.
    let insert = "begin;
        insert into samekey.keys (org_id, key, fence, revision, keep_until, state, holder)
        values ('org', 'held', 1, 1, now(), 'free', substr(sha256(''), 1, 16))";
    fixture.outside.batch_execute(insert).await.unwrap();
    let start = Instant::now();
    let work: Vec<_> = (0..100_u8)
        .map(|number| {
            let ledger = fixture.ledger.clone();
            tokio::spawn(async move {
                let name = if number % 25 == 0 { "held".to_owned() } else { format!("k{number}") };
                ledger.insert_or_load(&scope("org", &name), &offer(number), &intent()).await
            })
        })
        .collect();
    let (mut inserted, mut locked) = (0, 0);
    for one in work {
        match one.await.unwrap() {
            Ok(Arrived::Inserted(_)) => inserted += 1,
            Ok(Arrived::Found(_)) => panic!("nobody committed it"),
            Err(error) => {
                assert_eq!(error.kind(), Kind::LockTimeout, "{error}");
                locked += 1;
            }
        }
    }
    assert_eq!((inserted, locked), (96, 4));
    assert!(start.elapsed() < Duration::from_secs(5));
    fixture.outside.batch_execute("commit").await.unwrap();
    assert!(matches!(
        fixture.ledger.insert_or_load(&held, &offer(9), &intent()).await.unwrap(),
        Arrived::Found(_)
    ));
}

/// A row that the table refuses is refused for its own caller alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b25_a_row_that_the_table_refuses_spoils_only_itself() {
    let fixture = Arc::new(Fixture::new().await);
    let client = fixture.ledger.pool().get().await.unwrap();
    let refuse = "alter table samekey.keys add constraint keys_no_tens check (get_byte(request_sha, 0) % 10 <> 0)";
    client.batch_execute(refuse).await.unwrap();
    drop(client);
    let work: Vec<_> = (0..40_u8)
        .map(|number| {
            let ledger = fixture.ledger.clone();
            tokio::spawn(async move {
                let key = scope("org", &format!("k{number}"));
                ledger.insert_or_load(&key, &offer(number), &intent()).await
            })
        })
        .collect();
    for (number, one) in work.into_iter().enumerate() {
        match one.await.unwrap() {
            Ok(_) => assert!(number % 10 != 0, "{number} was taken"),
            Err(error) => {
                assert!(number % 10 == 0, "{number}: {error}");
                assert_eq!(error.sqlstate(), Some("23514"));
                assert!(error.to_string().contains("keys_no_tens"), "{error}");
            }
        }
    }
    assert_eq!(fixture.number("select count(*) from samekey.keys").await, 36);
}

/// Two processes that insert and swap the same keys at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_agree_on_who_was_first() {
    let fixture = Arc::new(Fixture::new().await);
    let other = fixture.another(8).await;
    let work: Vec<_> = (0..400_u32)
        .map(|number| {
            let ledger = if number % 2 == 0 { fixture.ledger.clone() } else { other.clone() };
            tokio::spawn(async move {
                let key = scope("org", &format!("key-{}", number / 4));
                let mine = owner((number % 4) as u8 + 1);
                let mut record = offer(1);
                record.holder = mine;
                loop {
                    match ledger.insert_or_load(&key, &record, &intent()).await {
                        Ok(Arrived::Inserted(_)) => return 1,
                        Ok(Arrived::Found(seen)) if seen.record.revision > 0 => {
                            assert_ne!(seen.record.holder, mine);
                            return 0;
                        }
                        // Another group held the row for longer than a group waits.
                        Ok(Arrived::Found(_)) => {}
                        Err(error) => assert_eq!(error.kind(), Kind::LockTimeout, "{error}"),
                    }
                }
            })
        })
        .collect();
    let mut first = 0;
    for one in work {
        first += one.await.unwrap();
    }
    assert_eq!(first, 100);
}

#[tokio::test]
async fn large_answers_lie_in_the_partition_of_the_day_on_which_they_end() {
    let fixture = Fixture::new().await;
    fixture.ledger.sweep(10).await.unwrap();
    let key = scope("org", "key");
    let Arrived::Inserted(seen) =
        fixture.ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap()
    else {
        panic!("it was there")
    };
    let body: &'static [u8] = Box::leak(vec![b'x'; 10_000].into_boxed_slice());
    let mut next = after(&seen.record, done(seen.now, 1));
    if let State::Done(done) = &mut next.state {
        done.receipt = kept(201, body);
    }
    fixture.ledger.swap(&key, &seen.record, &next).await.unwrap();
    assert_eq!(fixture.ledger.load(&key).await.unwrap().record, next);
    let placed = "select count(*) from samekey.answers as answers join samekey.keys as keys \
                  on keys.answer_day = answers.answer_day and keys.answer_body is null \
                  where answers.answer_day = (keys.keep_until at time zone 'UTC')::date";
    assert_eq!(fixture.number(placed).await, 1);

    // What is forgotten is gone from there too.
    let mut forgotten = after(&next, done(seen.now, 1));
    if let State::Done(done) = &mut forgotten.state {
        done.receipt = samekey_core::receipt::Receipt::Fact { status: 201, location: None };
    }
    assert_eq!(fixture.ledger.swap(&key, &next, &forgotten).await.unwrap(), Swap::Written);
    assert_eq!(fixture.number("select count(*) from samekey.answers").await, 0);
    assert_eq!(fixture.ledger.load(&key).await.unwrap().record, forgotten);
}

/// A partition goes when its keys are swept, and not before.
#[tokio::test]
async fn a_partition_is_dropped_after_its_keys_are_swept() {
    let fixture = Fixture::new().await;
    fixture
        .execute(
            "create table samekey.answers_20200101 (like samekey.answers including all); \
             alter table samekey.answers attach partition samekey.answers_20200101 \
             for values from ('2020-01-01') to ('2020-01-02'); \
             insert into samekey.answers values ('2020-01-01', 'org', 'old', 'body'); \
             insert into samekey.keys (org_id, key, fence, revision, keep_until, since, \
             request_version, request_sha, frame_sha, state, holder, answer_status, answer_day) \
             values ('org', 'old', 1, 2, '2020-01-01 12:00+00', '2020-01-01 11:00+00', 1, \
             sha256(''), sha256(''), 'done', substr(sha256(''), 1, 16), 200, '2020-01-01')",
        )
        .await;
    let there = "select count(*) from pg_class where relname = 'answers_20200101'";
    // A row that somebody holds stays, and so does its partition.
    fixture.execute("begin; select key from samekey.keys for update").await;
    let pass = fixture.ledger.sweep(10).await.unwrap();
    assert_eq!(pass.removed, 0);
    assert_eq!(fixture.number(there).await, 1);
    fixture.execute("commit").await;
    // The next process of the day finds it.
    let other = fixture.another(1).await;
    assert_eq!(other.sweep(10).await.unwrap().removed, 1);
    assert_eq!(fixture.number(there).await, 0);
    let ahead = "select count(*) from pg_inherits where inhparent = 'samekey.answers'::regclass";
    assert_eq!(fixture.number(ahead).await, 34);
}

/// The intents of one statement's offers are told apart, and so are the times of its swaps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_of_a_group_has_its_own_intent_and_its_own_time() {
    let fixture = Arc::new(Fixture::new().await);
    let key_of = |number: u8| scope(&format!("org-{}", number % 5), &format!("key-{number:03}"));
    let work: Vec<_> = (0..200_u8)
        .map(|number| {
            let (ledger, key) = (fixture.ledger.clone(), key_of(number));
            tokio::spawn(async move {
                let intent = intent_of("pay", number);
                let arrived = ledger.insert_or_load(&key, &offer(1), &intent).await.unwrap();
                let Arrived::Inserted(seen) = arrived else { panic!("it was there") };
                assert_eq!(ledger.intent(&key).await, Ok(Some(intent)));
                // The later the number, the longer it is due.
                let ask_after = Time::from_micros(1_000 - i64::from(number));
                let unknown = State::Unknown(Unknown {
                    request: identity(1),
                    life: Fence::new(1),
                    since: seen.now,
                    reason: Reason::TimedOut,
                    last_send: seen.now,
                    asked: 0,
                    not_found: 0,
                    ask_after,
                    evidence: None,
                });
                let next = after(&seen.record, unknown);
                assert_eq!(ledger.swap(&key, &seen.record, &next).await, Ok(Swap::Written));
            })
        })
        .collect();
    for one in work {
        one.await.unwrap();
    }
    for org in 0..5_u8 {
        let due = fixture.ledger.due("pay", &key_of(org).org, 100).await.unwrap();
        let expected: Vec<_> =
            (0..200).rev().filter(|number| number % 5 == org).map(|n| key_of(n).key).collect();
        assert_eq!(due, expected);
    }
}

/// A large answer that a person gives lies where all large answers lie, and goes when it is forgotten.
#[tokio::test]
async fn a_large_answer_of_a_decision_lies_in_its_partition() {
    let fixture = Fixture::new().await;
    fixture.ledger.sweep(10).await.unwrap();
    let key = scope("org", "key");
    let arrived = fixture.ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap();
    let Arrived::Inserted(seen) = arrived else { panic!("it was there") };
    let body: &'static [u8] = Box::leak(vec![b'x'; 10_000].into_boxed_slice());
    let mut next = after(&seen.record, done(seen.now, 1));
    if let State::Done(done) = &mut next.state {
        done.receipt = kept(201, body);
    }
    let account = decided("anna", seen.record.fence);
    let ledger = &fixture.ledger;
    assert_eq!(ledger.decide(&key, &seen.record, &next, &account).await, Ok(Swap::Written));
    assert_eq!(fixture.number("select count(*) from samekey.answers").await, 1);
    assert_eq!(ledger.load(&key).await.unwrap().record, next);
    let free = after(&next, State::Free);
    assert_eq!(ledger.decide(&key, &next, &free, &account).await, Ok(Swap::Written));
    assert_eq!(fixture.number("select count(*) from samekey.answers").await, 0);
    let again = after(&free, offer(2).counted_from(seen.now).state);
    assert_eq!(ledger.reclaim(&key, &free, &again, &intent()).await, Ok(Swap::Written));
    assert_eq!(fixture.number("select count(*) from samekey.open_claims").await, 1);
}

/// Who decides while somebody else holds the row waits for a moment, is told so, and leaves nothing.
#[tokio::test]
async fn a_decision_on_a_row_that_is_held_is_told_so() {
    let fixture = Fixture::new().await;
    let key = scope("org", "key");
    let arrived = fixture.ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap();
    let Arrived::Inserted(seen) = arrived else { panic!("it was there") };
    fixture.execute("begin; select key from samekey.keys for update").await;
    let next = after(&seen.record, State::Free);
    let account = decided("anna", seen.record.fence);
    for _ in 0..20 {
        let told = fixture.ledger.decide(&key, &seen.record, &next, &account).await;
        assert_eq!(told.map_err(|error| error.kind()), Err(Kind::LockTimeout));
    }
    fixture.execute("commit").await;
    fixture.until_none_is_idle_in_transaction().await;
    assert_eq!(fixture.ledger.decisions(&key).await, Ok(Vec::new()));
    let told = fixture.ledger.decide(&key, &seen.record, &next, &account).await;
    assert_eq!(told, Ok(Swap::Written));
    assert_eq!(fixture.ledger.decisions(&key).await.unwrap().len(), 1);
}
