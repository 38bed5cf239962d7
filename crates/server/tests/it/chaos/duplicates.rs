//! Many requests with one key at two processes.

use crate::harness::Which;
use crate::harness::shop::{ORG, Shop, order_of};
use futures_util::future::join_all;
use samekey_sim::History;

/// T-43, and B98: two real processes, of which the second gives what the first has stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t43_b98_two_processes_make_one_order() {
    const DUPLICATES: usize = 200;
    let shop = Shop::fresh(Which::Postgres).await;
    let (_one, first) = shop.start(None);
    let (_other, second) = shop.start(None);
    let history = History::default();
    let order = order_of("one-key", 4_711);
    let sent = (0..DUPLICATES).map(|n| {
        let address = if n % 2 == 0 { first } else { second };
        order.send_recorded(address, &history, (ORG, "4711", "amount"))
    });
    let answers = join_all(sent).await;
    let mut placed = 0;
    for answer in &answers {
        let answer = answer.as_ref().expect("an answer");
        match answer.status {
            201 => placed += 1,
            200 => assert!(answer.is_replay),
            _ => assert_eq!(answer.code.as_deref(), Some("samekey.in-progress"), "{answer:?}"),
        }
    }
    assert_eq!(placed, 1, "exactly one is told that it placed the order");
    for address in [first, second] {
        let after = order.send_recorded(address, &history, (ORG, "4711", "amount")).await.unwrap();
        assert_eq!((after.status, after.is_replay), (200, true));
    }
    assert_eq!(shop.effects().await.len(), 1);
    assert_eq!(shop.violations(&history).await, []);
}

/// T-50 on the real program: the cart is the shop's own unique number, under whichever key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t50_b64_one_cart_is_one_order_under_two_keys() {
    for which in [Which::Sqlite, Which::Postgres] {
        let shop = Shop::fresh(which).await;
        let (_process, address) = shop.start(None);
        for round in 0..20 {
            let order = |key: &str| {
                let mut order = order_of(&format!("{key}-{round}"), 100);
                order.body = format!(r#"{{"amount":100,"cart":"cart-{round}"}}"#);
                order
            };
            let (one, other) = (order("one"), order("other"));
            let (a, b) = tokio::join!(one.send(address), other.send(address));
            let (a, b) = (a.unwrap(), b.unwrap());
            let mut statuses = [a.status, b.status];
            statuses.sort_unstable();
            assert_eq!(statuses, [201, 409], "{which:?}, round {round}");
            let (refused, refusal) = if a.status == 409 { (&one, &a) } else { (&other, &b) };
            assert_eq!(refusal.code(), None, "it is the shop's own refusal");
            let again = refused.send(address).await.unwrap();
            assert!(again.is_replay());
            again.assert_same(refusal);
        }
        assert_eq!(shop.effects().await.len(), 20);
    }
}
