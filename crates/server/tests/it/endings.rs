//! How a command ends, and what of it is stored: refusals, failures, and failures of the moment.

use super::harness::{Harness, Script, Which, fresh, on_both, order};
use std::sync::atomic::Ordering;

on_both!(
    p09_t11_b17_a_final_refusal_stays,
    p10_t16_a_failure_stores_nothing,
    p10_a_refusal_of_the_moment_stores_nothing,
    b47_a_refused_payment_wants_a_new_key_for_another_method,
    b46_two_wanted_refunds_are_two_keys,
    b56_the_layer_s_answers_are_told_from_the_handler_s,
    p05_every_final_status_is_replayed,
);

async fn p09_t11_b17_a_final_refusal_stays(which: Which) {
    let harness = Harness::start(which).await;
    for status in [402, 409, 400, 404, 422] {
        let (key, r) = (fresh("key"), fresh("ref"));
        let declined = Script { status: Some(status), times: Some(1), ..Script::default() };
        harness.app.scripts.set(&r, declined);
        let refused = harness.post("/orders", &key, &order(&r)).await;
        assert_eq!((refused.status, refused.is_replay()), (status, false));
        // The handler had written its effect before it refused; nothing of that stays.
        assert_eq!(harness.effects(&r).await, 0);
        // The cause is gone now, and the same command is refused all the same.
        let again = harness.post("/orders", &key, &order(&r)).await;
        assert!(again.is_replay(), "{status}");
        again.assert_same(&refused);
        assert_eq!(harness.effects(&r).await, 0);
        let anew = harness.post("/orders", &fresh("key"), &order(&r)).await;
        assert_eq!((anew.status, anew.is_replay()), (201, false));
        assert_eq!(harness.effects(&r).await, 1);
    }
}

async fn p10_t16_a_failure_stores_nothing(which: Which) {
    let harness = Harness::start(which).await;
    let scripts = [
        (500, Script { status: Some(500), ..Script::default() }),
        (502, Script { status: Some(502), ..Script::default() }),
        (503, Script { status: Some(503), ..Script::default() }),
        (408, Script { status: Some(408), ..Script::default() }),
        (500, Script { fails: true, ..Script::default() }),
        (500, Script { panics: true, ..Script::default() }),
    ];
    for (status, script) in scripts {
        let (key, r) = (fresh("key"), fresh("ref"));
        let ours = script.fails || script.panics;
        harness.app.scripts.set(&r, Script { times: Some(2), ..script });
        for _ in 0..2 {
            let failed = harness.post("/orders", &key, &order(&r)).await;
            assert_eq!((failed.status, failed.is_replay()), (status, false));
            let code = ours.then(|| "samekey.handler-failed".to_owned());
            assert_eq!(failed.code(), code);
            let shown = String::from_utf8(failed.body).unwrap();
            assert!(!shown.contains("the test wants"), "{shown}");
            assert_eq!(harness.effects(&r).await, 0);
        }
        assert_eq!(harness.rows_in_state("running").await, 0);
        let healthy = harness.post("/orders", &key, &order(&r)).await;
        assert_eq!((healthy.status, healthy.is_replay()), (201, false));
        assert!(harness.post("/orders", &key, &order(&r)).await.is_replay());
        assert_eq!(harness.effects(&r).await, 1);
    }
}

async fn p10_a_refusal_of_the_moment_stores_nothing(which: Which) {
    let harness = Harness::start(which).await;
    for status in [401, 403, 407, 413, 421, 425, 429] {
        let (key, r) = (fresh("key"), fresh("ref"));
        let headers = vec![("retry-after", b"7".to_vec())];
        let script = Script { status: Some(status), headers, times: Some(1), ..Script::default() };
        harness.app.scripts.set(&r, script);
        let refused = harness.post("/orders", &key, &order(&r)).await;
        assert_eq!((refused.status, refused.is_replay()), (status, false));
        assert_eq!(refused.header("retry-after"), Some("7"), "the first caller gets all of it");
        assert_eq!(harness.effects(&r).await, 0);
        // Not even the content is bound: nothing was claimed.
        let body = format!(r#"{{"ref":"{r}","amount":2}}"#);
        let anew = harness.post("/orders", &key, &body).await;
        assert_eq!((anew.status, anew.is_replay()), (201, false), "{status}");
        assert_eq!(harness.effects(&r).await, 1);
    }
}

async fn b47_a_refused_payment_wants_a_new_key_for_another_method(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("order-7"), fresh("ref"));
    let with = |method: &str| format!(r#"{{"ref":"{r}","method":"{method}"}}"#);
    harness.app.scripts.set(&r, Script { status: Some(402), times: Some(1), ..Script::default() });
    assert_eq!(harness.post("/orders", &key, &with("A")).await.status, 402);
    let same_key = harness.post("/orders", &key, &with("B")).await;
    assert_eq!(same_key.code().as_deref(), Some("samekey.key-reused"));
    let detail = same_key.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("make a new key"), "{detail}");
    // The next attempt has a key of its own, and a double click on it pays once.
    let next = fresh("order-7");
    assert_eq!(harness.post("/orders", &next, &with("B")).await.status, 201);
    assert!(harness.post("/orders", &next, &with("B")).await.is_replay());
    assert_eq!(harness.effects(&r).await, 1);
}

async fn b46_two_wanted_refunds_are_two_keys(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let refund = format!(r#"{{"ref":"{r}","payment":"p-1","refund":"10.00"}}"#);
    let (first, second) = (fresh("refund"), fresh("refund"));
    let lost = harness.post("/orders", &first, &refund).await;
    let retry = harness.post("/orders", &first, &refund).await;
    assert!(retry.is_replay());
    retry.assert_same(&lost);
    let wanted = harness.post("/orders", &second, &refund).await;
    assert_eq!((wanted.status, wanted.is_replay()), (201, false));
    assert_ne!(wanted.body, lost.body);
    assert_eq!(harness.effects(&r).await, 2);
}

async fn b56_the_layer_s_answers_are_told_from_the_handler_s(which: Which) {
    let harness = Harness::start(which).await;
    for status in [409, 422] {
        let (key, r) = (fresh("key"), fresh("ref"));
        let body = br#"{"error":"no stock"}"#.to_vec();
        let headers = vec![("content-type", b"application/json".to_vec())];
        let script =
            Script { status: Some(status), body: Some(body.clone()), headers, ..Script::default() };
        harness.app.scripts.set(&r, script);
        let business = harness.post("/orders", &key, &order(&r)).await;
        assert_eq!((business.status, &business.body, business.code()), (status, &body, None));
        assert_eq!(business.header("stripe-should-retry"), None);
        let replay = harness.post("/orders", &key, &order(&r)).await;
        assert!(replay.is_replay());
        replay.assert_same(&business);
        // The mismatch has a document of its own and no marker.
        let mismatch = harness.post("/orders", &key, "{}").await;
        assert_eq!(mismatch.code().as_deref(), Some("samekey.key-reused"));
        assert!(!mismatch.is_replay());
        assert_eq!(mismatch.header("stripe-should-retry"), Some("false"));
    }
}

async fn p05_every_final_status_is_replayed(which: Which) {
    let harness = Harness::start(which).await;
    let finals =
        [200, 201, 202, 204, 205, 206, 207, 299, 300, 301, 302, 303, 307, 308].into_iter().chain([
            400, 402, 404, 405, 406, 409, 410, 411, 412, 414, 415, 418, 422, 423, 424, 428, 451,
            499,
        ]);
    for status in finals {
        let (key, r) = (fresh("key"), fresh("ref"));
        let bodyless = matches!(status, 204 | 205 | 304);
        let body = bodyless.then(Vec::new);
        harness.app.scripts.set(&r, Script { status: Some(status), body, ..Script::default() });
        let first = harness.post("/orders", &key, &order(&r)).await;
        assert_eq!((first.status, first.is_replay()), (status, false));
        let calls = harness.app.calls.load(Ordering::SeqCst);
        let again = harness.post("/orders", &key, &order(&r)).await;
        assert!(again.is_replay(), "{status}");
        again.assert_same(&first);
        assert_eq!(harness.app.calls.load(Ordering::SeqCst), calls);
        assert_eq!(harness.effects(&r).await, u64::from(status < 400), "{status}");
    }
}
