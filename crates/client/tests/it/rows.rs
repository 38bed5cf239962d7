//! Every row of the outcome table that one connection over HTTP/1.1 can show, through both clients.

use crate::support::{
    ATTEMPT, Act, Peer, QUICK, attempt, bare, command, counterparty, first_attempt, lab, order,
    retrying,
};
use samekey_client::Counterparty;
use samekey_core::outcome::Outcome;
use samekey_core::profile::Limits;
use samekey_core::receipt::Receipt;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// Long enough for loopback, and short enough to wait for.
const SHORT: Duration = Duration::from_millis(300);

/// Both clients say the same of the same act.
async fn row(name: &str, act: Act, expected: &str) {
    let peer = Peer::new(move |_| act.clone()).await;
    let hung =
        if expected.contains("timed-out") || name.contains("hangs") { SHORT } else { ATTEMPT };
    assert_eq!(attempt(&bare(peer.addr), hung).await, expected, "{name}: the generic counterparty");
    let limits = Limits { attempt_time_max: hung.min(QUICK.attempt_time_max), ..QUICK };
    let limits = Limits { attempts_max: 1, ..limits };
    let first = first_attempt(&retrying(limits, None), &peer.url("/payments")).await;
    assert_eq!(first, expected, "{name}: the retrying client");
}

#[tokio::test]
async fn statuses_prove_what_the_table_says() {
    for (status, expected) in [
        ("200 OK", "done"),
        ("201 Created", "done"),
        ("202 Accepted", "pending"),
        ("204 No Content", "done"),
        ("301 Moved Permanently", "unknown: answer-unclear"),
        ("302 Found", "unknown: answer-unclear"),
        ("307 Temporary Redirect", "unknown: answer-unclear"),
        ("308 Permanent Redirect", "unknown: answer-unclear"),
        ("400 Bad Request", "refused"),
        ("401 Unauthorized", "not accepted: not-accepted"),
        ("402 Payment Required", "refused"),
        ("403 Forbidden", "not accepted: not-accepted"),
        ("404 Not Found", "refused"),
        ("407 Proxy Authentication Required", "not accepted: not-accepted"),
        ("408 Request Timeout", "unknown: server-error"),
        ("409 Conflict", "refused"),
        ("413 Content Too Large", "refused"),
        ("421 Misdirected Request", "not processed"),
        ("422 Unprocessable Content", "refused"),
        ("425 Too Early", "not processed"),
        ("429 Too Many Requests", "rate limited"),
        ("500 Internal Server Error", "unknown: server-error"),
        ("502 Bad Gateway", "unknown: server-error"),
        ("503 Service Unavailable", "unknown: server-error"),
        ("504 Gateway Timeout", "unknown: server-error"),
        ("520 Web Server Returned an Unknown Error", "unknown: server-error"),
        ("599 Whatever", "unknown: server-error"),
        ("799 Whatever", "unknown: answer-unclear"),
    ] {
        let length = if status.starts_with("204") { "" } else { "content-length: 0\n" };
        let answer = format!("HTTP/1.1 {status}\n{length}location: /elsewhere\n\n");
        row(status, Act::say(&answer), expected).await;
    }
}

#[tokio::test]
async fn broken_connections_prove_what_the_table_says() {
    let cut = "HTTP/1.1 201 Created\ncontent-length: 100\n\n{\"a\":";
    let cut = cut.replace('\n', "\r\n").into_bytes();
    for (name, act, expected) in [
        ("closed after the request", Act::say(""), "unknown: connection-lost"),
        ("reset after the request", Act::SayAndReset(Vec::new()), "unknown: connection-lost"),
        ("no answer, hangs", Act::SayAndHang(Vec::new()), "unknown: timed-out"),
        ("cut in the status line", Act::say("HTTP/1.1 20"), "unknown: connection-lost"),
        ("cut in the head", Act::say("HTTP/1.1 201 Created\nconte"), "unknown: connection-lost"),
        (
            "the head hangs",
            Act::SayAndHang(b"HTTP/1.1 201 Created\r\n".to_vec()),
            "unknown: timed-out",
        ),
        ("1xx, then closed", Act::say("HTTP/1.1 100 Continue\n\n"), "unknown: connection-lost"),
        (
            "early hints, then closed",
            Act::say("HTTP/1.1 103 Hints\n\n"),
            "unknown: connection-lost",
        ),
        (
            "1xx, then an answer",
            Act::say("HTTP/1.1 102 Processing\n\nHTTP/1.1 201 Created\ncontent-length: 0\n\n"),
            "done",
        ),
        ("rubbish", Act::say("220 mail.test ESMTP\n"), "unknown: answer-unclear"),
        ("2xx, body cut", Act::Say(cut.clone()), "done, body lost"),
        ("2xx, body reset", Act::SayAndReset(cut.clone()), "done, body lost"),
        ("2xx, body hangs", Act::SayAndHang(cut), "done, body lost"),
        (
            "2xx, chunked body cut",
            Act::say("HTTP/1.1 201 Created\ntransfer-encoding: chunked\n\n5\nab"),
            "done, body lost",
        ),
        (
            "4xx, body cut",
            Act::say("HTTP/1.1 409 Conflict\ncontent-length: 100\n\n{\"a\":"),
            "unknown: connection-lost",
        ),
        (
            "5xx, body cut",
            Act::say("HTTP/1.1 503 No\ncontent-length: 100\n\n{\"a\":"),
            "unknown: server-error",
        ),
    ] {
        row(name, act, expected).await;
    }
}

/// As a payment is sent that is larger than what the other side takes before it closes.
#[tokio::test]
async fn a_request_that_breaks_off_while_it_is_written_is_unknown() {
    let peer = Peer::new(|_| Act::Greet(Vec::new())).await;
    let mut large = command("ORD-1", 1200);
    let body = vec![b' '; 900 * 1024];
    large.request = samekey_client::HttpRequest::post("/payments").json(body).encode().unwrap();
    let reply = bare(peer.addr).send(order(&large, ATTEMPT)).await;
    assert_eq!(crate::support::class(&reply.told.what), "unknown: connection-lost");
}

#[tokio::test]
async fn what_was_refused_before_the_first_byte_was_not_sent() {
    // The port is held, and nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(attempt(&bare(addr), ATTEMPT).await, "not sent");
    let client = retrying(QUICK, None);
    assert_eq!(first_attempt(&client, &format!("http://{addr}/payments")).await, "not sent");

    let unknown = counterparty("https://nobody.invalid", "");
    assert_eq!(attempt(&unknown, ATTEMPT).await, "not sent");
    assert_eq!(first_attempt(&client, "https://nobody.invalid/payments").await, "not sent");
}

/// Whose connection is closed as it stands has sent nothing, and whose was closed a moment later may have.
#[tokio::test]
async fn a_connection_that_is_closed_at_once_is_not_sent_or_unknown_and_never_more() {
    let peer = Peer::new(|_| Act::Close).await;
    for _ in 0..20 {
        let came_to = attempt(&bare(peer.addr), ATTEMPT).await;
        assert!(came_to == "not sent" || came_to == "unknown: connection-lost", "{came_to}");
    }
}

#[tokio::test]
async fn b07_a_connect_timeout_was_not_sent_and_a_response_timeout_is_unknown() {
    let hole = lab(r#"{"connections":{"mode":"black_hole"}}"#).await;
    assert!(hole.until(ATTEMPT, |lab| lab.door() == samekey_lab::faults::Door::BlackHole).await);
    let config = "allow_networks = [\"127.0.0.0/8\"]\nconnect_time_max_ms = 200";
    // The lab fills its backlog first; until then a connection may still stand.
    let dead = counterparty(&format!("http://{}", hole.addr()), config);
    let mut came_to = String::new();
    let mut took = Duration::ZERO;
    for _ in 0..50 {
        let began = Instant::now();
        came_to = attempt(&dead, ATTEMPT).await;
        took = began.elapsed();
        if came_to == "not sent" {
            break;
        }
    }
    assert_eq!(came_to, "not sent");
    assert!(took < Duration::from_secs(2), "the connection has a limit of its own: {took:?}");

    let hanging = lab(r#"{"rules":[{"wire":"hang"}]}"#).await;
    assert_eq!(attempt(&bare(hanging.addr()), SHORT).await, "unknown: timed-out");
    assert_eq!(hanging.counts().payments, 1, "it was paid all the same");
}

#[tokio::test]
async fn a_body_over_the_limit_leaves_a_fact_and_an_endless_one_ends() {
    for body in [r#"{"seeded":70000}"#, r#""endless""#] {
        let plan =
            format!(r#"{{"rules":[{{"answer":{{"body":{body},"location":"/payments/7"}}}}]}}"#);
        let lab = lab(&plan).await;
        let reply = bare(lab.addr()).send(order(&command("ORD-1", 1200), ATTEMPT)).await;
        let Outcome::Done(Receipt::Fact { status, location }) = &reply.told.what else {
            panic!("{body}: {reply:?}")
        };
        assert_eq!((*status, location.as_deref()), (201, Some(&b"/payments/7"[..])));
    }
    let kept = lab(r#"{"rules":[{"answer":{"body":{"seeded":65536}}}]}"#).await;
    let reply = bare(kept.addr()).send(order(&command("ORD-1", 1200), ATTEMPT)).await;
    let Outcome::Done(Receipt::Kept(answer)) = &reply.told.what else { panic!("{reply:?}") };
    assert_eq!(answer.body.len(), 65_536);
}

#[tokio::test]
async fn retry_after_is_told_in_both_forms() {
    for (line, asked) in [
        ("retry-after: 7\n", Some(7)),
        (
            "date: Mon, 30 Nov 2026 12:00:00 GMT\nretry-after: Mon, 30 Nov 2026 12:00:09 GMT\n",
            Some(9),
        ),
        ("retry-after: -7\n", None),
        ("retry-after: soon\n", None),
    ] {
        let answer = format!("HTTP/1.1 503 No\ncontent-length: 0\n{line}\n");
        let peer = Peer::new(move |_| Act::say(&answer)).await;
        let reply = bare(peer.addr).send(order(&command("ORD-1", 1200), ATTEMPT)).await;
        assert_eq!(reply.told.retry_after.map(|wait| wait.as_secs()), asked, "{line}");
        assert_eq!(reply.status, Some(503));
    }
}

/// A redirect, an environment proxy and a kept connection would each send something somewhere a second time.
#[tokio::test]
async fn one_attempt_is_one_request_on_a_connection_of_its_own() {
    let lab = lab("{}").await;
    let counterparty = bare(lab.addr());
    let client = retrying(QUICK, None);
    for number in 0..3 {
        let reply = counterparty.send(order(&command(&format!("A-{number}"), 1), ATTEMPT)).await;
        assert_eq!(reply.status, Some(201));
        let body = format!(r#"{{"order_id":"B-{number}"}}"#);
        let request = client.post(&lab.url("/payments")).body(body).build().unwrap();
        assert_eq!(client.execute(request).await.unwrap().attempts[0].status, Some(201));
    }
    let mut connections: Vec<u64> =
        lab.requests().unwrap().iter().map(|seen| seen.arrived.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), 6);
}
