//! A store that was restored to an earlier state: nothing is sent before it was asked about.

use super::world::{ANSWERS, Act, DEDUPS, OPAQUE, World, command, courier_on, ended, limits, org};
use samekey_client::core::delivery::{AskedBy, Ended, Reason, State};
use samekey_client::core::outcome::{Heard, Told};
use samekey_client::core::time::Time;
use samekey_client::store::memory::MemoryLedger;
use samekey_client::store::{Ledger, Restored};
use std::sync::Arc;
use std::time::Duration;

async fn marked(store: &MemoryLedger) {
    use samekey_client::store::outbox::Outbox;
    let now = store.now().await.unwrap();
    let mark = Restored { lost_since: Time::EPOCH, until: now.plus(Duration::from_secs(3600)) };
    mark.write(store).await.unwrap();
    assert!(store.shared("restored").await.unwrap().is_some());
}

#[tokio::test]
async fn p65_t83_what_waits_is_asked_about_before_it_is_sent() {
    for (declared, questions_first) in [(ANSWERS, true), (DEDUPS, false)] {
        let store = Arc::new(MemoryLedger::new());
        let world = World::new(declared, |_| Act::Works);
        let (courier, _) = courier_on(store.clone(), &world, limits()).await;
        let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
        marked(&store).await;
        let (courier, _) = courier_on(store.clone(), &world, limits()).await;
        let _running = courier.spawn();
        let delivery = ended(&courier, placed.id).await;
        assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
        assert_eq!(world.seen()[0].is_question, questions_first, "{:?}", world.seen());
        assert_eq!(world.effects(), 1);
    }
}

#[tokio::test]
async fn t83_where_nobody_can_be_asked_a_person_decides() {
    let store = Arc::new(MemoryLedger::new());
    let world = World::new(OPAQUE, |_| Act::Works);
    let (courier, _) = courier_on(store.clone(), &world, limits()).await;
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    marked(&store).await;
    let (courier, _) = courier_on(store.clone(), &world, limits()).await;
    let _running = courier.spawn();
    let delivery = ended(&courier, placed.id).await;
    assert!(
        matches!(delivery.state, State::Undecided(Ended { with: Reason::Restored, .. })),
        "{delivery:?}"
    );
    assert!(world.seen().is_empty());
}

#[tokio::test]
async fn t83_a_command_that_may_have_had_another_key_is_asked_about_by_its_reference() {
    let store = Arc::new(MemoryLedger::new());
    let world = World::new(ANSWERS, |_| Act::Works).answering(|question| {
        assert_eq!(question.by, AskedBy::Reference);
        (question.command.action.business_ref == "paid before")
            .then(|| Told::plain(Heard::Executed(super::world::receipt())))
    });
    marked(&store).await;
    let (courier, _) = courier_on(store.clone(), &world, limits()).await;
    let _running = courier.spawn();
    let paid = courier.enqueue(command("psp", "paid before")).await.unwrap();
    let lost = courier.enqueue(command("psp", "never paid")).await.unwrap();
    for id in [paid.id, lost.id] {
        let delivery = ended(&courier, id).await;
        assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    }
    let sent: Vec<String> = world.sends().into_iter().map(|seen| seen.reference).collect();
    assert_eq!(sent, ["never paid"], "what was paid before is adopted and not sent");
    let alone = Arc::new(MemoryLedger::new());
    let dedups = World::new(DEDUPS, |_| Act::Works);
    marked(&alone).await;
    let (courier, _) = courier_on(alone, &dedups, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = courier.delivery(&org(), placed.id).await.unwrap().unwrap();
    assert!(
        matches!(delivery.state, State::Undecided(_)),
        "a new key proves nothing: {delivery:?}"
    );
    assert!(dedups.seen().is_empty());
}
