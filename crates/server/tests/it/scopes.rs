//! Whose key it is, and who may see its answer.

use super::harness::{Harness, Script, Which, fresh, on_both, order};

on_both!(
    p18_t85_two_organisations_never_meet,
    t86_b13_a_bound_key_belongs_to_its_principal,
    b13_a_key_survives_another_credential,
    p19_t87_b14_whoever_may_not_ask_gets_no_replay,
    t90_what_a_caller_claims_about_itself_changes_nothing,
    b49_without_a_credential_there_is_no_scope,
    b83_another_action_never_gets_a_foreign_replay,
);

/// What only organisation A may read.
const CANARY: &str = "canary-of-a";

fn private(harness: &Harness, reference: &str) {
    let script = Script {
        body: Some(format!("{{\"private\":\"{CANARY}\"}}").into_bytes()),
        headers: vec![("location", format!("/orders/{CANARY}").into_bytes())],
        times: Some(1),
        ..Script::default()
    };
    harness.app.scripts.set(reference, script);
}

async fn p18_t85_two_organisations_never_meet(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    private(&harness, &r);
    let a = harness.post("/orders", &key, &order(&r)).await;
    assert!(String::from_utf8_lossy(&a.body).contains(CANARY));
    let b1 = [("authorization", "Bearer b1"), ("idempotency-key", key.as_str())];
    let b = harness.send("POST", "/orders", &b1, order(&r)).await;
    assert_eq!((b.status, b.is_replay()), (201, false));
    assert!(
        !format!("{b:?}").contains(CANARY) && !String::from_utf8_lossy(&b.body).contains(CANARY)
    );
    assert_eq!(harness.effects(&r).await, 2);
    // Each gets its own again, and other content of B's is a mismatch with B's, not with A's.
    let again = harness.send("POST", "/orders", &b1, order(&r)).await;
    assert!(again.is_replay());
    again.assert_same(&b);
    let again = harness.post("/orders", &key, &order(&r)).await;
    assert!(again.is_replay());
    again.assert_same(&a);
    assert_eq!(harness.effects(&r).await, 2);
}

async fn t86_b13_a_bound_key_belongs_to_its_principal(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    private(&harness, &r);
    let first = harness.post("/bound", &key, &order(&r)).await;
    let a2 = [("authorization", "Bearer a2"), ("idempotency-key", key.as_str())];
    let other = harness.send("POST", "/bound", &a2, order(&r)).await;
    assert_eq!((other.status, other.code().as_deref()), (422, Some("samekey.key-reused")));
    assert!(!String::from_utf8_lossy(&other.body).contains(CANARY));
    assert_eq!(other.header("location"), None);
    let a1 = [("authorization", "Bearer a1-rotated"), ("idempotency-key", key.as_str())];
    let rotated = harness.send("POST", "/bound", &a1, order(&r)).await;
    assert!(rotated.is_replay());
    rotated.assert_same(&first);
    assert_eq!(harness.effects(&r).await, 1);
}

async fn b13_a_key_survives_another_credential(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let first = harness.post("/orders", &key, &order(&r)).await;
    // Another token of the same principal, and, without bind_principal, a colleague.
    for token in ["Bearer a1-rotated", "Bearer a2"] {
        let headers = [("authorization", token), ("idempotency-key", key.as_str())];
        let again = harness.send("POST", "/orders", &headers, order(&r)).await;
        assert!(again.is_replay(), "{token}");
        again.assert_same(&first);
    }
    assert_eq!(harness.effects(&r).await, 1);
}

async fn p19_t87_b14_whoever_may_not_ask_gets_no_replay(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    private(&harness, &r);
    let first = harness.post("/orders", &key, &order(&r)).await;
    let with = |token: &'static str| [("authorization", token), ("idempotency-key", key.as_str())];
    harness.app.forbidden.lock().unwrap().insert("a1".to_owned());
    let role_gone = harness.post("/orders", &key, &order(&r)).await;
    harness.app.forbidden.lock().unwrap().clear();
    harness.app.revoked.lock().unwrap().insert("a1".to_owned());
    let expired = harness.post("/orders", &key, &order(&r)).await;
    harness.app.revoked.lock().unwrap().clear();
    let unknown = harness.send("POST", "/orders", &with("Bearer nobody"), order(&r)).await;
    let none = harness.send("POST", "/orders", &with(""), order(&r)).await;
    for (reply, status) in [(role_gone, 403), (expired, 401), (unknown, 401), (none, 401)] {
        assert_eq!((reply.status, reply.is_replay()), (status, false));
        assert!(!String::from_utf8_lossy(&reply.body).contains(CANARY));
        assert_eq!(reply.header("location"), None);
    }
    // The record is untouched: once the right is back, so is the answer.
    let granted = harness.post("/orders", &key, &order(&r)).await;
    assert!(granted.is_replay());
    granted.assert_same(&first);
    assert_eq!(harness.effects(&r).await, 1);
}

async fn t90_what_a_caller_claims_about_itself_changes_nothing(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let claims = [
        ("idempotency-key", key.as_str()),
        ("idempotent-replayed", "true"),
        ("x-org", "B"),
        ("stripe-should-retry", "true"),
    ];
    let first = harness.send("POST", "/orders", &claims, order(&r)).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    // The key is A's: A replays it without the claims, B runs its own.
    assert!(harness.post("/orders", &key, &order(&r)).await.is_replay());
    let b1 = [("authorization", "Bearer b1"), ("idempotency-key", key.as_str())];
    let b = harness.send("POST", "/orders", &b1, order(&r)).await;
    assert_eq!((b.status, b.is_replay()), (201, false));
    assert_eq!(harness.effects(&r).await, 2);
}

async fn b49_without_a_credential_there_is_no_scope(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    private(&harness, &r);
    assert_eq!(harness.post("/orders", &key, &order(&r)).await.status, 201);
    for forged in [
        [("x-forwarded-for", "127.0.0.1"), ("x-real-ip", "127.0.0.1")],
        [("forwarded", "for=127.0.0.1"), ("x-org", "A")],
    ] {
        let mut headers = vec![("authorization", ""), ("idempotency-key", key.as_str())];
        headers.extend(forged);
        let reply = harness.send("POST", "/orders", &headers, order(&r)).await;
        assert_eq!((reply.status, reply.is_replay()), (401, false));
        assert!(!String::from_utf8_lossy(&reply.body).contains(CANARY));
    }
    assert_eq!(harness.effects(&r).await, 1);
}

async fn b83_another_action_never_gets_a_foreign_replay(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let headers = [("idempotency-key", key.as_str())];
    assert_eq!(harness.send("POST", "/orders/1/cancel", &headers, order(&r)).await.status, 201);
    for (method, path) in [
        ("POST", "/orders"),
        ("POST", "/orders/2/cancel"),
        ("PATCH", "/orders/1"),
        ("PUT", "/orders/1"),
    ] {
        let reply = harness.send(method, path, &headers, order(&r)).await;
        assert_eq!(reply.code().as_deref(), Some("samekey.key-reused"), "{method} {path}");
    }
    assert!(harness.send("POST", "/orders/1/cancel", &headers, order(&r)).await.is_replay());
    assert_eq!(harness.effects(&r).await, 1);
}
