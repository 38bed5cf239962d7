//! T-72: gateways are replaced one after the other under load, in an orderly way.

use super::Counterparty;
use super::world::{Times, World};
use samekey_sim::fresh_database;
use samekey_sim::history::Limits;
use std::time::Duration;

/// No lease is lost on a machine that is busy with other things.
const TIMES: Times = Times { call: 10_000, lease: 15_000, run_max: 15_000 };
/// How often a gateway is replaced.
const ROUNDS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t72_a_rolling_restart_loses_nothing_of_an_opaque_upstream() {
    rolling_restart(Counterparty::Opaque).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t72_a_rolling_restart_loses_nothing_where_the_upstream_is_asked() {
    rolling_restart(Counterparty::Answers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t72_a_rolling_restart_loses_nothing_where_the_upstream_deduplicates() {
    rolling_restart(Counterparty::Dedups).await;
}

async fn rolling_restart(counterparty: Counterparty) {
    let database = fresh_database().await;
    let mut world = World::new(database.url(), counterparty, TIMES).await;
    let load = world.load();
    for _ in 0..ROUNDS {
        load.until_more_end(8).await;
        world.start();
        assert_eq!(world.stop_first(), Some(0), "everything on its way had ended");
    }
    let told = load.end().await;
    let limits = Limits {
        // Where nobody can be asked, the answers that the API lost are a person's.
        may_end_in_review: counterparty == Counterparty::Opaque,
        calls_max: 10,
        transaction_max: Duration::from_secs(2),
        ..Limits::default()
    };
    let judged = world.audit(&told, limits).await;
    judged.hold("a rolling restart");
    assert_eq!(judged.recorded, told.len(), "each payment ran, and ran once");
    for (payment, answer) in &told {
        let is_lost = answer.status == 409 && counterparty == Counterparty::Opaque;
        assert!(answer.status == 201 || is_lost, "{payment:?}: {answer:?}");
    }
    // No owner was lost: whatever was unknown was an answer that the API did not give.
    assert_eq!(judged.said("lease-lost"), 0);
    println!("{counterparty:?}: {} payments, {} questions", told.len(), judged.questions);
}
