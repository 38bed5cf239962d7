//! Enqueuing: once an action, and again only after what ran nothing.

use super::{NOW, advanced, found, ids, put, stands, taken};
use crate::commands::{
    command, failed, id, moved, note, offered, ordered, org, planned, refused, succeeded,
};
use crate::conformance::Aging;
use crate::records::{MINUTE, decided, kept};
use bytes::Bytes;
use samekey_core::delivery::Delivery;
use samekey_core::plan::Input;
use samekey_core::time::Time;
use samekey_store::Kind;
use samekey_store::outbox::{
    Action, Command, Enqueued, Moved, NAME_BYTES_MAX, Outbox, REFERENCE_BYTES_MAX,
    REQUEST_BYTES_MAX, Show,
};
use std::sync::Arc;

pub async fn a_command_is_enqueued_once<O: Outbox, A: Aging>(outbox: &Arc<O>, _: &A) {
    let first = command("org", 1);
    assert_eq!(outbox.latest(&first.action).await, Ok(None));
    let seen = put(&**outbox, &first, MINUTE).await;
    let began = seen.delivery.began;
    assert!(began > Time::EPOCH && began <= seen.now, "counted from the store's clock");
    assert_eq!(seen.delivery.due(), Some(began.plus(MINUTE)));
    let offset = |time: Time| Time::EPOCH.plus(time.since(began));
    assert_eq!(offset(seen.delivery.gives_up), offered(MINUTE).gives_up);
    assert_eq!(outbox.command(&org("org"), first.id).await, Ok(Some(first.clone())));
    // Somebody comes again: with another id and key, since both are new every time.
    let again = Command { id: id(2), key: command("org", 2).key, ..first.clone() };
    let other = Command { request: Bytes::from_static(b"other"), ..again.clone() };
    for offer in [&first, &again, &other] {
        let enqueued = outbox.enqueue(offer, &offered(NOW)).await.expect("an answer");
        assert_eq!(found(enqueued), (first.clone(), seen.delivery.clone()));
    }
    assert_eq!(outbox.command(&org("org"), id(2)).await, Ok(None));
    let (latest, stands) = outbox.latest(&first.action).await.unwrap().expect("it is there");
    assert_eq!((latest, stands.delivery), (first, seen.delivery));
}

pub async fn every_part_of_an_action_keeps_it_apart<O: Outbox, A: Aging>(outbox: &Arc<O>, _: &A) {
    let first = command("org", 1);
    let Action { org: of, destination, operation, business_ref } = first.action.clone();
    let actions = [
        first.action.clone(),
        Action { org: org("Org"), ..first.action.clone() },
        Action { destination: "Bank".into(), ..first.action.clone() },
        Action { operation: "charge ".into(), ..first.action.clone() },
        Action { business_ref: "ORDER-1".into(), ..first.action.clone() },
        Action { org: of, destination, operation: business_ref, business_ref: operation },
    ];
    for (number, action) in (0_u32..).zip(actions) {
        put(&**outbox, &Command { id: id(number), action, ..first.clone() }, NOW).await;
    }
}

pub async fn an_id_stands_for_one_command<O: Outbox, A: Aging>(outbox: &Arc<O>, _: &A) {
    let first = command("org", 1);
    put(&**outbox, &first, NOW).await;
    let thief = Command { id: first.id, ..command("org", 2) };
    let refusal = outbox.enqueue(&thief, &offered(NOW)).await.expect_err("a refusal");
    assert_eq!(refusal.kind(), Kind::Misused);
    assert_eq!(outbox.latest(&thief.action).await, Ok(None));
    put(&**outbox, &Command { id: first.id, ..command("other", 1) }, NOW).await;
}

pub async fn a_new_command_follows_only_what_ran_nothing<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    _: &A,
) {
    let probe = put(&**outbox, &command("org", 0), NOW).await;
    let states = crate::commands::delivery_states(probe.now);
    for (number, state) in (1_u32..).zip(states) {
        let first = command("org", 2 * number);
        let seen = put(&**outbox, &first, NOW).await;
        let stood = advanced(&**outbox, &first, &seen.delivery, state).await;
        let next = Command { id: id(2 * number + 1), generation: 2, ..first.clone() };
        let enqueued = outbox.enqueue(&next, &offered(NOW)).await.expect("an answer");
        let skipped = Command { generation: 4, id: id(1_000_000), ..next.clone() };
        let skipped = outbox.enqueue(&skipped, &offered(NOW)).await.expect("an answer");
        if stood.may_be_followed() {
            assert_eq!(enqueued, Enqueued::New, "{stood:?}");
            assert_eq!(outbox.latest(&first.action).await.unwrap().unwrap().0, next);
            assert_eq!(found(skipped).0, next, "no generation is left out");
            let back = outbox.enqueue(&first, &offered(NOW)).await.expect("an answer");
            assert_eq!(found(back).0, next, "the latest is told");
        } else {
            assert_eq!(found(enqueued), (first.clone(), stood.clone()), "nothing was written");
            assert_eq!(found(skipped).0, first);
        }
        assert_eq!(stands(&**outbox, &first).await.delivery, stood, "it stays as it is");
    }
}

/// What was followed is out of the inbox: nobody tries it again beside its successor.
pub async fn what_was_followed_is_never_tried_again<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    aging: &A,
) {
    let first = ordered("org", 1, "a");
    let seen = put(&**outbox, &first, NOW).await;
    let failed = advanced(&**outbox, &first, &seen.delivery, failed(seen.now)).await;
    let count = async || outbox.count_commands().await.expect("an answer");
    assert_eq!(count().await[0].state, "failed");
    let next = Command { id: id(2), generation: 2, ..first.clone() };
    put(&**outbox, &next, NOW).await;
    let again = planned(&failed, Input::Retry(failed.hold()), seen.now);
    assert!(again.is_open());
    let refused = outbox.advance(&org("org"), first.id, &failed, &again, None).await;
    assert!(matches!(refused, Ok(Moved::Followed(_))), "{refused:?}");
    let account = decided("anna", failed.fence);
    let refused = outbox.advance_decided(&org("org"), first.id, &failed, &again, &account).await;
    assert!(matches!(refused, Ok(Moved::Followed(_))), "{refused:?}");
    assert_eq!(outbox.accounts(&org("org"), first.id).await, Ok(Vec::new()));
    assert_eq!(stands(&**outbox, &first).await.delivery, failed);
    assert_eq!(count().await.len(), 1);
    assert_eq!(count().await[0].state, "waiting");
    aging.tick();
    assert_eq!(ids(&taken(&**outbox, "org", 10).await), [id(2)], "and its order key goes on");
    let show = |states: &[&str]| Show {
        states: states.iter().map(|one| (*one).to_owned()).collect(),
        ..Show::default()
    };
    let listed = async |show: Show| outbox.list(&show, None, 10).await.expect("an answer").len();
    assert_eq!(listed(show(&["failed"])).await, 0);
    assert_eq!(listed(show(&["failed", "succeeded"])).await, 0);
    assert_eq!(listed(show(&[])).await, 2);
}

/// However many come at once, for the first time or after a failure: one of them is enqueued.
pub async fn s1_one_of_many_enqueues_stands<O: Outbox, A: Aging>(outbox: &Arc<O>, _: &A) {
    for generation in 1..=3 {
        let tasks: Vec<_> = (0..16_u32)
            .map(|number| {
                let outbox = Arc::clone(outbox);
                let one =
                    Command { id: id(generation * 100 + number), generation, ..command("org", 7) };
                tokio::spawn(async move { outbox.enqueue(&one, &offered(NOW)).await })
            })
            .collect();
        let mut new = 0;
        for task in tasks {
            match task.await.expect("a task").expect("an answer") {
                Enqueued::New => new += 1,
                Enqueued::Found(found, _) => assert_eq!(found.generation, generation),
            }
        }
        assert_eq!(new, 1, "generation {generation}");
        let (latest, seen) = outbox.latest(&command("org", 7).action).await.unwrap().unwrap();
        let state = if generation == 1 { failed(seen.now) } else { refused(seen.now) };
        advanced(&**outbox, &latest, &seen.delivery, state).await;
    }
}

/// One of two wins: a person who tries a failed command again, or who orders it anew.
pub async fn s1_retry_and_successor_exclude_each_other<O: Outbox, A: Aging>(
    outbox: &Arc<O>,
    _: &A,
) {
    for number in 0..20 {
        let first = command("org", 2 * number);
        let seen = put(&**outbox, &first, NOW).await;
        let failed = advanced(&**outbox, &first, &seen.delivery, failed(seen.now)).await;
        let again = planned(&failed, Input::Retry(failed.hold()), seen.now);
        let next = Command { id: id(2 * number + 1), generation: 2, ..first.clone() };
        let retry = {
            let (outbox, id) = (Arc::clone(outbox), first.id);
            tokio::spawn(async move {
                let account = decided("anna", failed.fence);
                outbox.advance_decided(&org("org"), id, &failed, &again, &account).await
            })
        };
        let follow = {
            let outbox = Arc::clone(outbox);
            tokio::spawn(async move { outbox.enqueue(&next, &offered(NOW)).await })
        };
        let retried = retry.await.unwrap().expect("an answer") == Moved::Written;
        let followed = follow.await.unwrap().expect("an answer") == Enqueued::New;
        assert!(retried != followed, "{number}: retried {retried}, followed {followed}");
    }
}

pub async fn what_the_tables_do_not_hold_is_refused<O: Outbox, A: Aging>(outbox: &Arc<O>, _: &A) {
    let fine = command("org", 1);
    let action = |change: &dyn Fn(&mut Action)| {
        let mut wrong = fine.clone();
        change(&mut wrong.action);
        wrong
    };
    let long = "x".repeat(REFERENCE_BYTES_MAX + 1);
    let wrong = [
        action(&|action| action.destination = String::new()),
        action(&|action| action.destination = "x".repeat(NAME_BYTES_MAX + 1)),
        action(&|action| action.operation = "a\0b".into()),
        action(&|action| action.business_ref = long.clone()),
        action(&|action| action.business_ref = String::new()),
        Command { order_key: Some(long.clone()), ..fine.clone() },
        Command { order_key: Some("\0".into()), ..fine.clone() },
        Command { generation: 0, ..fine.clone() },
        Command { generation: u32::MAX, ..fine.clone() },
        Command { request: Bytes::from(vec![0; REQUEST_BYTES_MAX + 1]), ..fine.clone() },
    ];
    for command in &wrong {
        let refusal = outbox.enqueue(command, &offered(NOW)).await.expect_err("a refusal");
        assert_eq!(refusal.kind(), Kind::Misused, "{command:?}");
    }
    let none = Delivery { revision: 0, ..offered(NOW) };
    let over = moved(&offered(NOW), succeeded(Time::EPOCH));
    let twice = Delivery {
        proof: Some(samekey_core::delivery::Proof::Executed(kept(200, b"paid"))),
        ..over.clone()
    };
    for delivery in [none, over, twice.clone()] {
        let refusal = outbox.enqueue(&fine, &delivery).await.expect_err("a refusal");
        assert_eq!(refusal.kind(), Kind::Misused);
    }
    let widest = Command {
        order_key: Some("y".repeat(REFERENCE_BYTES_MAX)),
        request: Bytes::from(vec![0; REQUEST_BYTES_MAX]),
        action: Action {
            org: org("org"),
            destination: "x".repeat(NAME_BYTES_MAX),
            operation: "x".repeat(NAME_BYTES_MAX),
            business_ref: "\u{e4}".repeat(REFERENCE_BYTES_MAX / 2),
        },
        ..fine.clone()
    };
    let seen = put(&**outbox, &widest, NOW).await;
    assert_eq!(outbox.command(&org("org"), widest.id).await, Ok(Some(widest.clone())));
    let twice = Delivery { revision: 9, ..twice };
    let refusal = outbox.advance(&org("org"), widest.id, &seen.delivery, &twice, None).await;
    assert_eq!(refusal.expect_err("a refusal").kind(), Kind::Misused);
    let mut bad = note(1, 1);
    bad.came_to = String::new();
    let refusal = outbox.note(&org("org"), widest.id, &bad).await.expect_err("a refusal");
    assert_eq!(refusal.kind(), Kind::Misused);
}
