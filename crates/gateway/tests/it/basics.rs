//! Commands with a key: once, and the same answer again.

use crate::backend::{Backend, Reply, answer, created};
use crate::client::Ask;
use crate::world::{Kind, World, on_both};

const ORDER: &str = r#"{"ref":"r1","amount":100}"#;

async fn t01_t02_t03_a_retry_gets_the_first_answer(kind: Kind) {
    let world = World::plain(kind, Backend::creating().await).await;
    let order = Ask::post("/orders?a=1", "\"k-1\"", ORDER);
    let first = world.send(&order).await;
    assert_eq!(first.status, 201);
    assert!(!first.is_replay());
    assert_eq!(first.one("idempotency-key"), Some("\"k-1\""));
    assert_eq!(first.one("via"), Some("1.1 samekey"));
    let other = world.another().await;
    for number in 0..20 {
        let address = if number % 2 == 0 { world.gateway.address } else { other.address };
        let retry = order.send(address).await;
        assert!(retry.is_replay(), "{retry:?}");
        assert_eq!(retry.one("cache-control"), Some("no-store"));
        assert_eq!(retry.kept(), first.kept());
    }
    assert_eq!(world.backend.effects(), 1);
    let seen = world.backend.seen().remove(0);
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/orders?a=1"));
    assert_eq!(seen.body, ORDER.as_bytes());
    assert_eq!(seen.one("accept-encoding"), Some("identity"));
    assert!(other.stop().await && world.gateway.stop().await);
}

async fn t04_t05_b91_other_content_is_refused_and_spoils_nothing(kind: Kind) {
    let world = World::plain(kind, Backend::creating().await).await;
    let order = Ask::post("/orders", "k", ORDER);
    let first = world.send(&order).await;
    let other = world.send(&Ask::post("/orders", "k", r#"{"ref":"r1","amount":200}"#)).await;
    assert_eq!((other.status, other.code().as_str()), (422, "samekey.key-reused"));
    assert!(!other.text().contains("stored-answer"), "{}", other.text());
    let again = world.send(&order).await;
    assert!(again.is_replay());
    assert_eq!(again.kept(), first.kept());
    assert_eq!(world.backend.effects(), 1);
}

async fn t06_t08_a_new_key_is_a_new_action_and_no_key_is_one_each_time(kind: Kind) {
    let world = World::plain(kind, Backend::creating().await).await;
    for key in ["k1", "k2"] {
        assert_eq!(world.send(&Ask::post("/orders", key, ORDER)).await.status, 201);
    }
    let keyless = Ask::new("POST", "/orders").body(ORDER);
    for _ in 0..2 {
        let sent = world.send(&keyless).await;
        assert_eq!((sent.status, sent.is_replay()), (201, false));
    }
    assert_eq!(world.backend.effects(), 4);
}

async fn t07_t29_b88_without_a_key_a_route_that_needs_one_runs_nothing(kind: Kind) {
    let settings = "[[route]]\nname = \"orders\"\npath = \"/orders\"\n";
    let world = World::with(kind, Backend::creating().await, settings).await;
    let bare = Ask::new("POST", "/orders?idempotency_key=k").body(r#"{"idempotency_key":"k"}"#);
    let refused = world.send(&bare).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "samekey.key-missing"));
    assert_eq!(world.backend.effects(), 0);
    assert_eq!(world.send(&Ask::post("/orders", "k", ORDER)).await.status, 201);
    for path in ["/orders/", "//orders", "/%6frders", "/x/../orders"] {
        let refused = world.send(&Ask::new("POST", path).body(ORDER)).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "samekey.path-ambiguous"));
    }
    assert_eq!(world.backend.effects(), 1);
}

async fn a_route_without_keys_passes_them_on(kind: Kind) {
    let settings = "[[route]]\nname = \"hooks\"\npath = \"/hooks/*\"\nkey = \"off\"\n";
    let world = World::with(kind, Backend::creating().await, settings).await;
    for _ in 0..2 {
        let passed = world.send(&Ask::post("/hooks/a", "\"k\"", ORDER)).await;
        assert_eq!((passed.status, passed.is_replay()), (201, false));
    }
    assert_eq!(world.backend.seen()[1].one("idempotency-key"), Some("\"k\""));
    assert_eq!(world.backend.effects(), 2);
}

async fn t10_b83_a_key_is_not_taken_along_to_another_path(kind: Kind) {
    let world = World::plain(kind, Backend::creating().await).await;
    assert_eq!(world.send(&Ask::post("/orders", "k", ORDER)).await.status, 201);
    for target in ["/orders/1/cancel", "/orders?to=b", "/orders/", "/orders?", "/%6frders"] {
        assert_eq!(world.send(&Ask::post(target, "k", ORDER)).await.status, 422, "{target}");
    }
    let patch = Ask::new("PATCH", "/orders").header("Idempotency-Key: k").body(ORDER);
    assert_eq!(world.send(&patch).await.status, 422);
    assert_eq!(world.backend.effects(), 1);
}

async fn t11_t12_b17_a_refusal_stays_the_answer_of_its_key(kind: Kind) {
    let refusals = ["402 Payment Required", "409 Conflict", "400 Bad Request", "404 Not Found"];
    for status in refusals {
        let backend = Backend::playing(move |_, number| {
            Reply::Bytes(if number == 1 { answer(status, &[], b"no") } else { created(number) })
        });
        let world = World::plain(kind, backend.await).await;
        let order = Ask::post("/orders", "k", ORDER);
        let first = world.send(&order).await;
        assert_eq!(first.text(), "no");
        let retry = world.send(&order).await;
        assert!(retry.is_replay());
        assert_eq!(retry.kept(), first.kept());
        let mended = Ask::post("/orders", "k", r#"{"ref":"r1","amount":1}"#);
        assert_eq!(world.send(&mended).await.status, 422);
        assert_eq!(world.send(&Ask::post("/orders", "k2", ORDER)).await.status, 201);
        assert_eq!(world.backend.effects(), 2);
    }
}

async fn a_refusal_of_the_moment_frees_the_key(kind: Kind) {
    for status in ["401", "403", "407", "413", "421", "425", "429"] {
        let backend = Backend::playing(move |_, number| {
            let refusal = format!("{status} No");
            Reply::Bytes(if number == 1 { answer(&refusal, &[], b"no") } else { created(number) })
        });
        let world = World::plain(kind, backend.await).await;
        let order = Ask::post("/orders", "k", ORDER);
        assert_eq!(world.send(&order).await.status.to_string(), status);
        let retry = world.send(&order).await;
        assert_eq!((retry.status, retry.is_replay()), (201, false));
        let keys: Vec<_> = world
            .backend
            .seen()
            .iter()
            .map(|seen| seen.one("idempotency-key").unwrap().to_owned())
            .collect();
        assert_eq!(keys[0], keys[1], "the same key at the upstream");
    }
}

async fn t13_t15_b85_every_kind_of_answer_is_replayed(kind: Kind) {
    let answers: [Vec<u8>; 6] = [
        b"HTTP/1.1 204 No Content\r\nETag: \"e\"\r\n\r\n".to_vec(),
        answer("303 See Other", &["Location: /orders/1", "Link: </1>", "Link: </2>"], b""),
        answer("202 Accepted", &["Content-Type: application/pdf"], b"%PDF\0\x01\xff\xfe"),
        answer("201 Created", &["Content-Type: application/json"], b"{\"a\":\"\\u0000\"}"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
            .to_vec(),
    ];
    let script = answers.clone();
    let backend = Backend::playing(move |_, number| Reply::Bytes(script[number - 1].clone()));
    let world = World::plain(kind, backend.await).await;
    for number in 0..answers.len() {
        let order = Ask::post("/orders", &format!("k{number}"), ORDER);
        let (first, retry) = (world.send(&order).await, world.send(&order).await);
        assert!(!first.is_replay() && retry.is_replay());
        assert_eq!(first.kept(), retry.kept(), "{number}");
    }
    assert_eq!(world.backend.effects(), answers.len());
}

async fn t17_to_t26_b23_what_is_not_one_key_runs_nothing(kind: Kind) {
    let world = World::plain(kind, Backend::creating().await).await;
    let long = "k".repeat(256);
    let bad: [&[&str]; 14] = [
        &[""],
        &["\"\""],
        &["  "],
        &["a", "b"],
        &["a", "a"],
        &["a, b"],
        &["\"a\", \"b\""],
        &["\"a\";v=1"],
        &[&long],
        &["schlüssel"],
        &["a\tb"],
        &["\"unterminated"],
        &["\"bad\\escape\""],
        &["a b"],
    ];
    for lines in bad {
        let order = Ask::new("POST", "/orders").body(ORDER);
        let order = lines
            .iter()
            .fold(order, |order, line| order.header(&format!("Idempotency-Key: {line}")));
        let refused = world.send(&order).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "samekey.key-invalid"),
            "{lines:?}"
        );
    }
    assert_eq!(world.backend.effects(), 0);
    let first = world.send(&Ask::post("/orders", "\"abc-0123456789abcdef\"", ORDER)).await;
    let bare = world.send(&Ask::post("/orders", "abc-0123456789abcdef", ORDER)).await;
    assert_eq!((first.status, bare.is_replay()), (201, true));
    assert_eq!(world.send(&Ask::post("/orders", "ABC-0123456789abcdef", ORDER)).await.status, 201);
    assert_eq!(world.send(&Ask::post("/orders", &"k".repeat(255), ORDER)).await.status, 201);
    assert_eq!(world.backend.effects(), 3);
}

async fn t30_to_t40_what_counts_as_the_same_request(kind: Kind) {
    let settings = "[default]\nsemantic_headers = [\"on-behalf-of\"]\n";
    let world = World::with(kind, Backend::creating().await, settings).await;
    let order = Ask::post("/orders?a=1&b=2", "k", ORDER);
    assert_eq!(world.send(&order).await.status, 201);
    let body = "{ \"amount\": 100,\n \"ref\": \"r1\" }";
    let same = [
        Ask::post("/orders?a=1&b=2", "k", body),
        order.clone().header("User-Agent: other").header("traceparent: 00-1-1-01"),
        order.clone().header("Authorization: Bearer new"),
    ];
    for same in same {
        assert!(world.send(&same).await.is_replay(), "{same:?}");
    }
    let other = [
        Ask::post("/orders?b=2&a=1", "k", ORDER),
        Ask::post("/orders?a=1&b=2", "k", &ORDER.replace("100", "100.0")),
        Ask::post("/orders?a=1&b=2", "k", &ORDER.replace("100", "1e2")),
        order.clone().header("On-Behalf-Of: them"),
        order.clone().header("Content-Encoding: gzip"),
        Ask::new("POST", "/orders?a=1&b=2").header("Idempotency-Key: k").body(ORDER),
    ];
    for other in other {
        assert_eq!(world.send(&other).await.status, 422, "{other:?}");
    }
    assert_eq!(world.backend.effects(), 1);
}

async fn t97_b94_a_body_over_the_limit_never_reaches_the_upstream(kind: Kind) {
    let settings = "[default]\nbody_bytes_max = 1000\n";
    let world = World::with(kind, Backend::creating().await, settings).await;
    let sized = |bytes: usize| Ask::post("/orders", &format!("k{bytes}"), &"x".repeat(bytes));
    assert_eq!(world.send(&sized(1_000)).await.status, 201);
    for bytes in [1_001, 5_000_000] {
        let refused = world.send(&sized(bytes)).await;
        assert_eq!((refused.status, refused.code().as_str()), (413, "samekey.body-too-large"));
    }
    assert_eq!(world.backend.effects(), 1);
}

on_both!(
    a_route_without_keys_passes_them_on,
    t01_t02_t03_a_retry_gets_the_first_answer,
    t04_t05_b91_other_content_is_refused_and_spoils_nothing,
    t06_t08_a_new_key_is_a_new_action_and_no_key_is_one_each_time,
    t07_t29_b88_without_a_key_a_route_that_needs_one_runs_nothing,
    t10_b83_a_key_is_not_taken_along_to_another_path,
    t11_t12_b17_a_refusal_stays_the_answer_of_its_key,
    a_refusal_of_the_moment_frees_the_key,
    t13_t15_b85_every_kind_of_answer_is_replayed,
    t17_to_t26_b23_what_is_not_one_key_runs_nothing,
    t30_to_t40_what_counts_as_the_same_request,
    t97_b94_a_body_over_the_limit_never_reaches_the_upstream,
);
