//! kill -9 of PostgreSQL under a load of payments, with claims and settlements cut off in that moment.

use super::world::{BOUND, Payment, World};
use futures_util::future::join_all;
use samekey_sim::history::Limits;
use samekey_sim::proxy::{Cut, Target};
use samekey_sim::{Cluster, Options, Proxy};
use std::time::Duration;
use tokio::task::block_in_place;

const CALLERS: usize = 8;
/// Payments of each.
const PAYMENTS: usize = 15;
const FLAGS: [&str; 6] =
    ["--payment-lease-ms", "1500", "--call-timeout-ms", "600", "--not-found-after-ms", "1500"];
/// Every eighth answer is too late, so that there is something to ask about.
const PLAN: &str = r#"{"keys": {"dedup": false}, "late": {"every": 8, "ms": 3000}}"#;

/// T-59. Two services; of the one behind the proxy a claim or a settlement is cut off, and in that moment
/// the database dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_cluster_t59_postgres_dies_under_payments() {
    let mut cluster = block_in_place(|| Cluster::start(Options::new())).expect("a cluster");
    let address = block_in_place(|| cluster.create_database("shop")).unwrap();
    let mut world = World::at(address.clone(), PLAN, &FLAGS).await;
    let proxy = Proxy::before(&address).unwrap();
    world.start(None);
    world.start_at(proxy.url(), None);
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let numbers = caller * PAYMENTS..(caller + 1) * PAYMENTS;
            let org = if caller % 2 == 0 { "alpha" } else { "beta" };
            world.call_all(numbers.map(|number| Payment::of(org, number)).collect())
        })
        .collect();
    let faults = [
        (Target::Statement("update samekey.keys"), Cut::After),
        (Target::Statement("insert into samekey.keys"), Cut::After),
        (Target::Statement("update samekey.keys"), Cut::Held),
        (Target::Statement("insert into samekey.keys"), Cut::Before),
    ];
    for (round, (at, cut)) in faults.into_iter().enumerate() {
        proxy.arm_last(at, 2, cut);
        let fired = u64::try_from(round + 1).unwrap();
        assert!(proxy.wait_until_fired(fired, BOUND).await, "the load ended too early");
        block_in_place(|| {
            cluster.kill_immediately().unwrap();
            cluster.restart().unwrap();
        });
        proxy.deliver();
        proxy.accept();
    }
    let answers: Vec<_> = join_all(callers).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(answers.len(), CALLERS * PAYMENTS);
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(world.recorded(), u64::try_from(CALLERS * PAYMENTS).unwrap());
    let limits =
        Limits { calls_max: 20, transaction_max: Duration::from_secs(2), ..Limits::default() };
    let judged = world.audit(limits).await;
    judged.hold("PostgreSQL dies");
    assert!(judged.sent.values().all(|sent| *sent == 1), "{:?}", judged.sent);
    assert!(judged.said("store-failed") > 0 && judged.said("recovered") > 0, "{}", judged.log);
    println!(
        "{} payments, {} questions, {} settled by recovery, {} freed by proof",
        answers.len(),
        judged.questions,
        judged.said("recovered"),
        judged.said("freed-by-proof")
    );
}
