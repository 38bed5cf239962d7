//! An upstream that is spoken to in HTTP/2: what it says about a request that it did not process, and what
//! proves nothing.

use crate::authority::Authority;
use crate::backend::{Backend, Reply, created, until};
use crate::client::{Answer, Ask};
use crate::world::{Kind, World};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The end of the body of every command here, by which the upstream knows that it is whole.
const END: &[u8] = b"ORD-1\"}";
const TWO: &str = "upstream_http = \"2\"\n";

fn ask() -> Ask {
    Ask::post("/orders?a=1", "k", r#"{"ref":"ORD-1"}"#)
}

async fn world(address: SocketAddr, settings: &str) -> World {
    let upstream = format!("http://{address}");
    let settings = format!("{TWO}{settings}");
    World::before(Kind::Sqlite, &upstream, Backend::nowhere().await, &settings).await
}

/// What the upstream does with a connection.
#[derive(Clone, Copy)]
enum Play {
    /// These bytes at once, and the end.
    Turn(&'static [u8]),
    /// A greeting, and these bytes when a command is there; then the end.
    Say(&'static [u8]),
    /// A greeting, and nothing more.
    Silence,
    /// Nothing, not even a greeting.
    NoGreeting,
}

const GREETING: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// `:status: 201`, the end of the headers and of the stream, stream 1.
const CREATED: &[u8] = b"\0\0\x05\x01\x05\0\0\0\x01\x08\x03201";
/// `:status: 201`, a piece of the body, and instead of its end a reset that calls itself no error.
const CUT_BY_RESET: &[u8] =
    b"\0\0\x05\x01\x04\0\0\0\x01\x08\x03201\0\0\x04\0\0\0\0\0\x01part\0\0\x04\x03\0\0\0\0\x01\0\0\0\0";
/// The same with a GOAWAY below the stream.
const CUT_BY_GOAWAY: &[u8] =
    b"\0\0\x05\x01\x04\0\0\0\x01\x08\x03201\0\0\x04\0\0\0\0\0\x01part\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
const REFUSED_STREAM: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 7];
const CANCEL: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];
const INTERNAL_ERROR: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 2];
/// GOAWAY with the last stream 0 or 1, and the codes NO_ERROR, INTERNAL_ERROR and ENHANCE_YOUR_CALM.
const GOAWAY_BELOW: [&[u8]; 3] = [
    &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
    &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11],
];
const GOAWAY_AT: [&[u8]; 2] = [
    &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
    &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2],
];

/// An upstream that plays this on its first connection and creates on every other.
struct Scripted {
    address: SocketAddr,
    /// How many commands came whole.
    whole: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    /// What came on the first connection.
    came: Arc<Mutex<Vec<u8>>>,
}

async fn scripted(first: Play) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let scripted = Scripted {
        address,
        whole: Arc::default(),
        connections: Arc::default(),
        came: Arc::default(),
    };
    let whole = Arc::clone(&scripted.whole);
    let (connections, came) = (Arc::clone(&scripted.connections), Arc::clone(&scripted.came));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let number = connections.fetch_add(1, Ordering::SeqCst);
            let play = if number == 0 { first } else { Play::Say(CREATED) };
            let (whole, came) = (Arc::clone(&whole), Arc::clone(&came));
            tokio::spawn(async move {
                let (opening, last) = match play {
                    Play::Turn(bytes) => {
                        // It has read what came so far: an end with unread bytes is a reset.
                        let _ = stream.read(&mut [0; 4096]).await;
                        let _ = stream.write_all(bytes).await;
                        return;
                    }
                    Play::Say(last) => (GREETING, Some(last)),
                    Play::Silence => (GREETING, None),
                    Play::NoGreeting => (&b""[..], None),
                };
                stream.write_all(opening).await.unwrap();
                let mut bytes = Vec::new();
                let mut piece = [0; 4096];
                let mut told = false;
                while let Ok(read @ 1..) = stream.read(&mut piece).await {
                    bytes.extend_from_slice(&piece[..read]);
                    if number == 0 {
                        *came.lock().unwrap() = bytes.clone();
                    }
                    if !told && bytes.windows(END.len()).any(|window| window == END) {
                        told = true;
                        whole.fetch_add(1, Ordering::SeqCst);
                        if let Some(last) = last {
                            let _ = stream.write_all(last).await;
                            let _ = stream.shutdown().await;
                        }
                    }
                }
            });
        }
    });
    scripted
}

#[tokio::test]
async fn b59_what_was_not_processed_frees_the_key_and_is_not_sent_again() {
    let below = GOAWAY_BELOW.into_iter().map(|frame| ("GOAWAY below", frame));
    for (what, frame) in [("REFUSED_STREAM", REFUSED_STREAM)].into_iter().chain(below) {
        let upstream = scripted(Play::Say(frame)).await;
        let world = world(upstream.address, "").await;
        let told = world.send(&ask()).await;
        assert_eq!(
            (told.status, told.code().as_str()),
            (502, "samekey.upstream-unreached"),
            "{what}"
        );
        assert_eq!(told.one("retry-after"), Some("1"));
        assert_eq!(upstream.connections.load(Ordering::SeqCst), 1, "{what}: nobody sent it again");
        // The key is free: whoever sends it again has it executed.
        let second = world.send(&ask()).await;
        assert_eq!((second.status, second.is_replay()), (201, false), "{what}");
        assert!(world.send(&ask()).await.is_replay());
        assert_eq!(upstream.connections.load(Ordering::SeqCst), 2, "{what}");
    }
}

#[tokio::test]
async fn b59_whatever_else_ends_a_stream_leaves_the_outcome_unknown() {
    let at = GOAWAY_AT.into_iter().map(|frame| ("GOAWAY at our stream", frame));
    let streams = [
        ("CANCEL", CANCEL),
        ("INTERNAL_ERROR", INTERNAL_ERROR),
        ("the end", &b""[..]),
        ("NO_ERROR within a body", CUT_BY_RESET),
        ("GOAWAY within a body", CUT_BY_GOAWAY),
    ];
    for (what, frame) in streams.into_iter().chain(at) {
        let upstream = scripted(Play::Say(frame)).await;
        let world = world(upstream.address, "").await;
        for _ in 0..2 {
            let told = world.send(&ask()).await;
            assert_eq!(
                (told.status, told.code().as_str()),
                (409, "samekey.outcome-unknown"),
                "{what}"
            );
        }
        assert_eq!(upstream.connections.load(Ordering::SeqCst), 1, "{what}");
        assert_eq!(upstream.whole.load(Ordering::SeqCst), 1, "{what}");
    }
}

#[tokio::test]
async fn b59_without_a_key_nothing_is_sent_again_either() {
    let keyless = Ask::new("POST", "/orders").body(r#"{"ref":"ORD-1"}"#);
    for (frame, status, code) in [
        (REFUSED_STREAM, 502, "samekey.upstream-unreached"),
        (GOAWAY_BELOW[0], 502, "samekey.upstream-unreached"),
        (GOAWAY_AT[0], 409, "samekey.outcome-unknown"),
        (CANCEL, 409, "samekey.outcome-unknown"),
    ] {
        let upstream = scripted(Play::Say(frame)).await;
        let world = world(upstream.address, "").await;
        let told = world.send(&keyless).await;
        assert_eq!((told.status, told.code().as_str()), (status, code));
        assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn b07_a_time_that_runs_out_leaves_the_outcome_unknown_and_ends_the_connection() {
    let upstream = scripted(Play::Silence).await;
    let world = world(upstream.address, "[default]\ntimeout_ms = 300\n").await;
    for _ in 0..2 {
        let told = world.send(&ask()).await;
        assert_eq!((told.status, told.code().as_str()), (409, "samekey.outcome-unknown"));
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
}

/// Until the upstream has greeted in HTTP/2, not a byte of a command leaves: so what fails before that was
/// never reached, be it a service that speaks HTTP/1.1 alone.
#[tokio::test]
async fn b59_before_the_greeting_nothing_is_sent() {
    const BAD: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let plays = [Play::Turn(b""), Play::Turn(BAD), Play::Turn(GOAWAY_BELOW[0]), Play::NoGreeting];
    for play in plays {
        let upstream = scripted(play).await;
        let world = world(upstream.address, "[limits]\nconnect_time_max_ms = 300\n").await;
        let told = world.send(&ask()).await;
        assert_eq!((told.status, told.code().as_str()), (502, "samekey.upstream-unreached"));
        let came = upstream.came.lock().unwrap().clone();
        assert!(!came.windows(5).any(|window| window == b"ORD-1"), "{came:?}");
        assert_eq!(world.send(&ask()).await.status, 201, "the key is free");
        assert_eq!(upstream.whole.load(Ordering::SeqCst), 1);
    }
}

/// A request as the upstream saw it.
struct Got {
    request: http::Request<()>,
    body_bytes: usize,
}

/// An upstream of HTTP/2 as others are, which creates for every request.
#[derive(Clone, Default)]
struct Proper {
    got: Arc<Mutex<Vec<Got>>>,
    broken: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Proper {
    async fn start(&self, tls: Option<TlsAcceptor>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                own.connections.fetch_add(1, Ordering::SeqCst);
                let (own, tls) = (own.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => own.serve(stream).await,
                        Some(tls) => own.serve(tls.accept(stream).await.unwrap()).await,
                    }
                    own.ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        address
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let own = self.clone();
            tokio::spawn(async move {
                let (head, mut body) = request.into_parts();
                let mut body_bytes = 0;
                while let Some(data) = body.data().await {
                    let Ok(data) = data else {
                        own.broken.fetch_add(1, Ordering::SeqCst);
                        return;
                    };
                    body_bytes += data.len();
                    body.flow_control().release_capacity(data.len()).unwrap();
                }
                let large = head.uri.path() == "/large";
                let request = http::Request::from_parts(head, ());
                own.got.lock().unwrap().push(Got { request, body_bytes });
                let answer = http::Response::builder().status(201).header("location", "/things/1");
                let mut stream = respond.send_response(answer.body(()).unwrap(), false).unwrap();
                let body = if large { vec![b'x'; 20_000_000] } else { b"made".to_vec() };
                stream.send_data(Bytes::from(body), false).unwrap();
                let mut trailers = http::HeaderMap::new();
                trailers.insert("x-trailer", "1".parse().unwrap());
                stream.send_trailers(trailers).unwrap();
            });
        }
    }
}

#[tokio::test]
async fn t01_t02_a_command_over_http_2_and_its_replay() {
    let upstream = Proper::default();
    let world = world(upstream.start(None).await, "").await;
    let first = world.send(&ask().header("Cookie: a=1")).await;
    assert_eq!((first.status, first.text().as_str()), (201, "made"));
    assert_eq!((first.one("location"), first.one("via")), (Some("/things/1"), Some("2.0 samekey")));
    let retry = world.send(&ask()).await;
    assert!(retry.is_replay());
    assert_eq!(retry.kept(), first.kept());
    // A connection of its own, which ends with it.
    until(|| upstream.ended.load(Ordering::SeqCst) == 1).await;
    for _ in 0..3 {
        assert_eq!(world.send(&Ask::new("GET", "/things/1")).await.status, 201);
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 2, "reads share one");
    let got = upstream.got.lock().unwrap();
    assert_eq!(got.len(), 4);
    let request = &got[0].request;
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/orders"));
    assert_eq!(request.uri().query(), Some("a=1"));
    assert!(request.uri().authority().unwrap().as_str().starts_with("127.0.0.1:"));
    assert_eq!(request.headers()["content-length"], "15");
    for name in ["host", "connection", "transfer-encoding"] {
        assert!(!request.headers().contains_key(name), "{name}");
    }
    assert_ne!(request.headers()["idempotency-key"], "k");
}

#[tokio::test]
async fn t96_trailers_of_an_answer_stay_behind() {
    let upstream = Proper::default();
    let world = world(upstream.start(None).await, "").await;
    for request in [
        http::Request::get("http://shop.example/a"),
        http::Request::post("http://shop.example/a"),
        http::Request::post("http://shop.example/a").header("idempotency-key", "k"),
        http::Request::post("http://shop.example/large").header("idempotency-key", "l"),
    ] {
        let mut client = crate::http2::client(&world).await;
        let (answer, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        let mut bytes = 0;
        while let Some(data) = body.data().await {
            let data = data.unwrap();
            bytes += data.len();
            body.flow_control().release_capacity(data.len()).unwrap();
        }
        assert!(bytes >= 4);
        assert_eq!(body.trailers().await.unwrap(), None);
    }
}

#[tokio::test]
async fn bodies_of_any_size_stream_through_in_both_directions() {
    let upstream = Proper::default();
    let world = world(upstream.start(None).await, "").await;
    let up = Ask::new("POST", "/files").body(vec![b'x'; 5_000_000]);
    assert_eq!(world.send(&up).await.status, 201);
    let down = Ask::post("/large", "k", "{}");
    let first = world.send(&down).await;
    assert_eq!((first.status, first.body.len()), (201, 20_000_000));
    assert_eq!(world.send(&down).await.code(), "samekey.response-not-kept");
    let read = world.send(&Ask::new("GET", "/large")).await;
    assert_eq!(read.body.len(), 20_000_000);
    let bytes: Vec<usize> = upstream.got.lock().unwrap().iter().map(|got| got.body_bytes).collect();
    assert_eq!(bytes, [5_000_000, 2, 0]);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_request_for_the_upstream() {
    let upstream = Proper::default();
    let world = world(upstream.start(None).await, "").await;
    let mut stream = tokio::net::TcpStream::connect(world.gateway.address).await.unwrap();
    stream.write_all(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12").await.unwrap();
    until(|| upstream.connections.load(Ordering::SeqCst) == 1).await;
    drop(stream);
    until(|| upstream.ended.load(Ordering::SeqCst) == 1).await;
    assert!(upstream.got.lock().unwrap().is_empty());
}

#[tokio::test]
async fn over_tls_the_two_sides_agree_on_what_is_spoken() {
    let authority = Authority::new();
    for (offered, setting, is_http2) in [
        (&["h2", "http/1.1"][..], "auto", Some(true)),
        (&["h2", "http/1.1"], "1", Some(false)),
        (&["h2", "http/1.1"], "2", Some(true)),
        (&["http/1.1"], "auto", Some(false)),
        (&["http/1.1"], "2", None),
        (&[], "auto", Some(false)),
    ] {
        let tls = authority.server("localhost", false, offered);
        let (upstream, backend) = (Proper::default(), Backend::nowhere().await);
        let (port, backend) = match is_http2 {
            Some(true) => (upstream.start(Some(tls)).await.port(), backend),
            Some(false) | None => {
                let backend = Backend::secure(tls, |_, number| Reply::Bytes(created(number))).await;
                (backend.address.port(), backend)
            }
        };
        let settings = format!(
            "upstream_http = {setting:?}\nupstream_ca = {:?}\n",
            authority.file("authority.pem")
        );
        let address = format!("https://localhost:{port}");
        let world = World::before(Kind::Sqlite, &address, backend, &settings).await;
        let told: Answer = world.send(&ask()).await;
        let read = world.send(&Ask::new("GET", "/")).await;
        if is_http2.is_none() {
            assert_eq!((told.status, told.code().as_str()), (502, "samekey.upstream-unreached"));
            continue;
        }
        assert_eq!((told.status, read.status), (201, 201), "{offered:?} {setting}");
        let via = if is_http2 == Some(true) { "2.0 samekey" } else { "1.1 samekey" };
        assert_eq!(
            (told.one("via"), read.one("via")),
            (Some(via), Some(via)),
            "{offered:?} {setting}"
        );
    }
}

#[tokio::test]
async fn t47_many_commands_at_once_each_have_a_connection() {
    let upstream = Proper::default();
    let world = world(upstream.start(None).await, "").await;
    let mut sending = tokio::task::JoinSet::new();
    for number in 0..50 {
        let address = world.gateway.address;
        sending.spawn(async move {
            Ask::post("/orders", &format!("k{number}"), "{}").send(address).await.status
        });
    }
    let statuses = tokio::time::timeout(Duration::from_secs(30), sending.join_all()).await.unwrap();
    assert!(statuses.iter().all(|status| *status == 201), "{statuses:?}");
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 50);
}
