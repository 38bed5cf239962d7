//! Clients that come over TLS.

use crate::authority::Authority;
use crate::backend::Backend;
use crate::client::{Answer, Ask, exchange, read_to_end};
use crate::world::{Kind, World};
use bytes::Bytes;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use samekey_gateway::{Overrides, Settings};
use samekey_sim::Program;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NAME: &str = "shop.example";

fn tls(authority: &Authority) -> String {
    authority.write(NAME, "certificate.pem", "key.pem");
    let (certificate, key) = (authority.file("certificate.pem"), authority.file("key.pem"));
    format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n")
}

async fn world(authority: &Authority, settings: &str) -> World {
    let settings = format!("{settings}{}", tls(authority));
    World::with(Kind::Sqlite, Backend::creating().await, &settings).await
}

async fn send(world: &World, authority: &Authority, ask: &Ask) -> Answer {
    let mut stream = authority.connect(world.gateway.address, NAME, &[]).await.unwrap();
    stream.write_all(&ask.bytes()).await.unwrap();
    Answer::parse(&read_to_end(&mut stream).await)
}

#[tokio::test]
async fn t01_t02_a_command_and_its_retry_come_over_tls() {
    let authority = Authority::new();
    let world = world(&authority, "").await;
    let order = Ask::post("/orders", "k", "{}").header("X-Forwarded-Proto: http");
    let first = send(&world, &authority, &order).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    let retry = send(&world, &authority, &order).await;
    assert!(retry.is_replay());
    assert_eq!(retry.kept(), first.kept());
    let seen = world.backend.seen();
    assert_eq!((seen.len(), seen[0].one("x-forwarded-proto")), (1, Some("https")));
    assert!(world.gateway.stop().await);
}

#[tokio::test]
async fn http_2_is_agreed_on_where_the_client_offers_it() {
    let authority = Authority::new();
    let world = world(&authority, "").await;
    for (offered, agreed) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = authority.connect(world.gateway.address, NAME, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed);
    }
    let stream = authority.connect(world.gateway.address, NAME, &["h2"]).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let mut client = client.ready().await.unwrap();
    let request = http::Request::post("https://shop.example/orders").header("idempotency-key", "k");
    let (answer, mut stream) = client.send_request(request.body(()).unwrap(), false).unwrap();
    stream.send_data(Bytes::from_static(b"{}"), true).unwrap();
    assert_eq!(answer.await.unwrap().status(), http::StatusCode::CREATED);
    let seen = world.backend.seen();
    assert_eq!(seen[0].one("x-forwarded-proto"), Some("https"));
    assert_eq!(seen[0].one("x-forwarded-host"), Some(NAME));
    assert!(authority.connect(world.gateway.address, NAME, &["smtp"]).await.is_err());
}

#[tokio::test]
async fn who_speaks_no_tls_is_not_answered() {
    let authority = Authority::new();
    let world = world(&authority, "").await;
    let plain = exchange(world.gateway.address, &Ask::post("/orders", "k", "{}").bytes()).await;
    assert!(!plain.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&plain));
    assert!(authority.connect(world.gateway.address, "other.example", &[]).await.is_err());
    assert!(Authority::new().connect(world.gateway.address, NAME, &[]).await.is_err());
    assert_eq!(send(&world, &authority, &Ask::post("/orders", "k", "{}")).await.status, 201);
    // Operators ask without: that listener is for them alone.
    let admin = world.gateway.admin.unwrap();
    assert_eq!(Ask::new("GET", "/readyz").send(admin).await.status, 200);
}

#[tokio::test]
async fn t98_a_handshake_that_dawdles_is_let_go_and_takes_a_place_until_then() {
    let authority = Authority::new();
    let limits = "[limits]\nheaders_time_max_ms = 400\nconnections_max = 2\n";
    let world = world(&authority, limits).await;
    let mut slow = Vec::new();
    for opening in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = TcpStream::connect(world.gateway.address).await.unwrap();
        stream.write_all(opening).await.unwrap();
        slow.push(stream);
    }
    // Both places are taken, so this one waits for one of them.
    let order = Ask::post("/orders", "k", "{}");
    let good = send(&world, &authority, &order);
    let good = tokio::time::timeout(Duration::from_secs(20), good).await.unwrap();
    assert_eq!(good.status, 201);
    for mut stream in slow {
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut [0; 64])).await;
        assert!(ended.is_ok(), "a silent client was not let go");
    }
    // And after the handshake nobody may be silent for ever either.
    let mut stream = authority.connect(world.gateway.address, NAME, &[]).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), read_to_end(&mut stream)).await;
    assert!(ended.is_ok(), "a silent client was not let go");
}

#[tokio::test]
async fn stopping_does_not_wait_for_a_handshake() {
    let authority = Authority::new();
    let limits = "[limits]\nheaders_time_max_ms = 600000\ngrace_ms = 10000\n";
    let world = world(&authority, limits).await;
    let silent = TcpStream::connect(world.gateway.address).await.unwrap();
    // It was accepted: whoever came after it is served.
    assert_eq!(send(&world, &authority, &Ask::new("GET", "/")).await.status, 201);
    assert!(world.gateway.stop().await);
    drop(silent);
}

#[test]
fn a_certificate_that_cannot_be_shown_is_one_sentence_with_file_and_setting() {
    let authority = Authority::new();
    authority.write(NAME, "certificate.pem", "key.pem");
    authority.write(NAME, "other.pem", "other-key.pem");
    for (name, text) in [
        ("empty.pem", ""),
        ("text.pem", "hello"),
        ("damaged.pem", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"),
        ("no.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        (
            "locked.pem",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        ),
        ("no-key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    ] {
        std::fs::write(authority.file(name), text).unwrap();
    }
    std::fs::write(authority.file("large.pem"), vec![b'x'; (4 << 20) + 1]).unwrap();
    std::fs::create_dir(authority.file("folder")).unwrap();
    // Nobody ever writes to it.
    mkfifo(authority.file("pipe").as_str(), Mode::S_IRWXU).unwrap();
    for (certificate, key, setting, expected) in [
        ("missing.pem", "key.pem", "tls.certificate", "there is no file \""),
        ("folder", "key.pem", "tls.certificate", "is a folder, expected a regular file in PEM"),
        ("pipe", "key.pem", "tls.certificate", "is a named pipe, expected a regular file in PEM"),
        ("certificate.pem", "pipe", "tls.key", "is a named pipe, expected a regular file in PEM"),
        ("empty.pem", "key.pem", "tls.certificate", "there is nothing in"),
        ("text.pem", "key.pem", "tls.certificate", "there is no PEM in"),
        ("key.pem", "key.pem", "tls.certificate", "there is a private key in"),
        ("damaged.pem", "key.pem", "tls.certificate", "is damaged; expected certificates in PEM"),
        ("no.pem", "key.pem", "tls.certificate", "cannot be read; expected an X.509 certificate"),
        ("large.pem", "key.pem", "tls.certificate", "has more than 4194304 bytes"),
        ("certificate.pem", "missing.pem", "tls.key", "there is no file \""),
        ("certificate.pem", "certificate.pem", "tls.key", "there is a certificate in"),
        ("certificate.pem", "locked.pem", "tls.key", "is encrypted with a passphrase"),
        ("certificate.pem", "no-key.pem", "tls.key", "cannot be used: "),
        ("certificate.pem", "other-key.pem", "tls.key", "is not the one of the first certificate"),
    ] {
        let text = format!(
            "upstream = \"http://a\"\n[tls]\ncertificate = {:?}\nkey = {:?}\n",
            authority.file(certificate),
            authority.file(key)
        );
        let read = Settings::read(Some(("samekey.toml", &text)), &Overrides::default());
        let found = read.unwrap_err().to_string();
        let line = if setting == "tls.key" { 4 } else { 3 };
        assert!(found.starts_with(&format!("samekey.toml:{line}: `{setting}`: ")), "{found}");
        assert!(found.contains(expected), "{found}\nexpected: {expected}");
        let file = if setting == "tls.key" { key } else { certificate };
        assert!(found.contains(&authority.file(file)), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
    let read = |text: &str| {
        let text = format!("upstream = \"http://a\"\n{text}");
        Settings::read(Some(("f", &text)), &Overrides::default()).unwrap_err().to_string()
    };
    assert!(read("[tls]\ncertificate = \"a\"").contains("`tls.key`: is missing"));
    assert!(read("tls = true").contains("expected a table, written [tls]"));
    let jwt = read(&format!("[jwt]\nkey = {:?}\norg_claim = \"org\"", authority.file("pipe")));
    assert!(jwt.contains("`jwt.key`: ") && jwt.contains("is a named pipe, expected"), "{jwt}");
    let relative = read("[tls]\ncertificate = \"a.pem\"\nkey = \"b.pem\"");
    assert!(relative.contains("in the folder that the gateway was started in"), "{relative}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_the_program_says_where_it_listens_and_why_it_cannot() {
    let authority = Authority::new();
    let start = |tls: &str| {
        let database = format!("sqlite:{}", authority.file("ledger.db"));
        let text = format!(
            "upstream = \"http://127.0.0.1:1\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ndatabase = {database:?}\n{tls}"
        );
        let file = authority.file("samekey.toml");
        std::fs::write(&file, text).unwrap();
        Program::built("samekey").unwrap().args(["gateway", "--config", &file])
    };
    let settings = tls(&authority);
    let mut process = start(&settings).start().unwrap();
    let address = process.address().unwrap();
    let mut stream = authority.connect(address, NAME, &[]).await.unwrap();
    stream.write_all(&Ask::post("/orders", "k", "{}").bytes()).await.unwrap();
    assert_eq!(Answer::parse(&read_to_end(&mut stream).await).status, 502);
    assert!(process.stdout().starts_with(&format!("listening on https://{address}\n")));
    assert!(process.stdout().contains("metrics on http://"), "{}", process.stdout());
    process.terminate().unwrap();
    assert_eq!(process.wait(Duration::from_secs(20)).unwrap().code(), Some(0));
    std::fs::remove_file(authority.file("key.pem")).unwrap();
    let ended = start(&settings).run(Duration::from_secs(20)).unwrap();
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(2), ""));
    let expected =
        format!("samekey.toml:7: `tls.key`: there is no file {:?}\n", authority.file("key.pem"));
    assert!(ended.stderr.ends_with(&expected), "{}", ended.stderr);
}
