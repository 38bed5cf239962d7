//! kill -9 of PostgreSQL under load, with commits cut off in the same moment.

use crate::harness::shop::{Door, Shop, customer};
use samekey_sim::history::{History, Sometimes};
use samekey_sim::proxy::{Cut, Proxy, Target};
use samekey_sim::{Cluster, Options};
use std::time::Duration;

const CUSTOMERS: usize = 8;
const ORDERS: usize = 40;
const BOUND: Duration = Duration::from_secs(60);

/// T-59. Two services; the one behind the proxy has a commit cut off, and in that moment the database
/// dies, three times over: once the commit had landed, once it had not, once it was on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_cluster_t59_postgres_dies_under_load() {
    let mut cluster =
        tokio::task::block_in_place(|| Cluster::start(Options::new())).expect("a cluster");
    let shop = tokio::task::block_in_place(|| Shop::in_cluster(&cluster));
    let proxy = Proxy::before(&shop.address()).unwrap();
    let (straight, first) = shop.start(None);
    let (behind, second) = shop.start_at(proxy.url(), None);
    let door = Door::at(&[first, second]);
    let (history, sometimes) = (History::default(), Sometimes::default());
    let customers: Vec<_> = (0..CUSTOMERS)
        .map(|n| {
            let from = 1 + n * 1_000;
            tokio::spawn(customer(door.clone(), history.clone(), from..from + ORDERS))
        })
        .collect();
    for (round, cut) in [Cut::After, Cut::Before, Cut::Held].into_iter().enumerate() {
        proxy.arm_last(Target::Commit, 4, cut);
        let fired = u64::try_from(round + 1).unwrap();
        assert!(proxy.wait_until_fired(fired, BOUND).await, "the load ended too early");
        tokio::task::block_in_place(|| {
            cluster.kill_immediately().unwrap();
            cluster.restart().unwrap();
        });
        proxy.deliver();
        proxy.accept();
        sometimes.saw("the database died at a commit");
    }
    for customer in customers {
        customer.await.unwrap();
    }
    assert_eq!(shop.effects().await.len(), CUSTOMERS * ORDERS);
    assert_eq!(shop.violations(&history).await, []);
    let logs = format!("{}{}", straight.stderr(), behind.stderr());
    let times = |word: &str| u64::try_from(logs.matches(word).count()).unwrap();
    sometimes.saw_times("a commit of unknown outcome", times("commit-unknown"));
    sometimes.saw_times("a store that could not be reached", times("store-failed"));
    for attempt in history.attempts() {
        match attempt.answer {
            Some(answer) if answer.is_replay => sometimes.saw("a retry found a committed row"),
            Some(answer) if answer.status == 503 => sometimes.saw("a refusal before the claim"),
            Some(_) | None => {}
        }
    }
    println!("{:?}", sometimes.counts());
    let wanted = [
        "the database died at a commit",
        "a commit of unknown outcome",
        "a store that could not be reached",
        "a retry found a committed row",
        "a refusal before the claim",
    ];
    assert_eq!(sometimes.missing(&wanted), [""; 0]);
    // T-59: the last answers on every node are final.
    for address in [first, second] {
        let last = crate::harness::shop::order_of("key-1", 1).send(address).await.unwrap();
        assert_eq!((last.status, last.is_replay()), (200, true));
    }
}
