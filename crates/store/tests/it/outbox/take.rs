//! Taking what is due.

use super::{NOW, advanced, ids, put, stands, taken};
use crate::commands::{
    command, failed, id, moved, ordered, org, succeeded, undecided, waiting, worker,
};
use crate::conformance::Aging;
use crate::records::{HOUR, MINUTE};
use samekey_core::delivery::{Delivery, State};
use samekey_core::time::Time;
use samekey_store::Kind;
use samekey_store::outbox::{Action, Command, CommandId, Outbox, TAKE_MAX};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub async fn b86_only_what_is_due_of_one_org_and_destination_is_taken<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    aging: &A,
) {
    let other = Command {
        action: Action { destination: "post".into(), ..command("org", 2).action },
        ..command("org", 2)
    };
    put(&**outbox, &command("org", 1), NOW).await;
    put(&**outbox, &other, NOW).await;
    put(&**outbox, &command("Org", 3), NOW).await;
    put(&**outbox, &command("org", 4), HOUR).await;
    aging.tick();
    let now = taken(&**outbox, "org", 10).await;
    assert_eq!(ids(&now), [id(1)]);
    let [one] = now.as_slice() else { panic!("{now:?}") };
    assert_eq!(one.command, command("org", 1));
    assert_eq!(one.before, Delivery { revision: 1, ..one.before.clone() });
    assert_eq!(stands(&**outbox, &one.command).await.delivery, one.seen.delivery);
    assert_eq!(ids(&taken(&**outbox, "org", 10).await), [], "it is taken, and not due");
    aging.age(MINUTE).await;
    assert_eq!(ids(&taken(&**outbox, "org", 10).await), [id(1)], "its lease is over");
    aging.age(HOUR).await;
    assert_eq!(ids(&taken(&**outbox, "org", 1).await), [id(1)], "the longest due first");
    assert_eq!(ids(&taken(&**outbox, "org", 10).await), [id(4)]);
    assert_eq!(ids(&taken(&**outbox, "Org", 10).await), [id(3)]);
    let posted = outbox.take(&org("org"), "post", 10, worker(1)).await.expect("an answer");
    assert_eq!(ids(&posted), [id(2)]);
    assert_eq!(ids(&taken(&**outbox, "or", 10).await), []);
}

pub async fn what_is_left_out_stays_as_it_is<O: Outbox, A: Aging>(outbox: &Arc<O>, aging: &A) {
    for number in 1..=4 {
        put(&**outbox, &command("org", number), NOW).await;
        aging.tick();
    }
    let asked = Arc::new(Mutex::new(0));
    let counts = Arc::clone(&asked);
    let decide = move |delivery: Delivery, now: Time| {
        let mut asked = counts.lock().unwrap();
        *asked += 1;
        match *asked {
            1 => None,
            2 => Some(delivery),
            3 => Some(moved(&delivery, succeeded(now))),
            _ => Some(moved(&delivery, undecided(now))),
        }
    };
    let took = outbox.take(&org("org"), "bank", 10, decide).await.expect("an answer");
    assert_eq!(ids(&took), [id(3), id(4)]);
    let states = async || {
        let mut states = Vec::new();
        for number in 1..=4 {
            states.push(stands(&**outbox, &command("org", number)).await.delivery.state_name());
        }
        states
    };
    assert_eq!(states().await, ["waiting", "waiting", "succeeded", "undecided"]);
    assert_eq!(ids(&taken(&**outbox, "org", 10).await), [id(1), id(2)]);
    let lower = |delivery: Delivery, now: Time| {
        Some(Delivery { revision: 0, ..moved(&delivery, waiting(now)) })
    };
    aging.age(HOUR / 30).await;
    let refusal = outbox.take(&org("org"), "bank", 10, lower).await.expect_err("a refusal");
    assert_eq!(refusal.kind(), Kind::Misused);
    assert_eq!(taken(&**outbox, "org", 10).await.len(), 2, "nothing of it stands");
}

pub async fn a_take_is_bounded<O: Outbox, A: Aging>(outbox: &Arc<O>, aging: &A) {
    for number in 0..TAKE_MAX + 5 {
        put(&**outbox, &command("org", number), NOW).await;
    }
    aging.tick();
    assert_eq!(taken(&**outbox, "org", 0).await, []);
    let most = taken(&**outbox, "org", u32::MAX).await;
    assert_eq!(most.len(), TAKE_MAX as usize);
    assert_eq!(taken(&**outbox, "org", u32::MAX).await.len(), 5);
}

pub async fn commands_of_an_order_key_go_one_after_the_other<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    aging: &A,
) {
    let a: Vec<Command> = (1..=3).map(|number| ordered("org", number, "a")).collect();
    put(&**outbox, &a[1], NOW).await;
    put(&**outbox, &a[0], MINUTE).await;
    put(&**outbox, &a[2], NOW).await;
    put(&**outbox, &ordered("org", 4, "b"), NOW).await;
    put(&**outbox, &ordered("other", 5, "a"), NOW).await;
    let elsewhere = Command {
        action: Action { destination: "post".into(), ..a[0].action.clone() },
        ..ordered("org", 6, "a")
    };
    put(&**outbox, &elsewhere, NOW).await;
    aging.tick();
    assert_eq!(ids(&taken(&**outbox, "org", 10).await), [id(4)], "the first is not due yet");
    assert_eq!(ids(&taken(&**outbox, "other", 10).await), [id(5)]);
    let posted = outbox.take(&org("org"), "post", 10, worker(1)).await.expect("an answer");
    assert_eq!(ids(&posted), [id(6)]);
    aging.age(MINUTE - MINUTE / 60).await;
    assert_eq!(ids(&taken(&**outbox, "org", 10).await), [id(4)], "that one lapsed");
    aging.age(MINUTE / 30).await;
    let first = taken(&**outbox, "org", 10).await;
    assert_eq!(ids(&first), [id(1)]);
    // One that was enqueued earlier and committed later waits behind it all the same.
    put(&**outbox, &ordered("org", 0, "a"), NOW).await;
    aging.age(MINUTE).await;
    let again = taken(&**outbox, "org", 10).await;
    assert_eq!(ids(&again).len(), 2, "it and the other key's, both lapsed: {again:?}");
    assert!(ids(&again).contains(&id(1)));
    let seen = again.iter().find(|one| one.command.id == id(1)).unwrap().seen.clone();
    let failed = advanced(&**outbox, &a[0], &seen.delivery, failed(seen.now)).await;
    aging.age(MINUTE).await;
    assert!(!ids(&taken(&**outbox, "org", 10).await).contains(&id(0)), "a person decides first");
    advanced(
        &**outbox,
        &a[0],
        &failed,
        State::Resolved(samekey_core::delivery::Ended {
            since: seen.now,
            with: samekey_core::delivery::Resolution::WrittenOff,
        }),
    )
    .await;
    let now = ids(&taken(&**outbox, "org", 10).await);
    assert!(now.contains(&id(0)) && !now.contains(&id(2)) && !now.contains(&id(3)), "{now:?}");
    for (number, next) in [(0, 2), (2, 3)] {
        let one = if number == 0 { ordered("org", 0, "a") } else { a[1].clone() };
        let seen = stands(&**outbox, &one).await;
        advanced(&**outbox, &one, &seen.delivery, succeeded(seen.now)).await;
        assert!(ids(&taken(&**outbox, "org", 10).await).contains(&id(next)));
    }
}

/// What waits behind another one does not hide what waits behind nothing, and nobody is woken for it.
pub async fn what_waits_behind_another_is_not_in_the_way<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    aging: &A,
) {
    let first = ordered("org", 0, "a");
    let seen = put(&**outbox, &first, NOW).await;
    advanced(&**outbox, &first, &seen.delivery, failed(seen.now)).await;
    for number in 1..20 {
        put(&**outbox, &ordered("org", number, "a"), NOW).await;
    }
    aging.tick();
    assert_eq!(outbox.next_due("bank").await, Ok(None));
    assert_eq!(outbox.orgs_with_due("bank", None, 10).await, Ok(Vec::new()));
    put(&**outbox, &command("org", 20), NOW).await;
    aging.tick();
    assert_eq!(outbox.orgs_with_due("bank", None, 10).await, Ok(vec![org("org")]));
    assert_eq!(ids(&taken(&**outbox, "org", 1).await), [id(20)]);
}

/// Two workers, a thousand due rows: each is taken once per fence.
pub async fn t84_two_workers_take_each_row_once<O: Outbox, A: Aging>(outbox: &Arc<O>, aging: &A) {
    let mut tasks = Vec::new();
    for part in 0..8_u32 {
        let outbox = Arc::clone(outbox);
        tasks.push(tokio::spawn(async move {
            for number in 0..125 {
                put(&*outbox, &command("org", part * 125 + number), NOW).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("a task");
    }
    aging.tick();
    for round in 1..=2_u64 {
        let workers: Vec<_> = (1..=2_u8)
            .map(|number| {
                let outbox = Arc::clone(outbox);
                tokio::spawn(async move {
                    let mut all = Vec::new();
                    for _ in 0..1_000 {
                        let took = outbox.take(&org("org"), "bank", 16, worker(number)).await;
                        let took = took.expect("an answer");
                        if took.is_empty()
                            && outbox
                                .next_due("bank")
                                .await
                                .unwrap()
                                .is_none_or(|(due, now)| due > now)
                        {
                            return all;
                        }
                        all.extend(took);
                    }
                    panic!("it does not end")
                })
            })
            .collect();
        let mut fences: BTreeMap<(CommandId, u64), u32> = BTreeMap::new();
        for worker in workers {
            for one in worker.await.expect("a task") {
                *fences.entry((one.command.id, one.seen.delivery.fence.number())).or_default() += 1;
            }
        }
        assert_eq!(fences.len(), 1_000, "round {round}");
        assert!(fences.iter().all(|((_, fence), count)| (*fence, *count) == (round, 1)));
        aging.age(MINUTE).await;
    }
}

pub async fn orgs_with_due_are_walked_page_by_page<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    aging: &A,
) {
    let mut number = 0;
    for of in ["b", "a", "B", "c", "a "] {
        for delay in [NOW, NOW, HOUR] {
            number += 1;
            put(&**outbox, &command(of, number), delay).await;
        }
    }
    put(&**outbox, &command("later", 100), HOUR).await;
    let gone = command("gone", 101);
    let seen = put(&**outbox, &gone, NOW).await;
    advanced(&**outbox, &gone, &seen.delivery, undecided(seen.now)).await;
    aging.tick();
    let orgs = async |after: Option<&str>, limit| {
        let after = after.map(org);
        let found = outbox.orgs_with_due("bank", after.as_ref(), limit).await;
        found.expect("an answer").iter().map(|org| org.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(orgs(None, 10).await, ["B", "a", "a ", "b", "c"]);
    assert_eq!(orgs(None, 2).await, ["B", "a"]);
    assert_eq!(orgs(Some("a"), 2).await, ["a ", "b"]);
    assert_eq!(orgs(Some("aa"), 10).await, ["b", "c"]);
    assert_eq!(orgs(Some("c"), 10).await, Vec::<String>::new());
    assert_eq!(orgs(None, 0).await, Vec::<String>::new());
    assert_eq!(outbox.orgs_with_due("Bank", None, 10).await, Ok(Vec::new()));
    taken(&**outbox, "a ", 10).await;
    assert_eq!(orgs(None, 3).await, ["B", "a", "b"]);
    aging.age(HOUR).await;
    assert_eq!(orgs(Some("b"), 10).await, ["c", "later"]);
}

pub async fn the_next_moment_is_known<O: Outbox, A: Aging>(outbox: &Arc<O>, aging: &A) {
    assert_eq!(outbox.next_due("bank").await, Ok(None));
    let next = async || outbox.next_due("bank").await.expect("an answer").expect("a moment");
    let late = put(&**outbox, &command("a", 1), HOUR).await;
    assert_eq!(next().await.0, late.delivery.due().unwrap());
    let soon = put(&**outbox, &command("b", 2), MINUTE).await;
    put(&**outbox, &command("b", 3), 2 * HOUR).await;
    let (due, now) = next().await;
    assert_eq!(due, soon.delivery.due().unwrap());
    assert!(now >= soon.now && now < due);
    aging.age(2 * MINUTE).await;
    let (due, now) = next().await;
    assert!(due <= now, "it is due");
    let one = taken(&**outbox, "b", 1).await.remove(0);
    advanced(&**outbox, &one.command, &one.seen.delivery, undecided(now)).await;
    assert!(next().await.0 > now.plus(HOUR / 2), "who waits for a person is never due");
    assert_eq!(outbox.next_due("post").await, Ok(None));
}
