//! An upstream behind TLS: who is believed to be it, and what a failed handshake proves.

use crate::authority::Authority;
use crate::backend::{Backend, Reply, created};
use crate::client::{Answer, Ask};
use crate::world::{Kind, World, on_both};
use samekey_gateway::{Overrides, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

async fn order(world: &World) -> Answer {
    world.send(&Ask::post("/orders", "k", r#"{"ref":"r1"}"#)).await
}

/// A world whose upstream is called so and is believed with a certificate of this authority.
async fn world(kind: Kind, authority: &Authority, host: &str, backend: Backend) -> World {
    let upstream = format!("https://{host}:{}", backend.address.port());
    let settings = format!("upstream_ca = {:?}\n", authority.file("authority.pem"));
    World::before(kind, &upstream, backend, &settings).await
}

async fn secure(authority: &Authority, name: &str) -> Backend {
    let tls = authority.server(name, false, &["http/1.1"]);
    Backend::secure(tls, |_, number| Reply::Bytes(created(number))).await
}

async fn t01_t02_a_command_goes_to_an_upstream_behind_tls(kind: Kind) {
    let authority = Authority::new();
    let world = world(kind, &authority, "localhost", secure(&authority, "localhost").await).await;
    let first = order(&world).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert!(order(&world).await.is_replay());
    assert_eq!(world.backend.effects(), 1);
    let host = format!("localhost:{}", world.backend.address.port());
    assert_eq!(world.backend.seen()[0].one("host"), Some(host.as_str()));
    for _ in 0..2 {
        assert_eq!(world.send(&Ask::new("GET", "/things/1")).await.status, 201);
    }
    assert_eq!((world.backend.effects(), world.backend.connections()), (3, 2), "reads share one");
}

async fn t65_b07_a_handshake_that_fails_frees_the_key(kind: Kind) {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let other_http = authority.server("localhost", false, &["smtp"]);
    for (tls, what) in [
        (stranger.server("localhost", false, &[]), "somebody else's certificate"),
        (authority.server("other.example", false, &[]), "another host's certificate"),
        (authority.server("localhost", true, &[]), "an expired certificate"),
        (other_http, "no common protocol"),
    ] {
        let backend = Backend::secure(tls, |_, number| Reply::Bytes(created(number))).await;
        let world = world(kind, &authority, "localhost", backend).await;
        for _ in 0..2 {
            let told = order(&world).await;
            assert_eq!(
                (told.status, told.code().as_str()),
                (502, "samekey.upstream-unreached"),
                "{what}"
            );
            assert_eq!(told.one("retry-after"), Some("1"));
        }
        let read = world.send(&Ask::new("GET", "/")).await;
        assert_eq!(
            (read.status, read.code().as_str()),
            (502, "samekey.upstream-unreached"),
            "{what}"
        );
        let (connections, effects) = (world.backend.connections(), world.backend.effects());
        assert_eq!((connections, effects), (3, 0), "{what}");
    }
}

async fn a_key_that_was_freed_runs_once_the_certificate_is_right(kind: Kind) {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let wrong = stranger.server("localhost", false, &[]);
    let is_right = Arc::new(AtomicBool::new(false));
    // One address, whose certificate changes.
    let backend = secure(&authority, "localhost").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (switch, own) = (Arc::clone(&is_right), backend.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if switch.load(Ordering::SeqCst) {
                let mut to = tokio::net::TcpStream::connect(own.address).await.unwrap();
                tokio::spawn(
                    async move { tokio::io::copy_bidirectional(&mut stream, &mut to).await },
                );
            } else {
                let _ = wrong.accept(stream).await;
            }
        }
    });
    let settings = format!("upstream_ca = {:?}\n", authority.file("authority.pem"));
    let world = World::before(kind, &format!("https://localhost:{port}"), backend, &settings).await;
    assert_eq!(order(&world).await.status, 502);
    is_right.store(true, Ordering::SeqCst);
    assert_eq!(order(&world).await.status, 201);
    assert!(order(&world).await.is_replay());
    assert_eq!(world.backend.effects(), 1);
}

on_both!(
    t01_t02_a_command_goes_to_an_upstream_behind_tls,
    t65_b07_a_handshake_that_fails_frees_the_key,
    a_key_that_was_freed_runs_once_the_certificate_is_right,
);

#[tokio::test]
async fn b07_a_handshake_that_never_ends_is_no_doubt() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut hello = [0; 5];
            stream.read_exact(&mut hello).await.unwrap();
            assert_eq!(hello[0], 0x16, "a TLS record, and nothing else");
            held.push(stream);
        }
    });
    let settings = format!(
        "upstream_ca = {:?}\n[limits]\nconnect_time_max_ms = 300\n",
        authority.file("authority.pem")
    );
    let world = World::before(Kind::Sqlite, &upstream, Backend::nowhere().await, &settings).await;
    let told = tokio::time::timeout(Duration::from_secs(20), order(&world)).await.unwrap();
    assert_eq!((told.status, told.code().as_str()), (502, "samekey.upstream-unreached"));
    silent.abort();
}

#[tokio::test]
async fn an_upstream_without_tls_is_not_sent_a_request() {
    let authority = Authority::new();
    let backend = Backend::creating().await;
    let world = world(Kind::Sqlite, &authority, "localhost", backend).await;
    assert_eq!(order(&world).await.status, 502);
    assert_eq!(world.backend.effects(), 0);
}

#[tokio::test]
async fn an_address_may_have_a_certificate() {
    let authority = Authority::new();
    let backend = secure(&authority, "127.0.0.1").await;
    let world = world(Kind::Sqlite, &authority, "127.0.0.1", backend).await;
    assert_eq!(order(&world).await.status, 201);
}

#[test]
fn an_authority_that_cannot_be_used_is_one_sentence() {
    let authority = Authority::new();
    std::fs::write(authority.file("empty.pem"), "").unwrap();
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(authority.file("bad.pem"), bad).unwrap();
    for (upstream, file, expected) in [
        ("https://a", "missing.pem", "there is no file"),
        ("https://a", "empty.pem", "there is nothing in"),
        ("https://a", "bad.pem", "one of the certificates in"),
        ("https://a_b-", "authority.pem", "no certificate can be for the host \"a_b-\""),
        ("http://a", "authority.pem", "the upstream is http://, so nobody shows a certificate"),
    ] {
        let text = format!("upstream = {upstream:?}\nupstream_ca = {:?}\n", authority.file(file));
        let read = Settings::read(Some(("f.toml", &text)), &Overrides::default());
        let found = read.unwrap_err().to_string();
        assert!(found.starts_with("f.toml:2: `upstream_ca`: "), "{found}");
        assert!(found.contains(expected), "{found}");
    }
    let text = "upstream = \"http://a\"\nupstream_http = \"3\"\n";
    let found = Settings::read(Some(("f", text)), &Overrides::default()).unwrap_err().to_string();
    assert!(found.contains("expected one of \"auto\", \"1\", \"2\""), "{found}");
}
