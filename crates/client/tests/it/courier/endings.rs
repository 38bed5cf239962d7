//! How one command ends, whatever its attempts come to.

use super::world::{
    ANSWERS, Act, DEDUPS, OPAQUE, World, command, courier, down, ended, limits, org, receipt, says,
};
use samekey_client::core::delivery::{Ended, Proof, Reason, State};
use samekey_client::core::outcome::{Heard, NotRun, Outcome, Speaks, Told};
use samekey_client::store::outbox::Outbox;
use samekey_client::{Signal, Waited};
use std::time::Duration;

#[tokio::test]
async fn a_command_is_sent_once_and_its_answer_is_kept() {
    let world = World::new(OPAQUE, |_| Act::Works);
    let (courier, heeded) = courier(&world, limits()).await;
    let running = courier.spawn();
    let waited =
        courier.send_and_wait(command("psp", "order-1"), Duration::from_secs(10)).await.unwrap();
    let Waited::Ended(delivery) = waited else { panic!("{waited:?}") };
    assert!(matches!(delivery.state, State::Succeeded(Ended { with, .. }) if with == receipt()));
    assert_eq!((world.effects(), world.sends().len()), (1, 1));
    assert!(heeded.has(Signal::Succeeded));
    assert!(running.drain(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn p47_the_same_action_enqueued_again_is_the_same_command() {
    let world = World::new(OPAQUE, |_| Act::Works);
    let (courier, _) = courier(&world, limits()).await;
    let first = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let again = courier.enqueue(command("psp", "order-1")).await.unwrap();
    assert_eq!((first.id, first.is_new, again.is_new), (again.id, true, false));
    let mut other = command("psp", "order-1");
    other.request = "something else".into();
    let error = courier.enqueue(other).await.unwrap_err();
    assert_eq!(error.kind(), samekey_client::Kind::OtherContent);
    let _running = courier.spawn();
    ended(&courier, first.id).await;
    courier.enqueue(command("psp", "order-1")).await.unwrap();
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn p46_b34_one_key_and_the_same_bytes_for_every_attempt() {
    let mut left = vec![
        Act::Works,
        says(Outcome::NotRun(NotRun::RateLimited)),
        says(Outcome::NotRun(NotRun::NotProcessed)),
        down(),
    ];
    let world = World::new(OPAQUE, move |_| left.pop().unwrap());
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    let sends = world.sends();
    assert_eq!((sends.len(), delivery.sends), (4, 4));
    assert!(sends.windows(2).all(|two| two[0].key == two[1].key && two[0].body == two[1].body));
    let notes = courier.store().attempts(&org(), placed.id).await.unwrap();
    let words: Vec<&str> = notes.iter().map(|note| note.came_to.as_str()).collect();
    assert_eq!(words, ["not-sent", "not-processed", "rate-limited", "done"]);
}

#[tokio::test]
async fn p59_b16_an_unknown_outcome_is_undecided_and_late_evidence_ends_it_without_a_send() {
    let world = World::new(OPAQUE, |_| Act::AnswerLost);
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(
        matches!(delivery.state, State::Undecided(Ended { with: Reason::ConnectionLost, .. })),
        "{delivery:?}"
    );
    courier.learn(&org(), placed.id, Proof::Executed(receipt())).await.unwrap();
    let delivery = courier.delivery(&org(), placed.id).await.unwrap().unwrap();
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    let notes = courier.store().attempts(&org(), placed.id).await.unwrap();
    assert_eq!(notes.last().unwrap().kind, "news");
    assert_eq!((world.sends().len(), world.effects()), (1, 1));
}

#[tokio::test]
async fn a_counterparty_that_deduplicates_is_sent_the_same_again() {
    let mut left = vec![Act::Works, Act::AnswerLost, Act::AnswerLost];
    let world = World::new(DEDUPS, move |_| left.pop().unwrap());
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    assert_eq!((world.sends().len(), world.effects()), (3, 1));
}

#[tokio::test]
async fn p52_b35_it_is_asked_first_and_sent_again_once_after_two_not_found() {
    let mut left = vec![Act::Works, says(Outcome::Unknown(Reason::TimedOut))];
    let world = World::new(ANSWERS, move |_| left.pop().unwrap());
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    let order: Vec<bool> = world.seen().iter().map(|seen| seen.is_question).collect();
    assert_eq!(order.first(), Some(&false));
    assert_eq!(order.last(), Some(&false));
    assert_eq!(order.iter().filter(|question| !**question).count(), 2, "{order:?}");
    assert!(order.iter().filter(|question| **question).count() >= 2, "{order:?}");
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn an_executed_command_is_adopted_by_asking() {
    let world = World::new(ANSWERS, |_| Act::AnswerLost);
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    assert_eq!((world.sends().len(), world.effects()), (1, 1));
}

#[tokio::test]
async fn p53_what_is_found_different_goes_to_a_person() {
    let world =
        World::new(ANSWERS, |_| Act::AnswerLost).answering(|_| Some(Told::plain(Heard::Different)));
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(
        matches!(delivery.state, State::Undecided(Ended { with: Reason::FoundDifferent, .. })),
        "{delivery:?}"
    );
    assert_eq!(world.sends().len(), 1);
}

#[tokio::test]
async fn p49_b70_a_refusal_after_a_timeout_is_not_the_end() {
    let refused = says(Outcome::Refused(receipt(), Speaks::ForItself));
    let mut left = vec![refused, says(Outcome::Unknown(Reason::ServerError))];
    let world = World::new(DEDUPS, move |_| {
        left.pop().unwrap_or_else(|| says(Outcome::Refused(receipt(), Speaks::ForItself)))
    });
    let mut short = limits();
    short.attempts_max = 3;
    let (courier, _) = courier(&world, short).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Undecided(_)), "{delivery:?}");
    assert_eq!(delivery.doubt, Some(Reason::ServerError), "the first cause is kept");
    assert_eq!(delivery.last, Some(Reason::RefusedInDoubt));
}

#[tokio::test]
async fn t77_a_refusal_ends_it_at_once() {
    let world = World::new(OPAQUE, |_| says(Outcome::Refused(receipt(), Speaks::ForItself)));
    let (courier, heeded) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Refused(_)), "{delivery:?}");
    assert_eq!(world.sends().len(), 1);
    assert!(heeded.has(Signal::Refused));
}

#[tokio::test]
async fn t76_b55_in_progress_is_waited_for_with_the_same_key_and_costs_no_attempt() {
    let mut waits = 6;
    let world = World::new(OPAQUE, move |_| {
        if waits == 0 {
            return Act::Works;
        }
        waits -= 1;
        says(Outcome::InFlight)
    });
    let mut few = limits();
    few.attempts_max = 2;
    let (courier, _) = courier(&world, few).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    assert_eq!((delivery.sends, world.effects()), (7, 1));
}

#[tokio::test]
async fn a_panic_of_its_code_and_a_hang_are_unknown() {
    let mut left = vec![Act::Works, Act::Hangs, Act::Panics];
    let world = World::new(DEDUPS, move |_| left.pop().unwrap());
    let (courier, heeded) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    assert!(matches!(delivery.state, State::Succeeded(_)), "{delivery:?}");
    assert!(heeded.has(Signal::Panicked));
    let notes = courier.store().attempts(&org(), placed.id).await.unwrap();
    let words: Vec<&str> = notes.iter().map(|note| note.came_to.as_str()).collect();
    assert_eq!(words, ["answer-unclear", "timed-out", "done"]);
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn p54_b74_the_time_ends_it_and_is_named() {
    let world = World::new(OPAQUE, |_| down());
    let mut short = limits();
    short.time_max = Duration::from_millis(600);
    let (courier, _) = courier(&world, short).await;
    let _running = courier.spawn();
    let placed = courier.enqueue(command("psp", "order-1")).await.unwrap();
    let delivery = ended(&courier, placed.id).await;
    let State::Failed(ended) = &delivery.state else { panic!("{delivery:?}") };
    assert_eq!((ended.with, delivery.last), (Reason::TimeOver, Some(Reason::NotConnected)));
    assert!(ended.since <= delivery.gives_up.plus(Duration::from_millis(300)), "{delivery:?}");
}

#[tokio::test]
async fn who_waits_too_short_is_told_and_the_command_goes_on() {
    let world = World::new(OPAQUE, |_| Act::Slow(Duration::from_millis(200)));
    let (courier, _) = courier(&world, limits()).await;
    let _running = courier.spawn();
    let waited =
        courier.send_and_wait(command("psp", "order-1"), Duration::from_millis(20)).await.unwrap();
    let Waited::Pending(id) = waited else { panic!("{waited:?}") };
    assert!(matches!(ended(&courier, id).await.state, State::Succeeded(_)));
    assert_eq!(world.effects(), 1);
}
