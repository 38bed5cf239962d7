//! What comes back on a retry: status, kept headers and every byte, and what never does.

use super::harness::service::{Served, serve_router};
use super::harness::stores::Backend;
use super::harness::wire::{Line, request, statuses};
use super::harness::{Harness, Script, Which, fresh, on_both, order};
use axum::Router;
use axum::response::IntoResponse;
use axum::routing::post;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use samekey::{BoxError, Caller, Route};
use samekey_core::key::Org;
use samekey_core::policy::Choices;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

on_both!(
    p05_t13_b85_every_kind_of_answer_is_replayed,
    p05_t15_b52_bytes_that_are_no_text_are_replayed,
    p06_t89_b50_what_was_true_for_the_first_caller_only_is_not_replayed,
    b67_a_replay_is_framed_anew,
    b52_a_head_request_is_no_command,
    p25_t99_b50_an_answer_over_the_limit_is_done_and_not_kept,
    b50_an_answer_at_the_limit_is_kept,
    b50_a_record_that_is_swept_meanwhile_is_a_new_action_or_none,
);

/// Repeats a command and compares; gives the replay.
async fn replayed(harness: &Harness, script: Script) -> super::harness::Reply {
    let (key, r) = (fresh("key"), fresh("ref"));
    let refused = script.status.is_some_and(|status| status >= 400);
    harness.app.scripts.set(&r, Script { times: Some(1), ..script });
    let first = harness.post("/orders", &key, &order(&r)).await;
    let again = harness.post("/orders", &key, &order(&r)).await;
    assert!(!first.is_replay() && again.is_replay());
    again.assert_same(&first);
    assert_eq!(again.header("cache-control"), Some("no-store"));
    assert_eq!(harness.effects(&r).await, u64::from(!refused));
    again
}

async fn p05_t13_b85_every_kind_of_answer_is_replayed(which: Which) {
    let harness = Harness::start(which).await;
    let nothing = || Some(Vec::new());
    let empty = Script { status: Some(204), body: nothing(), ..Script::default() };
    let again = replayed(&harness, empty).await;
    assert_eq!((again.status, again.body.len()), (204, 0));

    let created = vec![
        ("location", b"/orders/1".to_vec()),
        ("etag", b"\"v1\"".to_vec()),
        ("link", b"</orders/1>; rel=\"self\"".to_vec()),
        ("content-language", b"de".to_vec()),
        ("last-modified", b"Mon, 30 Nov 2026 00:00:00 GMT".to_vec()),
        ("content-location", b"/orders/1?v=1".to_vec()),
        ("link", b"</orders>; rel=\"up\"".to_vec()),
    ];
    let script = Script { status: Some(201), headers: created, ..Script::default() };
    let again = replayed(&harness, script).await;
    assert_eq!(again.header("location"), Some("/orders/1"));
    assert_eq!(again.header("etag"), Some("\"v1\""));
    let links: Vec<_> = again.headers.get_all("link").iter().collect();
    assert_eq!(links, ["</orders/1>; rel=\"self\"", "</orders>; rel=\"up\""]);

    for status in [202, 303, 307] {
        let headers = vec![("location", b"/orders/queue/7".to_vec())];
        let script = Script { status: Some(status), headers, body: nothing(), ..Script::default() };
        let again = replayed(&harness, script).await;
        assert_eq!((again.status, again.header("location")), (status, Some("/orders/queue/7")));
    }
}

async fn p05_t15_b52_bytes_that_are_no_text_are_replayed(which: Which) {
    let harness = Harness::start(which).await;
    let every_byte: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    for (kind, body) in [
        ("application/octet-stream", every_byte),
        ("application/json", b"{\"name\":\"a\\u0000b\",\"n\":1.0}".to_vec()),
        ("application/json", b"{\"name\":\"\xFF\xFE\"}".to_vec()),
        ("application/pdf", b"%PDF-1.7\n%\xE2\xE3\xCF\xD3\n\0\0trailer".to_vec()),
        ("text/plain", vec![0; 100]),
    ] {
        let headers = vec![("content-type", kind.as_bytes().to_vec())];
        let script = Script { body: Some(body.clone()), headers, ..Script::default() };
        let again = replayed(&harness, script).await;
        assert_eq!((again.header("content-type"), &again.body), (Some(kind), &body));
    }
    let packed = super::harness::gzip(b"packed by the handler");
    let headers = vec![("content-encoding", b"gzip".to_vec())];
    let script = Script { body: Some(packed.clone()), headers, ..Script::default() };
    let again = replayed(&harness, script).await;
    assert_eq!((again.header("content-encoding"), again.body.clone()), (Some("gzip"), packed));
}

async fn p06_t89_b50_what_was_true_for_the_first_caller_only_is_not_replayed(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let passing = [
        ("set-cookie", "id=canary"),
        ("www-authenticate", "Basic realm=canary"),
        ("authentication-info", "nextnonce=canary"),
        ("connection", "x-secret, link"),
        ("x-secret", "canary"),
        ("link", "</canary>; rel=named-by-connection"),
        ("date", "Mon, 01 Jan 2001 00:00:00 GMT"),
        ("age", "12"),
        ("ratelimit-remaining", "3"),
        ("x-ratelimit-reset", "4"),
        ("x-request-id", "canary"),
        ("traceparent", "00-canary-1-01"),
        ("cache-control", "public, max-age=60"),
        ("idempotent-replayed", "false"),
    ];
    let headers: Vec<_> = passing
        .iter()
        .map(|(name, value)| (*name, value.as_bytes().to_vec()))
        .chain([("location", b"/orders/1".to_vec())])
        .collect();
    harness.app.scripts.set(&r, Script { headers, ..Script::default() });
    let first = harness.post("/orders", &key, &order(&r)).await;
    assert_eq!(first.header("set-cookie"), Some("id=canary"));
    assert_eq!(first.header("cache-control"), Some("public, max-age=60"));
    let again = harness.post("/orders", &key, &order(&r)).await;
    assert!(again.is_replay());
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(again.header("location"), Some("/orders/1"));
    assert_eq!(again.header("cache-control"), Some("no-store"));
    assert_ne!(again.header("date"), Some("Mon, 01 Jan 2001 00:00:00 GMT"));
    let shown = format!("{:?}", again.headers);
    assert!(!shown.contains("canary"), "{shown}");
    for name in passing.iter().map(|(name, _)| *name) {
        if !["cache-control", "date", "idempotent-replayed", "connection"].contains(&name) {
            assert_eq!(again.header(name), None, "{name}");
        }
    }
}

async fn b67_a_replay_is_framed_anew(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let body = order(&r);
    let first = harness.post("/orders", &key, &body).await;
    assert_eq!(first.status, 201);
    let length = format!("Content-Length: {}", body.len());
    let key_line = format!("Idempotency-Key: {key}");
    let lines = [length.as_bytes(), key_line.as_bytes(), b"Accept-Encoding: identity"];
    // An old client gets what it can read: a length, and the end of the connection.
    let old = request("POST /orders", &lines, body.as_bytes());
    let old = String::from_utf8(old).unwrap().replacen("HTTP/1.1", "HTTP/1.0", 1);
    let mut line = Line::open(harness.address).await;
    line.write(old.as_bytes()).await;
    let again = line.answer().await.unwrap();
    assert!(again.is_replay());
    again.assert_same(&first);
    assert_eq!(again.header("transfer-encoding"), None);
    assert_eq!(statuses(&line.rest().await), [201]);
    // On a kept connection the next answer stands right behind the replay.
    let mut line = Line::open(harness.address).await;
    for _ in 0..3 {
        line.write(&request("POST /orders", &lines, body.as_bytes())).await;
        let again = line.answer().await.unwrap();
        assert!(again.is_replay());
        again.assert_same(&first);
        let wanted = first.body.len().to_string();
        assert_eq!(again.header("content-length"), Some(wanted.as_str()));
    }
    assert_eq!(harness.calls(), 1);
}

async fn b52_a_head_request_is_no_command(which: Which) {
    let harness = Harness::start(which).await;
    let key = fresh("key");
    for _ in 0..2 {
        let reply = harness.send("HEAD", "/orders", &[("idempotency-key", &key)], "").await;
        assert_eq!((reply.status, reply.is_replay(), reply.body.len()), (200, false, 0));
    }
    assert_eq!((harness.rows_in_state("done").await, harness.calls()), (0, 0));
}

async fn p25_t99_b50_an_answer_over_the_limit_is_done_and_not_kept(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let long = vec![b'x'; 64 * 1024 + 1];
    let headers = vec![("location", b"/orders/long".to_vec())];
    harness.app.scripts.set(&r, Script { body: Some(long.clone()), headers, ..Script::default() });
    let first = harness.post("/orders", &key, &order(&r)).await;
    assert_eq!((first.status, &first.body), (201, &long), "the first caller gets all of it");
    for _ in 0..2 {
        let again = harness.post("/orders", &key, &order(&r)).await;
        assert_eq!((again.status, again.is_replay()), (409, false));
        assert_eq!(again.code().as_deref(), Some("samekey.response-not-kept"));
        assert_eq!(again.json()["stored_status"], 201);
        assert_eq!(again.json()["stored_location"], "/orders/long");
        assert_eq!(again.header("stripe-should-retry"), Some("false"));
        assert_eq!(again.header("retry-after"), None);
    }
    assert_eq!(harness.post("/orders", &key, "{}").await.status, 422);
    assert_eq!((harness.effects(&r).await, harness.calls()), (1, 1));
    // A refusal that is too long is remembered as one, and has no effect.
    let (key, r) = (fresh("key"), fresh("ref"));
    harness.app.scripts.set(
        &r,
        Script { status: Some(409), body: Some(long), times: Some(1), ..Script::default() },
    );
    assert_eq!(harness.post("/orders", &key, &order(&r)).await.status, 409);
    let again = harness.post("/orders", &key, &order(&r)).await;
    assert_eq!(again.code().as_deref(), Some("samekey.response-not-kept"));
    assert_eq!(again.json()["stored_status"], 409);
    assert_eq!(harness.effects(&r).await, 0);
}

async fn b50_an_answer_at_the_limit_is_kept(which: Which) {
    let harness = Harness::start(which).await;
    let full = vec![b'x'; 64 * 1024];
    let script = Script { body: Some(full.clone()), ..Script::default() };
    assert_eq!(replayed(&harness, script).await.body, full);
}

/// A sweep may take the record at any moment. Then the key is new; but never is there an effect without
/// an answer that says so.
async fn b50_a_record_that_is_swept_meanwhile_is_a_new_action_or_none(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let mut ran = 0;
    for _ in 0..20 {
        let body = order(&r);
        let (one, other, ()) = tokio::join!(
            harness.post("/orders", &key, &body),
            harness.post("/orders", &key, &body),
            harness.database().remove_all_records(),
        );
        for reply in [one, other] {
            match reply.status {
                201 => ran += u64::from(!reply.is_replay()),
                409 | 503 => assert!(reply.code().is_some()),
                status => panic!("{status}"),
            }
        }
    }
    assert_eq!(harness.effects(&r).await, ran);
    assert!(ran > 1, "the records were never removed");
}

/// A handler of its own on the harness's PostgreSQL: `POST /stream`.
async fn streaming<F>(harness: &Harness, answer: F) -> (SocketAddr, Served)
where
    F: Fn() -> http::Response<samekey::Body> + Clone + Send + Sync + 'static,
{
    let Backend::Postgres(engine) = harness.backend() else { panic!("only PostgreSQL streams") };
    let engine = engine.clone();
    let route = Route::new("stream", Choices::default()).unwrap();
    let handler = move |request: axum::extract::Request| {
        let (engine, route, answer) = (engine.clone(), route.clone(), answer.clone());
        async move {
            let caller = Caller::of(Org::new("A").unwrap());
            let run = move |tx: samekey::store::postgres::Tx, request: samekey::Request| {
                let answer = answer();
                async move {
                    let r = super::harness::service::reference_of(request.body());
                    tx.execute("insert into effects (org, reference) values ('A', $1)", &[&r])
                        .await?;
                    Ok::<_, BoxError>(answer)
                }
            };
            engine.atomic(&route, &caller, request, run).await.into_response()
        }
    };
    serve_router(Router::new().route("/stream", post(handler))).await
}

fn frames(pieces: Vec<Result<Frame<Bytes>, BoxError>>) -> samekey::Body {
    BodyExt::boxed_unsync(StreamBody::new(futures_util::stream::iter(pieces)))
}

fn data(text: &'static str) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

async fn post_stream(address: SocketAddr, key: &str, r: &str) -> super::harness::Reply {
    let headers = [("idempotency-key", key)];
    super::harness::caller::send(address, "POST", "/stream", &headers, order(r).into_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn b52_a_stream_is_kept_whole() {
    let harness = Harness::start(Which::Postgres).await;
    let trailers = || {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("idempotency-key", "canary".parse().unwrap());
        Ok(Frame::trailers(trailers))
    };
    let answer = move || {
        http::Response::new(frames(vec![data("one, "), data("two, "), data("three"), trailers()]))
    };
    let (address, _served) = streaming(&harness, answer).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let first = post_stream(address, &key, &r).await;
    assert_eq!(first.body, b"one, two, three");
    let again = post_stream(address, &key, &r).await;
    assert!(again.is_replay());
    again.assert_same(&first);
    // Nothing at all, in chunks, is an answer too.
    let (address, _served) = streaming(&harness, || http::Response::new(frames(vec![]))).await;
    let key = fresh("key");
    assert_eq!(post_stream(address, &key, &r).await.body, b"");
    let again = post_stream(address, &key, &r).await;
    assert_eq!((again.status, again.is_replay(), again.body), (200, true, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_b52_a_broken_stream_is_never_a_success() {
    let harness = Harness::start(Which::Postgres).await;
    let tries = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&tries);
    let answer = move || {
        let broken = counted.fetch_add(1, Ordering::SeqCst) == 0;
        let last = if broken { Err("the stream broke at two thirds".into()) } else { data("3") };
        http::Response::new(frames(vec![data("1"), data("2"), last]))
    };
    let (address, _served) = streaming(&harness, answer).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let first = post_stream(address, &key, &r).await;
    assert_eq!(first.code().as_deref(), Some("samekey.handler-failed"));
    assert_eq!((harness.effects(&r).await, harness.rows_in_state("done").await), (0, 0));
    let again = post_stream(address, &key, &r).await;
    assert_eq!((again.status, again.is_replay(), &*again.body), (200, false, &b"123"[..]));
    assert_eq!(harness.effects(&r).await, 1);
}

/// The answer has no end that anybody waits for: what is read ahead is bounded, and the fact is stored
/// before the caller sees a byte.
#[tokio::test(flavor = "multi_thread")]
async fn p11_p25_t99_an_endless_answer_streams_and_is_stored_before_its_first_byte() {
    const PIECE: usize = 64 * 1024;
    const PIECES: u64 = 16 * 1024; // a gibibyte
    let harness = Harness::start(Which::Postgres).await;
    let made = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&made);
    let answer = move || {
        let counted = Arc::clone(&counted);
        let pieces = (0..PIECES).map(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Frame::data(Bytes::from_static(&[b'x'; PIECE])))
        });
        let body = StreamBody::new(futures_util::stream::iter(pieces));
        let mut response = http::Response::new(BodyExt::boxed_unsync(body));
        *response.status_mut() = http::StatusCode::CREATED;
        response
    };
    let (address, _served) = streaming(&harness, answer).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let body = order(&r);
    let key_line = format!("Idempotency-Key: {key}");
    let length = format!("Content-Length: {}", body.len());
    let mut line = Line::open(address).await;
    let lines = [key_line.as_bytes(), length.as_bytes()];
    line.write(&request("POST /stream", &lines, body.as_bytes())).await;
    assert!(line.wait_for(b"201 Created").await);
    // The caller has its first bytes and reads no more: the command is done already.
    assert_eq!((harness.rows_in_state("done").await, harness.effects(&r).await), (1, 1));
    let again = post_stream(address, &key, &r).await;
    assert_eq!(again.code().as_deref(), Some("samekey.response-not-kept"));
    assert_eq!(again.json()["stored_status"], 201);
    // The sockets hold some megabytes; the rest is not made before somebody reads it.
    let made = made.load(Ordering::SeqCst);
    assert!(made < PIECES / 8, "{made} pieces were made for a caller that does not read");
    drop(line);
    tokio::time::timeout(Duration::from_secs(60), post_stream(address, &key, &r)).await.unwrap();
    assert_eq!(harness.effects(&r).await, 1);
}

/// The commit is held up by the test; no byte of the answer leaves before it is through.
#[tokio::test(flavor = "multi_thread")]
async fn p11_an_answer_waits_for_its_commit() {
    let harness = Harness::start(Which::Postgres).await;
    let held = harness.database().hold_commits().await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let body = order(&r);
    let mut answer = std::pin::pin!(harness.post("/orders", &key, &body));
    tokio::select! {
        _ = &mut answer => panic!("the answer came before the commit"),
        () = held.reached() => {}
    }
    // The commit waits now, and so does the answer: it is not there however often one looks.
    for _ in 0..50 {
        tokio::task::yield_now().await;
        assert!(futures_util::poll!(&mut answer).is_pending());
    }
    assert_eq!(harness.effects(&r).await, 0);
    held.release().await;
    assert_eq!(answer.await.status, 201);
    assert_eq!(harness.effects(&r).await, 1);
}
