//! The article's own commands, typed one by one with real curl and bash, at a smaller scale of time: the client waits
//! 0.4 s and even answers come 1.5 s late.

use crate::support::{lab, run};
use samekey_lab::Lab;
use std::time::{Duration, Instant};

/// The client's timeout, as curl takes it.
const MAX_TIME: &str = "0.4";
const LATE: &str = r#"{"late":{"every":2,"ms":1500}}"#;

/// What bash printed; `URL` stands for the API.
async fn bash(lab: &Lab, command: &str) -> (Option<i32>, String) {
    let command = command
        .replace("URL", &lab.url(""))
        .replace("--max-time 2", &format!("--max-time {MAX_TIME}"));
    let output = run("bash", &["-c", &command]).await;
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

async fn records(lab: &Lab) -> serde_json::Value {
    let (code, text) = bash(lab, "curl -s URL/payments").await;
    assert_eq!(code, Some(0), "this test needs curl on the PATH");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn health_then_reset_then_one_payment_that_answers_and_one_that_does_not() {
    let lab = lab(LATE).await;
    let (_, health) = bash(&lab, "curl -s -o /dev/null -w '%{http_code}' URL/health").await;
    assert_eq!(health, "200");
    let (_, reset) = bash(&lab, "curl -s -o /dev/null -w '%{http_code}' -X POST URL/reset").await;
    assert_eq!(reset, "200");
    let pay = r#"curl -s --max-time 2 -o /dev/null -w '%{http_code}' -X POST URL/payments -d '{"order_id":"ORD-1"}'"#;
    assert_eq!(bash(&lab, pay).await, (Some(0), "201".to_owned()));
    let (code, status) = bash(&lab, pay).await;
    assert_eq!((code, status.as_str()), (Some(28), "000"), "curl says: operation timed out");
    assert_eq!(records(&lab).await.as_array().unwrap().len(), 2, "and yet it is recorded");
}

#[tokio::test]
async fn the_late_answer_comes_late_and_is_the_true_one() {
    let lab = lab(LATE).await;
    bash(&lab, "curl -s -X POST URL/payments -d order_id=ORD-1").await;
    let began = Instant::now();
    let (code, answer) = bash(&lab, "curl -s -X POST URL/payments -d order_id=ORD-2").await;
    assert!(code == Some(0) && began.elapsed() >= Duration::from_millis(1500));
    assert!(answer.contains(r#""order_id":"ORD-2""#), "{answer}");
}

#[tokio::test]
async fn naive_without_a_key_pays_seven_times_for_four_orders() {
    let lab = lab(LATE).await;
    for order in ["ORD-1", "ORD-2", "ORD-3", "ORD-4"] {
        let pay =
            format!(r#"curl -s --max-time 2 -X POST URL/payments -d '{{"order_id":"{order}"}}'"#);
        bash(&lab, &format!("{pay} || {pay}")).await;
    }
    assert_eq!(records(&lab).await.as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn one_key_for_each_order_in_both_calls_pays_exactly_once() {
    let lab = lab(LATE).await;
    for order in ["ORD-1", "ORD-2", "ORD-3", "ORD-4"] {
        let pay = format!(
            r#"curl -s --max-time 2 -X POST URL/payments -H "Idempotency-Key: $K" -d '{{"order_id":"{order}"}}'"#
        );
        let (code, answer) = bash(&lab, &format!("K=key-of-{order}; {pay} || {pay}")).await;
        assert_eq!(code, Some(0));
        assert!(answer.contains(order), "{answer}");
    }
    assert_eq!(records(&lab).await.as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_new_key_for_each_attempt_pays_again() {
    let lab = lab(LATE).await;
    for order in ["ORD-1", "ORD-2", "ORD-3", "ORD-4"] {
        let pay = |attempt| {
            format!(
                r#"curl -s --max-time 2 -X POST URL/payments -H "Idempotency-Key: {order}-{attempt}" -d '{{"order_id":"{order}"}}'"#
            )
        };
        bash(&lab, &format!("{} || {}", pay(1), pay(2))).await;
    }
    assert_eq!(records(&lab).await.as_array().unwrap().len(), 7);
}
