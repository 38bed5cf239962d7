//! What a person does with a command.

use super::world::{Act, DEDUPS, OPAQUE, World, command, courier, down, ended, limits, org, says};
use samekey_client::Kind;
use samekey_client::core::delivery::{Ended, Reason, Resolution, State};
use samekey_client::core::outcome::{Outcome, Speaks};
use samekey_client::core::plan::Decision;
use samekey_client::inbox::{Done, Inbox};
use samekey_client::store::Person;
use samekey_client::store::outbox::Outbox;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn person() -> Person {
    Person {
        name: "ada".to_owned(),
        note: "asked the bank".to_owned(),
        evidence: "ticket 7".to_owned(),
    }
}

#[tokio::test]
async fn p61_a_command_that_was_never_sent_is_taken_back_and_another_is_not() {
    let world = World::new(OPAQUE, |_| Act::Works);
    let (courier, _) = courier(&world, limits()).await;
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let done = courier.cancel(&org(), placed.id).await.unwrap();
    assert!(
        matches!(done, Done::Written(delivery) if matches!(delivery.state, State::Cancelled(_)))
    );
    let third = courier.enqueue(command("psp", "order-3")).await.unwrap();
    let inbox = Inbox::of(courier.store());
    let nobody = Person { note: String::new(), ..person() };
    assert!(inbox.cancel_by(&org(), third.id, &nobody).await.is_err(), "it says why");
    let done = inbox.cancel_by(&org(), third.id, &person()).await.unwrap();
    assert!(matches!(done, Done::Written(_)), "{done:?}");
    let accounts = courier.store().accounts(&org(), third.id).await.unwrap();
    assert_eq!((accounts[0].person.as_str(), accounts[0].decision.as_str()), ("ada", "cancel"));
    let _running = courier.spawn();
    let second = courier.enqueue(command("psp", "order-2")).await.unwrap();
    ended(&courier, second.id).await;
    assert!(matches!(courier.cancel(&org(), second.id).await.unwrap(), Done::NotNow(_)));
    let sent = inbox.cancel_by(&org(), second.id, &person()).await.unwrap();
    assert!(matches!(sent, Done::NotNow(_)), "{sent:?}");
    assert!(courier.store().accounts(&org(), second.id).await.unwrap().is_empty());
    assert_eq!(world.sends().len(), 1);
}

#[tokio::test]
async fn p60_what_a_person_decides_is_on_record_with_its_account() {
    let world = World::new(OPAQUE, |_| Act::AnswerLost);
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let seen = ended(&courier, placed.id).await;
    let done = courier
        .decide(&org(), placed.id, seen.hold(), Decision::Executed, &person())
        .await
        .unwrap();
    let Done::Written(delivery) = done else { panic!("{done:?}") };
    assert!(matches!(delivery.state, State::Resolved(Ended { with: Resolution::Executed, .. })));
    let accounts = courier.store().accounts(&org(), placed.id).await.unwrap();
    assert_eq!(accounts.len(), 1);
    assert_eq!((accounts[0].person.as_str(), accounts[0].decision.as_str()), ("ada", "executed"));
    let again = courier
        .decide(&org(), placed.id, seen.hold(), Decision::NotExecuted, &person())
        .await
        .unwrap();
    assert!(matches!(again, Done::NotNow(_)), "what was seen is no longer so");
}

#[tokio::test]
async fn what_has_failed_is_tried_again_under_its_key() {
    let is_up = Arc::new(AtomicBool::new(false));
    let look = is_up.clone();
    let world =
        World::new(OPAQUE, move |_| if look.load(Ordering::SeqCst) { Act::Works } else { down() });
    let mut few = limits();
    // Too few for the gate to shut.
    few.attempts_max = 3;
    let (courier, _) = courier(&world, few).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let seen = ended(&courier, placed.id).await;
    assert!(matches!(seen.state, State::Failed(_)), "{seen:?}");
    is_up.store(true, Ordering::SeqCst);
    courier.retry(&org(), placed.id, seen.hold(), &person()).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    let sends = world.sends();
    assert!(sends.windows(2).all(|two| two[0].key == two[1].key));
}

#[tokio::test]
async fn what_is_undecided_is_asked_about_again_and_never_blindly_sent() {
    let mut first = true;
    let world = World::new(DEDUPS, move |_| {
        if std::mem::take(&mut first) {
            says(Outcome::Stop(Reason::UnknownThere))
        } else {
            Act::Works
        }
    });
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let seen = ended(&courier, placed.id).await;
    assert!(matches!(seen.state, State::Undecided(_)), "{seen:?}");
    courier.retry(&org(), placed.id, seen.hold(), &person()).await.unwrap();
    assert!(matches!(ended(&courier, placed.id).await.state, State::Succeeded(_)));
    let opaque = World::new(OPAQUE, |_| Act::AnswerLost);
    let (courier, _) = super::world::courier(&opaque, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let seen = ended(&courier, placed.id).await;
    let done = courier.retry(&org(), placed.id, seen.hold(), &person()).await.unwrap();
    assert!(matches!(done, Done::NotNow(_)));
    assert_eq!(opaque.sends().len(), 1);
}

#[tokio::test]
async fn p48_b17_b47_a_new_key_only_after_a_definite_no() {
    let mut refused = true;
    let world = World::new(OPAQUE, move |_| {
        if std::mem::take(&mut refused) {
            says(Outcome::Refused(super::world::receipt(), Speaks::ForItself))
        } else {
            Act::AnswerLost
        }
    });
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let first = courier.enqueue(command("psp", "order-1")).await.unwrap();
    ended(&courier, first.id).await;
    let mut other_method = command("psp", "order-1");
    other_method.request = "pay order-1 by another method".into();
    let second = courier.enqueue_anew(other_method.clone()).await.unwrap();
    assert!(second.is_new);
    // A double click on the second try is the same try.
    let clicked = courier.enqueue_anew(other_method.clone()).await;
    assert!(clicked.is_err() || clicked.is_ok_and(|placed| placed.id == second.id));
    assert!(matches!(ended(&courier, second.id).await.state, State::Undecided(_)));
    let error = courier.enqueue_anew(other_method).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFollowed);
    let keys: std::collections::HashSet<String> =
        world.sends().into_iter().map(|seen| seen.key).collect();
    assert_eq!((keys.len(), world.effects()), (2, 1));
}
