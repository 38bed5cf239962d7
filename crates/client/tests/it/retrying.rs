//! The client that retries without a database.

use crate::support::{Act, DAY, PATIENCE, Peer, QUICK, class, lab, retrying};
use samekey_client::Kind;
use samekey_client::retrying::{End, RetryingClient, RetryingOptions};
use samekey_client::transport::Phase;
use samekey_core::backoff::Backoff;
use samekey_core::delivery::Reason;
use samekey_core::profile::Limits;
use samekey_lab::Lab;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

fn keys(lab: &Lab) -> Vec<String> {
    let seen = lab.requests().unwrap();
    seen.iter().map(|seen| seen.arrived.key.clone().unwrap_or_default()).collect()
}

async fn pay(client: &RetryingClient, lab: &Lab, order: &str) -> samekey_client::retrying::Called {
    let body = format!(r#"{{"order_id":"{order}","amount":1200}}"#);
    let request = client.post(&lab.url("/payments")).body(body).build().unwrap();
    timeout(PATIENCE, client.execute(request)).await.unwrap().unwrap()
}

#[tokio::test]
async fn b34_one_key_and_equal_bytes_through_every_attempt() {
    let plan = r#"{"rules":[
        {"when":{"number":[1]},"process":"never","answer":{"status":429}},
        {"when":{"number":[2]},"answer":{"status":503}},
        {"when":{"number":[3]},"wire":"close"}]}"#;
    let lab = lab(plan).await;
    let called = pay(&retrying(QUICK, DAY), &lab, "ORD-1").await;
    assert!(matches!(called.end, End::Succeeded(_)), "{called}");
    let seen: Vec<String> = called.attempts.iter().map(|one| class(&one.told.what)).collect();
    assert_eq!(seen, ["rate limited", "unknown: server-error", "unknown: connection-lost", "done"]);
    let requests = lab.requests().unwrap();
    let hashes: BTreeSet<String> =
        requests.iter().map(|seen| seen.arrived.body_sha256.to_string()).collect();
    assert_eq!((requests.len(), hashes.len()), (4, 1));
    assert!(keys(&lab).iter().all(|key| key == called.key.as_str()));
    assert_eq!(lab.counts().payments, 1);
}

#[tokio::test]
async fn p68_b07_after_an_unknown_outcome_an_opaque_counterparty_gets_no_second_request() {
    for wire in ["hang", "close", "reset"] {
        let lab = lab(&format!(r#"{{"rules":[{{"wire":"{wire}"}}]}}"#)).await;
        let called = pay(&retrying(QUICK, None), &lab, "ORD-1").await;
        let reason = if wire == "hang" { Reason::TimedOut } else { Reason::ConnectionLost };
        assert_eq!(called.end, End::Unknown(reason), "{called}");
        assert_eq!((lab.requests().unwrap().len(), lab.counts().payments), (1, 1), "{wire}");
        assert_eq!(called.attempts[0].phase, Some(Phase::Head));
        assert!(called.to_string().contains("in head"), "{called}");
    }
}

#[tokio::test]
async fn b07_what_was_not_sent_is_tried_again_and_fails_as_not_run() {
    let lab = lab(r#"{"connections":{"mode":"refuse"}}"#).await;
    let refused = lab.until(PATIENCE, |lab| lab.door() == samekey_lab::faults::Door::Refuse).await;
    assert!(refused);
    // The door shuts a moment after the plan says so.
    let client = retrying(QUICK, None);
    let mut called = pay(&client, &lab, "ORD-1").await;
    for _ in 0..50 {
        if called.end == End::Failed(Reason::AttemptsUsedUp) {
            break;
        }
        called = pay(&client, &lab, "ORD-1").await;
    }
    assert_eq!(called.end, End::Failed(Reason::AttemptsUsedUp), "{called}");
    assert_eq!(called.attempts.len(), 5);
    assert_eq!(called.attempts[0].phase, Some(Phase::Connect));
    assert!(called.to_string().contains("not-connected in connect"), "{called}");
}

#[tokio::test]
async fn b22_nobody_comes_back_before_retry_after_and_not_all_at_once() {
    const CLIENTS: usize = 60;
    const ASKED_MS: i64 = 1_000;
    let plan = r#"{"rules":[{"when":{"attempt":[1]},"process":"never","answer":{"status":429,"retry_after":"1"}}]}"#;
    let lab = std::sync::Arc::new(lab(plan).await);
    let limits =
        Limits { attempt_time_max: Duration::from_secs(3), lease: Duration::from_secs(4), ..QUICK };
    let client = retrying(limits, None);
    let mut calls = JoinSet::new();
    for number in 0..CLIENTS {
        let (client, lab) = (client.clone(), std::sync::Arc::clone(&lab));
        calls.spawn(async move {
            let called = pay(&client, &lab, &format!("ORD-{number}")).await;
            assert!(matches!(called.end, End::Succeeded(_)), "{called}");
        });
    }
    while let Some(joined) = calls.join_next().await {
        joined.unwrap();
    }
    let mut arrivals: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for seen in lab.requests().unwrap() {
        arrivals.entry(seen.arrived.key.unwrap()).or_default().push(seen.arrived.at_ms);
    }
    let gaps: Vec<i64> = arrivals.values().map(|at| at[1] - at[0]).collect();
    assert_eq!(gaps.len(), CLIENTS);
    let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
    // Both moments are cut to whole milliseconds.
    assert!(*least >= ASKED_MS - 1, "{gaps:?}");
    assert!(most - least > 100, "they come back spread: {gaps:?}");
}

#[tokio::test]
async fn b38_a_large_body_is_sent_again_as_it_was_and_a_stream_is_refused() {
    let lab = lab(r#"{"rules":[{"when":{"number":[1]},"answer":{"status":503}}]}"#).await;
    let limits =
        Limits { attempt_time_max: Duration::from_secs(3), lease: Duration::from_secs(4), ..QUICK };
    let client = retrying(limits, DAY);
    let body = format!(r#"{{"order_id":"ORD-1","pad":"{}"}}"#, "a".repeat(5 << 20));
    let request = client.post(&lab.url("/payments")).body(body).build().unwrap();
    let called = client.execute(request).await.unwrap();
    assert!(matches!(called.end, End::Succeeded(_)), "{called}");
    let requests = lab.requests().unwrap();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].arrived.body_sha256, requests[1].arrived.body_sha256);
    assert!(requests[0].arrived.body_bytes > 5 << 20);

    let pieces = futures_util::stream::iter([Ok::<_, std::io::Error>("{}".to_owned())]);
    let stream = reqwest::Body::wrap_stream(pieces);
    let request = client.post(&lab.url("/payments")).body(stream).build().unwrap();
    let refused = client.execute(request).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::NotReplayable);
    assert!(refused.to_string().contains("could not be sent a second time"), "{refused}");
    assert_eq!(lab.requests().unwrap().len(), 2, "nothing was sent");
}

#[tokio::test]
async fn b74_the_deadline_cuts_attempts_and_waits() {
    let deadline = Duration::from_secs(1);
    let slow = Limits {
        attempt_time_max: Duration::from_secs(3),
        time_max: Duration::from_secs(20),
        lease: Duration::from_secs(4),
        ..QUICK
    };
    let call = async |lab: &Lab, limits: Limits, key_life| {
        let client = retrying(limits, key_life);
        let request = client.post(&lab.url("/payments")).body(r#"{"order_id":"ORD-1"}"#);
        let began = Instant::now();
        let called = client.execute_within(request.build().unwrap(), deadline).await.unwrap();
        (called, began.elapsed())
    };

    // An attempt that hangs gets what is left.
    let hanging = lab(r#"{"rules":[{"wire":"hang"}]}"#).await;
    let (called, took) = call(&hanging, slow, DAY).await;
    assert_eq!(called.end, End::Unknown(Reason::TimeOver), "{called}");
    assert!(took.abs_diff(deadline) < Duration::from_millis(300), "{took:?}");
    let left = called.attempts[0].time_max;
    assert!(deadline.abs_diff(left) < Duration::from_millis(100), "{called}");

    // A wait beyond it is not waited.
    let patient = r#"{"rules":[{"process":"never","answer":{"status":429,"retry_after":"60"}}]}"#;
    let (called, took) = call(&lab(patient).await, slow, None).await;
    assert_eq!(called.end, End::Failed(Reason::TimeOver), "{called}");
    assert!(took < Duration::from_millis(500), "{took:?}");

    // Nor is the last of several.
    let busy = lab(r#"{"rules":[{"process":"never","answer":{"status":429}}]}"#).await;
    let wait = Duration::from_millis(800);
    let limits = Limits { backoff: Backoff { base: wait, cap: wait }, ..slow };
    let (called, took) = call(&busy, limits, None).await;
    assert_eq!(called.end, End::Failed(Reason::TimeOver), "{called}");
    assert!(took <= deadline, "{took:?}");
}

#[tokio::test]
async fn b82_a_key_belongs_to_one_call() {
    let lab = std::sync::Arc::new(lab("{}").await);
    let client = retrying(
        Limits { attempt_time_max: Duration::from_secs(3), lease: Duration::from_secs(4), ..QUICK },
        DAY,
    );
    let mut calls = JoinSet::new();
    for number in 0..1_000 {
        let (client, lab) = (client.clone(), std::sync::Arc::clone(&lab));
        calls.spawn(async move {
            let body = format!(r#"{{"order_id":"ORD-{number}"}}"#);
            let mut request = client.post(&lab.url("/payments")).body(body);
            if number % 3 == 0 {
                request = request.header("idempotency-key", format!("given-{number}"));
            }
            let called = client.execute(request.build().unwrap()).await.unwrap();
            assert!(matches!(called.end, End::Succeeded(_)), "{called}");
            (number, called.key.as_str().to_owned())
        });
        // Some at a time: each has a connection.
        if calls.len() >= 50 {
            calls.join_next().await.unwrap().unwrap();
        }
    }
    while let Some(joined) = calls.join_next().await {
        let (number, key) = joined.unwrap();
        assert_eq!(key.starts_with("given-"), number % 3 == 0);
    }
    let mut orders_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for seen in lab.requests().unwrap() {
        let (key, order) = (seen.arrived.key.unwrap(), seen.arrived.order_id.unwrap());
        if let Some(number) = key.strip_prefix("given-") {
            assert_eq!(order, format!("ORD-{number}"));
        }
        orders_of.entry(key).or_default().insert(order);
    }
    assert_eq!(orders_of.len(), 1_000, "as many keys as calls");
    assert!(orders_of.values().all(|orders| orders.len() == 1));
    assert_eq!(lab.counts().payments, 1_000);
}

#[tokio::test]
async fn b23_a_key_that_is_none_is_refused_before_anything_is_sent() {
    let client = retrying(QUICK, None);
    for key in ["", "a,b", "\"open", "ö"] {
        let request = client.post("http://127.0.0.1:9/payments").header("idempotency-key", key);
        let refused = client.execute(request.build().unwrap()).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Request, "{key:?}: {refused}");
    }
}

#[test]
fn a_time_that_outlives_the_counterpartys_memory_is_refused() {
    let key_life = Some(Duration::from_secs(20));
    let refused = RetryingClient::new(RetryingOptions { key_life, ..RetryingOptions::default() });
    assert!(refused.err().unwrap().to_string().contains("remembers a key"));
}

/// The lost body of a success is fetched by the same key where that is safe, and is a fact where it is not.
#[tokio::test]
async fn a_success_without_its_body_is_a_success() {
    let plan = r#"{"rules":[{"when":{"number":[1]},"wire":{"cut":{"after_bytes":120}}}]}"#;
    for (key_life, sends) in [(DAY, 2), (None, 1)] {
        let lab = lab(plan).await;
        let called = pay(&retrying(QUICK, key_life), &lab, "ORD-1").await;
        assert!(matches!(called.end, End::Succeeded(_)), "{called}");
        assert_eq!(class(&called.attempts[0].told.what), "done, body lost");
        assert_eq!((called.attempts.len(), lab.counts().payments), (sends, 1), "{called}");
    }
}

/// The article's API, a hundred times faster: every second payment is processed and answered late.
#[tokio::test]
async fn the_article_100_orders_are_100_payments() {
    const ORDERS: u64 = 100;
    let lab = lab(r#"{"late":{"every":2,"ms":600}}"#).await;
    let limits = Limits { attempt_time_max: Duration::from_millis(60), attempts_max: 20, ..QUICK };
    let client = retrying(limits, DAY);
    for number in 1..=ORDERS {
        let called = pay(&client, &lab, &format!("ORD-{number}")).await;
        assert!(matches!(called.end, End::Succeeded(_)), "{number}: {called}");
    }
    assert_eq!(lab.counts().payments, ORDERS);
    let orders: BTreeSet<String> =
        lab.payments().unwrap().into_iter().map(|effect| effect.order_id).collect();
    assert_eq!(orders.len(), usize::try_from(ORDERS).unwrap());
    assert!(lab.requests().unwrap().len() > 150, "answers were late");
}

/// A peer that redirects commands would have them executed elsewhere, or twice.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Peer::new(|_| Act::say("HTTP/1.1 201 Created\ncontent-length: 0\n\n")).await;
    for status in [301, 302, 303, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {status} Moved\nlocation: {}\ncontent-length: 0\n\n",
            elsewhere.url("/payments")
        );
        let peer = Peer::new(move |_| Act::say(&answer)).await;
        let client = retrying(QUICK, None);
        let request = client.post(&peer.url("/payments")).body("{}").build().unwrap();
        let called = client.execute(request).await.unwrap();
        assert_eq!(called.end, End::Unknown(Reason::AnswerUnclear), "{called}");
    }
    assert!(elsewhere.requests().is_empty());
}

/// An expired credential does not get better while somebody waits.
#[tokio::test]
async fn a_credential_that_is_not_accepted_ends_the_call_at_once() {
    let plan = r#"{"rules":[{"process":"never","answer":{"status":401}}]}"#;
    let lab_of = lab(plan).await;
    let called = pay(&retrying(QUICK, None), &lab_of, "ORD-1").await;
    assert_eq!(called.end, End::Failed(Reason::NotAccepted), "{called}");
    assert_eq!(lab_of.requests().unwrap().len(), 1);

    let plan = r#"{"rules":[{"when":{"number":[1]},"answer":{"status":504}},{"process":"never","answer":{"status":401}}]}"#;
    let doubtful = lab(plan).await;
    let called = pay(&retrying(QUICK, DAY), &doubtful, "ORD-1").await;
    assert_eq!(called.end, End::Unknown(Reason::NotAccepted), "{called}");
    assert_eq!(called.doubt, Some(Reason::ServerError));
    assert_eq!(doubtful.requests().unwrap().len(), 2);
}
