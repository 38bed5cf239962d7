//! The program itself, killed and frozen in the middle of a call, and what its log shows.

use crate::authority::Authority;
use crate::backend::{Backend, Reply, created};
use crate::client::{Answer, Ask, exchange, read_to_end};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use samekey_sim::{Cluster, Options, Process, Program};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// How long a key may take to leave the state of a dead owner.
const PATIENCE: Duration = Duration::from_secs(20);

fn start(folder: &Path, backend: &Backend, settings: &str) -> Process {
    let upstream = format!("upstream = \"http://{}\"\n", backend.address);
    start_with(folder, &format!("{upstream}{settings}"))
}

fn start_with(folder: &Path, settings: &str) -> Process {
    let file = folder.join("samekey.toml");
    let database = format!("sqlite:{}", folder.join("ledger.db").display());
    let text = format!("listen = \"127.0.0.1:0\"\ndatabase = {database:?}\n{settings}");
    std::fs::write(&file, text).unwrap();
    Program::built("samekey")
        .unwrap()
        .arg("gateway")
        .arg("--config")
        .arg(&file)
        .env("SAMEKEY_LOG", "debug")
        .start()
        .unwrap()
}

/// Sends the same again until something else than "in progress" comes.
async fn past_progress(ask: &Ask, process: &mut Process) -> Answer {
    let address = process.address().unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = ask.send(address).await;
        if answer.status != 409 || answer.code() != "samekey.in-progress" {
            return answer;
        }
        assert!(Instant::now() < until, "it is in progress for ever");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn held() -> (Backend, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend =
        Backend::playing(move |_, number| Reply::When(Arc::clone(&script), created(number)));
    (backend.await, gate)
}

const SHORT_LEASE: &str = "[default]\nlease_ms = 1500\ntimeout_ms = 1000\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_b04_b25_a_gateway_killed_in_its_call_leaves_the_key_to_a_person() {
    let (backend, gate) = held().await;
    let folder = tempfile::tempdir().unwrap();
    let mut first = start(folder.path(), &backend, SHORT_LEASE);
    let address = first.address().unwrap();
    let ask = Ask::post("/orders", "k", "{}");
    let bytes = ask.bytes();
    let asked = tokio::spawn(async move { exchange(address, &bytes).await });
    backend.wait_for(1).await;
    first.kill().unwrap();
    assert!(asked.await.unwrap().is_empty());
    gate.add_permits(10);
    let mut second = start(folder.path(), &backend, SHORT_LEASE);
    let told = past_progress(&ask, &mut second).await;
    assert_eq!((told.status, told.code().as_str()), (409, "samekey.outcome-unknown"));
    assert_eq!(backend.effects(), 1);
    second.terminate().unwrap();
    assert_eq!(second.wait(PATIENCE).unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_t62_a_gateway_frozen_past_its_lease_sends_nothing_again() {
    let (backend, gate) = held().await;
    let folder = tempfile::tempdir().unwrap();
    let mut frozen = start(folder.path(), &backend, SHORT_LEASE);
    let address = frozen.address().unwrap();
    let ask = Ask::post("/orders", "k", "{}");
    let bytes = ask.bytes();
    let asked = tokio::spawn(async move { exchange(address, &bytes).await });
    backend.wait_for(1).await;
    frozen.freeze().unwrap();
    let mut other = start(folder.path(), &backend, SHORT_LEASE);
    let told = past_progress(&ask, &mut other).await;
    assert_eq!((told.status, told.code().as_str()), (409, "samekey.outcome-unknown"));
    // The answer comes while nobody there can read it.
    gate.add_permits(10);
    backend.wait_for_answers(1).await;
    frozen.thaw().unwrap();
    let late = Answer::parse(&asked.await.unwrap());
    assert_eq!((late.status, late.is_replay()), (201, false), "{late:?}");
    // It is evidence: the key that waited for a person is done, wherever it is asked for.
    let last = past_progress(&ask, &mut other).await;
    assert_eq!((last.status, last.is_replay()), (201, true), "{last:?}");
    assert_eq!(last.kept(), late.kept());
    assert_eq!(backend.effects(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_t101_t102_no_secret_is_in_the_log_and_each_line_is_json() {
    const CANARIES: [&str; 5] =
        ["canary-key", "canary-body", "canary-token", "canary-query", "canary-agent"];
    let backend = Backend::playing(|seen, number| match seen.target.as_str() {
        "/cut" => Reply::Last(Vec::new()),
        _ => Reply::Bytes(created(number)),
    });
    let (backend, folder) = (backend.await, tempfile::tempdir().unwrap());
    let mut process = start(folder.path(), &backend, "");
    let address = process.address().unwrap();
    for target in ["/orders?x=canary-query", "/cut", "/orders?x=canary-query"] {
        let ask = Ask::post(target, "canary-key", "{\"card\":\"canary-body\"}")
            .header("Authorization: Bearer canary-token")
            .header("User-Agent: canary-agent </script>");
        ask.send(address).await;
        Ask::new("POST", target).body("canary-body").send(address).await;
    }
    let hostile = b"GET /\x1b[2J HTTP/1.1\r\nHost: a\r\nUser-Agent: \x1b[2J\r\n\r\n";
    exchange(address, hostile).await;
    process.terminate().unwrap();
    let ended = process.wait(PATIENCE).unwrap();
    let log = format!("{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("the upstream gave no answer"), "{log}");
    assert!(ended.stderr.contains("without an Idempotency-Key"), "{log}");
    for line in ended.stderr.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    for canary in CANARIES {
        assert!(!log.contains(canary), "{canary} in {log}");
    }
    assert!(!log.contains('\x1b'), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_t101_the_credential_of_the_upstream_is_shown_to_nobody() {
    const SETTINGS: &str = "org = \"shop\"\n[default]\ncounterparty = \"dedups\"\nkey_life_s = 86400\n\
        lease_ms = 1500\ntimeout_ms = 1000\nin_progress = { status = 409, pointer = \"/e\" }\n\
        credential = { environment = \"UPSTREAM_KEY\", header = \"X-Api-Key\", prefix = \"\" }\n";
    // It says back whatever it was told, and loses its first answer.
    let backend = Backend::playing(|seen, number| match number {
        1 => Reply::Last(Vec::new()),
        _ => Reply::Bytes(crate::backend::answer("201 Created", &[], &seen.body)),
    });
    let (backend, folder) = (backend.await, tempfile::tempdir().unwrap());
    let file = folder.path().join("samekey.toml");
    let ledger = folder.path().join("ledger.db");
    let database = format!("sqlite:{}", ledger.display());
    let text = format!("listen = \"127.0.0.1:0\"\ndatabase = {database:?}\n{SETTINGS}");
    std::fs::write(&file, text).unwrap();
    let program = Program::built("samekey")
        .unwrap()
        .args(["gateway", "--config"])
        .arg(&file)
        .env("SAMEKEY_UPSTREAM", format!("http://{}", backend.address))
        .env("SAMEKEY_LOG", "trace");
    let refused = program.run(PATIENCE).unwrap();
    assert_eq!(refused.code(), Some(2));
    assert!(
        refused.stderr.contains("the environment variable UPSTREAM_KEY is not set"),
        "{}",
        refused.stderr
    );
    let mut process = program.env("UPSTREAM_KEY", "canary-credential").start().unwrap();
    let address = process.address().unwrap();
    let ask = Ask::post("/orders", "k", "{}").header("X-Api-Key: theirs");
    let first = ask.send(address).await;
    assert_eq!(first.code(), "samekey.outcome-pending");
    backend.wait_for(2).await;
    let until = Instant::now() + PATIENCE;
    let mut told = ask.send(address).await;
    while told.status != 201 {
        assert!(Instant::now() < until, "{told:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        told = ask.send(address).await;
    }
    for seen in backend.seen() {
        assert_eq!(seen.one("x-api-key"), Some("canary-credential"));
    }
    process.terminate().unwrap();
    let ended = process.wait(PATIENCE).unwrap();
    let mut written = vec![ended.stdout.into_bytes(), ended.stderr.into_bytes()];
    for name in ["ledger.db", "ledger.db-wal"] {
        written.extend(std::fs::read(folder.path().join(name)).ok());
    }
    written.extend([first.body, told.body]);
    for bytes in written {
        let shown = String::from_utf8_lossy(&bytes);
        assert!(!shown.contains("canary-credential"), "{shown}");
    }
}

/// A file that hangs keeps back what needs the credential in it, and not the end of the gateway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_a_credential_that_became_a_pipe_does_not_hold_the_gateway() {
    const SETTINGS: &str = "org = \"shop\"\n[default]\ncounterparty = \"dedups\"\nkey_life_s = 86400\n\
        in_progress = { status = 409, pointer = \"/e\" }\n";
    let (backend, folder) = (Backend::creating().await, tempfile::tempdir().unwrap());
    let token = folder.path().join("token");
    std::fs::write(&token, "t").unwrap();
    let settings = format!("{SETTINGS}credential = {{ file = {:?} }}\n", token.to_str().unwrap());
    let mut process = start(folder.path(), &backend, &settings);
    let address = process.address().unwrap();
    std::fs::remove_file(&token).unwrap();
    mkfifo(&token, Mode::S_IRWXU).unwrap();
    let ask = Ask::post("/orders", "k", "{}");
    let told = tokio::time::timeout(PATIENCE, ask.send(address)).await.unwrap();
    assert_eq!((told.status, backend.effects()), (502, 0), "{told:?}");
    process.terminate().unwrap();
    assert_eq!(process.wait(PATIENCE).unwrap().code(), Some(0));
    let again = start(folder.path(), &backend, &settings).wait(PATIENCE).unwrap();
    assert!(again.code() == Some(2) && again.stderr.contains("is a named pipe, expected"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_cluster_b37_without_its_ledger_nothing_runs() {
    let mut cluster = tokio::task::block_in_place(|| Cluster::start(Options::new())).unwrap();
    let url = cluster.create_database("ledger").unwrap();
    let (backend, folder) = (Backend::creating().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("samekey.toml");
    let text = format!("upstream = \"http://{}\"\nlisten = \"127.0.0.1:0\"\n", backend.address);
    std::fs::write(&file, text).unwrap();
    let mut process = Program::built("samekey")
        .unwrap()
        .args(["gateway", "--config"])
        .arg(&file)
        .env("SAMEKEY_DATABASE", &url)
        .start()
        .unwrap();
    let address = process.address().unwrap();
    let ask = Ask::post("/orders", "k", "{}");
    tokio::task::block_in_place(|| cluster.kill_immediately()).unwrap();
    let told = ask.send(address).await;
    assert_eq!((told.status, told.code().as_str()), (503, "samekey.store-unavailable"));
    assert_eq!((told.one("retry-after"), backend.effects()), (Some("1"), 0));
    assert!(!told.text().contains("postgres"), "{}", told.text());
    tokio::task::block_in_place(|| cluster.restart()).unwrap();
    let until = Instant::now() + PATIENCE;
    let mut told = ask.send(address).await;
    while told.status != 201 {
        assert!(Instant::now() < until, "{told:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        told = ask.send(address).await;
    }
    assert_eq!(backend.effects(), 1);
}

/// A gateway that is stopped before it has sent all of a command, and goes on when its lease is over and the key is
/// with a person, sends nothing of the rest: neither what waits for a full socket, nor what follows a handshake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_t62_a_gateway_frozen_before_it_sent_sends_nothing_after_its_lease() {
    const LARGE: usize = 16 << 20;
    let authority = Authority::new();
    let tls = authority.server("localhost", false, &[]);
    for is_secure in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (here, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (told, gate, tls) = (Arc::clone(&here), Arc::clone(&go), tls.clone());
        // Reads nothing before it is told to, and then counts what comes.
        let counting = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            told.add_permits(1);
            gate.acquire().await.unwrap().forget();
            if is_secure {
                return match tls.accept(stream).await {
                    Ok(mut stream) => read_to_end(&mut stream).await.len(),
                    Err(_) => 0,
                };
            }
            read_to_end(&mut stream).await.len()
        });
        let folder = tempfile::tempdir().unwrap();
        let scheme = if is_secure { "https" } else { "http" };
        let settings = format!(
            "upstream = \"{scheme}://localhost:{port}\"\n{}[limits]\nconnect_time_max_ms = 60000\n{SHORT_LEASE}body_bytes_max = {LARGE}\n",
            if is_secure {
                format!("upstream_ca = {:?}\n", authority.file("authority.pem"))
            } else {
                String::new()
            }
        );
        let mut frozen = start_with(folder.path(), &settings);
        let address = frozen.address().unwrap();
        let ask = Ask::new("POST", "/files").header("Idempotency-Key: k").body(vec![b'x'; LARGE]);
        let bytes = ask.bytes();
        let asked = tokio::spawn(async move { exchange(address, &bytes).await });
        here.acquire().await.unwrap().forget();
        frozen.freeze().unwrap();
        let mut other = start_with(folder.path(), &settings);
        let told = past_progress(&ask, &mut other).await;
        assert_eq!((told.status, told.code().as_str()), (409, "samekey.outcome-unknown"));
        go.add_permits(1);
        frozen.thaw().unwrap();
        let late = Answer::parse(&asked.await.unwrap());
        assert_eq!((late.status, late.code().as_str()), (409, "samekey.outcome-unknown"));
        let came = counting.await.unwrap();
        if is_secure {
            assert_eq!(came, 0, "it went on with its handshake");
        } else {
            assert!(came < LARGE, "all {came} bytes came");
        }
    }
}
