//! What passes through: reads, commands without a key, and whatever belongs to one connection.

use crate::backend::{Backend, Reply, answer, until};
use crate::client::{Answer, Ask, exchange, read_to_end};
use crate::world::{Kind, World};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn plain(backend: Backend) -> World {
    World::plain(Kind::Sqlite, backend).await
}

#[tokio::test]
async fn t09_a_read_passes_through_with_its_key_and_is_read_each_time() {
    let backend = Backend::playing(|_, number| {
        Reply::Bytes(answer("200 OK", &["X-Own: 1"], format!("n{number}").as_bytes()))
    });
    let world = plain(backend.await).await;
    let read = Ask::new("GET", "/orders/1?x=%20").header("Idempotency-Key: \"k\"");
    for number in 1..=2 {
        let answer = world.send(&read).await;
        assert_eq!((answer.status, answer.text()), (200, format!("n{number}")));
        assert_eq!(answer.one("x-own"), Some("1"));
        assert!(!answer.is_replay());
    }
    let seen = &world.backend.seen()[1];
    assert_eq!(seen.target, "/orders/1?x=%20");
    assert_eq!(seen.one("idempotency-key"), Some("\"k\""));
    assert_eq!(seen.one("host"), Some(world.backend.address.to_string().as_str()));
    assert_eq!(seen.one("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(seen.one("x-forwarded-host"), Some("shop.example"));
}

#[tokio::test]
async fn a_target_that_names_its_host_is_sent_on_as_a_path() {
    let world = plain(Backend::creating().await).await;
    world.send(&Ask::new("GET", "http://user:secret@other.example:81/a?b#c")).await;
    let seen = &world.backend.seen()[0];
    assert_eq!(seen.target, "/a?b");
    assert_eq!(seen.one("host"), Some(world.backend.address.to_string().as_str()));
    assert_eq!(seen.one("x-forwarded-host"), Some("other.example:81"));
    for bad in ["*", "a", "http://"] {
        assert_eq!(world.send(&Ask::new("OPTIONS", bad)).await.status, 400, "{bad}");
    }
    assert_eq!(world.backend.effects(), 1);
}

#[tokio::test]
async fn b52_a_head_request_keeps_the_length_that_it_is_told() {
    let backend = Backend::playing(|_, _| {
        Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 4711\r\n\r\n".to_vec())
    });
    let world = plain(backend.await).await;
    let answer = world.send(&Ask::new("HEAD", "/")).await;
    assert_eq!((answer.one("content-length"), answer.body.len()), (Some("4711"), 0));
}

#[tokio::test]
async fn t89_t90_t94_what_belongs_to_one_connection_stays_there() {
    let backend = Backend::playing(|_, _| {
        let headers = [
            "Connection: X-Secret",
            "X-Secret: s",
            "Keep-Alive: timeout=9",
            "Upgrade: foo",
            "Set-Cookie: a=1",
            "Set-Cookie: b=2",
            "WWW-Authenticate: Basic",
        ];
        Reply::Bytes(answer("201 Created", &headers, b"ok"))
    });
    let world = plain(backend.await).await;
    let order = Ask::post("/orders", "k", "{}")
        .header("Connection: x-hop")
        .header("X-Hop: 1")
        .header("Upgrade: foo")
        .header("TE: trailers")
        .header("Proxy-Authorization: Basic x")
        .header("Idempotent-Replayed: true")
        .header("X-Org: B")
        .header("X-Forwarded-For: 1.2.3.4");
    let first = world.send(&order).await;
    assert_eq!(first.all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!((first.one("x-secret"), first.one("upgrade")), (None, None));
    let replay = world.send(&order).await;
    assert!(replay.is_replay());
    for name in ["set-cookie", "www-authenticate", "x-secret", "keep-alive"] {
        assert_eq!(replay.one(name), None, "{name}");
    }
    assert_eq!(world.backend.effects(), 1);
    let seen = &world.backend.seen()[0];
    let gone = ["x-hop", "upgrade", "te", "proxy-authorization", "idempotent-replayed", "x-org"];
    for name in gone {
        assert_eq!(seen.one(name), None, "{name}");
    }
    // What the upstream reads is our word about our connection.
    assert_eq!(seen.one("connection"), Some("close"));
    assert_eq!(seen.one("x-forwarded-for"), Some("127.0.0.1"));
}

#[tokio::test]
async fn t92_the_upstream_never_sees_more_requests_than_the_client_sent() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunk = format!("0\r\n\r\n{smuggled}");
    let cases = [
        format!(
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunk}",
            chunk.len()
        ),
        format!(
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{smuggled}",
            smuggled.len()
        ),
        format!(
            "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\nConnection: close\r\n\r\n{chunk}"
        ),
        format!(
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\nConnection: close\r\n\r\n{smuggled}"
        ),
        format!("POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"),
        "POST /a HTTP/1.1\nHost: a\nContent-Length: 0\nConnection: close\n\n".to_owned(),
        "POST /a HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            .to_owned(),
        "POST /a HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
        format!(
            "GET /a HTTP/1.1\r\nHost: a\r\nUpgrade: foo\r\nConnection: Upgrade, close\r\n\r\n{smuggled}"
        ),
        format!("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n{smuggled}"),
    ];
    for case in cases {
        let world = plain(Backend::creating().await).await;
        let answer = Answer::parse(&exchange(world.gateway.address, case.as_bytes()).await);
        let seen = world.backend.seen();
        assert!(seen.iter().all(|seen| seen.target == "/a"), "{case}\n{seen:?}");
        assert!(seen.len() <= 1, "{case}");
        assert_eq!(world.backend.broken(), 0, "{case}");
        assert!(answer.status == 400 || seen.len() == 1, "{case}\n{answer:?}");
    }
}

#[tokio::test]
async fn t92_a_request_names_one_host() {
    let world = plain(Backend::creating().await).await;
    for hosts in ["Host: a\r\nHost: b\r\n", "Host: a\r\nHost: a\r\n", ""] {
        let request = format!("GET /a HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        let answer = Answer::parse(&exchange(world.gateway.address, request.as_bytes()).await);
        assert_eq!((answer.status, answer.code().as_str()), (400, "samekey.target-invalid"));
    }
    assert_eq!(world.backend.effects(), 0);
}

#[tokio::test]
async fn t98_a_head_that_does_not_end_is_let_go_without_an_idle_limit() {
    let limits = "[limits]\nheaders_time_max_ms = 300\n";
    let world = World::with(Kind::Sqlite, Backend::creating().await, limits).await;
    for opening in ["", "P", "POST / HTT", "POST / HTTP/1.1\r\nHost: a\r\nX"] {
        let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
        stream.write_all(opening.as_bytes()).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(5), read_to_end(&mut stream)).await;
        assert!(ended.is_ok(), "{opening:?} was not let go");
    }
}

#[tokio::test]
async fn t95_a_body_is_not_asked_for_under_a_key_that_cannot_be_read() {
    let world = plain(Backend::creating().await).await;
    let head = "POST /orders HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n";
    let bad = format!("{head}Idempotency-Key: a,b\r\n\r\n");
    let answer = exchange(world.gateway.address, bad.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    // And under one that can it is.
    let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
    let good = format!("{head}Connection: close\r\nIdempotency-Key: a\r\n\r\n");
    stream.write_all(good.as_bytes()).await.unwrap();
    let mut asked = [0; 12];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100");
    stream.write_all(b"hello").await.unwrap();
    let rest = read_to_end(&mut stream).await;
    assert!(String::from_utf8_lossy(&rest).contains("HTTP/1.1 201"));
    assert_eq!(world.backend.seen()[0].one("expect"), None);
}

#[tokio::test]
async fn t96_trailers_mean_nothing_and_go_nowhere() {
    let world = plain(Backend::creating().await).await;
    let head = "POST /orders HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\nConnection: close\r\n\r\n";
    let body = "2\r\n{}\r\n0\r\nIdempotency-Key: k\r\nContent-Length: 9\r\n\r\n";
    for _ in 0..2 {
        let bytes = exchange(world.gateway.address, format!("{head}{body}").as_bytes()).await;
        let answer = Answer::parse(&bytes);
        assert_eq!((answer.status, answer.is_replay()), (201, false));
    }
    for seen in world.backend.seen() {
        assert_eq!((seen.one("trailer"), seen.one("idempotency-key")), (None, None));
        assert_eq!(seen.body, b"{}");
    }
}

#[tokio::test]
async fn t97_a_head_beyond_measure_is_refused() {
    let world = plain(Backend::creating().await).await;
    let long = format!("X-A: {}\r\n", "1".repeat(100_000));
    for headers in ["X-A: 1\r\n".repeat(100_000), "X-A: 1\r\n".repeat(200), long] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        let answer = Answer::parse(&exchange(world.gateway.address, request.as_bytes()).await);
        assert_eq!(answer.status, 431);
    }
    assert_eq!(world.backend.effects(), 0);
}

#[tokio::test]
async fn t98_who_dawdles_is_let_go_and_others_are_served() {
    let limits =
        "[limits]\nheaders_time_max_ms = 300\nstall_time_max_ms = 300\nidle_time_max_ms = 300\n";
    let world = World::with(Kind::Sqlite, Backend::creating().await, limits).await;
    let opening = [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "POST / HTT",
        "POST / HTTP/1.1\r\nHost: a\r\nX",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    let mut slow = Vec::new();
    for opening in opening {
        let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
        stream.write_all(opening.as_bytes()).await.unwrap();
        slow.push((opening, stream));
    }
    assert_eq!(world.send(&Ask::post("/orders", "k", "{}")).await.status, 201);
    for (opening, mut stream) in slow {
        let ended = tokio::time::timeout(Duration::from_secs(5), read_to_end(&mut stream)).await;
        assert!(ended.is_ok(), "{opening:?} was not let go");
    }
    assert_eq!(world.backend.effects(), 1);
}

#[tokio::test]
async fn a_client_that_stops_reading_is_let_go() {
    let backend = Backend::playing(|_, _| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n".to_vec();
        Reply::Flood(head, vec![b'x'; 1 << 20], 1 << 10)
    });
    let limits = "[limits]\nstall_time_max_ms = 300\n";
    let world = World::with(Kind::Sqlite, backend.await, limits).await;
    let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    world.backend.wait_for(1).await;
    // Nothing is read until the gateway has given up: then what it had written ends early.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let read = read_to_end(&mut stream).await;
    assert!(read.len() < 1 << 29, "{} bytes came", read.len());
}

#[tokio::test]
async fn a_large_body_without_a_key_streams_through() {
    let world = plain(Backend::creating().await).await;
    let body = vec![b'x'; 5_000_000];
    let answer = world.send(&Ask::new("POST", "/files").body(&body)).await;
    assert_eq!(answer.status, 201);
    assert_eq!(world.backend.seen()[0].body.len(), body.len());
}

#[tokio::test]
async fn t67_a_command_without_a_key_is_sent_once_whatever_becomes_of_it() {
    for reply in
        [Vec::new(), b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(), b"garbage\r\n\r\n".to_vec()]
    {
        let backend = Backend::playing(move |_, _| Reply::Last(reply.clone())).await;
        let world = plain(backend).await;
        let answer = world.send(&Ask::new("POST", "/orders").body("{}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (409, "samekey.outcome-unknown"));
        assert_eq!(answer.one("stripe-should-retry"), Some("false"));
        let read = world.send(&Ask::new("GET", "/orders")).await;
        assert_eq!((read.status, read.code().as_str()), (502, "samekey.upstream-broke"));
        assert_eq!(world.backend.effects(), 2);
    }
}

#[tokio::test]
async fn b07_an_upstream_that_is_not_there_was_never_reached() {
    let world = plain(Backend::nowhere().await).await;
    for ask in
        [Ask::new("GET", "/"), Ask::new("POST", "/").body("{}"), Ask::new("PUT", "/").body("{}")]
    {
        let answer = world.send(&ask).await;
        assert_eq!((answer.status, answer.code().as_str()), (502, "samekey.upstream-unreached"));
        assert_eq!(answer.one("retry-after"), Some("1"));
    }
}

#[tokio::test]
async fn b07_a_read_that_is_not_answered_in_time_is_a_504() {
    let limits = "[limits]\nanswer_time_max_ms = 200\n";
    let backend = Backend::playing(|_, _| Reply::Nothing).await;
    let world = World::with(Kind::Sqlite, backend, limits).await;
    for method in ["GET", "DELETE"] {
        let answer = world.send(&Ask::new(method, "/")).await;
        assert_eq!((answer.status, answer.code().as_str()), (504, "samekey.upstream-slow"));
    }
    let answer = world.send(&Ask::new("POST", "/").body("{}")).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "samekey.outcome-unknown"));
    assert_eq!(world.backend.effects(), 3);
}

#[tokio::test]
async fn a_client_that_goes_before_its_body_is_here_leaves_nothing_behind() {
    let world = plain(Backend::creating().await).await;
    let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
    stream.write_all(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12").await.unwrap();
    until(|| world.backend.connections() == 1).await;
    drop(stream);
    until(|| world.backend.broken() == 1).await;
    assert_eq!(world.backend.effects(), 0);
}
