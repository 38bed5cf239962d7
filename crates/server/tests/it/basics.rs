//! C1: what everybody expects of a key.

use super::harness::{Harness, Script, Which, fresh, on_both, order};

on_both!(
    p05_t01_t02_a_retry_gets_the_first_answer,
    t03_a_hundred_retries_over_two_processes_get_the_first_answer,
    p04_t04_t05_other_content_is_refused_and_spoils_nothing,
    t06_a_new_key_is_a_new_action,
    t07_without_a_key_a_command_that_needs_one_does_not_run,
    t08_without_a_key_an_optional_route_runs_every_time,
    t09_a_read_passes_through_with_its_key,
    t10_a_key_is_not_taken_along_to_another_path,
    t12_what_is_refused_before_the_claim_is_not_stored,
    p23_t106_early_data_starts_nothing,
    every_answer_says_what_to_do,
);

async fn p05_t01_t02_a_retry_gets_the_first_answer(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let body = order(&reference);
    let first = harness.post("/orders", &key, &body).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert_eq!(harness.effects(&reference).await, 1);
    let second = harness.post("/orders", &key, &body).await;
    assert!(second.is_replay());
    assert_eq!(second.header("cache-control"), Some("no-store"));
    second.assert_same(&first);
    assert_eq!((harness.effects(&reference).await, harness.calls()), (1, 1));
}

async fn t03_a_hundred_retries_over_two_processes_get_the_first_answer(which: Which) {
    let one = Harness::start(which).await;
    let other = one.another().await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let first = one.post("/orders", &key, &order(&reference)).await;
    for round in 0..50 {
        for harness in [&one, &other] {
            let again = harness.post("/orders", &key, &order(&reference)).await;
            assert!(again.is_replay(), "round {round}");
            again.assert_same(&first);
        }
    }
    assert_eq!(one.effects(&reference).await, 1);
    assert_eq!((one.calls(), other.calls()), (1, 0));
}

async fn p04_t04_t05_other_content_is_refused_and_spoils_nothing(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference, other) = (fresh("key"), fresh("ref"), fresh("ref"));
    let first = harness.post("/orders", &key, &order(&reference)).await;
    let mismatch = harness.post("/orders", &key, &order(&other)).await;
    assert_eq!((mismatch.status, mismatch.code().as_deref()), (422, Some("samekey.key-reused")));
    assert!(!mismatch.is_replay());
    let shown = String::from_utf8(mismatch.body.clone()).unwrap();
    assert!(!shown.contains(&reference) && !shown.contains("call"), "{shown}");
    assert_eq!(mismatch.header("location"), None);
    assert_eq!((harness.effects(&reference).await, harness.effects(&other).await), (1, 0));
    let again = harness.post("/orders", &key, &order(&reference)).await;
    assert!(again.is_replay());
    again.assert_same(&first);
    // Stripe's first version says 400 for the same thing.
    let (key, reference) = (fresh("key"), fresh("ref"));
    harness.post("/stripe", &key, &order(&reference)).await;
    let mismatch = harness.post("/stripe", &key, &order(&other)).await;
    assert_eq!((mismatch.status, mismatch.code().as_deref()), (400, Some("samekey.key-reused")));
    assert_eq!(mismatch.json()["error"]["type"], "idempotency_error");
}

async fn t06_a_new_key_is_a_new_action(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    for effects in 1..=2 {
        let reply = harness.post("/orders", &fresh("key"), &order(&reference)).await;
        assert_eq!((reply.status, reply.is_replay()), (201, false));
        assert_eq!(harness.effects(&reference).await, effects);
    }
}

async fn t07_without_a_key_a_command_that_needs_one_does_not_run(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    let reply = harness.send("POST", "/orders", &[], order(&reference)).await;
    assert_eq!((reply.status, reply.code().as_deref()), (400, Some("samekey.key-missing")));
    assert_eq!(reply.header("stripe-should-retry"), Some("false"));
    assert_eq!((harness.effects(&reference).await, harness.calls()), (0, 0));
}

async fn t08_without_a_key_an_optional_route_runs_every_time(which: Which) {
    let harness = Harness::start(which).await;
    let reference = fresh("ref");
    for effects in 1..=2 {
        let reply = harness.send("POST", "/optional", &[], order(&reference)).await;
        assert_eq!((reply.status, reply.is_replay()), (201, false));
        assert_eq!(harness.effects(&reference).await, effects);
    }
    // With a key it is protected as any other.
    let (key, reference) = (fresh("key"), fresh("ref"));
    harness.post("/optional", &key, &order(&reference)).await;
    assert!(harness.post("/optional", &key, &order(&reference)).await.is_replay());
    assert_eq!(harness.effects(&reference).await, 1);
}

async fn t09_a_read_passes_through_with_its_key(which: Which) {
    let harness = Harness::start(which).await;
    let key = fresh("key");
    let one = harness.send("GET", "/orders", &[("idempotency-key", &key)], "").await;
    let other = harness.send("GET", "/orders", &[("idempotency-key", &key)], "").await;
    assert_eq!((one.status, other.status), (200, 200));
    assert_ne!(one.body, other.body, "both were read");
    assert!(!other.is_replay());
    assert_eq!(harness.rows_in_state("done").await, 0);
    // The key is still free for a command.
    let reference = fresh("ref");
    assert_eq!(harness.post("/orders", &key, &order(&reference)).await.status, 201);
}

async fn t10_a_key_is_not_taken_along_to_another_path(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    harness.post("/orders", &key, &order(&reference)).await;
    let cancel = harness.post("/orders/1/cancel", &key, &order(&reference)).await;
    assert_eq!((cancel.status, cancel.code().as_deref()), (422, Some("samekey.key-reused")));
    assert_eq!((harness.effects(&reference).await, harness.calls()), (1, 1));
}

async fn t12_what_is_refused_before_the_claim_is_not_stored(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let wrong = format!(r#"{{"ref":"{reference}"}}"#);
    assert_eq!(harness.post("/validated", &key, &wrong).await.status, 400);
    assert_eq!(harness.rows_in_state("done").await, 0);
    let mended = harness.post("/validated", &key, &order(&reference)).await;
    assert_eq!((mended.status, mended.is_replay()), (201, false));
    assert!(harness.post("/validated", &key, &order(&reference)).await.is_replay());
    assert_eq!(harness.effects(&reference).await, 1);
}

async fn p23_t106_early_data_starts_nothing(which: Which) {
    let harness = Harness::start(which).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let early = [("idempotency-key", key.as_str()), ("early-data", "1")];
    // What a client sends itself does not hide what the proxy adds (RFC 8470: it all counts as 1).
    for values in [&["1"][..], &["0", "1"], &["1", "1"], &["0"], &["yes"], &[""]] {
        let mut headers = vec![("idempotency-key", key.as_str())];
        headers.extend(values.iter().map(|value| ("early-data", *value)));
        let reply = harness.send("POST", "/orders", &headers, order(&reference)).await;
        assert_eq!((reply.status, reply.code().as_deref()), (425, Some("samekey.too-early")));
        assert_eq!(reply.header("stripe-should-retry"), Some("true"));
    }
    assert_eq!((harness.effects(&reference).await, harness.calls()), (0, 0));
    let first = harness.post("/orders", &key, &order(&reference)).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    // Once it has run, early data replays it and is compared as ever.
    let replay = harness.send("POST", "/orders", &early, order(&reference)).await;
    assert!(replay.is_replay());
    replay.assert_same(&first);
    assert_eq!(harness.send("POST", "/orders", &early, "{}").await.status, 422);
    assert_eq!(harness.effects(&reference).await, 1);
}

/// Rows 2 to 14 of the answer table, as far as a library meets them: headers and members.
async fn every_answer_says_what_to_do(which: Which) {
    let harness = Harness::with(which, samekey::Setup::default(), |choices| {
        choices.body_bytes_max = 1_000;
    })
    .await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    let echo = format!("\"{key}\"");
    let first = harness.post("/orders", &key, &order(&reference)).await;
    assert_eq!(first.header("idempotency-key"), Some(echo.as_str()));
    let replay = harness.post("/orders", &key, &order(&reference)).await;
    assert_eq!(replay.header("idempotency-key"), Some(echo.as_str()));
    let failing = fresh("ref");
    harness.app.scripts.set(&failing, Script { fails: true, ..Script::default() });
    let free = fresh("key");
    let long = "x".repeat(1_001);
    for (key, headers, body, status, name, retryable) in [
        (None, vec![], order(&reference), 400, "key-missing", false),
        (None, vec![("idempotency-key", "a,b")], order(&reference), 400, "key-invalid", false),
        (Some(&key), vec![], "{}".to_owned(), 422, "key-reused", false),
        (Some(&free), vec![("early-data", "1")], order(&reference), 425, "too-early", true),
        (Some(&free), vec![], order(&failing), 500, "handler-failed", true),
        (Some(&free), vec![], long, 413, "body-too-large", false),
    ] {
        let mut headers = headers;
        headers.extend(key.map(|key| ("idempotency-key", key.as_str())));
        let reply = harness.send("POST", "/orders", &headers, body).await;
        assert_eq!((reply.status, reply.header("cache-control")), (status, Some("no-store")));
        let should = if retryable { "true" } else { "false" };
        assert_eq!(reply.header("stripe-should-retry"), Some(should), "{name}");
        let echo = key.map(|key| format!("\"{key}\""));
        assert_eq!(reply.header("idempotency-key"), echo.as_deref(), "{name}");
        assert_eq!(reply.code(), Some(format!("samekey.{name}")));
        let document = reply.json();
        assert_eq!(document["type"], format!("urn:samekey:{name}"));
        assert_eq!(document["status"], status);
        assert_eq!(document["retryable"], retryable);
        assert_eq!(document["error"]["code"], document["code"]);
        assert_eq!(document["error"]["message"], document["detail"]);
        let kind = match status {
            422 => "idempotency_error",
            400 | 413 => "invalid_request_error",
            _ => "api_error",
        };
        assert_eq!(document["error"]["type"], kind, "{name}");
    }
}
