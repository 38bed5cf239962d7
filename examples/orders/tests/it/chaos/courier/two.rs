//! Two services on one database: they share what is due, and where one stands still the other goes on.

use super::program::Which;
use super::{FLAGS, MET, Payment, World, judge, limits, on_both, until};
use samekey_sim::history::{Limits, Sometimes};
use std::time::Duration;
use tokio::task::block_in_place;

on_both!(
    t84_b08_two_services_share_what_is_due,
    b28_a_courier_that_was_stopped_in_its_call_writes_nothing,
    b28_b16_a_courier_that_was_stopped_before_it_sent_sends_no_more,
    t74_a_crash_after_the_send_is_asked_about,
);

/// Orders of each organisation.
const ORDERS: usize = 30;

/// Slow calls, two services with eight calls at a time each, and each command is sent by one of them once.
async fn t84_b08_two_services_share_what_is_due(which: Which) {
    let plan = r#"{"keys": {"dedup": false}, "rules": [{"answer": {"late_ms": 150}}]}"#;
    let mut world = World::new(which, plan, &FLAGS).await;
    world.start(None);
    world.start(None);
    let callers: Vec<_> = ["alpha", "beta"]
        .into_iter()
        .map(|org| {
            world.call_all((0..ORDERS).map(|number| Payment::of_order(org, number)).collect())
        })
        .collect();
    for caller in callers {
        assert!(caller.await.unwrap().iter().all(|answer| answer.status == 201));
    }
    let judged = judge(world, Limits { calls_max: 1, ..limits() }).await;
    judged.hold("two services");
    assert_eq!((judged.sent.len(), judged.questions), (2 * ORDERS, 0));
    assert!(judged.sent.values().all(|sent| *sent == 1), "{:?}", judged.sent);
    // Both had a part.
    assert!(judged.logs.iter().all(|log| log.contains("\"succeeded\"")), "one did it all");
}

/// SIGSTOP while the provider works, past the lease. The other service asks and ends it; the owner wakes up
/// with the answer at its door, and its write is refused.
async fn b28_a_courier_that_was_stopped_in_its_call_writes_nothing(which: Which) {
    let plan = r#"{"keys": {"dedup": false},
        "rules": [{"when": {"op": ["pay"]}, "answer": {"held": true}}]}"#;
    let mut world = World::new(which, plan, &FLAGS).await;
    world.start(None);
    let payment = Payment::of_order("alpha", 1);
    world.call(&payment).await.unwrap();
    assert!(world.lab.until(super::BOUND, |lab| lab.counts().payments == 1).await);
    block_in_place(|| world.nodes[0].process.freeze()).unwrap();
    world.door.close(world.nodes[0].address);
    world.start(None);
    let (address, id) = (world.nodes[1].address, payment.order());
    let found = super::ended(address, "alpha", &id).await;
    assert_eq!(found["state"], "succeeded");
    world.lab.release();
    world.nodes[0].process.thaw().unwrap();
    over(world, &payment, found, 1).await;
}

/// It stood still before its first byte. When it wakes up its lease is over, and it sends nothing, though the
/// other has sent meanwhile.
async fn b28_b16_a_courier_that_was_stopped_before_it_sent_sends_no_more(which: Which) {
    let flags = [&FLAGS[..], &["--not-found-after-ms", "1000"]].concat();
    let mut world = World::new(which, r#"{"keys": {"dedup": false}}"#, &flags).await;
    world.start(Some("courier.send-before=stop"));
    let payment = Payment::of_order("alpha", 1);
    world.call(&payment).await.unwrap();
    let process = &world.nodes[0].process;
    block_in_place(|| process.wait_until_stopped_at("courier.send-before")).unwrap();
    world.door.close(world.nodes[0].address);
    world.start(None);
    let found = super::ended(world.nodes[1].address, "alpha", &payment.order()).await;
    assert_eq!(found["state"], "succeeded");
    world.nodes[0].process.thaw().unwrap();
    over(world, &payment, found, 1).await;
}

/// What the one that woke up was told of its write; one effect, and the result is as it was.
async fn over(world: World, payment: &Payment, found: serde_json::Value, sent: usize) {
    world.nodes[0].until_it_says("lease-lost").await;
    let now = super::ended(world.nodes[1].address, "alpha", &payment.order()).await;
    assert_eq!(now, found);
    assert_eq!(world.recorded(), 1);
    let judged = judge(world, Limits { transaction_max: Duration::from_secs(2), ..limits() }).await;
    judged.hold("stopped");
    assert_eq!(judged.sent[&payment.order()], sent);
    let met = Sometimes::default();
    judged.note(&met);
    assert_eq!(met.missing(MET), [""; 0]);
}

/// Killed when the provider had it and nothing was noted. The first that is heard of it after that is a question.
async fn t74_a_crash_after_the_send_is_asked_about(which: Which) {
    let mut world = World::new(which, r#"{"keys": {"dedup": false}}"#, &FLAGS).await;
    world.start(Some("courier.send-after=abort"));
    let payment = Payment::of_order("alpha", 1);
    let caller = world.call(&payment);
    until("it died", async || !world.nodes[0].process.runs()).await;
    world.bury();
    world.start(None);
    caller.await.unwrap();
    let found = super::ended(world.nodes[0].address, "alpha", &payment.order()).await;
    assert_eq!(found["state"], "succeeded");
    let calls: Vec<String> =
        world.proxy.exchanges().into_iter().map(|exchange| exchange.method).collect();
    assert_eq!(calls, ["POST", "GET"]);
    let judged = judge(world, limits()).await;
    judged.hold("killed after the send");
    assert_eq!((judged.sent[&payment.order()], judged.said("lapsed")), (1, 1));
}
