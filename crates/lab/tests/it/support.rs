//! A client that sees every byte, and a lab to point it at.

use samekey_lab::faults::Plan;
use samekey_lab::{Lab, Options};
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A lab on a free port with a plan in JSON.
pub async fn lab(plan: &str) -> Lab {
    let plan = Plan::from_json("plan", plan.as_bytes()).unwrap();
    Lab::start(Options { plan, ..Options::default() }).await.unwrap()
}

/// What came back on a connection until it ended.
#[derive(Debug)]
pub struct Exchange {
    /// Every byte.
    pub bytes: Vec<u8>,
    /// How the connection ended: in order, or with this error.
    pub end: Result<(), io::ErrorKind>,
}

impl Exchange {
    pub fn head(&self) -> String {
        let end = self
            .bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .unwrap_or(self.bytes.len());
        String::from_utf8_lossy(&self.bytes[..end]).to_ascii_lowercase()
    }

    pub fn status(&self) -> u16 {
        let head = self.head();
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub fn headers(&self, name: &str) -> Vec<String> {
        let head = self.head();
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).collect()
    }

    pub fn body(&self) -> &[u8] {
        let start = self
            .bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .map_or(self.bytes.len(), |at| at + 4);
        &self.bytes[start..]
    }

    pub fn json(&self) -> Value {
        let is_chunked = self.headers("transfer-encoding") == ["chunked"];
        let body = if is_chunked { dechunked(self.body()).0 } else { self.body().to_vec() };
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn replayed(&self) -> bool {
        self.headers("idempotent-replayed") == ["true"]
    }
}

/// The content of a chunked body, and how many chunks it came in.
pub fn dechunked(mut bytes: &[u8]) -> (Vec<u8>, usize) {
    let (mut whole, mut chunks) = (Vec::new(), 0);
    loop {
        let line = bytes.windows(2).position(|window| window == b"\r\n").unwrap();
        let length =
            usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return (whole, chunks);
        }
        whole.extend_from_slice(&bytes[line + 2..line + 2 + length]);
        chunks += 1;
        bytes = &bytes[line + 2 + length + 2..];
    }
}

/// Sends bytes on a connection of their own and reads until it ends.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> Exchange {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    read_to_end(&mut stream).await
}

pub async fn read_to_end(stream: &mut TcpStream) -> Exchange {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("the connection never ended");
    Exchange { bytes, end: read.map(|_| ()).map_err(|error| error.kind()) }
}

/// A request as bytes; the connection is to be closed after the answer.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    text.into_bytes()
}

pub async fn send(lab: &Lab, method: &str, path: &str, key: Option<&str>, body: &str) -> Exchange {
    let headers: Vec<(&str, &str)> = key.map(|key| ("Idempotency-Key", key)).into_iter().collect();
    exchange(lab.addr(), &request(method, path, &headers, body)).await
}

pub async fn pay(lab: &Lab, order: &str, key: Option<&str>) -> Exchange {
    send(lab, "POST", "/payments", key, &format!("{{\"order_id\":\"{order}\",\"amount\":1500}}"))
        .await
}

pub async fn get(lab: &Lab, path: &str) -> Exchange {
    send(lab, "GET", path, None, "").await
}

/// How often an order was paid, by the lab's own ledger.
pub fn paid(lab: &Lab, order: &str) -> usize {
    lab.payments().unwrap().iter().filter(|payment| payment.order_id == order).count()
}

/// An empty folder of this test's own, below the build folder.
pub fn folder(name: &str) -> PathBuf {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{name}-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a program that the test needs, and says so where it is missing.
pub async fn run(program: &str, arguments: &[&str]) -> std::process::Output {
    let started = tokio::process::Command::new(program).args(arguments).kill_on_drop(true).output();
    let output =
        timeout(PATIENCE, started).await.unwrap_or_else(|_| panic!("{program} did not end"));
    output.unwrap_or_else(|error| panic!("this test needs {program} on the PATH: {error}"))
}
