//! An owner that stands still for longer than its lease, and wakes up when another has its key.

use super::on_both;
use super::program::Which;
use super::world::{BOUND, Payment, World};
use samekey_lab::payments::Op;
use samekey_sim::history::{Limits, Sometimes, sometimes};
use std::time::Duration;
use tokio::task::block_in_place;

on_both!(
    t62_b28_an_owner_that_was_stopped_in_its_call_writes_nothing,
    t62_b28_an_owner_that_was_stopped_before_it_settled_writes_nothing,
    t62_b16_the_answer_of_an_owner_that_was_stopped_is_evidence,
);

/// What these runs have to have met.
pub const MET: &[&str] = &[sometimes::TAKEN_OVER, sometimes::FENCED_OUT, sometimes::EVIDENCE];

const FLAGS: [&str; 4] = ["--payment-lease-ms", "1500", "--call-timeout-ms", "1200"];

/// Long calls are these tests' subject, so that a transaction that is open through one would show.
fn limits() -> Limits {
    Limits { calls_max: 30, transaction_max: Duration::from_secs(1), ..Limits::default() }
}

/// SIGSTOP while the provider works: the other process asks and settles, and the owner, which wakes up
/// with the provider's answer at its door, stops there.
async fn t62_b28_an_owner_that_was_stopped_in_its_call_writes_nothing(which: Which) {
    let plan = r#"{"keys": {"dedup": false}, "rules": [{"answer": {"held": true}}]}"#;
    let mut world = World::new(which, plan, &FLAGS).await;
    world.start(None);
    let payment = Payment::of("alpha", 1);
    let owner = world.send_to(0, &payment);
    assert!(world.lab.until(BOUND, |lab| lab.counts().payments == 1).await);
    block_in_place(|| world.nodes[0].process.freeze()).unwrap();
    world.door.close(world.nodes[0].address);
    world.start(None);
    let found = world.call(&payment).await.unwrap();
    assert_eq!((found.status, found.is_replay), (201, true), "{found:?}");
    world.lab.release();
    world.nodes[0].process.thaw().unwrap();
    let told = owner.await.unwrap().expect("an answer");
    assert_eq!((told.status, &told.body), (201, &found.body), "two answers");
    ended(world, &payment, "lease-lost", sometimes::FENCED_OUT).await;
}

/// The same with the answer in its hands: a write of before changes nothing any more.
async fn t62_b28_an_owner_that_was_stopped_before_it_settled_writes_nothing(which: Which) {
    let mut world = World::new(which, r#"{"keys": {"dedup": false}}"#, &FLAGS).await;
    world.start(Some("external.settle-before=stop"));
    let payment = Payment::of("alpha", 1);
    let owner = world.send_to(0, &payment);
    stopped(&world, "external.settle-before");
    world.start(None);
    let found = world.call(&payment).await.unwrap();
    assert_eq!((found.status, found.is_replay), (201, true), "{found:?}");
    world.nodes[0].process.thaw().unwrap();
    let told = owner.await.unwrap().expect("an answer");
    assert_eq!((told.status, &told.body), (201, &found.body), "two answers");
    ended(world, &payment, "lease-lost", sometimes::FENCED_OUT).await;
}

/// The provider says "pending" for ever, and only the owner has heard how it ended. It wakes up without
/// its key, and its answer is kept and settled from.
async fn t62_b16_the_answer_of_an_owner_that_was_stopped_is_evidence(which: Which) {
    let plan = r#"{"keys": {"dedup": false},
        "rules": [{"when": {"op": ["query"]}, "answer": {"query": "pending"}}]}"#;
    let mut world = World::new(which, plan, &FLAGS).await;
    world.start(Some("external.call-after=stop"));
    let payment = Payment::of("alpha", 1);
    let owner = world.send_to(0, &payment);
    stopped(&world, "external.call-after");
    world.start(None);
    let asked = |lab: &samekey_lab::Lab| {
        lab.requests().unwrap().iter().any(|r| r.arrived.op == Op::Query && r.status.is_some())
    };
    assert!(world.lab.until(BOUND, asked).await);
    world.nodes[0].process.thaw().unwrap();
    let told = owner.await.unwrap().expect("an answer");
    assert_eq!(told.code.as_deref(), Some("samekey.outcome-pending"), "{told:?}");
    let settled = world.call(&payment).await.unwrap();
    assert_eq!((settled.status, settled.is_replay), (201, true), "{settled:?}");
    ended(world, &payment, "evidence-recorded", sometimes::EVIDENCE).await;
}

/// Waits until the first process stands still there, and sends nobody to it any more.
fn stopped(world: &World, point: &str) {
    block_in_place(|| world.nodes[0].process.wait_until_stopped_at(point)).unwrap();
    world.door.close(world.nodes[0].address);
}

/// One effect, one request, one answer, whoever is asked; and what the owner was told about its write.
async fn ended(world: World, payment: &Payment, result: &str, rare: &'static str) {
    world.nodes[0].until_it_says(result).await;
    assert_eq!(world.recorded(), 1);
    let judged = world.audit(limits()).await;
    judged.hold(result);
    assert_eq!(judged.sent[&payment.order()], 1);
    let answer = judged.answer(payment);
    assert_eq!((answer.status, answer.is_replay), (201, true), "{answer:?}");
    let met = Sometimes::default();
    judged.note(&met);
    println!("{:?}", met.counts());
    assert_eq!(met.missing(&[rare, sometimes::TAKEN_OVER]), [""; 0]);
}
