//! Requests that two readers could cut in two ways, and requests that are too much.

use super::harness::wire::{Line, dialogue, order_under, request, statuses};
use super::harness::{Harness, Which, fresh, on_both, order};
use samekey::Setup;

on_both!(
    t95_a_refused_command_is_not_asked_for_its_body,
    t96_a_trailer_is_no_header,
    p24_t97_a_body_over_the_limit_is_refused_before_the_look_up,
    t97_a_gzip_bomb_is_hashed_as_it_was_sent,
    t97_deep_json_is_hashed_as_raw_bytes_and_runs,
    t97_too_many_headers_are_refused,
    t97_a_body_that_the_service_has_read_needs_no_room_again,
);

/// An order that stands in the body of another one, as a smuggler writes it.
fn smuggled(reference: &str, key: &str) -> Vec<u8> {
    let body = order(reference);
    let length = format!("Content-Length: {}", body.len());
    let key = format!("Idempotency-Key: {key}");
    request("POST /orders", &[length.as_bytes(), key.as_bytes()], body.as_bytes())
}

/// Sends a request with these framing lines, whose body hides another one. Whatever the server makes of
/// it: it refuses and closes, or runs one command; never does the hidden one run.
async fn never_two(harness: &Harness, name: &str, version: &str, framing: &[&[u8]], lead: &[u8]) {
    let (key, hidden_key) = (fresh("key"), fresh("key"));
    let (outer, hidden) = (fresh("ref"), fresh("ref"));
    let key_line = format!("Idempotency-Key: {key}");
    let mut lines = vec![key_line.as_bytes()];
    let inner = smuggled(&hidden, &hidden_key);
    let mut body = lead.to_vec();
    body.extend_from_slice(&inner);
    let whole = format!("Content-Length: {}", body.len());
    for line in framing {
        lines.push(if *line == b"CL" { whole.as_bytes() } else { line });
    }
    let bytes = request(&format!("POST /orders?{outer}"), &lines, &body);
    let text = String::from_utf8_lossy(&bytes).replacen("HTTP/1.1", version, 1);
    let calls = harness.calls();
    let came = dialogue(harness.address, text.as_bytes()).await;
    let statuses = statuses(&came);
    let ran = harness.calls() - calls;
    let ours: Vec<u16> = statuses.iter().copied().filter(|status| *status < 400).collect();
    assert!(ran <= 1, "{name}: {ran} commands ran, {statuses:?}");
    assert!(ours.len() <= 1, "{name}: {statuses:?}");
    if ran == 0 {
        assert_eq!(statuses, [400], "{name}: refused, and closed");
    }
    // Where the outer one ran with the whole as its body, the hidden one is only a text in it.
    let key = [("idempotency-key", hidden_key.as_str())];
    let fresh = harness.send("POST", "/orders", &key, order(&hidden)).await;
    assert_eq!((fresh.status, fresh.is_replay()), (201, false), "{name}: the hidden key was used");
}

/// A name, the version, the framing lines (`CL` is the right length), and what stands first in the body.
type Framing<'a> = (&'a str, &'a str, &'a [&'a [u8]], &'a [u8]);

#[tokio::test(flavor = "multi_thread")]
async fn t92_no_framing_makes_two_commands_of_one() {
    let harness = Harness::start(Which::Sqlite).await;
    let chunked = b"Transfer-Encoding: chunked".as_slice();
    let http11 = "HTTP/1.1";
    let cases: &[Framing<'_>] = &[
        ("length and chunked", http11, &[b"CL", chunked], b"0\r\n\r\n"),
        ("chunked and length", http11, &[chunked, b"CL"], b"0\r\n\r\n"),
        ("two lengths", http11, &[b"CL", b"Content-Length: 0"], b""),
        ("two lengths, the short one first", http11, &[b"Content-Length: 0", b"CL"], b""),
        ("lengths as a list", http11, &[b"Content-Length: 0, 5"], b""),
        ("an unknown coding", http11, &[b"Transfer-Encoding: xchunked"], b"0\r\n\r\n"),
        (
            "an unknown coding and a length",
            http11,
            &[b"Transfer-Encoding: xchunked", b"CL"],
            b"0\r\n\r\n",
        ),
        ("chunked is not last", http11, &[b"Transfer-Encoding: chunked, identity"], b"0\r\n\r\n"),
        ("a signed length", http11, &[b"Content-Length: +0"], b""),
        ("a negative length", http11, &[b"Content-Length: -1"], b""),
        ("a hexadecimal length", http11, &[b"Content-Length: 0x0"], b""),
        ("an empty length", http11, &[b"Content-Length: "], b""),
        ("a huge length", http11, &[b"Content-Length: 99999999999999999999"], b""),
        ("a blank before the colon", http11, &[b"Content-Length : 0"], b""),
        (
            "a blank before the coding's colon",
            http11,
            &[b"Transfer-Encoding : chunked"],
            b"0\r\n\r\n",
        ),
        ("a folded coding", http11, &[b"Transfer-Encoding:\r\n chunked"], b"0\r\n\r\n"),
        ("chunked in HTTP/1.0", "HTTP/1.0", &[chunked], b"0\r\n\r\n"),
        ("chunked and length in HTTP/1.0", "HTTP/1.0", &[chunked, b"CL"], b"0\r\n\r\n"),
        ("a chunk with a sign", http11, &[chunked], b"+0\r\n\r\n"),
        ("a chunk with 0x", http11, &[chunked], b"0x0\r\n\r\n"),
    ];
    for (name, version, framing, lead) in cases {
        never_two(&harness, name, version, framing, lead).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t92_bare_line_feeds_make_one_command_at_most() {
    let harness = Harness::start(Which::Sqlite).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let body = order(&r);
    let text = format!(
        "POST /orders HTTP/1.1\nHost: test\nAuthorization: Bearer a1\nIdempotency-Key: {key}\nContent-Length: {}\n\n{body}",
        body.len()
    );
    let came = dialogue(harness.address, text.as_bytes()).await;
    let found = (statuses(&came), harness.effects(&r).await);
    assert!(found == (vec![201], 1) || found == (vec![400], 0), "{found:?}");
}

/// A request behind a replay on the same connection is a request of its own, with its own answer.
#[tokio::test(flavor = "multi_thread")]
async fn t92_a_request_behind_a_replay_is_its_own() {
    let harness = Harness::start(Which::Sqlite).await;
    let (key, other, r, s) = (fresh("key"), fresh("key"), fresh("ref"), fresh("ref"));
    let first = harness.post("/orders", &key, &order(&r)).await;
    let mut both = smuggled(&r, &key);
    both.extend_from_slice(&smuggled(&s, &other));
    let mut line = Line::open(harness.address).await;
    line.write(&both).await;
    let replay = line.answer().await.unwrap();
    assert!(replay.is_replay());
    replay.assert_same(&first);
    let own = line.answer().await.unwrap();
    assert_eq!((own.status, own.is_replay()), (201, false));
    assert_eq!((harness.effects(&r).await, harness.effects(&s).await), (1, 1));
}

async fn t95_a_refused_command_is_not_asked_for_its_body(which: Which) {
    let harness = Harness::with(which, Setup::default(), |choices| {
        choices.body_bytes_max = 1_000;
    })
    .await;
    let r = fresh("ref");
    let body = order(&r);
    let length = format!("Content-Length: {}", body.len());
    let (length, expect) = (length.as_bytes(), b"Expect: 100-continue".as_slice());
    let too_long = b"Content-Length: 1001".as_slice();
    let good = format!("Idempotency-Key: {}", fresh("key"));
    let good = good.as_bytes();
    for path in ["/orders", "/validated"] {
        for (name, lines, status) in [
            ("a bad key", vec![expect, length, b"Idempotency-Key: a,b"], 400),
            ("no key", vec![expect, length], 400),
            ("a long body", vec![expect, too_long, good], 413),
            ("no credential", vec![expect, length, good], 401),
        ] {
            let mut head = request(&format!("POST {path}"), &lines, b"");
            if status == 401 {
                head = String::from_utf8(head).unwrap().replace("Bearer a1", "Bearer no").into();
            }
            let mut line = Line::open(harness.address).await;
            line.write(&head).await;
            let reply = line.answer().await.unwrap();
            assert_eq!(reply.status, status, "{path} {name}");
            // The client has not sent its body and need not: the connection ends here.
            assert_eq!(statuses(&line.rest().await), [status], "{path} {name}: no 100 before it");
        }
        assert_eq!(harness.effects(&r).await, 0);
    }
    let mut line = Line::open(harness.address).await;
    line.write(&request("POST /orders", &[expect, length, good], b"")).await;
    assert!(line.wait_for(b"HTTP/1.1 100 Continue\r\n\r\n").await);
    line.write(body.as_bytes()).await;
    assert_eq!(line.answer().await.unwrap().status, 201);
    assert_eq!(harness.effects(&r).await, 1);
}

async fn t96_a_trailer_is_no_header(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let body = order(&r);
    let key = fresh("key");
    let chunked =
        |trailers: &str| format!("{:x}\r\n{body}\r\n0\r\n{trailers}\r\n", body.len()).into_bytes();
    let coding = b"Transfer-Encoding: chunked".as_slice();
    let late_key = format!("Idempotency-Key: {key}\r\n");
    let send = async |lines: &[&[u8]], trailers: &str| {
        let mut line = Line::open(harness.address).await;
        line.write(&request("POST /orders", lines, &chunked(trailers))).await;
        line.answer().await.unwrap()
    };
    let keyless = send(&[coding, b"Trailer: Idempotency-Key"], &late_key).await;
    assert_eq!(keyless.code().as_deref(), Some("samekey.key-missing"));
    assert_eq!(harness.effects(&r).await, 0);
    let own = format!("Idempotency-Key: {}", fresh("key"));
    let late = format!("{late_key}Content-Length: 3\r\n");
    let first = send(&[coding, own.as_bytes()], &late).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    // It ran under the key of its head, and the one of its trailer is still free.
    let again = send(&[coding, own.as_bytes()], "").await;
    assert!(again.is_replay());
    again.assert_same(&first);
    let late = harness.post("/orders", &key, &body).await;
    assert_eq!((late.status, late.is_replay()), (201, false));
}

async fn p24_t97_a_body_over_the_limit_is_refused_before_the_look_up(which: Which) {
    let harness = Harness::start(which).await;
    // A mebibyte by default, said before a byte of it is sent.
    let (key, r) = (fresh("key"), fresh("ref"));
    let key_line = format!("Idempotency-Key: {key}");
    let lines = [key_line.as_bytes(), b"Content-Length: 1048577"];
    let mut line = Line::open(harness.address).await;
    line.write(&request("POST /orders", &lines, b"")).await;
    let refused = line.answer().await.unwrap();
    assert_eq!(refused.code().as_deref(), Some("samekey.body-too-large"));
    assert_eq!((refused.status, refused.header("connection")), (413, Some("close")));
    assert_eq!(statuses(&line.rest().await), [413]);
    // In chunks nobody knows the length beforehand; what is over the limit is not read.
    let coding = b"Transfer-Encoding: chunked".as_slice();
    let mut line = Line::open(harness.address).await;
    line.write(&request("POST /orders", &[key_line.as_bytes(), coding], b"")).await;
    let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).into_bytes();
    let mut sent = 0;
    while sent < 4096 && line.write(&piece).await {
        sent += 1;
    }
    assert!(sent < 4096, "a quarter of a gibibyte was taken in");
    // A key that has an answer is not looked up either.
    assert_eq!(harness.post("/orders", &key, &order(&r)).await.status, 201);
    let mut line = Line::open(harness.address).await;
    line.write(&request("POST /orders", &lines, b"")).await;
    assert_eq!(line.answer().await.unwrap().status, 413);
    assert!(harness.post("/orders", &key, &order(&r)).await.is_replay());
    assert_eq!(harness.effects(&r).await, 1);
}

async fn t97_a_gzip_bomb_is_hashed_as_it_was_sent(which: Which) {
    let harness = Harness::start(which).await;
    let bomb = super::harness::gzip(&vec![b'0'; 16 << 20]);
    assert!(bomb.len() < 64 * 1024);
    let key = fresh("key");
    let headers = [("idempotency-key", key.as_str()), ("content-encoding", "gzip")];
    let first = harness.send("POST", "/orders", &headers, bomb.clone()).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert!(harness.send("POST", "/orders", &headers, bomb.clone()).await.is_replay());
    // The same content, packed another way, is another body.
    let other = super::harness::gzip(&vec![b'0'; (16 << 20) + 1]);
    assert_eq!(harness.send("POST", "/orders", &headers, other).await.status, 422);
    assert_eq!(harness.calls(), 1);
}

async fn t97_deep_json_is_hashed_as_raw_bytes_and_runs(which: Which) {
    let harness = Harness::start(which).await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let body = format!(r#"{{"ref":"{r}","deep":{deep}}}"#);
    assert_eq!(harness.post("/orders", &key, &body).await.status, 201);
    assert!(harness.post("/orders", &key, &body).await.is_replay());
    let other_order = format!(r#"{{"deep":{deep},"ref":"{r}"}}"#);
    assert_eq!(harness.post("/orders", &key, &other_order).await.status, 422);
    let never_closed = format!(r#"{{"ref":"{r}","deep":{}"#, "[".repeat(100_000));
    assert_eq!(harness.post("/orders", &fresh("key"), &never_closed).await.status, 201);
    assert_eq!(harness.effects(&r).await, 2);
}

async fn t97_too_many_headers_are_refused(which: Which) {
    let harness = Harness::start(which).await;
    let r = fresh("ref");
    let many = |count: usize| {
        let key = fresh("key");
        let lines: Vec<Vec<u8>> = (0..count).map(|n| format!("x-{n}: y").into_bytes()).collect();
        let body = order(&r);
        let head = [format!("Idempotency-Key: {key}"), format!("Content-Length: {}", body.len())];
        let all = head.iter().map(String::as_bytes).chain(lines.iter().map(Vec::as_slice));
        request("POST /orders", &all.collect::<Vec<_>>(), body.as_bytes())
    };
    let mut line = Line::open(harness.address).await;
    line.write(&many(200)).await;
    assert_eq!(line.answer().await.unwrap().status, 431);
    // So many that the server hangs up while they are still being sent.
    let mut line = Line::open(harness.address).await;
    line.write(&many(100_000)).await;
    assert!(line.answer().await.is_none_or(|reply| reply.status == 431));
    assert_eq!((harness.effects(&r).await, harness.calls()), (0, 0));
    let reply = order_under(harness.address, &[fresh("key").as_bytes()], &order(&r)).await;
    assert_eq!(reply.unwrap().status, 201);
}

/// A service may read a body before it hands the command over. A body has room once: were it to need it
/// twice, one that fills the room would wait for itself.
async fn t97_a_body_that_the_service_has_read_needs_no_room_again(which: Which) {
    let harness = Harness::with(which, Setup::default(), |choices| {
        choices.body_bytes_max = 40 << 20;
    })
    .await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let mut body = order(&r);
    body.push_str(&" ".repeat((40 << 20) - body.len()));
    let began = std::time::Instant::now();
    let reply = harness.post("/validated", &key, &body).await;
    assert_eq!((reply.status, reply.is_replay()), (201, false), "after {:?}", began.elapsed());
    assert!(harness.post("/validated", &key, &order(&r)).await.is_replay());
    assert_eq!(harness.effects(&r).await, 1);
}
