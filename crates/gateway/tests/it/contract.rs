//! Rows of the contract through two gateways on one ledger: the first request goes to one, the second to the
//! other.

use crate::backend::{Backend, Reply, created};
use crate::client::{Answer, Ask, exchange};
use crate::world::{Kind, Running, World, on_both};
use samekey_sim::proxy::{Cut, Target};
use samekey_sim::{Proxy, fresh_database};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// How long a key may take to its end.
const PATIENCE: Duration = Duration::from_secs(30);
const ORDER: &str = r#"{"ref":"r1","amount":100}"#;

/// `{"ref":"r1"}`, packed.
const PACKED: [u8; 32] = [
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 42, 74, 77, 83, 178, 82, 42, 50, 84, 170, 5, 0, 250,
    49, 106, 41, 12, 0, 0, 0,
];

struct Two {
    world: World,
    other: Running,
}

impl Two {
    async fn new(kind: Kind, backend: Backend, settings: &str) -> Two {
        let world = World::with(kind, backend, settings).await;
        let other = world.another().await;
        Two { world, other }
    }

    async fn first(&self, ask: &Ask) -> Answer {
        ask.send(self.world.gateway.address).await
    }

    async fn second(&self, ask: &Ask) -> Answer {
        ask.send(self.other.address).await
    }

    fn effects(&self) -> usize {
        self.world.backend.effects()
    }
}

async fn t27_t28_b92_a_key_is_opaque_and_its_capitals_count(kind: Kind) {
    let two = Two::new(kind, Backend::creating().await, "").await;
    let keys = [
        "\"'; drop table keys; --\"",
        "\"%00\"",
        "\"../../etc/passwd\"",
        "\"<script>alert(1)</script>\"",
        "abc-0123456789",
        "ABC-0123456789",
        "\"\\\\ and \\\"\"",
    ];
    for (number, key) in keys.iter().enumerate() {
        let ask = Ask::post("/orders", key, ORDER);
        let first = two.first(&ask).await;
        assert_eq!((first.status, first.is_replay()), (201, false), "{key}");
        let again = two.second(&ask).await;
        assert_eq!((again.is_replay(), again.kept()), (true, first.kept()), "{key}");
        assert_eq!(two.effects(), number + 1);
    }
}

async fn t24_t25_what_no_header_may_hold_runs_nothing(kind: Kind) {
    let two = Two::new(kind, Backend::creating().await, "").await;
    let keys: [&[u8]; 6] =
        [b"a\xff", b"a\0b", b"a\rX-Evil: 1", b"a\r\n X-Evil: 1", b"a\nX-Evil: 1", b"\x7f"];
    for key in keys {
        for address in [two.world.gateway.address, two.other.address] {
            let mut bytes = b"POST /orders HTTP/1.1\r\nHost: a\r\nConnection: close\r\n".to_vec();
            bytes.extend_from_slice(b"Content-Length: 2\r\nIdempotency-Key: ");
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(b"\r\n\r\n{}");
            let told = exchange(address, &bytes).await;
            let shown = String::from_utf8_lossy(&told);
            // A bare line feed ends a line (RFC 9112, section 2.2), so that header is another one.
            let is_two_lines = key.contains(&b'\n') && !key.contains(&b'\r');
            if !is_two_lines {
                assert!(told.is_empty() || shown.starts_with("HTTP/1.1 400"), "{key:?}: {shown}");
            }
        }
    }
    // The one with two lines, once for both gateways.
    assert!(two.effects() <= 1);
}

async fn t31_to_t41_other_content_is_another_request(kind: Kind) {
    let settings = "[default]\nsemantic_headers = [\"on-behalf-of\"]\n\
        [[route]]\nname = \"things\"\npath = \"/things\"\nmethods = [\"POST\", \"PUT\"]\n";
    let two = Two::new(kind, Backend::creating().await, settings).await;
    let post = |key: &str, body: &str| Ask::post("/orders", key, body);
    let packed = |key: &str| post(key, "").header("Content-Encoding: gzip").body(PACKED);
    let plain = r#"{"ref":"r1"}"#;
    let form = |key: &str| {
        let line = "Content-Type: application/x-www-form-urlencoded";
        Ask::new("POST", "/orders").header(line).header(&format!("Idempotency-Key: {key}"))
    };
    let thing =
        |method: &str| Ask::new(method, "/things").header("Idempotency-Key: t41").body("{}");
    let cases = [
        (post("t31", r#"{"amount":1,"amount":9}"#), post("t31", r#"{"amount":9,"amount":1}"#)),
        (post("t32a", r#"{"a":100}"#), post("t32a", r#"{"a":100.0}"#)),
        (post("t32b", r#"{"a":9007199254740992}"#), post("t32b", r#"{"a":9007199254740993}"#)),
        (post("t34", "{\"n\":\"e\u{301}\"}"), post("t34", "{\"n\":\"\u{e9}\"}")),
        (post("t37", plain), form("t37").body(plain)),
        (post("t38a", plain), packed("t38a")),
        (packed("t38b"), post("t38b", plain)),
        (post("t39a", plain).header("On-Behalf-Of: a"), post("t39a", plain)),
        (
            post("t39b", plain).header("On-Behalf-Of: a"),
            post("t39b", plain).header("On-Behalf-Of: a").header("On-Behalf-Of: a"),
        ),
        (thing("PUT"), thing("POST")),
    ];
    for (number, (first, other)) in cases.iter().enumerate() {
        assert_eq!(two.first(first).await.status, 201, "{first:?}");
        let refused = two.second(other).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (422, "samekey.key-reused"),
            "{other:?}"
        );
        assert!(!refused.text().contains("stored-answer"));
        assert!(two.second(first).await.is_replay(), "and nothing is spoiled");
        assert_eq!(two.effects(), number + 1);
    }
}

async fn t36_another_spelling_of_a_path_never_replays(kind: Kind) {
    let settings = "[[route]]\nname = \"orders\"\npath = \"/orders\"\n";
    let two = Two::new(kind, Backend::creating().await, settings).await;
    assert_eq!(two.first(&Ask::post("/orders", "k", ORDER)).await.status, 201);
    for path in ["/orders/", "//orders", "/x/../orders", "/%6frders", "/./orders", "/orders/."] {
        let told = two.second(&Ask::post(path, "k", ORDER)).await;
        assert!([400, 404, 422].contains(&told.status), "{path}: {told:?}");
        assert!(!told.is_replay() && !told.text().contains("stored-answer"));
        // Under another key it would walk around the route.
        assert_eq!(two.second(&Ask::post(path, "other", ORDER)).await.status, 400, "{path}");
    }
    assert_eq!(two.effects(), 1);
}

async fn t52_t54_whoever_hangs_up_finds_the_answer_or_has_begun_nothing(kind: Kind) {
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend =
        Backend::playing(move |_, number| Reply::When(Arc::clone(&script), created(number)));
    let two = Two::new(kind, backend.await, "").await;
    let (half, whole) = (Ask::post("/orders", "half", ORDER), Ask::post("/orders", "k", ORDER));
    for (ask, cut) in [(&half, 3), (&whole, 0)] {
        let mut stream = TcpStream::connect(two.world.gateway.address).await.unwrap();
        let bytes = ask.bytes();
        stream.write_all(&bytes[..bytes.len() - cut]).await.unwrap();
        if cut == 0 {
            two.world.backend.wait_for(1).await;
        }
    }
    gate.add_permits(10);
    let found = until_final(&whole, two.other.address).await;
    assert_eq!((found.status, found.is_replay()), (201, true));
    let begun = until_final(&half, two.other.address).await;
    assert_eq!((begun.status, begun.is_replay()), (201, false));
    assert_eq!(two.effects(), 2);
}

async fn t95_t96_no_body_is_asked_for_in_vain_and_a_trailer_is_no_header(kind: Kind) {
    let settings = "[[route]]\nname = \"orders\"\npath = \"/orders\"\n";
    let two = Two::new(kind, Backend::creating().await, settings).await;
    for key in ["Idempotency-Key: \"open\r\n", "X: 1\r\n"] {
        let head = format!(
            "POST /orders HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n{key}\r\n"
        );
        let told = exchange(two.world.gateway.address, head.as_bytes()).await;
        let told = String::from_utf8_lossy(&told);
        assert!(told.starts_with("HTTP/1.1 400"), "{told}");
    }
    let trailed = |key: &str| {
        format!(
            "POST /orders HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{key}\
             Trailer: Idempotency-Key\r\n\r\n2\r\n{{}}\r\n0\r\nIdempotency-Key: t\r\nContent-Length: 9\r\n\r\n"
        )
    };
    let told = exchange(two.world.gateway.address, trailed("").as_bytes()).await;
    assert!(told.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&told));
    let ran = exchange(two.other.address, trailed("Idempotency-Key: k\r\n").as_bytes()).await;
    assert!(ran.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&ran));
    let seen = two.world.backend.seen();
    assert_eq!((seen.len(), seen[0].body.as_slice()), (1, &b"{}"[..]));
    assert_eq!(seen[0].all("idempotency-key").len(), 1);
}

on_both!(
    t27_t28_b92_a_key_is_opaque_and_its_capitals_count,
    t24_t25_what_no_header_may_hold_runs_nothing,
    t31_to_t41_other_content_is_another_request,
    t36_another_spelling_of_a_path_never_replays,
    t52_t54_whoever_hangs_up_finds_the_answer_or_has_begun_nothing,
    t95_t96_no_body_is_asked_for_in_vain_and_a_trailer_is_no_header,
);

/// The way to the ledger is cut at a claim, or at a settlement, in each of three ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t56_t57_b05_a_lost_commit_of_the_ledger_is_one_effect() {
    let database = fresh_database().await;
    let proxy = Proxy::before(database.url()).unwrap();
    let world = World::at(proxy.url(), Backend::creating().await, "").await;
    let address = world.gateway.address;
    assert_eq!(Ask::post("/orders", "first", ORDER).send(address).await.status, 201);
    let mut effects = 1;
    for statement in ["insert into samekey.keys", "update samekey.keys"] {
        for cut in [Cut::Before, Cut::After, Cut::Held] {
            let key = format!("{cut:?} {statement}").replace(' ', "-");
            proxy.arm(Target::Statement(statement), 1, cut);
            let ask = Ask::post("/orders", &key, ORDER);
            let told = ask.send(address).await;
            assert!([201, 409, 503].contains(&told.status), "{key}: {told:?}");
            proxy.deliver();
            let ended = until_final(&ask, address).await;
            assert_eq!(ended.status, 201, "{key}: {ended:?}");
            effects += 1;
            assert_eq!(world.backend.effects(), effects, "{key}");
        }
    }
    assert_eq!(proxy.fired(), 6, "every cut was met");
}

/// Sends again until something final comes.
async fn until_final(ask: &Ask, address: std::net::SocketAddr) -> Answer {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = ask.send(address).await;
        let is_open = answer.status == 409
            && ["samekey.in-progress", "samekey.outcome-pending"].contains(&answer.code().as_str());
        if !is_open && answer.status != 503 {
            return answer;
        }
        assert!(Instant::now() < until, "it is open for ever: {answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
