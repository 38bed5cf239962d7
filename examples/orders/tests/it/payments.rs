//! The strict contract of `POST /payments`, with a provider that works.

use super::client::{code, pay, send};
use super::on_both;
use super::program::{Database, Which, orders};
use super::provider::{lab, posts};
use samekey_sim::process::END_BOUND;
use std::time::Duration;

on_both!(
    p05_t61_a_payment_is_made_once_and_its_answer_kept,
    p04_another_amount_is_refused_and_changes_nothing,
    p07_while_it_is_being_paid_a_second_one_waits,
    b62_who_is_asked_to_stop_in_a_call_ends_it_first,
    p40_the_provider_knows_each_command_by_one_key_of_its_own,
    a_wrong_payment_gets_one_sentence_and_claims_nothing,
);

const BODY: &str = r#"{"order_id": "ORD-1", "amount": 1200}"#;

async fn p05_t61_a_payment_is_made_once_and_its_answer_kept(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab("{}").await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    let first = pay(shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((first.status, first.is_replay()), (201, false), "{first:?}");
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let paid = serde_json::json!({"id": id, "order_id": "ORD-1", "amount": 1200});
    assert_eq!(first.json(), paid, "the service's own document, and nothing else");
    let path = format!("/payments/{id}");
    assert_eq!(first.header("location"), Some(path.as_str()));
    for _ in 0..3 {
        let again = pay(shop.address, "alpha-token", "k-1", BODY).await;
        assert_eq!((again.status, again.is_replay(), &again.body), (201, true, &first.body));
        assert_eq!(again.header("location"), first.header("location"));
    }
    assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1));
    // It can be read again, by its organisation.
    let read =
        send(shop.address, "GET", &path, &[("authorization", "Bearer alpha-token")], "").await;
    assert_eq!((read.status, read.json()), (200, paid));
    let peek =
        send(shop.address, "GET", &path, &[("authorization", "Bearer beta-token")], "").await;
    assert_eq!(peek.status, 404);
}

async fn p04_another_amount_is_refused_and_changes_nothing(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab("{}").await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    let first = pay(shop.address, "alpha-token", "k-1", BODY).await;
    for body in
        [r#"{"order_id": "ORD-1", "amount": 1300}"#, r#"{"order_id": "ORD-2", "amount": 1200}"#]
    {
        let other = pay(shop.address, "alpha-token", "k-1", body).await;
        assert_eq!((other.status, code(&other).as_str()), (422, "samekey.key-reused"));
        assert!(!other.body.contains("PAY-"), "{}", other.body);
    }
    let again = pay(shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((again.status, again.is_replay(), &again.body), (201, true, &first.body));
    assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1));
}

async fn p07_while_it_is_being_paid_a_second_one_waits(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"rules": [{"answer": {"held": true}}]}"#).await;
    // The call is held until it is let go, so its time is no part of this test.
    let limits = ["--payment-lease-ms", "100000", "--call-timeout-ms", "90000"];
    let shop = database.serve(&[&["--provider", &lab.url("")], &limits[..]].concat());
    let address = shop.address;
    let first = tokio::spawn(async move { pay(address, "alpha-token", "k-1", BODY).await });
    assert!(lab.until(Duration::from_secs(60), |lab| lab.counts().payments == 1).await);
    let second = pay(address, "alpha-token", "k-1", BODY).await;
    assert_eq!((second.status, code(&second).as_str()), (409, "samekey.in-progress"));
    let wait: u32 = second.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    // Other content is refused all the same, and another key is not kept waiting by this one.
    let other = pay(address, "alpha-token", "k-1", r#"{"order_id": "ORD-1", "amount": 1}"#).await;
    assert_eq!(other.status, 422);
    lab.release();
    let first = first.await.unwrap();
    assert_eq!((first.status, first.is_replay()), (201, false));
    let third = pay(address, "alpha-token", "k-1", BODY).await;
    assert_eq!((third.status, third.is_replay(), &third.body), (201, true, &first.body));
    assert_eq!(posts(&lab).len(), 1);
}

async fn p40_the_provider_knows_each_command_by_one_key_of_its_own(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab("{}").await;
    let shop =
        database.serve(&["--provider", &lab.url(""), "--provider-token", "OURS-AT-THE-PROVIDER"]);
    for token in ["alpha-token", "beta-token"] {
        assert_eq!(pay(shop.address, token, "k-1", BODY).await.status, 201);
    }
    let posts = posts(&lab);
    let keys: Vec<&str> = posts.iter().map(|post| post.arrived.key.as_deref().unwrap()).collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "two organisations met at the provider");
    for (key, post) in keys.iter().zip(&posts) {
        assert!(uuid::Uuid::try_parse(key).is_ok() && !key.contains("k-1"), "{key}");
        // The credential is the service's own, and nothing of the caller's goes along.
        assert!(post.header("authorization").unwrap().starts_with("sha256:"));
        let names: Vec<&str> = post.headers().iter().map(|(name, _)| *name).collect();
        assert!(!names.contains(&"cookie") && !names.contains(&"user-agent"), "{names:?}");
    }
    assert_eq!(posts[0].header("authorization"), posts[1].header("authorization"));
}

/// Asked to stop in the middle of a call, the service brings it to its end and stores the answer.
async fn b62_who_is_asked_to_stop_in_a_call_ends_it_first(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"rules": [{"answer": {"held": true}}]}"#).await;
    let limits = ["--payment-lease-ms", "100000", "--call-timeout-ms", "90000"];
    let shop = database.serve(&[&["--provider", &lab.url("")], &limits[..]].concat());
    let stopping = async {
        assert!(lab.until(Duration::from_secs(60), |lab| lab.counts().payments == 1).await);
        shop.process.terminate().unwrap();
        // What is recorded is held a moment later, and a release lets go of what is held by then.
        loop {
            lab.release();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let first = tokio::select! {
        first = pay(shop.address, "alpha-token", "k-1", BODY) => first,
        () = stopping => unreachable!("it stops with the answer"),
    };
    assert_eq!((first.status, first.is_replay()), (201, false), "{first:?}");
    let ended = tokio::task::block_in_place(|| shop.process.wait(END_BOUND)).unwrap();
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""));
    let shop = database.serve(&["--provider", &lab.url("")]);
    let again = pay(shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((again.status, again.is_replay(), &again.body), (201, true, &first.body));
    assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1));
}

async fn a_wrong_payment_gets_one_sentence_and_claims_nothing(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab("{}").await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    for (body, part) in [
        ("", "cannot be read as a payment"),
        ("[1200]", "cannot be read as a payment"),
        (r#"["ORD-1", 1200]"#, "it is a list"),
        (r#"{"amount": 1200}"#, "missing field `order_id`"),
        (r#"{"order_id": "ORD-1"}"#, "missing field `amount`"),
        (r#"{"order_id": "ORD-1", "amount": 12.5}"#, "expected i64"),
        (r#"{"order_id": "ORD-1", "amount": 0}"#, "the amount is 0; expected 1 to"),
        (r#"{"order_id": " ", "amount": 1}"#, "the order_id is empty"),
        (r#"{"order_id": "a\u0000b", "amount": 1}"#, "control character"),
        (r#"{"order_id": "ORD-1", "amount": 1, "currency": "EUR"}"#, "unknown field `currency`"),
    ] {
        let reply = pay(shop.address, "alpha-token", "k-1", body).await;
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.detail().contains(part), "{body}: {}", reply.detail());
    }
    assert_eq!(pay(shop.address, "gamma-token", "k-1", BODY).await.status, 401);
    assert_eq!(pay(shop.address, "alpha-token", "k-1", BODY).await.status, 201);
    assert_eq!(posts(&lab).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_keep_the_promise_does_not_start() {
    let database = Database::fresh(Which::Sqlite).await;
    for (arguments, part) in [
        (&["--payment-lease-ms", "5000", "--call-timeout-ms", "5000"][..], "not longer than"),
        (&["--payment-time-max-ms", "5000", "--call-timeout-ms", "5000"], "when its time is over"),
        (&["--payment-time-max-ms", "20000"], "policy `run_max`"),
        (&["--call-timeout-ms", "0"], "expected at least 1"),
        (
            &["--payment-lease-ms", "99", "--call-timeout-ms", "50"],
            "--payment-lease-ms is 99; expected",
        ),
        (&["--not-found-after-ms", "1"], "policy `not_found_after`"),
        (&["--counterparty", "opaque", "--not-found-after-ms", "99999"], "leave it out"),
        (&["--counterparty", "psychic"], "answers, dedups, opaque"),
        (&["--provider", "127.0.0.1:8021"], "expected an address such as"),
        (&["--provider", "https://pay.test"], "plain HTTP"),
        (&["--provider", "http://me:SECRET@pay.test"], "--provider-token"),
        (&["--provider-token", "a b"], "visible ASCII"),
    ] {
        let ended = orders()
            .args(["--listen", "127.0.0.1:0", "--database", &database.address()])
            .args(arguments)
            .run(END_BOUND)
            .unwrap();
        assert_eq!(ended.code(), Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
}
