//! A load generator: connections that each send one request after the other, as fast as they are
//! answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// HTTP connections, as the bar of the project is stated.
pub const CONNECTIONS: usize = 64;
/// No answer of a bench is larger.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Any failure of a bench: it ends the run.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What to send: the key's number goes into the request.
pub type Compose = Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// How many requests were answered in a round, and how long it took.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub answered: u64,
    pub took: Duration,
}

impl Round {
    /// Answers a second.
    pub fn rate(self) -> f64 {
        self.answered as f64 / self.took.as_secs_f64()
    }
}

/// Sends for so long over [`CONNECTIONS`] connections; every answer must have the status.
pub async fn run(
    address: SocketAddr,
    compose: Compose,
    numbers: Arc<AtomicU64>,
    status: u16,
    length: Duration,
) -> Result<Round, Failure> {
    run_over(CONNECTIONS, address, compose, numbers, status, length).await
}

/// Sends for so long over so many connections; every answer must have the status.
pub async fn run_over(
    connections: usize,
    address: SocketAddr,
    compose: Compose,
    numbers: Arc<AtomicU64>,
    status: u16,
    length: Duration,
) -> Result<Round, Failure> {
    let began = Instant::now();
    let ends = began + length;
    let mut senders = Vec::with_capacity(connections);
    for _ in 0..connections {
        let (compose, numbers) = (Arc::clone(&compose), Arc::clone(&numbers));
        senders.push(tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut answered = 0u64;
            while Instant::now() < ends {
                let request = compose(numbers.fetch_add(1, Ordering::Relaxed));
                connection.exchange(&request, status).await?;
                answered += 1;
            }
            Ok::<u64, Failure>(answered)
        }));
    }
    let mut answered = 0;
    for sender in senders {
        answered += sender.await??;
    }
    Ok(Round { answered, took: began.elapsed() })
}

/// One connection that is kept alive.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request and reads its answer, which must have a Content-Length.
    pub async fn exchange(&mut self, request: &[u8], status: u16) -> Result<(), Failure> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed in the middle of an answer".into());
            }
            let Some(head) = find(&self.buffer, b"\r\n\r\n") else {
                if self.buffer.len() > ANSWER_BYTES_MAX {
                    return Err("an answer without an end".into());
                }
                continue;
            };
            let text = String::from_utf8_lossy(self.buffer.get(..head).unwrap_or_default());
            let said = text.get(9..12).unwrap_or("");
            if said != status.to_string() {
                return Err(format!(
                    "expected status {status}, found {said}: {}",
                    String::from_utf8_lossy(&self.buffer)
                )
                .into());
            }
            let length: usize = text
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .and_then(|(_, length)| length.parse().ok())
                .unwrap_or(0);
            let end = head + 4 + length;
            while self.buffer.len() < end {
                if self.stream.read_buf(&mut self.buffer).await? == 0 {
                    return Err("the server closed in the middle of a body".into());
                }
            }
            return Ok(());
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
