//! The first write wins: what a retry gets, whatever it carries.

use super::client::{order, send};
use super::on_both;
use super::program::{Database, Which};

on_both!(
    same_key_and_two_amounts_are_one_order,
    another_organisation_uses_the_same_key_on_its_own,
    a_mended_order_may_come_under_its_key,
    t07_b88_without_a_key_nothing_is_ordered,
);

async fn same_key_and_two_amounts_are_one_order(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    let first = order(shop.address, "alpha-token", "k-1", r#"{"amount": 1200}"#).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert_eq!(first.json()["amount"], 1200);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(first.header("location"), Some(format!("/orders/{id}").as_str()));
    for body in [r#"{"amount": 9900}"#, r#"{"amount": 1200}"#, r#"{"amount": 1, "cart": "c"}"#] {
        let again = order(shop.address, "alpha-token", "k-1", body).await;
        assert_eq!((again.status, again.is_replay()), (200, true), "{body}");
        assert_eq!(again.body, first.body, "the same id and the original amount");
        assert_eq!(again.header("location"), first.header("location"));
    }
    let alpha = [("authorization", "Bearer alpha-token")];
    let read = send(shop.address, "GET", &format!("/orders/{id}"), &alpha, "").await;
    assert_eq!((read.status, read.json()["amount"].as_i64()), (200, Some(1200)));
}

async fn another_organisation_uses_the_same_key_on_its_own(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    let alpha = order(shop.address, "alpha-token", "k-1", r#"{"amount": 1200}"#).await;
    let beta = order(shop.address, "beta-token", "k-1", r#"{"amount": 700}"#).await;
    assert_eq!((beta.status, beta.is_replay()), (201, false));
    assert_eq!(beta.json()["amount"], 700);
    assert_ne!(beta.json()["id"], alpha.json()["id"]);
    let again = order(shop.address, "beta-token", "k-1", r#"{"amount": 700}"#).await;
    assert_eq!((again.status, &again.body), (200, &beta.body));
    // And neither reads the other's order.
    let path = format!("/orders/{}", alpha.json()["id"].as_str().unwrap());
    let peek =
        send(shop.address, "GET", &path, &[("authorization", "Bearer beta-token")], "").await;
    assert_eq!(peek.status, 404);
}

async fn a_mended_order_may_come_under_its_key(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    let wrong = order(shop.address, "alpha-token", "k-1", r#"{"amount": 0}"#).await;
    assert_eq!(wrong.status, 400);
    let mended = order(shop.address, "alpha-token", "k-1", r#"{"amount": 5}"#).await;
    assert_eq!((mended.status, mended.is_replay()), (201, false));
}

async fn t07_b88_without_a_key_nothing_is_ordered(which: Which) {
    let database = Database::fresh(which).await;
    let shop = database.serve(&[]);
    let alpha = [("authorization", "Bearer alpha-token")];
    let reply = send(shop.address, "POST", "/orders", &alpha, r#"{"amount": 5}"#).await;
    assert_eq!((reply.status, reply.json()["code"].as_str()), (400, Some("samekey.key-missing")));
}
