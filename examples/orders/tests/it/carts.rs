//! A key does not replace a business rule: a cart is ordered once, under whichever key.

use super::client::order;
use super::on_both;
use super::program::{Database, Which};
use std::time::Duration;

/// Pairs of orders that race for one cart.
const ROUNDS: u32 = 30;

on_both!(b64_a_cart_is_sold_once_under_two_keys, b64_two_processes_race_for_a_cart);

async fn b64_a_cart_is_sold_once_under_two_keys(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    let body = r#"{"amount": 1200, "cart": "c-1"}"#;
    assert_eq!(order(shop.address, "alpha-token", "k-1", body).await.status, 201);
    let second = order(shop.address, "alpha-token", "k-2", body).await;
    assert_eq!(second.status, 409);
    assert!(second.detail().contains("ordered already"), "{}", second.detail());
    // The refusal is final for its key; the order stands for its own; another org has its own carts.
    let again = order(shop.address, "alpha-token", "k-2", body).await;
    assert_eq!((again.status, again.is_replay(), &again.body), (409, true, &second.body));
    assert_eq!(order(shop.address, "alpha-token", "k-1", body).await.status, 200);
    assert_eq!(order(shop.address, "beta-token", "k-2", body).await.status, 201);
}

async fn b64_two_processes_race_for_a_cart(which: Which) {
    let database = Database::fresh(which).await;
    let (one, other) = (database.serve(&[]), database.serve(&[]));
    for round in 0..ROUNDS {
        let body = format!(r#"{{"amount": 1200, "cart": "c-{round}"}}"#);
        let (first, second) = (format!("k1-{round}"), format!("k2-{round}"));
        // 0 to 50 ms apart, as two browsers are.
        let apart = Duration::from_millis(u64::from(round * 50 / ROUNDS));
        let (a, b) = tokio::join!(order(one.address, "alpha-token", &first, &body), async {
            tokio::time::sleep(apart).await;
            order(other.address, "alpha-token", &second, &body).await
        });
        let mut statuses = [a.status, b.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "round {round}: {a:?} {b:?}");
        // Each key keeps its own answer, at the other process too.
        for (reply, key, shop) in [(&a, &first, &other), (&b, &second, &one)] {
            let again = order(shop.address, "alpha-token", key, &body).await;
            let expected = if reply.status == 201 { 200 } else { 409 };
            assert_eq!(
                (again.status, again.is_replay(), &again.body),
                (expected, true, &reply.body)
            );
        }
    }
}
