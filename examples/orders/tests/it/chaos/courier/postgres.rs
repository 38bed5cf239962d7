//! kill -9 of PostgreSQL under a load of orders whose payments are on their way.

use super::{BOUND, FLAGS, Payment, World, judge, limits, until};
use samekey_sim::history::Limits;
use samekey_sim::{Cluster, Options};
use std::time::Duration;
use tokio::task::block_in_place;

const CALLERS: usize = 6;
/// Orders of each.
const ORDERS: usize = 10;
const DEATHS: u64 = 3;
/// Every eighth answer is too late, so that there is something to ask about.
const PLAN: &str = r#"{"keys": {"dedup": false}, "late": {"every": 8, "ms": 2000}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_cluster_t59_s3_postgres_dies_under_a_courier() {
    let mut cluster = block_in_place(|| Cluster::start(Options::new())).expect("a cluster");
    let address = block_in_place(|| cluster.create_database("shop")).unwrap();
    let flags = [&FLAGS[..], &["--not-found-after-ms", "1000"]].concat();
    let mut world = World::at(address, PLAN, &flags).await;
    world.start(None);
    world.start(None);
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let numbers = caller * ORDERS..(caller + 1) * ORDERS;
            let org = if caller % 2 == 0 { "alpha" } else { "beta" };
            world.call_all(numbers.map(|number| Payment::of_order(org, number)).collect())
        })
        .collect();
    for death in 1..=DEATHS {
        // In the middle of the load, with commands on their way.
        assert!(world.lab.until(BOUND, |lab| lab.counts().payments >= death * 10).await);
        block_in_place(|| {
            cluster.kill_immediately().unwrap();
            cluster.restart().unwrap();
        });
    }
    for caller in callers {
        for answer in caller.await.unwrap() {
            assert!([200, 201].contains(&answer.status), "{answer:?}");
        }
    }
    let all = u64::try_from(CALLERS * ORDERS).unwrap();
    until("all are paid", async || world.recorded() == all).await;
    let limits = Limits { transaction_max: Duration::from_secs(2), calls_max: 20, ..limits() };
    let judged = judge(world, limits).await;
    judged.hold("PostgreSQL dies under a courier");
    assert!(judged.said("store-failed") > 0, "{}", judged.log);
}
