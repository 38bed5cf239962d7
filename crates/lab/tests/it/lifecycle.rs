//! Authorise, capture, refund, void.

use crate::support::{get, lab, send};
use samekey_lab::Lab;

async fn post(lab: &Lab, path: &str, key: Option<&str>, body: &str) -> (u16, serde_json::Value) {
    let answer = send(lab, "POST", path, key, body).await;
    (answer.status(), answer.json())
}

#[tokio::test]
async fn an_authorisation_is_captured_in_parts_and_refunded_in_parts() {
    let lab = lab("{}").await;
    let (status, made) =
        post(&lab, "/payments", None, r#"{"order_id":"O","amount":"30.00","capture":false}"#).await;
    assert_eq!((status, made["effect"].as_str()), (201, Some("authorisation")));
    assert_eq!(get(&lab, "/payments/PAY-1").await.json()["status"], "authorised");
    assert_eq!(post(&lab, "/payments/PAY-1/refund", None, "").await.0, 409);
    assert_eq!(post(&lab, "/payments/PAY-1/capture", None, r#"{"amount":"20.00"}"#).await.0, 201);
    assert_eq!(post(&lab, "/payments/PAY-1/capture", None, r#"{"amount":"10.01"}"#).await.0, 422);
    assert_eq!(post(&lab, "/payments/PAY-1/void", None, "").await.0, 409);
    let (status, rest) = post(&lab, "/payments/PAY-1/capture", None, "").await;
    assert_eq!((status, rest["amount"].as_u64()), (201, Some(10)));
    assert_eq!(post(&lab, "/payments/PAY-1/capture", None, "").await.0, 422);
    assert_eq!(post(&lab, "/payments/PAY-1/refund", None, r#"{"amount":30.01}"#).await.0, 422);
    assert_eq!(post(&lab, "/payments/PAY-1/refund", None, "").await.1["amount"], 30);
    assert_eq!(get(&lab, "/payments/PAY-1").await.json()["status"], "refunded");
    assert_eq!(lab.payments().unwrap().len(), 1);
    let kinds: Vec<_> = lab.ledger().unwrap().iter().map(|effect| effect.effect.word()).collect();
    assert_eq!(kinds, ["authorisation", "capture", "capture", "refund"]);
}

#[tokio::test]
async fn an_authorisation_is_voided_once() {
    let lab = lab("{}").await;
    post(&lab, "/payments", None, r#"{"order_id":"O","amount":5,"capture":false}"#).await;
    assert_eq!(post(&lab, "/payments/PAY-1/void", Some("V"), "").await.0, 201);
    assert_eq!(
        post(&lab, "/payments/PAY-1/void", Some("V"), "").await.0,
        201,
        "the same key is a replay"
    );
    assert_eq!(post(&lab, "/payments/PAY-1/void", None, "").await.0, 409);
    assert_eq!(post(&lab, "/payments/PAY-1/capture", None, "").await.0, 409);
    assert_eq!(lab.counts().effects, 2);
}

#[tokio::test]
async fn b46_a_refund_retried_with_its_key_is_one_refund_and_a_second_wanted_one_is_another() {
    let lab = lab(r#"{"rules":[{"when":{"op":["refund"],"number":[1]},"wire":"close"}]}"#).await;
    post(&lab, "/payments", None, r#"{"order_id":"O","amount":30}"#).await;
    let body = r#"{"amount":10}"#;
    assert!(send(&lab, "POST", "/payments/PAY-1/refund", Some("R1"), body).await.bytes.is_empty());
    assert!(send(&lab, "POST", "/payments/PAY-1/refund", Some("R1"), body).await.replayed());
    assert_eq!(post(&lab, "/payments/PAY-1/refund", Some("R2"), body).await.0, 201);
    let refunded = get(&lab, "/payments/PAY-1").await.json();
    assert_eq!(
        (refunded["refunded"].as_u64(), refunded["status"].as_str()),
        (Some(20), Some("partly_refunded"))
    );
}

#[tokio::test]
async fn a_payment_without_an_amount_is_refunded_as_a_whole_and_once() {
    let lab = lab("{}").await;
    post(&lab, "/payments", None, r#"{"order_id":"O"}"#).await;
    assert_eq!(post(&lab, "/payments/PAY-1/refund", None, r#"{"amount":1}"#).await.0, 422);
    assert_eq!(post(&lab, "/payments/PAY-1/refund", None, "").await.0, 201);
    assert_eq!(post(&lab, "/payments/PAY-1/refund", None, "").await.0, 409);
}
