//! Large bodies and many connections, at the program itself: its memory stays where it is.

use crate::backend::{Backend, Reply, answer, created};
use crate::client::{Answer, Ask, exchange, read_to_end};
use crate::world::{Kind, World};
use samekey_sim::{Process, Program};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How large the large bodies are. A build without optimisation passes them on in a few seconds each.
const BYTES: u64 = 1 << 30;
/// What bodies may add to the memory of a gateway at its worst, in KiB: buffers, and not bodies.
const STREAMING_KIB_MAX: u64 = 16 * 1024;
/// What a gateway with a thousand connections may take at its worst, in KiB.
const THOUSAND_KIB_MAX: u64 = 100 * 1024;
/// The time of everything here that waits for the program.
const PATIENCE: Duration = Duration::from_secs(120);

fn start(folder: &Path, upstream: SocketAddr, settings: &str) -> Process {
    // The program inherits it: each connection of a client may have one to the upstream.
    let (_, most) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, most, most).unwrap();
    let file = folder.join("samekey.toml");
    let database = format!("sqlite:{}", folder.join("ledger.db").display());
    let text = format!(
        "upstream = \"http://{upstream}\"\nlisten = \"127.0.0.1:0\"\ndatabase = {database:?}\n{settings}"
    );
    std::fs::write(&file, text).unwrap();
    Program::built("samekey")
        .unwrap()
        .args(["gateway", "--config"])
        .arg(&file)
        .env("SAMEKEY_LOG", "warn")
        .start()
        .unwrap()
}

/// A line of what the system says of a process, in KiB: `VmHWM` is the most that it ever had.
fn kib(process: &Process, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let found = status.lines().find_map(|it| it.strip_prefix(line)).unwrap();
    found.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").parse().unwrap()
}

/// Bytes that tell where they belong: no two places within a period look alike, and a body that lost, doubled
/// or mixed up a piece differs from it.
struct Pattern(Vec<u8>);

/// A prime, so that no buffer's size divides it.
const PERIOD: usize = 65_521;

impl Pattern {
    fn new() -> Pattern {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let one: Vec<u8> = (0..PERIOD)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[0]
            })
            .collect();
        Pattern([one.clone(), one].concat())
    }

    /// The bytes from this place on, as many as `most` and what is left of the body.
    fn at(&self, place: u64, most: usize, length: u64) -> &[u8] {
        let from = usize::try_from(place % PERIOD as u64).unwrap();
        let left = usize::try_from(length - place).unwrap_or(usize::MAX);
        &self.0[from..from + most.min(PERIOD).min(left)]
    }

    /// Whether these are the bytes from this place on.
    fn holds(&self, mut place: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(PERIOD));
            if self.at(place, piece.len(), u64::MAX) != piece {
                return false;
            }
            place += piece.len() as u64;
            bytes = rest;
        }
        true
    }
}

/// Reads until the end of a head.
async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(bytes).unwrap().to_ascii_lowercase()
}

fn length_in(head: &str) -> u64 {
    let line = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    line.expect(head).parse().unwrap()
}

/// Reads a body of this length and says whether each byte was the right one.
async fn check(stream: &mut TcpStream, pattern: &Pattern, length: u64) -> bool {
    let (mut buffer, mut place) = (vec![0; 256 * 1024], 0);
    while place < length {
        let read = stream.read(&mut buffer).await.unwrap();
        if read == 0 || !pattern.holds(place, &buffer[..read]) {
            return false;
        }
        place += read as u64;
    }
    place == length
}

async fn pour(stream: &mut TcpStream, pattern: &Pattern, length: u64) {
    let mut place = 0;
    while place < length {
        let piece = pattern.at(place, PERIOD, length);
        stream.write_all(piece).await.unwrap();
        place += piece.len() as u64;
    }
}

/// An upstream that checks what it is sent, and sends as much back as its path says.
async fn mirror(right: Arc<AtomicU64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pattern = Arc::new(Pattern::new());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (pattern, right) = (Arc::clone(&pattern), Arc::clone(&right));
            tokio::spawn(async move {
                let head = head(&mut stream).await;
                let length = if head.contains("content-length") { length_in(&head) } else { 0 };
                if !check(&mut stream, &pattern, length).await {
                    return;
                }
                right.fetch_add(length, Ordering::SeqCst);
                let path = head.split(' ').nth(1).unwrap();
                let back = path.strip_prefix("/down/").map_or(0, |bytes| bytes.parse().unwrap());
                let answer = format!("HTTP/1.1 201 Created\r\nContent-Length: {back}\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                pour(&mut stream, &pattern, back).await;
            });
        }
    });
    address
}

/// A command with a body that the mirror takes for right.
fn down(pattern: &Pattern, key: &str, bytes: u64) -> Ask {
    Ask::new("POST", &format!("/down/{bytes}"))
        .header(&format!("Idempotency-Key: {key}"))
        .body(pattern.at(0, 10, 10))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_t97_t99_a_gigabyte_streams_through_in_constant_memory() {
    let (right, pattern) = (Arc::new(AtomicU64::new(0)), Pattern::new());
    let upstream = mirror(Arc::clone(&right)).await;
    let folder = tempfile::tempdir().unwrap();
    let mut process = start(folder.path(), upstream, "");
    let address = process.address().unwrap();
    // Everything was touched once before it is measured.
    assert_eq!(down(&pattern, "first", 10).send(address).await.status, 201);
    for _ in 0..2 {
        assert_eq!(Ask::new("GET", "/down/100000").send(address).await.body.len(), 100_000);
    }
    let before = kib(&process, "VmHWM");
    right.store(0, Ordering::SeqCst);

    let began = Instant::now();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /up HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {BYTES}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    pour(&mut stream, &pattern, BYTES).await;
    assert_eq!(Answer::parse(&read_to_end(&mut stream).await).status, 201);
    assert_eq!(right.load(Ordering::SeqCst), BYTES, "the upstream saw other bytes");
    let up = began.elapsed();

    // An answer under a key, far beyond what is kept.
    let mut stream = TcpStream::connect(address).await.unwrap();
    let order = down(&pattern, "large", BYTES);
    stream.write_all(&order.bytes()).await.unwrap();
    let answered = head(&mut stream).await;
    assert!(answered.starts_with("http/1.1 201"), "{answered}");
    assert_eq!(length_in(&answered), BYTES);
    assert!(check(&mut stream, &pattern, BYTES).await, "the client saw other bytes");
    assert_eq!(order.send(address).await.code(), "samekey.response-not-kept");
    let all = began.elapsed();

    let after = kib(&process, "VmHWM");
    println!(
        "{BYTES} bytes up in {up:?}, up and down in {all:?}: {before} KiB before, {after} KiB at the worst"
    );
    assert!(after <= before + STREAMING_KIB_MAX, "{before} KiB before, {after} KiB at the worst");
    process.terminate().unwrap();
    assert_eq!(process.wait(PATIENCE).unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_a_thousand_connections_take_little_memory() {
    const EACH: usize = 500;
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend = Backend::playing(move |seen, number| match seen.method.as_str() {
        "POST" => Reply::When(Arc::clone(&script), created(number)),
        _ => Reply::Bytes(answer("200 OK", &[], b"idle")),
    });
    let (backend, folder) = (backend.await, tempfile::tempdir().unwrap());
    let mut process = start(folder.path(), backend.address, "");
    let address = process.address().unwrap();
    let before = kib(&process, "VmRSS");
    // Connections that were used and wait for the next request.
    let mut idle = Vec::new();
    for _ in 0..EACH {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut begin = [0; 15];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200 OK");
        idle.push(stream);
    }
    // And commands that are at the upstream.
    let mut active = JoinSet::new();
    for number in 0..EACH {
        let ask = Ask::post("/orders", &format!("k{number}"), &format!("{{\"ref\":{number}}}"));
        active.spawn(async move { ask.send(address).await.status });
        backend.wait_for(EACH + number.saturating_sub(32)).await;
    }
    backend.wait_for(2 * EACH).await;
    let (now, worst) = (kib(&process, "VmRSS"), kib(&process, "VmHWM"));
    println!(
        "{before} KiB before, {now} KiB with {EACH} idle and {EACH} active connections, {worst} KiB at the worst"
    );
    assert!(worst < THOUSAND_KIB_MAX, "{worst} KiB");
    gate.add_permits(EACH);
    assert!(active.join_all().await.iter().all(|status| *status == 201));
    assert!(backend.by_body().iter().all(|(body, effects)| body.is_empty() || *effects == 1));
    drop(idle);
}

/// Clients that never end what they began, of four kinds.
const DAWDLING: [&str; 4] = [
    "",
    "POST /a HTTP/1.1\r\nHost: a\r\nX-Slow: ",
    "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: a\r\nIdempotency-Key: slow\r\nContent-Length: 100000\r\n\r\n",
];

/// Sends the opening and then a byte now and then, until the gateway hangs up.
async fn dawdle(mut stream: TcpStream, opening: &str) {
    if stream.write_all(opening.as_bytes()).await.is_err() {
        return;
    }
    let (mut reader, mut writer) = stream.split();
    let dripping = async {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            // Who is silent from the beginning stays it.
            if !opening.is_empty() && writer.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let ended = async { while matches!(reader.read(&mut [0; 1024]).await, Ok(1..)) {} };
    tokio::select! {
        () = ended => {}
        () = dripping => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_t98_two_thousand_slow_clients_are_let_go_and_good_ones_are_served() {
    const SLOW: usize = 2_000;
    let (backend, folder) = (Backend::creating().await, tempfile::tempdir().unwrap());
    let limits =
        "[limits]\nheaders_time_max_ms = 5000\nstall_time_max_ms = 5000\nidle_time_max_ms = 5000\n";
    let mut process = start(folder.path(), backend.address, limits);
    let address = process.address().unwrap();
    let (mut slow, gone) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    let (mut served, mut slowest) = (0, Duration::ZERO);
    let mut good = async |number: usize| {
        let began = Instant::now();
        let ask = Ask::post("/orders", &format!("good-{number}"), &format!("{{\"ref\":{number}}}"));
        assert_eq!(ask.send(address).await.status, 201);
        slowest = slowest.max(began.elapsed());
    };
    for number in 0..SLOW {
        let stream = TcpStream::connect(address).await.unwrap();
        let (gone, opening) = (Arc::clone(&gone), DAWDLING[number % DAWDLING.len()]);
        slow.spawn(async move {
            dawdle(stream, opening).await;
            gone.fetch_add(1, Ordering::SeqCst);
        });
        // Who is served was accepted, and so was everybody before: nobody waits in the kernel for ever.
        if number % 100 == 99 {
            good(served).await;
            served += 1;
        }
    }
    let all_here = Instant::now();
    while gone.load(Ordering::SeqCst) < SLOW {
        assert!(
            all_here.elapsed() < PATIENCE,
            "{} of {SLOW} were let go",
            gone.load(Ordering::SeqCst)
        );
        good(served).await;
        served += 1;
    }
    let took = all_here.elapsed();
    println!(
        "{SLOW} slow clients were let go within {took:?} of the last one's coming; {served} good requests, the slowest {slowest:?}"
    );
    // Five seconds for what they began, five more until nothing was asked, and a busy machine.
    assert!(took < Duration::from_secs(40), "{took:?}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    assert_eq!(backend.effects(), served, "nothing of a slow client ran");
}

#[tokio::test]
async fn b38_b94_a_large_body_is_sent_on_as_it_came_and_never_again_by_itself() {
    let pattern = Pattern::new();
    let body: Vec<u8> = (0..5_000_000u64).map(|place| pattern.at(place, 1, u64::MAX)[0]).collect();
    let mut in_chunks = Vec::new();
    for piece in body.chunks(70_000) {
        in_chunks.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        in_chunks.extend_from_slice(piece);
        in_chunks.extend_from_slice(b"\r\n");
    }
    in_chunks.extend_from_slice(b"0\r\n\r\n");
    let framed = |key: &str| {
        let head = format!("POST /files HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{key}");
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
        let length = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        [
            [chunked.into_bytes(), in_chunks.clone()].concat(),
            [length.into_bytes(), body.clone()].concat(),
        ]
    };
    for (policy, retried, effects) in [("unknown", 409, 1), ("free", 201, 2)] {
        let settings = format!("[default]\nbody_bytes_max = 6000000\non_5xx = {policy:?}\n");
        // Without a key and under one, each at first 503.
        for key in ["", "Idempotency-Key: k\r\n"] {
            for request in framed(key) {
                let backend = Backend::playing(|_, number| {
                    Reply::Bytes(if number == 1 { answer("503 No", &[], b"") } else { created(2) })
                });
                let world = World::with(Kind::Sqlite, backend.await, &settings).await;
                let first = Answer::parse(&exchange(world.gateway.address, &request).await);
                assert_eq!((first.status, world.backend.effects()), (503, 1));
                if !key.is_empty() {
                    let second = Answer::parse(&exchange(world.gateway.address, &request).await);
                    assert_eq!((second.status, world.backend.effects()), (retried, effects));
                }
                assert!(world.backend.seen().iter().all(|seen| seen.body == body));
            }
        }
    }
}
