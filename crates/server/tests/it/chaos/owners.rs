//! Owners that stand still, are asked to end, or follow one another.

use crate::harness::Which;
use crate::harness::shop::{Door, ORG, Shop, customer, order_of};
use samekey_sim::History;
use std::time::Duration;

const CUSTOMERS: usize = 4;
const ORDERS: usize = 60;
const END_BOUND: Duration = Duration::from_secs(60);

/// An owner that stands still in the middle of its transaction keeps its key: the other process says
/// "wait", which is true, and takes nothing over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p08_an_owner_that_stands_still_keeps_its_key() {
    let shop = Shop::fresh(Which::Postgres).await;
    let (still, first) = shop.start(Some("call.after=stop"));
    let (_other, second) = shop.start(None);
    let history = History::default();
    let asked = (ORG, "4711", "amount");
    let order = order_of("held", 4_711);
    let owner = tokio::spawn({
        let (order, history) = (order.clone(), history.clone());
        async move { order.send_recorded(first, &history, asked).await }
    });
    tokio::task::block_in_place(|| still.wait_until_stopped_at("call.after")).unwrap();
    for _ in 0..3 {
        let told = order.send_recorded(second, &history, asked).await.unwrap();
        assert_eq!(
            told.code.as_deref(),
            Some("samekey.in-progress"),
            "status {}, replay {}; the other says: {}",
            told.status,
            told.is_replay,
            still.stderr()
        );
    }
    assert!(shop.effects().await.is_empty());
    still.thaw().unwrap();
    let placed = owner.await.unwrap().unwrap();
    assert_eq!((placed.status, placed.is_replay), (201, false));
    let retry = order.send_recorded(second, &history, asked).await.unwrap();
    assert_eq!((retry.status, retry.is_replay), (200, true));
    assert_eq!(shop.violations(&history).await, []);
}

/// T-72. Each process is asked to end under load and replaced; what it has begun it brings to its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t72_a_rolling_restart_loses_nothing() {
    let shop = Shop::fresh(Which::Postgres).await;
    let mut processes = vec![shop.start(None), shop.start(None)];
    let door = Door::at(&[processes[0].1, processes[1].1]);
    let history = History::default();
    let customers: Vec<_> = (0..CUSTOMERS)
        .map(|n| {
            let from = 1 + n * 1_000;
            tokio::spawn(customer(door.clone(), history.clone(), from..from + ORDERS))
        })
        .collect();
    for _ in 0..4 {
        let (old, address) = processes.remove(0);
        let (new, new_address) = shop.start(None);
        door.replace(address, new_address);
        old.terminate().unwrap();
        let finished = tokio::task::block_in_place(|| old.wait(END_BOUND)).unwrap();
        assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
        processes.push((new, new_address));
    }
    for customer in customers {
        customer.await.unwrap();
    }
    assert_eq!(shop.effects().await.len(), CUSTOMERS * ORDERS);
    assert_eq!(shop.violations(&history).await, []);
}
