//! Clients that take their time, and clients that send too much.

use super::client::{Reply, order};
use super::program::{Database, Service, Which};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The limits, scaled down together.
const LIMITS: [&str; 4] = ["--headers-time-max-ms", "4000", "--body-time-max-ms", "4000"];
const LIMIT: Duration = Duration::from_millis(4_000);
/// Slow clients of each of three kinds; the service takes 2048 connections. All together they stay
/// below the 1024 that wait in the kernel to be accepted: beyond, a silent client may believe in a
/// connection that no server has ever seen, and nobody closes that.
const SLOW: usize = 300;
/// Every slow one is gone by then, on a busy machine too.
const GONE_BY: Duration = Duration::from_secs(60);
/// What the service may take of memory at its worst, in KiB.
const MEMORY_KIB_MAX: u64 = 200 * 1024;

const HEAD: &str = "POST /orders HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer alpha-token\r\n";

/// A client that sends the start at once and then a byte now and then; gives what it got when the server
/// hung up.
async fn drip(service: &Service, start: String) -> Vec<u8> {
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(start.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut got = Vec::new();
    let dripping = async {
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if writer.write_all(b"x").await.is_err() {
                // The server hung up; the reader sees that too.
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        _ = reader.read_to_end(&mut got) => {}
        () = dripping => {}
    }
    got
}

#[tokio::test(flavor = "multi_thread")]
async fn t98_slow_clients_are_closed_and_good_ones_are_not_kept_waiting() {
    let database = Database::fresh(Which::Sqlite).await;
    let service = database.serve(&LIMITS);
    let began = Instant::now();
    let slow = async {
        let headers = (0..SLOW).map(|_| drip(&service, format!("{HEAD}X-Slow: ")));
        let body = format!("{HEAD}Idempotency-Key: slow\r\nContent-Length: 1000\r\n\r\n{{");
        let bodies = (0..SLOW).map(|_| drip(&service, body.clone()));
        let silent = (0..SLOW).map(|_| async {
            let mut stream = TcpStream::connect(service.address).await.unwrap();
            let mut got = Vec::new();
            let _ = stream.read_to_end(&mut got).await;
            got
        });
        tokio::join!(all(headers), all(bodies), all(silent))
    };
    let good = async {
        let mut slowest = Duration::ZERO;
        for number in 0..50 {
            let sent = Instant::now();
            let key = format!("good-{number}");
            assert_eq!(
                order(service.address, "alpha-token", &key, r#"{"amount": 1}"#).await.status,
                201
            );
            slowest = slowest.max(sent.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        slowest
    };
    let (slow, slowest) = tokio::join!(tokio::time::timeout(GONE_BY, slow), good);
    let (headers, bodies, silent) = slow.expect("a slow client is still there");
    // They were let to take their time, but not more of it.
    assert!(began.elapsed() >= LIMIT);
    assert!(slowest < LIMIT, "a good client waited for {slowest:?}");
    for got in headers.iter().chain(&silent) {
        let got = String::from_utf8_lossy(got);
        assert!(got.is_empty() || got.starts_with("HTTP/1.1 408"), "{got}");
    }
    for got in &bodies {
        let got = String::from_utf8_lossy(got);
        assert!(got.is_empty() || got.starts_with("HTTP/1.1 408"), "{got}");
    }
    let told = bodies.iter().filter(|got| !got.is_empty()).count();
    assert!(told > SLOW / 2, "only {told} of {SLOW} were told why");
    // The key of those that never sent their body is free.
    let reply: Reply = order(service.address, "alpha-token", "slow", r#"{"amount": 1}"#).await;
    assert_eq!((reply.status, reply.is_replay()), (201, false));
}

async fn all<F>(clients: impl Iterator<Item = F>) -> Vec<Vec<u8>>
where
    F: Future<Output = Vec<u8>>,
{
    futures_util::future::join_all(clients).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t97_what_is_too_much_is_refused_in_bounded_memory() {
    let database = Database::fresh(Which::Sqlite).await;
    let service = database.serve(&[]);
    // Endless bodies, many at once: each is cut at the limit.
    let endless = (0..20).map(|_| async {
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        let head = format!("{HEAD}Idempotency-Key: big\r\nTransfer-Encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
        let mut sent = 0;
        while sent < 100 && stream.write_all(chunk.as_bytes()).await.is_ok() {
            sent += 1;
        }
        sent
    });
    let sent = futures_util::future::join_all(endless).await;
    assert!(sent.iter().all(|sent| *sent < 100), "{sent:?}");
    // A body that is deep, and one that would be large if anybody unpacked it.
    let deep = format!("{}1{}", "[".repeat(500_000), "]".repeat(500_000));
    assert_eq!(order(service.address, "alpha-token", "deep", &deep).await.status, 400);
    let peak = peak_kib(service.process.id());
    assert!(peak < MEMORY_KIB_MAX, "the service took {peak} KiB");
    let reply = order(service.address, "alpha-token", "big", r#"{"amount": 1}"#).await;
    assert_eq!(reply.status, 201);
}

/// The most memory that a process ever had, as its system counts.
fn peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// T-102, the log half: with everything logged, no header, path or key can forge or break a line.
#[tokio::test(flavor = "multi_thread")]
async fn t102_a_hostile_request_leaves_no_mark_in_the_log() {
    let database = Database::fresh(Which::Sqlite).await;
    let mut process = super::program::orders()
        .args(["--listen", "127.0.0.1:0", "--database", &database.address()])
        .env("RUST_LOG", "trace")
        .start()
        .unwrap();
    let address = process.address().unwrap();
    for (path, line) in [
        ("/orders\x1b[2J", "Idempotency-Key: k"),
        ("/orders</script>FORGED", "Idempotency-Key: k"),
        ("/orders", "Idempotency-Key: \"</script>FORGED\""),
        ("/orders", "Idempotency-Key: \x1b[2JFORGED"),
        ("/orders", "User-Agent: \x1b[2J</script>FORGED"),
        ("/orders", "Idempotency-Key: k\r\n2026-11-30 WARN FORGED: a line"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = HEAD.replace("/orders", path);
        let request = format!("{head}{line}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got).await;
        assert!(!String::from_utf8_lossy(&got).contains("FORGED"), "{path} {line}");
    }
    order(address, "alpha-token", "k", r#"{"amount": 1}"#).await;
    process.terminate().unwrap();
    let ended = process.wait(samekey_sim::process::END_BOUND).unwrap();
    assert!(ended.stderr.contains("DEBUG"), "nothing was logged: {}", ended.stderr);
    let coloured = ended.stderr.replace("\x1b[0m", "").replace("\x1b[2m", "");
    assert!(!coloured.contains("\x1b[2J") && !coloured.contains("FORGED"), "{coloured}");
}

/// Every place is taken by a client that says nothing, and the signal to stop is heard all the same.
#[tokio::test(flavor = "multi_thread")]
async fn t72_a_full_service_hears_the_signal_to_stop() {
    /// As many as the service takes.
    const PLACES: usize = 2_048;
    let database = Database::fresh(Which::Sqlite).await;
    let service = database.serve(&["--headers-time-max-ms", "600000"]);
    let mut silent = Vec::new();
    for _ in 0..PLACES {
        silent.push(TcpStream::connect(service.address).await.unwrap());
    }
    // One more is not answered: all places are taken.
    let late = order(service.address, "alpha-token", "late", r#"{"amount": 1}"#);
    assert!(tokio::time::timeout(Duration::from_secs(1), late).await.is_err());
    service.process.terminate().unwrap();
    let ended =
        tokio::task::block_in_place(|| service.process.wait(Duration::from_secs(30))).unwrap();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    drop(silent);
}
