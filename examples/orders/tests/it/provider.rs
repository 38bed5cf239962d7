//! A provider that refuses, loses answers, fails, redirects and lies.

use super::client::{code, pay, pay_until_final};
use super::on_both;
use super::program::{Database, Which};
use samekey_lab::faults::Plan;
use samekey_lab::payments::Op;
use samekey_lab::{Lab, Options, Request};
use std::time::Duration;
use tokio::net::TcpListener;

on_both!(
    p37_t65_a_provider_that_was_not_reached_leaves_the_key_free,
    p39_t61_b04_b25_a_killed_payment_is_asked_about_and_not_made_again,
    p38_t64_a_failure_after_the_payment_is_unknown_until_it_was_asked,
    t61_a_late_answer_is_found,
    t68_a_redirect_is_not_followed,
    p36_t67_one_claim_sends_one_request,
    p41_another_amount_at_the_provider_is_for_a_person,
    credentials_that_are_refused_are_ours_and_free_the_key,
    a_declined_payment_stays_declined,
    b04_b25_where_sending_again_is_the_question_it_is_sent_again,
);

const BODY: &str = r#"{"order_id": "ORD-1", "amount": 1200}"#;
/// A provider that loses answers is waited for no longer than this; all times of these tests go down
/// together.
const FAST: [&str; 4] = ["--call-timeout-ms", "300", "--payment-lease-ms", "1000"];
const SEEN_BY: Duration = Duration::from_secs(60);

/// A provider with this fault plan.
pub async fn lab(plan: &str) -> Lab {
    let plan = Plan::from_json("the plan", plan.as_bytes()).unwrap();
    Lab::start(Options { plan, ..Options::default() }).await.unwrap()
}

fn force(lab: &Lab, plan: &str) {
    lab.set_plan(Plan::from_json("the plan", plan.as_bytes()).unwrap()).unwrap();
}

/// The payments that were sent to it, whatever became of them.
pub fn posts(lab: &Lab) -> Vec<Request> {
    let requests = lab.requests().unwrap();
    requests.into_iter().filter(|request| request.arrived.op == Op::Pay).collect()
}

async fn p37_t65_a_provider_that_was_not_reached_leaves_the_key_free(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"connections": {"mode": "refuse"}}"#).await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    for _ in 0..3 {
        let refused = pay(shop.address, "alpha-token", "k-1", BODY).await;
        assert_eq!((refused.status, code(&refused).as_str()), (502, "samekey.upstream-unreached"));
        assert!(refused.header("retry-after").is_some() && !refused.is_replay());
        assert!(!refused.body.contains("127.0.0.1"), "{}", refused.body);
    }
    force(&lab, "{}");
    let (paid, _) = pay_until_final(|| shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((paid.status, paid.is_replay()), (201, false), "{paid:?}");
    assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1));
}

async fn p39_t61_b04_b25_a_killed_payment_is_asked_about_and_not_made_again(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"rules": [{"answer": {"held": true}}]}"#).await;
    let limits = ["--call-timeout-ms", "2000", "--payment-lease-ms", "2500"];
    let serve = || database.serve(&[&["--provider", &lab.url("")], &limits[..]].concat());
    let shop = serve();
    let address = shop.address;
    let first = tokio::spawn(super::client::try_pay(address, "alpha-token", "k-1", BODY));
    // Executed, and not yet recorded here: that is where it dies.
    assert!(lab.until(SEEN_BY, |lab| lab.counts().payments == 1).await);
    shop.process.kill().unwrap();
    assert!(first.await.unwrap().is_none(), "an answer left before it was stored");
    let shop = serve();
    let (reply, codes) = pay_until_final(|| shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
    assert_eq!(reply.json()["amount"], 1200);
    assert!(codes.iter().any(|code| code == "samekey.in-progress"), "{codes:?}");
    assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1), "it was sent again");
    // Its document can be read, though no handler lived to write it.
    let path = reply.header("location").unwrap().to_owned();
    let alpha = [("authorization", "Bearer alpha-token")];
    assert_eq!(super::client::send(shop.address, "GET", &path, &alpha, "").await.status, 200);
}

async fn p38_t64_a_failure_after_the_payment_is_unknown_until_it_was_asked(which: Which) {
    let database = Database::fresh(which).await;
    // Status queries are held up, so that the first answers are seen before recovery is told.
    let lab = lab(r#"{"rules": [
        {"answer": {"status": 500, "body": {"text": "SECRET-OF-THE-PROVIDER"}}},
        {"when": {"op": ["query"]}, "times": 1, "answer": {"query": "pending"}}
    ]}"#)
    .await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    let first = pay(shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((first.status, code(&first).as_str()), (409, "samekey.outcome-pending"));
    assert!(!first.body.contains("SECRET") && first.header("retry-after").is_some());
    let (reply, _) = pay_until_final(|| shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
    assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1));
}

async fn t61_a_late_answer_is_found(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"late": {"every": 1, "ms": 20000}}"#).await;
    let shop = database.serve(&[&["--provider", &lab.url("")], &FAST[..]].concat());
    let first = pay(shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((first.status, code(&first).as_str()), (409, "samekey.outcome-pending"));
    let (reply, _) = pay_until_final(|| shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((reply.status, reply.is_replay()), (201, true));
    assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1));
}

async fn t68_a_redirect_is_not_followed(which: Which) {
    let database = Database::fresh(which).await;
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = elsewhere.local_addr().unwrap();
    let plan = |op: &str, status: u16| {
        format!(
            r#"{{"when": {{"op": ["{op}"]}}, "process": "never",
                 "answer": {{"status": {status}, "location": "http://{target}/payments"}}}}"#
        )
    };
    for status in [301, 302, 303, 307, 308] {
        let lab = lab(&format!(r#"{{"rules": [{}]}}"#, plan("pay", status))).await;
        let arguments = ["--provider", &lab.url(""), "--provider-token", "OURS"];
        let shop = database.serve(&arguments);
        let key = format!("k-{status}");
        let first = pay(shop.address, "alpha-token", &key, BODY).await;
        assert_eq!((first.status, code(&first).as_str()), (409, "samekey.outcome-pending"));
        assert!(first.header("location").is_none());
        // Nothing is found, and that proves nothing where nobody declared for how long it does not.
        let (reply, _) = pay_until_final(|| shop.address, "alpha-token", &key, BODY).await;
        assert_eq!((reply.status, code(&reply).as_str()), (409, "samekey.outcome-unknown"));
        assert_eq!(posts(&lab).len(), 1);
    }
    // All is over, and nobody came to the other address.
    let came = futures_util::future::poll_immediate(elsewhere.accept()).await;
    assert!(came.is_none(), "a redirect was followed");
}

async fn p36_t67_one_claim_sends_one_request(which: Which) {
    const PAYMENTS: u64 = 200;
    let database = Database::fresh(which).await;
    // Whatever comes on a connection that carried an answer before is reset as it is written.
    let lab = lab(r#"{"rules": [{"wire": "kill_idle"}]}"#).await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    for number in 0..PAYMENTS {
        let body = format!(r#"{{"order_id": "ORD-{number}", "amount": 1200}}"#);
        let key = format!("k-{number}");
        let (reply, _) = pay_until_final(|| shop.address, "alpha-token", &key, &body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    let posts = posts(&lab);
    assert!(posts.iter().all(|post| post.arrived.on_connection == 1), "a connection was kept");
    assert_eq!((lab.counts().payments, posts.len() as u64), (PAYMENTS, PAYMENTS));
}

async fn p41_another_amount_at_the_provider_is_for_a_person(which: Which) {
    let database = Database::fresh(which).await;
    for (number, member) in
        [r#""amount": 1201"#, r#""currency": "USD""#, r#""order_id": "ORD-2""#].iter().enumerate()
    {
        let lab = lab(&format!(
            r#"{{"rules": [{{"wire": "reset"}},
                 {{"when": {{"op": ["query"]}}, "answer": {{"set": {{{member}}}}}}}]}}"#
        ))
        .await;
        let shop = database.serve(&["--provider", &lab.url("")]);
        let key = format!("k-{number}");
        let (reply, _) = pay_until_final(|| shop.address, "alpha-token", &key, BODY).await;
        assert_eq!((reply.status, code(&reply).as_str()), (409, "samekey.outcome-unknown"));
        assert!(reply.header("retry-after").is_none());
        assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1), "{member}");
    }
}

async fn credentials_that_are_refused_are_ours_and_free_the_key(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab("{}").await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    for (theirs, ours) in [(401, 502), (403, 502), (429, 503)] {
        force(
            &lab,
            &format!(
                r#"{{"rules": [{{"process": "never", "answer": {{"status": {theirs},
                     "body": {{"text": "{{\"error\": \"not_now\", \"why\": \"SECRET\"}}"}}, "headers": [["WWW-Authenticate", "Bearer"]]}}}}]}}"#
            ),
        );
        let reply = pay(shop.address, "alpha-token", "k-1", BODY).await;
        assert_eq!((reply.status, reply.is_replay()), (ours, false), "{reply:?}");
        assert!(reply.header("www-authenticate").is_none() && !reply.body.contains("SECRET"));
        assert!(reply.detail().contains("same key later"), "{}", reply.detail());
    }
    force(&lab, "{}");
    assert_eq!(pay(shop.address, "alpha-token", "k-1", BODY).await.status, 201);
    assert_eq!(lab.counts().payments, 1);
    // Without the provider's own document it may be a proxy's word, or a wrong address's.
    for (number, status) in [401, 404, 429].into_iter().enumerate() {
        let rule = format!(
            r#"{{"rules": [{{"process": "once", "times": 1, "answer": {{"status": {status},
                 "body": {{"text": "<html>"}}}}}}]}}"#
        );
        force(&lab, &rule);
        let key = format!("k-proxy-{number}");
        let reply = pay(shop.address, "alpha-token", &key, BODY).await;
        assert_eq!((reply.status, code(&reply).as_str()), (409, "samekey.outcome-pending"));
        let (found, _) = pay_until_final(|| shop.address, "alpha-token", &key, BODY).await;
        assert_eq!((found.status, found.is_replay()), (201, true), "{status}");
    }
    assert_eq!(lab.counts().payments, 4);
}

async fn a_declined_payment_stays_declined(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"rules": [{"process": "declined", "times": 1},
        {"process": "declined", "wire": "close", "times": 1}]}"#)
    .await;
    let shop = database.serve(&["--provider", &lab.url("")]);
    for (key, found) in [("k-1", false), ("k-2", true)] {
        let (first, _) = pay_until_final(|| shop.address, "alpha-token", key, BODY).await;
        assert_eq!((first.status, first.is_replay()), (402, found), "{first:?}");
        assert!(first.detail().contains("declined"), "{}", first.detail());
        let again = pay(shop.address, "alpha-token", key, BODY).await;
        assert_eq!((again.status, again.is_replay(), &again.body), (402, true, &first.body));
    }
    assert_eq!((lab.counts().payments, posts(&lab).len()), (0, 2));
}

async fn b04_b25_where_sending_again_is_the_question_it_is_sent_again(which: Which) {
    let database = Database::fresh(which).await;
    // The first answer of every order is lost, and no status query works.
    let lab = lab(r#"{"rules": [{"when": {"attempt": [1]}, "wire": "close"},
        {"when": {"op": ["query"]}, "answer": {"status": 500}}]}"#)
    .await;
    let shop = database.serve(&["--provider", &lab.url(""), "--counterparty", "dedups"]);
    let (reply, _) = pay_until_final(|| shop.address, "alpha-token", "k-1", BODY).await;
    assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
    let posts = posts(&lab);
    assert_eq!((lab.counts().payments, posts.len()), (1, 2));
    assert_eq!(posts[0].arrived.body_sha256, posts[1].arrived.body_sha256, "other bytes");
    assert_eq!(posts[0].arrived.key, posts[1].arrived.key, "another key");
}
