//! Small promises, one each, that a planted bug breaks (`scripts/test-bugs`).

use super::harness::reach::Order;
use super::harness::script::Script;
use super::harness::{Harness, Which, fresh, on_both};

on_both!(
    p11_no_answer_leaves_before_it_is_stored,
    p06_a_cookie_is_not_given_again,
    p10_a_timeout_status_is_not_stored,
    p18_two_organisations_have_a_key_each,
    p21_a_body_is_compared_to_its_last_byte,
    b10_both_databases_tell_the_stored_bytes,
);

/// Whoever has the answer finds the effect, and done is what the row says.
async fn p11_no_answer_leaves_before_it_is_stored(which: Which) {
    let harness = Harness::start(which).await;
    for run in 1..=20 {
        let reference = fresh("ref");
        let reply = Order::of(&fresh("key"), &reference).send(harness.address).await.unwrap();
        assert_eq!(reply.status, 201);
        assert_eq!(harness.effects(&reference).await, 1);
        assert_eq!(harness.rows_in_state("done").await, run);
    }
}

async fn p06_a_cookie_is_not_given_again(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    let headers = vec![("set-cookie", b"secret=1".to_vec()), ("location", b"/orders/1".to_vec())];
    harness.app.scripts.set(&reference, Script { headers, ..Script::default() });
    let order = Order::of(&fresh("key"), &reference);
    let first = order.send(harness.address).await.unwrap();
    assert_eq!(first.header("set-cookie"), Some("secret=1"));
    let replay = order.send(harness.address).await.unwrap();
    assert!(replay.is_replay());
    assert_eq!(replay.header("set-cookie"), None);
    assert_eq!(replay.header("cache-control"), Some("no-store"));
    replay.assert_same(&first);
}

async fn p10_a_timeout_status_is_not_stored(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    let script = Script { status: Some(408), times: Some(1), ..Script::default() };
    harness.app.scripts.set(&reference, script);
    let order = Order::of(&fresh("key"), &reference);
    assert_eq!(order.send(harness.address).await.unwrap().status, 408);
    assert_eq!((harness.effects(&reference).await, harness.rows().await), (0, 0));
    let second = order.send(harness.address).await.unwrap();
    assert_eq!((second.status, second.is_replay()), (201, false));
    assert_eq!(harness.effects(&reference).await, 1);
}

async fn p18_two_organisations_have_a_key_each(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    let order = Order::of(&fresh("key"), &reference);
    let other = Order { token: "b1", ..order.clone() };
    for order in [order, other] {
        let reply = order.send(harness.address).await.unwrap();
        assert_eq!((reply.status, reply.is_replay()), (201, false));
    }
    assert_eq!(harness.effects(&reference).await, 2);
}

/// The body comes in many pieces, and only its very end differs.
async fn p21_a_body_is_compared_to_its_last_byte(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let order = |end: &str| {
        let note = "x".repeat(300_000);
        let body = format!(r#"{{"ref":"{reference}","note":"{note}{end}"}}"#);
        Order { body, ..Order::of(&key, &reference) }
    };
    assert_eq!(order("a").send(harness.address).await.unwrap().status, 201);
    assert!(order("a").send(harness.address).await.unwrap().is_replay());
    let reply = order("b").send(harness.address).await.unwrap();
    assert_eq!((reply.status, reply.code().as_deref()), (422, Some("samekey.key-reused")));
    assert_eq!(harness.effects(&reference).await, 1);
}

/// Odd spaces and the order of members are bytes like others.
async fn b10_both_databases_tell_the_stored_bytes(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    let body = br#"{ "z": 1.00, "a" : [ 1e2 ] }"#.to_vec();
    harness.app.scripts.set(&reference, Script { body: Some(body.clone()), ..Script::default() });
    let order = Order::of(&fresh("key"), &reference);
    for is_replay in [false, true] {
        let reply = order.send(harness.address).await.unwrap();
        assert_eq!((reply.is_replay(), &reply.body), (is_replay, &body));
    }
}
