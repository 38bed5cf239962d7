//! Clients that go away at every point. What they started goes on, what never began leaves nothing.

use super::harness::proxied::Pooled;
use super::harness::reach::{Order, narrow, until};
use super::harness::script::{Script, gate};
use super::harness::{Harness, Which, fresh, on_both};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

on_both!(
    t54_b01_a_client_gone_in_the_middle_of_its_body_claims_nothing,
    p12_b01_a_client_gone_during_the_handler_changes_nothing,
    t52_b01_a_client_gone_during_the_answer_finds_it_later,
);

/// As often as the field case says.
const RUNS: usize = 200;

async fn t54_b01_a_client_gone_in_the_middle_of_its_body_claims_nothing(which: Which) {
    let harness = Harness::start(which).await;
    let orders: Vec<Order> = (0..RUNS).map(|_| Order::of(&fresh("key"), &fresh("ref"))).collect();
    for (run, order) in orders.iter().enumerate() {
        let bytes = order.bytes();
        // Every length is cut off somewhere: after the headers, in the middle, before the last byte.
        let cut = bytes.len() - 1 - run % order.body.len();
        let mut stream = TcpStream::connect(harness.address).await.unwrap();
        stream.write_all(&bytes[..cut]).await.unwrap();
        drop(stream);
    }
    harness.drain().await;
    assert_eq!(harness.rows().await, 0, "half a request claimed its key");
    for order in &orders {
        let reply = order.send(harness.address).await.unwrap();
        assert_eq!((reply.status, reply.is_replay()), (201, false));
    }
    for order in orders.iter().step_by(20) {
        let reference = super::harness::service::reference_of(order.body.as_bytes());
        assert_eq!(harness.effects(&reference).await, 1);
    }
    assert_eq!(harness.rows_in_state("done").await, u64::try_from(RUNS).unwrap());
}

/// The client is gone before the handler goes on from its gate.
async fn p12_b01_a_client_gone_during_the_handler_changes_nothing(which: Which) {
    let harness = Harness::start(which).await;
    for _ in 0..RUNS {
        let (key, reference) = (fresh("key"), fresh("ref"));
        let (gate, mut keeper) = gate();
        harness.app.scripts.set(&reference, Script { gate: Some(gate), ..Script::default() });
        let order = Order::of(&key, &reference);
        let mut stream = TcpStream::connect(harness.address).await.unwrap();
        stream.write_all(&order.bytes()).await.unwrap();
        keeper.reached.recv().await.unwrap();
        drop(stream);
        drop(keeper.go);
        let reply = order.send_until_final(harness.address).await;
        assert_eq!((reply.status, reply.is_replay()), (201, true), "the first run was lost");
        assert_eq!(harness.effects(&reference).await, 1);
    }
    harness.assert_nothing_open().await;
}

/// T-52 as well: the answer is dropped on its way, after its first byte.
async fn t52_b01_a_client_gone_during_the_answer_finds_it_later(which: Which) {
    let harness = Harness::start(which).await;
    let long: Vec<u8> = (0u32..60_000).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
    for _ in 0..RUNS {
        let (key, reference) = (fresh("key"), fresh("ref"));
        let script = Script { body: Some(long.clone()), ..Script::default() };
        harness.app.scripts.set(&reference, script);
        let order = Order::of(&key, &reference);
        let mut stream = narrow(harness.address).await;
        stream.write_all(&order.bytes()).await.unwrap();
        stream.read_u8().await.unwrap();
        drop(stream);
        let reply = order.send(harness.address).await.unwrap();
        assert_eq!((reply.status, reply.is_replay()), (201, true));
        assert_eq!(reply.body, long);
        assert_eq!(harness.effects(&reference).await, 1);
    }
    harness.assert_nothing_open().await;
}

/// B02 and T-55: half a thousand clients leave while their transaction begins, on a pool of two and a
/// slow network; then as many ordinary requests come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p13_t55_b02_clients_gone_in_the_begin_poison_no_connection() {
    const CLIENTS: usize = 500;
    let (harness, proxy) = Harness::behind_proxy(Pooled::of(2)).await;
    assert_eq!(
        Order::of(&fresh("key"), &fresh("ref")).send(harness.address).await.unwrap().status,
        201
    );
    proxy.delay(Duration::from_millis(3));
    for batch in 0..CLIENTS / 50 {
        let gone = (0..50).map(|n| {
            let order = Order::of(&fresh("key"), &fresh("ref"));
            async move {
                let mut stream = TcpStream::connect(harness.address).await.unwrap();
                stream.write_all(&order.bytes()).await.unwrap();
                // Spread over the time that a command takes here, from the first round trip on.
                let left = u64::try_from(n * 7 + batch).unwrap() % 40;
                tokio::time::sleep(Duration::from_millis(left)).await;
            }
        });
        join_all(gone).await;
    }
    harness.drain().await;
    proxy.delay(Duration::ZERO);
    let orders: Vec<(String, Order)> = (0..CLIENTS)
        .map(|_| {
            let reference = fresh("ref");
            (reference.clone(), Order::of(&fresh("key"), &reference))
        })
        .collect();
    for some in orders.chunks(50) {
        for reply in join_all(some.iter().map(|(_, order)| order.send(harness.address))).await {
            let reply = reply.unwrap();
            assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
        }
    }
    // Each is really committed: another connection sees it.
    for (reference, _) in &orders {
        assert_eq!(harness.effects(reference).await, 1);
    }
    until("nothing is idle in a transaction", || async {
        harness.backends("state like 'idle in transaction%'").await == 0
    })
    .await;
    harness.assert_nothing_open().await;
}
