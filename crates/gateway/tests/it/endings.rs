//! How a command ends: answers that are not final, upstreams that break off, answers that are not kept.

use crate::backend::{Backend, Reply, answer, created, until};
use crate::client::{Answer, Ask, exchange};
use crate::world::{Kind, World, on_both};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// The code of a key that only a person can settle.
const UNKNOWN: &str = "samekey.outcome-unknown";

async fn order(world: &World) -> Answer {
    world.send(&Ask::post("/orders", "k", r#"{"ref":"r1"}"#)).await
}

async fn t16_t64_b58_a_server_error_is_passed_on_and_never_run_again(kind: Kind) {
    for status in ["500", "502", "503", "504", "408"] {
        let line = format!("{status} Oops");
        let backend = Backend::playing(move |_, number| {
            Reply::Bytes(if number == 1 {
                answer(&line, &["X-Own: 1"], b"oops")
            } else {
                created(2)
            })
        });
        let world = World::plain(kind, backend.await).await;
        let first = order(&world).await;
        assert_eq!((first.status.to_string().as_str(), first.text().as_str()), (status, "oops"));
        assert_eq!(first.one("x-own"), Some("1"));
        assert_eq!(first.one("cache-control"), Some("no-store"));
        // The upstream's error says nothing of the key: a client that comes again is told.
        assert_eq!(first.one("stripe-should-retry"), Some("true"));
        let retry = order(&world).await;
        assert_eq!((retry.status, retry.code().as_str()), (409, UNKNOWN));
        assert_eq!(retry.one("stripe-should-retry"), Some("false"));
        assert_eq!(world.backend.effects(), 1);
    }
}

async fn t67_b07_an_answer_that_breaks_off_leaves_the_outcome_unknown(kind: Kind) {
    let cuts: [&[u8]; 5] = [
        b"",
        b"HTTP/1.1 201 Created\r\nContent-Le",
        b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n12345",
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\n\r\n",
    ];
    for cut in cuts {
        let backend = Backend::playing(move |_, _| Reply::Last(cut.to_vec()));
        let world = World::plain(kind, backend.await).await;
        for _ in 0..2 {
            let told = order(&world).await;
            assert_eq!((told.status, told.code().as_str()), (409, UNKNOWN), "{cut:?}");
            assert_eq!(told.one("retry-after"), None);
        }
        assert_eq!(world.backend.effects(), 1, "{cut:?}");
    }
}

async fn b07_b04_an_upstream_that_never_answers_is_called_once(kind: Kind) {
    let settings = "[default]\ntimeout_ms = 300\n";
    let halves: [Option<&[u8]>; 2] =
        [None, Some(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n12345")];
    for half in halves {
        let never = Arc::new(Semaphore::new(0));
        let backend = Backend::playing(move |_, _| match half {
            None => Reply::Nothing,
            Some(half) => Reply::Stalls(half.to_vec(), Arc::clone(&never)),
        });
        let world = World::with(kind, backend.await, settings).await;
        for _ in 0..2 {
            let told = order(&world).await;
            assert_eq!((told.status, told.code().as_str()), (409, UNKNOWN));
        }
        assert_eq!(world.backend.effects(), 1);
    }
}

async fn t65_an_upstream_that_was_never_reached_frees_the_key(kind: Kind) {
    let world = World::plain(kind, Backend::nowhere().await).await;
    for _ in 0..2 {
        let told = order(&world).await;
        assert_eq!((told.status, told.code().as_str()), (502, "samekey.upstream-unreached"));
        assert_eq!(told.one("retry-after"), Some("1"));
        assert_eq!(told.one("stripe-should-retry"), Some("true"));
        assert_eq!(told.one("idempotency-key"), Some("\"k\""));
    }
    let backend = Backend::creating_at(world.backend.address).await;
    let ran = order(&world).await;
    assert_eq!((ran.status, ran.is_replay()), (201, false));
    assert!(order(&world).await.is_replay());
    assert_eq!(backend.effects(), 1);
}

async fn t68_a_redirect_is_an_answer(kind: Kind) {
    let elsewhere = Backend::creating().await;
    let location = format!("Location: http://{}/orders", elsewhere.address);
    let backend = Backend::playing(move |_, _| {
        Reply::Bytes(answer("307 Temporary Redirect", &[&location], b""))
    });
    let world = World::plain(kind, backend.await).await;
    let first = order(&world).await;
    assert_eq!(first.status, 307);
    assert!(order(&world).await.is_replay());
    assert_eq!((world.backend.effects(), elsewhere.connections()), (1, 0));
}

async fn t76_b56_our_own_conflict_is_not_an_answer_and_others_are(kind: Kind) {
    let problem = "Content-Type: application/problem+json";
    for (body, ours) in [
        (r#"{"code":"samekey.in-progress"}"#, true),
        (r#"{"code":"samekey.outcome-unknown"}"#, true),
        (r#"{"code":"sold_out"}"#, false),
    ] {
        let backend = Backend::playing(move |_, _| {
            Reply::Bytes(answer("409 Conflict", &[problem], body.as_bytes()))
        });
        let world = World::plain(kind, backend.await).await;
        let first = order(&world).await;
        assert_eq!(first.status, 409);
        let retry = order(&world).await;
        assert_eq!(retry.is_replay(), !ours, "{body}");
        assert_eq!(first.code(), if ours { UNKNOWN } else { "sold_out" });
        assert_eq!(world.backend.effects(), 1);
    }
}

async fn t76_an_upstreams_own_mark_of_progress_is_not_an_answer(kind: Kind) {
    let settings = "[[route]]\nname = \"orders\"\npath = \"/orders\"\n\
        [route.in_progress]\nstatus = 409\npointer = \"/error/code\"\nvalue = \"busy\"\n";
    let deep = format!(
        "{{\"error\":{{\"code\":\"busy\"}},\"x\":{}1{}}}",
        "[".repeat(500),
        "]".repeat(500)
    );
    for (status, body, pending) in [
        ("409 Conflict", "{\"error\":{\"code\":\"busy\"}}", true),
        ("409 Conflict", "{\"error\":{\"code\":\"sold_out\"}}", false),
        ("400 No", "{\"error\":{\"code\":\"busy\"}}", false),
        // What may be the mark and cannot be read is no refusal either.
        ("409 Conflict", "\u{feff}{\"error\":{\"code\":\"busy\"}}", true),
        ("409 Conflict", &deep, true),
        ("400 No", "busy", false),
    ] {
        let shown = body.to_owned();
        let body = body.to_owned();
        let backend = Backend::playing(move |_, _| {
            Reply::Bytes(answer(status, &["Content-Type: application/json"], body.as_bytes()))
        });
        let world = World::with(kind, backend.await, settings).await;
        let first = order(&world).await;
        assert_eq!(first.text().contains(UNKNOWN), pending, "{first:?}");
        let retry = order(&world).await;
        assert_eq!(retry.is_replay(), !pending, "{status} {shown}");
        assert_eq!(world.backend.effects(), 1);
    }
}

async fn t99_b50_an_answer_that_is_too_large_is_passed_on_and_not_kept(kind: Kind) {
    let settings = "[default]\nkept_bytes_max = 1000\n";
    let backend = Backend::playing(|seen, _| {
        let bytes = seen.target.trim_start_matches('/').parse().unwrap();
        Reply::Bytes(answer("201 Created", &["Location: /things/1"], &vec![b'x'; bytes]))
    });
    let world = World::with(kind, backend.await, settings).await;
    for bytes in [1_000, 1_001, 20_000_000] {
        let order = Ask::post(&format!("/{bytes}"), &format!("k{bytes}"), "{}");
        let first = world.send(&order).await;
        assert_eq!((first.status, first.body.len()), (201, bytes));
        let retry = world.send(&order).await;
        if bytes <= 1_000 {
            assert_eq!(retry.kept(), first.kept());
            continue;
        }
        assert_eq!((retry.status, retry.code().as_str()), (409, "samekey.response-not-kept"));
        assert!(retry.text().contains("\"stored_status\":201"), "{}", retry.text());
        assert!(retry.text().contains("\"stored_location\":\"/things/1\""));
    }
    assert_eq!(world.backend.effects(), 3);
}

async fn t99_what_is_not_kept_is_stored_before_its_first_byte_leaves(kind: Kind) {
    let never = Arc::new(Semaphore::new(0));
    let backend = Backend::playing(move |_, _| {
        let mut half = b"HTTP/1.1 201 Created\r\nContent-Length: 300000\r\n\r\n".to_vec();
        half.resize(half.len() + 100_000, b'x');
        Reply::Stalls(half, Arc::clone(&never))
    });
    let world = World::plain(kind, backend.await).await;
    let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
    let ask = Ask::post("/orders", "k", r#"{"ref":"r1"}"#);
    stream.write_all(&ask.bytes()).await.unwrap();
    // The head is here, the rest never comes; a retry is told all the same.
    stream.readable().await.unwrap();
    assert_eq!(order(&world).await.code(), "samekey.response-not-kept");
    assert_eq!(world.backend.effects(), 1);
}

async fn b01_a_client_that_hangs_up_changes_nothing(kind: Kind) {
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend =
        Backend::playing(move |_, number| Reply::When(Arc::clone(&script), created(number)));
    let world = World::plain(kind, backend.await).await;
    let ask = Ask::post("/orders", "k", r#"{"ref":"r1"}"#);
    // While its body is on its way: nothing is claimed.
    let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
    let bytes = ask.bytes();
    stream.write_all(&bytes[..bytes.len() - 3]).await.unwrap();
    drop(stream);
    // During the call: it goes on.
    let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    world.backend.wait_for(1).await;
    drop(stream);
    gate.add_permits(10);
    let mut last = order(&world).await;
    while last.status == 409 {
        assert_eq!(last.code(), "samekey.in-progress");
        tokio::time::sleep(Duration::from_millis(20)).await;
        last = order(&world).await;
    }
    assert!(last.is_replay());
    assert_eq!((last.status, world.backend.effects()), (201, 1));
}

async fn b67_an_upstream_of_http_1_0_and_its_client_each_have_their_version(kind: Kind) {
    let backend = Backend::playing(|_, _| {
        Reply::Last(
            b"HTTP/1.0 201 Created\r\nContent-Type: text/plain\r\n\r\nuntil the end".to_vec(),
        )
    });
    let world = World::plain(kind, backend.await).await;
    let bytes = exchange(world.gateway.address, &Ask::post("/orders", "k", "{}").bytes()).await;
    assert!(bytes.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&bytes));
    let retry = world.send(&Ask::post("/orders", "k", "{}")).await;
    assert_eq!((retry.is_replay(), retry.text().as_str()), (true, "until the end"));
    let read = exchange(world.gateway.address, &Ask::new("GET", "/").bytes()).await;
    assert!(read.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&read));
}

async fn t106_early_data_starts_no_command(kind: Kind) {
    let world = World::plain(kind, Backend::creating().await).await;
    let early = Ask::post("/orders", "k", r#"{"ref":"r1"}"#).header("Early-Data: 1");
    let told = world.send(&early).await;
    assert_eq!((told.status, told.code().as_str()), (425, "samekey.too-early"));
    assert_eq!(order(&world).await.status, 201);
    assert!(world.send(&early).await.is_replay());
    assert_eq!(world.backend.effects(), 1);
}

async fn policies_of_a_route_say_what_a_server_error_means(kind: Kind) {
    for (policy, second_status, effects) in
        [("store", 500, 1), ("free", 201, 2), ("unknown", 409, 1)]
    {
        let settings = format!(
            "[[route]]\nname = \"orders\"\npath = \"/orders\"\non_5xx = \"{policy}\"\nmethods = [\"PUT\", \"POST\"]\n"
        );
        let backend = Backend::playing(|_, number| {
            Reply::Bytes(if number == 1 { answer("500 No", &[], b"") } else { created(2) })
        });
        let world = World::with(kind, backend.await, &settings).await;
        assert_eq!(order(&world).await.status, 500);
        assert_eq!(order(&world).await.status, second_status, "{policy}");
        assert_eq!(world.backend.effects(), effects, "{policy}");
        let put = Ask::new("PUT", "/orders").header("Idempotency-Key: k").body(r#"{"ref":"r1"}"#);
        assert_eq!(world.send(&put).await.status, 422, "t41: PUT is a command here");
    }
}

async fn stopping_lets_commands_end_and_accepts_no_more(kind: Kind) {
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend =
        Backend::playing(move |_, number| Reply::When(Arc::clone(&script), created(number)));
    let mut world = World::plain(kind, backend.await).await;
    let (address, admin) = (world.gateway.address, world.gateway.admin.unwrap());
    let idle = TcpStream::connect(address).await.unwrap();
    let asked = tokio::spawn(async move { Ask::post("/orders", "k", "{}").send(address).await });
    world.backend.wait_for(1).await;
    world.gateway.begin_to_stop();
    until(|| std::net::TcpStream::connect(address).is_err()).await;
    assert_eq!(Ask::new("GET", "/readyz").send(admin).await.status, 503);
    assert_eq!(Ask::new("GET", "/healthz").send(admin).await.status, 200);
    // Longer than a connection without a request gets to say goodbye.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    gate.add_permits(1);
    assert_eq!(asked.await.unwrap().status, 201);
    assert!(world.gateway.stop().await);
    drop(idle);
}

on_both!(
    t76_an_upstreams_own_mark_of_progress_is_not_an_answer,
    t16_t64_b58_a_server_error_is_passed_on_and_never_run_again,
    t67_b07_an_answer_that_breaks_off_leaves_the_outcome_unknown,
    b07_b04_an_upstream_that_never_answers_is_called_once,
    t65_an_upstream_that_was_never_reached_frees_the_key,
    t68_a_redirect_is_an_answer,
    t76_b56_our_own_conflict_is_not_an_answer_and_others_are,
    t99_b50_an_answer_that_is_too_large_is_passed_on_and_not_kept,
    t99_what_is_not_kept_is_stored_before_its_first_byte_leaves,
    b01_a_client_that_hangs_up_changes_nothing,
    b67_an_upstream_of_http_1_0_and_its_client_each_have_their_version,
    t106_early_data_starts_no_command,
    policies_of_a_route_say_what_a_server_error_means,
    stopping_lets_commands_end_and_accepts_no_more,
);
