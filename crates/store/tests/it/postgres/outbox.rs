//! The outbox on PostgreSQL: transactions of callers, groups, locks, and what its tables hold.

use super::Fixture;
use crate::commands::{command, failed, id, moved, note, offered, ordered, org, succeeded, worker};
use crate::outbox::{NOW, advanced, ids, put, stands, taken};
use crate::records::{after, decided, done, offer, scope};
use samekey_core::delivery::Delivery;
use samekey_sim::fresh_database;
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::outbox::{Command, CommandId, Enqueued, Moved, Outbox, Show};
use samekey_store::postgres::outbox::{OUTBOX_FAULTS, enqueue};
use samekey_store::postgres::{MIGRATIONS, Options, PostgresLedger, connect, migrate};
use samekey_store::{Kind, Ledger};
use std::collections::BTreeSet;
use std::time::Duration;

/// Every statement of the outbox once.
pub async fn everything(outbox: &PostgresLedger) {
    let (one, other) = (ordered("everything", 1, "a"), command("everything", 2));
    for one in [&one, &other] {
        put(outbox, one, NOW).await;
    }
    assert_eq!(outbox.orgs_with_due("bank", None, 10).await.unwrap().len(), 1);
    outbox.next_due("bank").await.unwrap().unwrap();
    let took = taken(outbox, "everything", 10).await;
    assert_eq!(took.len(), 2);
    let seen = &took[0].seen;
    let next = moved(&seen.delivery, failed(seen.now));
    let of = org("everything");
    let noted = note(1, 1);
    let told = outbox.advance(&of, took[0].command.id, &seen.delivery, &next, Some(&noted)).await;
    assert_eq!(told, Ok(Moved::Written));
    let again = Command { id: id(3), generation: 2, ..took[0].command.clone() };
    put(outbox, &again, NOW).await;
    let seen = &took[1].seen;
    let next = moved(&seen.delivery, succeeded(seen.now));
    let account = decided("anna", seen.delivery.fence);
    let id = took[1].command.id;
    let told = outbox.advance_decided(&of, id, &seen.delivery, &next, &account).await;
    assert_eq!(told, Ok(Moved::Written));
    outbox.note(&of, id, &note(2, 1)).await.unwrap();
    assert_eq!(outbox.attempts(&of, id).await.unwrap().len(), 1);
    assert_eq!(outbox.accounts(&of, id).await.unwrap().len(), 1);
    assert_eq!(outbox.command(&of, id).await.unwrap().unwrap(), took[1].command);
    assert_eq!(outbox.latest(&again.action).await.unwrap().unwrap().0, again);
    assert_eq!(outbox.list(&Show::default(), None, 10).await.unwrap().len(), 3);
    outbox.count_commands().await.unwrap();
    assert_eq!(outbox.sweep_commands(NOW, 10).await.unwrap().removed, 2);
}

#[tokio::test]
async fn t73_b80_a_command_stands_or_falls_with_the_callers_transaction() {
    let fixture = Fixture::new().await;
    fixture.execute("create table orders (id integer primary key)").await;
    for (number, commits) in [(1_i32, false), (2, true)] {
        let mut client = fixture.ledger.pool().get().await.unwrap();
        let tx = client.transaction().await.unwrap();
        tx.execute("insert into orders values ($1)", &[&number]).await.unwrap();
        let one = command("org", number.unsigned_abs());
        let enqueued = enqueue(&*tx, &one, &offered(NOW)).await;
        assert_eq!(enqueued, Ok(Enqueued::New));
        assert_eq!(fixture.ledger.next_due("bank").await, Ok(None), "nothing is seen of it");
        assert_eq!(ids(&taken(&fixture.ledger, "org", 10).await), []);
        if commits {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    assert_eq!(ids(&taken(&fixture.ledger, "org", 10).await), [id(2)]);
    assert_eq!(fixture.number("select count(*) from orders").await, 1);
    assert_eq!(fixture.number("select count(*) from samekey.commands").await, 1);
    assert_eq!(fixture.ledger.command(&org("org"), id(1)).await, Ok(None));
}

/// The main use: an order, its key and the command to charge for it are one.
#[tokio::test]
async fn s4_the_key_the_effect_and_the_command_are_committed_together() {
    let fixture = Fixture::new().await;
    fixture.execute("create table orders (id integer primary key)").await;
    let key = scope("org", "key");
    let wait = Duration::from_millis(200);
    for round in 0..3 {
        let begun = fixture.ledger.begin(&key, &offer(1), wait).await.unwrap();
        let Begun::Claimed(mut open, seen) = begun else { panic!("not claimed") };
        let tx = open.tx();
        tx.execute("insert into orders values (7)", &[]).await.unwrap();
        let one = command("org", 7);
        assert_eq!(tx.enqueue(&one, &offered(NOW)).await, Ok(Enqueued::New));
        drop(tx);
        match round {
            0 => open.roll_back().await.unwrap(),
            1 => {
                // A handler that refuses: its answer is kept, and its writes are not.
                open.undo(&key).await.unwrap();
                open.roll_back().await.unwrap();
            }
            _ => {
                let next = after(&seen.record, done(seen.now, 1));
                open.settle(&key, &seen.record, &next).await.unwrap();
            }
        }
        let committed = i64::from(round == 2);
        assert_eq!(fixture.number("select count(*) from orders").await, committed);
        assert_eq!(fixture.number("select count(*) from samekey.outbox").await, committed);
        assert_eq!(fixture.number("select count(*) from samekey.keys").await, committed);
    }
}

/// Ids are made before the commit, and commits come in any order: whatever the order, each command is taken,
/// and none twice.
#[tokio::test]
async fn b31_the_order_of_commits_hides_nothing() {
    const OPEN: usize = 4;
    let fixture = Fixture::new().await;
    let mut dice: u64 = 7;
    let mut roll = move |sides: usize| {
        // A plain generator: the interleavings only have to differ, and to be the same ones each time.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).unwrap() % sides
    };
    let mut expected = BTreeSet::new();
    let mut seen: Vec<CommandId> = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..OPEN {
        clients.push(fixture.database.client().await.unwrap());
    }
    for round in 0..100_u32 {
        let mut open: Vec<usize> = (0..OPEN).collect();
        // The bodies of four transactions in the order of their ids, their ends in any order.
        for (place, client) in (0_u32..).zip(&clients) {
            client.batch_execute("begin").await.unwrap();
            let one = command("org", round * 4 + place);
            assert_eq!(enqueue(client, &one, &offered(NOW)).await, Ok(Enqueued::New));
        }
        while !open.is_empty() {
            let place = open.remove(roll(open.len()));
            let commits = roll(4) > 0;
            clients[place]
                .batch_execute(if commits { "commit" } else { "rollback" })
                .await
                .unwrap();
            if commits {
                expected.insert(id(round * 4 + u32::try_from(place).unwrap()));
            }
            if roll(2) == 0 {
                seen.extend(ids(&taken(&fixture.ledger, "org", 10).await));
            }
        }
    }
    seen.extend(ids(&taken(&fixture.ledger, "org", 10).await));
    let once: BTreeSet<CommandId> = seen.iter().copied().collect();
    assert_eq!(once.len(), seen.len(), "none is taken twice");
    assert_eq!(once, expected);
}

#[tokio::test]
async fn what_another_worker_holds_is_passed_over() {
    let fixture = Fixture::new().await;
    for number in 1..=4 {
        put(&fixture.ledger, &command("org", number), NOW).await;
    }
    fixture.execute("begin").await;
    let held = "select 1 from samekey.outbox where id in ($1, $2) for update";
    let (one, three) = (id(1).bytes().to_vec(), id(3).bytes().to_vec());
    fixture.outside.query(held, &[&one, &three]).await.unwrap();
    assert_eq!(ids(&taken(&fixture.ledger, "org", 10).await), [id(2), id(4)]);
    assert_eq!(ids(&taken(&fixture.ledger, "org", 10).await), []);
    fixture.execute("rollback").await;
    assert_eq!(ids(&taken(&fixture.ledger, "org", 10).await), [id(1), id(3)]);
}

/// A turn that another worker is taking at this moment is not taken twice, whatever either of them sees.
#[tokio::test]
async fn an_order_keys_turn_is_one_row() {
    let fixture = Fixture::new().await;
    for number in 1..=2 {
        put(&fixture.ledger, &ordered("org", number, "a"), NOW).await;
    }
    // Another worker saw the second one only, and is about to commit.
    fixture.execute("begin").await;
    let turn = "insert into samekey.order_turns values ('org', 'bank', 'a', $1)";
    fixture.outside.execute(turn, &[&id(2).bytes().to_vec()]).await.unwrap();
    let ledger = fixture.ledger.clone();
    let take = tokio::spawn(async move { taken(&ledger, "org", 10).await });
    fixture.until_waiting_for_a_lock_beside(1).await;
    fixture.execute("commit").await;
    assert_eq!(ids(&take.await.unwrap()), [], "it is the other one's turn");
    assert_eq!(ids(&taken(&fixture.ledger, "org", 10).await), [id(2)]);
}

/// Many order keys, several workers: of each key one command is on its way at a time, and in their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_an_order_key_never_overlap() {
    const KEYS: u32 = 8;
    const EACH: u32 = 6;
    let fixture = Fixture::new().await;
    for number in 0..KEYS * EACH {
        put(&fixture.ledger, &ordered("org", number, &format!("key-{}", number % KEYS)), NOW).await;
    }
    let workers: Vec<_> = (1..=3_u8)
        .map(|number| {
            let ledger = fixture.ledger.clone();
            tokio::spawn(async move {
                let mut order = Vec::new();
                for _ in 0..1_000 {
                    let took = ledger.take(&org("org"), "bank", 3, worker(number)).await.unwrap();
                    for one in &took {
                        let next = moved(&one.seen.delivery, succeeded(one.seen.now));
                        let of = org("org");
                        let told =
                            ledger.advance(&of, one.command.id, &one.seen.delivery, &next, None);
                        assert_eq!(told.await, Ok(Moved::Written));
                        order.push((one.seen.now, one.command.clone()));
                    }
                    if ledger.count_commands().await.unwrap().is_empty() {
                        return order;
                    }
                }
                panic!("it does not end")
            })
        })
        .collect();
    let mut order = Vec::new();
    for worker in workers {
        order.extend(worker.await.unwrap());
    }
    assert_eq!(order.len(), (KEYS * EACH) as usize);
    order.sort_by_key(|(now, one)| (one.order_key.clone(), *now));
    let sorted = order.is_sorted_by_key(|(_, one)| (one.order_key.clone(), one.id));
    assert!(sorted, "{order:?}");
    assert_eq!(fixture.number("select count(*) from samekey.order_keys").await, 0);
    assert_eq!(fixture.number("select count(*) from samekey.order_turns").await, 0);
}

/// One command in somebody's open transaction holds up itself, and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_goes_on_beside_a_command_that_is_held() {
    let fixture = Fixture::new().await;
    for number in 0..20 {
        put(&fixture.ledger, &command("org", number), NOW).await;
    }
    let took = taken(&fixture.ledger, "org", 20).await;
    fixture.execute("begin").await;
    let held = "select 1 from samekey.outbox where id = $1 for update";
    fixture.outside.query(held, &[&id(7).bytes().to_vec()]).await.unwrap();
    let client = fixture.database.client().await.unwrap();
    client.batch_execute("begin").await.unwrap();
    assert_eq!(enqueue(&client, &command("org", 30), &offered(NOW)).await, Ok(Enqueued::New));
    let mut moves = Vec::new();
    for one in took {
        let ledger = fixture.ledger.clone();
        moves.push((
            one.command.id,
            tokio::spawn(async move {
                let next = moved(&one.seen.delivery, succeeded(one.seen.now));
                ledger.advance(&org("org"), one.command.id, &one.seen.delivery, &next, None).await
            }),
        ));
    }
    let mut enqueues = Vec::new();
    for number in 30..40 {
        let ledger = fixture.ledger.clone();
        enqueues.push((
            number,
            tokio::spawn(async move {
                let again = Command { id: id(number + 100), ..command("org", number) };
                ledger.enqueue(&again, &offered(NOW)).await
            }),
        ));
    }
    let (mut held_move, mut held_enqueue) = (None, None);
    for (number, task) in moves {
        if number == id(7) {
            held_move = Some(task);
        } else {
            assert_eq!(task.await.unwrap(), Ok(Moved::Written));
        }
    }
    for (number, task) in enqueues {
        if number == 30 {
            held_enqueue = Some(task);
        } else {
            assert_eq!(task.await.unwrap(), Ok(Enqueued::New));
        }
    }
    fixture.execute("rollback").await;
    client.batch_execute("commit").await.unwrap();
    assert_eq!(held_move.unwrap().await.unwrap(), Ok(Moved::Written));
    let Ok(Enqueued::Found(found, _)) = held_enqueue.unwrap().await.unwrap() else {
        panic!("it was there")
    };
    assert_eq!(found.id, id(30));
    assert_eq!(fixture.idle_in_transaction().await, 0);
}

/// One that the database refuses is refused alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b80_a_refused_row_does_not_hurt_its_group_and_shows_nothing() {
    let fixture = Fixture::new().await;
    fixture
        .execute(
            "alter table samekey.commands add constraint canary check (business_ref <> 'order-4')",
        )
        .await;
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let ledger = fixture.ledger.clone();
            tokio::spawn(
                async move { ledger.enqueue(&command("org", number), &offered(NOW)).await },
            )
        })
        .collect();
    for (number, task) in (0..).zip(tasks) {
        match task.await.unwrap() {
            Ok(enqueued) => assert_eq!((number == 4, enqueued), (false, Enqueued::New)),
            Err(error) => {
                assert_eq!((number, error.sqlstate()), (4, Some("23514")));
                let text = format!("{error} {error:?}");
                assert!(!text.contains("order-4") && !text.contains("canary"), "{text}");
            }
        }
    }
    assert_eq!(fixture.number("select count(*) from samekey.outbox").await, 7);
    let seen = stands(&fixture.ledger, &command("org", 1)).await;
    fixture
        .execute("alter table samekey.finished add constraint canary check (state::integer > 0)")
        .await;
    let next = moved(&seen.delivery, succeeded(seen.now));
    let error = fixture.ledger.advance(&org("org"), id(1), &seen.delivery, &next, None).await;
    let error = error.expect_err("an error");
    assert_eq!(error.sqlstate(), Some("22P02"));
    assert!(!format!("{error} {error:?}").contains("succeeded"), "{error}");
    assert_eq!(stands(&fixture.ledger, &command("org", 1)).await.delivery, seen.delivery);
    assert_eq!(fixture.idle_in_transaction().await, 0);
}

/// What a person counts on after a worker died: nothing of a take stands whose decisions were not written.
#[tokio::test]
async fn a_decision_that_panics_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    put(&fixture.ledger, &ordered("org", 1, "a"), NOW).await;
    let ledger = fixture.ledger.clone();
    let decide = |_: Delivery, _| -> Option<Delivery> { panic!("a bug in a decision") };
    let died = tokio::spawn(async move { ledger.take(&org("org"), "bank", 10, decide).await });
    assert!(died.await.is_err());
    fixture.until_none_is_idle_in_transaction().await;
    assert_eq!(fixture.number("select count(*) from samekey.order_turns").await, 0);
    assert_eq!(ids(&taken(&fixture.ledger, "org", 10).await), [id(1)]);
}

#[tokio::test]
async fn a_row_of_the_outbox_that_no_machine_makes_is_found() {
    let fixture = Fixture::new().await;
    let one = command("org", 1);
    let seen = put(&fixture.ledger, &one, NOW).await;
    let found = async || {
        let none: Vec<u8> = Vec::new();
        fixture.outside.query(OUTBOX_FAULTS, &[&"", &none, &10_i64]).await.unwrap().len()
    };
    assert_eq!(found().await, 0);
    for fault in [
        "grounds = null",
        "grounds = 'none'",
        "state = 'failed', due = null, grounds = null",
        "state = 'succeeded', due = null",
        "holder = ''",
        "revision = 0",
        "asked = 1",
        "asked_by = 'name'",
        "answer_status = 200",
        "proof = 'executed'",
        "attempts = 1",
    ] {
        fixture.execute(&format!("begin; update samekey.outbox set {fault}")).await;
        assert_eq!(found().await, 1, "{fault}");
        fixture.execute("rollback").await;
    }
    // What is open and not due would be lost; the table itself refuses it.
    let error = fixture.outside.batch_execute("update samekey.outbox set due = null").await;
    assert_eq!(error.unwrap_err().code().unwrap().code(), "23514");
    // A damaged row is told as one, and is not acted on.
    fixture.execute("update samekey.outbox set grounds = 'none'").await;
    let error = fixture.ledger.delivery(&org("org"), one.id).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    let error = fixture.ledger.take(&org("org"), "bank", 10, worker(1)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(!format!("{error} {error:?}").contains("none"), "{error}");
    fixture.execute("update samekey.outbox set grounds = 'unrun'").await;
    assert_eq!(stands(&fixture.ledger, &one).await.delivery, seen.delivery);
    assert_eq!(fixture.idle_in_transaction().await, 0);
}

#[tokio::test]
async fn p35_a_database_of_version_2_gets_an_outbox() {
    let database = fresh_database().await;
    let outside = database.client().await.unwrap();
    for step in &MIGRATIONS.list[..2] {
        outside.batch_execute(step.sql).await.unwrap();
        outside.batch_execute(&MIGRATIONS.record(step)).await.unwrap();
    }
    let pool = connect(database.url()).unwrap();
    let refused = PostgresLedger::open(pool.clone(), Options::default()).await.map(drop);
    let refused = refused.expect_err("a refusal");
    assert_eq!(refused.kind(), Kind::Schema);
    assert!(refused.to_string().contains("samekey migrate"), "{refused}");
    assert_eq!(migrate(&pool).await, Ok(2));
    assert_eq!(migrate(&pool).await, Ok(0));
    let ledger = PostgresLedger::open(pool, Options::default()).await.unwrap();
    let key = scope("org", "key");
    ledger.load(&key).await.unwrap();
    everything(&ledger).await;
}

/// Followed in the caller's own transaction: with it the failed one leaves the inbox, and without it stays.
#[tokio::test]
async fn a_successor_stands_or_falls_with_the_callers_transaction() {
    let fixture = Fixture::new().await;
    let first = command("org", 1);
    let seen = put(&fixture.ledger, &first, NOW).await;
    let failed = advanced(&fixture.ledger, &first, &seen.delivery, failed(seen.now)).await;
    let next = Command { id: id(2), generation: 2, ..first.clone() };
    for commits in [false, true] {
        fixture.execute("begin").await;
        let enqueued = enqueue(&fixture.outside, &next, &offered(NOW)).await;
        assert_eq!(enqueued, Ok(Enqueued::New));
        fixture.execute(if commits { "commit" } else { "rollback" }).await;
        let counts = fixture.ledger.count_commands().await.unwrap();
        assert_eq!(counts.len(), 1);
        assert_eq!(counts[0].state, if commits { "waiting" } else { "failed" });
        assert_eq!(stands(&fixture.ledger, &first).await.delivery, failed);
    }
}
