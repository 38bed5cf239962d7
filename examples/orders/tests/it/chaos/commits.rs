//! Commits of a payment whose outcome nobody is told: its claim's, and its settlement's.

use super::program::Which;
use super::world::{BOUND, Payment, World};
use samekey_sim::Proxy;
use samekey_sim::history::{Limits, Sometimes, sometimes};
use samekey_sim::proxy::{Cut, Target};
use std::time::Duration;

/// What these runs have to have met.
pub const MET: &[&str] = &[sometimes::COMMIT_UNKNOWN];

/// The service's statement for claims, and for settlements.
const CLAIM: Target = Target::Statement("insert into samekey.keys");
const SETTLE: Target = Target::Statement("update samekey.keys");
/// Landed and not told of, never landed, and landed when somebody else has asked already.
const CUTS: [Cut; 3] = [Cut::After, Cut::Before, Cut::Held];
const FLAGS: [&str; 6] =
    ["--payment-lease-ms", "1500", "--call-timeout-ms", "1200", "--not-found-after-ms", "1500"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_b05_t56_t57_a_payment_whose_commit_is_unknown_is_made_once() {
    let plan = r#"{"keys": {"dedup": false}}"#;
    let mut world = World::new(Which::Postgres, plan, &FLAGS).await;
    let proxy = Proxy::before(world.address()).unwrap();
    world.start_at(proxy.url(), None);
    let behind = world.nodes[0].address;
    let met = Sometimes::default();
    let mut number = 1;
    // Every statement is prepared, so that a fault falls on the one that is meant.
    assert_eq!(world.call(&Payment::of("alpha", number)).await.unwrap().status, 201);
    let mut payments = Vec::new();
    for at in [CLAIM, SETTLE] {
        for cut in CUTS {
            number += 1;
            let payment = Payment::of("alpha", number);
            let fired = proxy.fired() + 1;
            proxy.arm(at.clone(), 1, cut);
            let caller = world.call(&payment);
            assert!(proxy.wait_until_fired(fired, BOUND).await, "{at:?}, {cut:?}");
            met.saw(sometimes::COMMIT_UNKNOWN);
            let ended = caller.await.unwrap();
            // What was on its way arrives when everything is over.
            proxy.deliver();
            assert_eq!(ended.status, 201, "{at:?}, {cut:?}: {ended:?}");
            payments.push((payment, ended, format!("{at:?}, {cut:?}")));
        }
    }
    // One that reaches the same database by another way says the same.
    world.start(None);
    assert_ne!(world.nodes[1].address, behind);
    let limits =
        Limits { calls_max: 8, transaction_max: Duration::from_secs(1), ..Limits::default() };
    assert_eq!(world.recorded(), 1 + u64::try_from(payments.len()).unwrap());
    let judged = world.audit(limits).await;
    judged.hold("commits");
    for (payment, ended, what) in payments {
        assert_eq!(judged.sent[&payment.order()], 1, "{what}");
        let last = judged.answer(&payment);
        assert_eq!((last.status, last.is_replay, &last.body), (201, true, &ended.body), "{what}");
    }
    println!("{:?}", met.counts());
    assert_eq!(met.missing(MET), [""; 0]);
}
