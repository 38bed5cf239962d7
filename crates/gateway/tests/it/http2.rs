//! HTTP/2 from the client: the same commands, and nothing that only another framing could smuggle.

use crate::backend::{Backend, Reply, created, until};
use crate::client::{Ask, exchange};
use crate::world::{Kind, World};
use bytes::Bytes;
use h2::client::SendRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

pub async fn client(world: &World) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(world.gateway.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client.ready().await.unwrap()
}

fn post(path: &str, key: &str) -> http::request::Builder {
    http::Request::post(format!("http://shop.example{path}"))
        .header("content-type", "application/json")
        .header("idempotency-key", key)
}

async fn send(
    client: &mut SendRequest<Bytes>,
    request: http::request::Builder,
    body: &'static str,
) -> Result<http::Response<h2::RecvStream>, h2::Error> {
    let (answer, mut stream) = client.send_request(request.body(()).unwrap(), false)?;
    stream.send_data(Bytes::from_static(body.as_bytes()), true)?;
    answer.await
}

#[tokio::test]
async fn t01_t02_a_retry_over_http_2_and_http_1_is_one_action() {
    let world = World::plain(Kind::Sqlite, Backend::creating().await).await;
    let mut client = client(&world).await;
    let cookies = post("/orders", "k").header("cookie", "a=1").header("cookie", "b=2");
    let first = send(&mut client, cookies, "{}").await.unwrap();
    assert_eq!(
        (first.status(), first.headers().get("connection")),
        (http::StatusCode::CREATED, None)
    );
    let retry = send(&mut client, post("/orders", "k"), "{}").await.unwrap();
    assert_eq!(retry.headers()["idempotent-replayed"], "true");
    assert!(world.send(&Ask::post("/orders", "k", "{}")).await.is_replay());
    let seen = world.backend.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].one("cookie"), Some("a=1; b=2"));
    assert_eq!(seen[0].one("x-forwarded-host"), Some("shop.example"));
    assert_eq!(seen[0].one("via"), Some("2.0 samekey"));
}

#[tokio::test]
async fn t105_a_length_that_is_not_the_bodys_is_a_stream_error() {
    let world = World::plain(Kind::Sqlite, Backend::creating().await).await;
    for key in ["k", ""] {
        for length in ["1", "99"] {
            let mut client = client(&world).await;
            let mut request = post("/orders", key).header("content-length", length);
            if key.is_empty() {
                request.headers_mut().unwrap().remove("idempotency-key");
            }
            let answered = send(&mut client, request, "{\"a\":1}").await;
            assert!(answered.is_err() || !answered.unwrap().status().is_success());
        }
    }
    assert_eq!(world.backend.effects(), 0);
    assert_eq!(world.send(&Ask::post("/orders", "k", "{}")).await.status, 201);
}

/// One request on a connection of its own, its header fields written out as they are.
fn raw(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        // Literal, never indexed, no Huffman code (RFC 7541, section 6.2.2); all are short.
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let length = u32::try_from(block.len()).unwrap().to_be_bytes();
    bytes.extend_from_slice(&length[1..]);
    // HEADERS, the end of the headers and of the stream, stream 1.
    bytes.extend_from_slice(b"\x01\x05\0\0\0\x01");
    bytes.extend_from_slice(&block);
    bytes
}

#[tokio::test]
async fn t105_a_malformed_request_reaches_nobody() {
    let limits = "[limits]\nidle_time_max_ms = 300\n";
    let world = World::with(Kind::Sqlite, Backend::creating().await, limits).await;
    let good = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/a")];
    let with = |more: &[(&'static str, &'static str)]| [&good[..], more].concat();
    let path = |path: &'static str| [&good[..3], &[(":path", path)]].concat();
    for bad in [
        with(&[("connection", "close")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("content-length", "5")]),
        with(&[("content-length", "0"), ("content-length", "1")]),
        with(&[("Upper", "1")]),
        with(&[("x", "a\r\nb: c")]),
        path("/a b"),
        path("/a\r\nx: y"),
        path(""),
        path("*"),
    ] {
        exchange(world.gateway.address, &raw(&bad)).await;
        assert_eq!(world.backend.connections(), 0, "{bad:?}");
    }
    exchange(world.gateway.address, &raw(&good)).await;
    assert_eq!(world.backend.effects(), 1, "the raw form itself is right");
}

#[tokio::test]
async fn t105_streams_that_are_reset_run_at_most_once_and_the_server_lives() {
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend =
        Backend::playing(move |_, number| Reply::When(Arc::clone(&script), created(number)));
    let world = World::plain(Kind::Sqlite, backend.await).await;
    for round in 0..200 {
        let mut client = client(&world).await;
        for number in 0..50 {
            let key = format!("k{}", (round * 50 + number) % 100);
            let request = post("/orders", &key).body(()).unwrap();
            let Ok(ready) = client.clone().ready().await else { break };
            client = ready;
            let Ok((_, mut stream)) = client.send_request(request, false) else { break };
            let _ = stream.send_data(Bytes::from(format!("{{\"ref\":\"{key}\"}}")), true);
            stream.send_reset(h2::Reason::CANCEL);
        }
    }
    gate.add_permits(1_000);
    assert_eq!(world.send(&Ask::post("/orders", "last", "{}")).await.status, 201);
    assert!(world.backend.by_body().values().all(|effects| *effects == 1));
}

#[tokio::test]
async fn t98_a_connection_on_which_nothing_is_asked_is_let_go() {
    let limits = "[limits]\nidle_time_max_ms = 300\n";
    let world = World::with(Kind::Sqlite, Backend::creating().await, limits).await;
    let stream = TcpStream::connect(world.gateway.address).await.unwrap();
    let (client, connection): (SendRequest<Bytes>, _) =
        h2::client::handshake(stream).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), connection).await;
    assert!(ended.is_ok(), "it was not let go");
    drop(client);
}

#[tokio::test]
async fn t98_a_request_that_takes_long_is_no_idle_connection() {
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend =
        Backend::playing(move |_, number| Reply::When(Arc::clone(&script), created(number)));
    let limits = "[limits]\nidle_time_max_ms = 100\n";
    let world = World::with(Kind::Sqlite, backend.await, limits).await;
    let mut client = client(&world).await;
    let waited = tokio::spawn(async move { send(&mut client, post("/orders", "k"), "{}").await });
    until(|| world.backend.effects() == 1).await;
    // Longer than an idle connection stays open and may take to say goodbye.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    gate.add_permits(1);
    assert_eq!(waited.await.unwrap().unwrap().status(), http::StatusCode::CREATED);
}
