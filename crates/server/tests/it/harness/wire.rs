//! A caller that writes its bytes itself, so that it can write what no HTTP library would.

use super::caller::Reply;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No dialogue takes longer in any test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nothing that these tests read back is longer.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Sends these bytes, waits for one whole answer, closes its own side and reads until the server
/// closes too. Gives everything that came back.
pub async fn dialogue(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut line = Line::open(address).await;
    line.write(bytes).await;
    line.answer().await;
    line.rest().await
}

/// One connection, written and read step by step.
pub struct Line {
    stream: TcpStream,
    read: Vec<u8>,
    at: usize,
}

impl Line {
    pub async fn open(address: SocketAddr) -> Line {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Line { stream, read: Vec::new(), at: 0 }
    }

    /// Writes; a server that has hung up already is no failure of the caller's.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        tokio::time::timeout(PATIENCE, self.stream.write_all(bytes)).await.unwrap().is_ok()
    }

    /// Whether these bytes have come since the last answer.
    pub async fn wait_for(&mut self, wanted: &[u8]) -> bool {
        loop {
            if self.read[self.at..].windows(wanted.len()).any(|window| window == wanted) {
                return true;
            }
            if !self.more().await {
                return false;
            }
        }
    }

    /// The next whole answer; nothing when the server closes without one. Interim answers are skipped.
    pub async fn answer(&mut self) -> Option<Reply> {
        loop {
            if let Some((reply, end)) = whole_answer(&self.read[self.at..]) {
                self.at += end;
                if reply.status >= 200 {
                    return Some(reply);
                }
            } else if !self.more().await {
                return None;
            }
        }
    }

    /// Everything that came, once the server has closed.
    pub async fn rest(mut self) -> Vec<u8> {
        let _ = self.stream.shutdown().await;
        while self.more().await {}
        self.read
    }

    async fn more(&mut self) -> bool {
        assert!(self.read.len() < ANSWER_BYTES_MAX, "the server does not stop");
        let read = self.stream.read_buf(&mut self.read);
        matches!(tokio::time::timeout(PATIENCE, read).await.expect("the server is silent"), Ok(1..))
    }
}

/// One answer with a Content-Length, and where it ends.
fn whole_answer(bytes: &[u8]) -> Option<(Reply, usize)> {
    let head_ends = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head_ends]).into_owned();
    let mut lines = text.trim_end().split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let mut headers = http::HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, http::HeaderValue::from_str(value.trim()).unwrap());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |value| value.to_str().unwrap().parse::<usize>().unwrap());
    let body = bytes.get(head_ends..head_ends + length)?.to_vec();
    Some((Reply { status, headers, body }, head_ends + length))
}

/// The status of every answer in what came back.
pub fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    text.split("HTTP/1.")
        .skip(1)
        .filter_map(|rest| rest.split(' ').nth(1)?.get(..3)?.parse().ok())
        .collect()
}

/// A request of A1's with these lines in its head, as bytes.
pub fn request(start: &str, lines: &[&[u8]], body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("{start} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer a1\r\n").into_bytes();
    bytes.extend_from_slice(b"Content-Type: application/json\r\n");
    for line in lines {
        bytes.extend_from_slice(line);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// Sends an order under these key lines, each the value as it stands on the wire.
pub async fn order_under(address: SocketAddr, keys: &[&[u8]], body: &str) -> Option<Reply> {
    let mut lines = vec![format!("Content-Length: {}", body.len()).into_bytes()];
    for key in keys {
        let mut line = b"Idempotency-Key: ".to_vec();
        line.extend_from_slice(key);
        lines.push(line);
    }
    let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
    let mut line = Line::open(address).await;
    line.write(&request("POST /orders", &lines, body.as_bytes())).await;
    line.answer().await
}
