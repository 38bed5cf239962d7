//! A client that sends exactly what it is told, and reads the answer as it stands on the wire.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No answer takes longer than this, or the test hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request to send.
#[derive(Clone, Debug)]
pub struct Ask {
    line: String,
    headers: Vec<String>,
    body: Vec<u8>,
}

impl Ask {
    pub fn new(method: &str, target: &str) -> Ask {
        Ask { line: format!("{method} {target} HTTP/1.1"), headers: Vec::new(), body: Vec::new() }
    }

    /// A command with a key and a JSON body.
    pub fn post(target: &str, key: &str, body: &str) -> Ask {
        Ask::new("POST", target)
            .header("Content-Type: application/json")
            .header(&format!("Idempotency-Key: {key}"))
            .body(body)
    }

    pub fn header(mut self, line: &str) -> Ask {
        self.headers.push(line.to_owned());
        self
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Ask {
        self.body = body.as_ref().to_vec();
        self
    }

    /// The bytes; the connection ends with the answer.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\r\nHost: shop.example\r\nConnection: close\r\n", self.line);
        for header in &self.headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        if !self.body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    pub async fn send(&self, address: SocketAddr) -> Answer {
        Answer::parse(&exchange(address, &self.bytes()).await)
    }

    /// The same; nothing where no whole answer came.
    pub async fn try_send(&self, address: SocketAddr) -> Option<Answer> {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(&self.bytes()).await.ok()?;
        let mut bytes = Vec::new();
        while matches!(stream.read_buf(&mut bytes).await, Ok(read) if read > 0) {}
        Answer::whole(&bytes)
    }
}

/// Sends these bytes and reads until the other side ends the connection.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other side may have answered and gone before everything is written.
    let _ = stream.write_all(bytes).await;
    read_to_end(&mut stream).await
}

/// Reads until the other side ends the connection.
pub async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut answer = Vec::new();
    let reading = async {
        // A reset after the answer is an end as well.
        while matches!(stream.read_buf(&mut answer).await, Ok(read) if read > 0) {}
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the connection did not end");
    answer
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn parse(bytes: &[u8]) -> Answer {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut parsed = httparse::Response::new(&mut headers);
        let shown = String::from_utf8_lossy(bytes);
        let Ok(httparse::Status::Complete(length)) = parsed.parse(bytes) else {
            panic!("that is no answer: {shown:?}")
        };
        let status = parsed.code.unwrap();
        let headers: Vec<(String, String)> = parsed
            .headers
            .iter()
            .map(|it| {
                (it.name.to_ascii_lowercase(), String::from_utf8_lossy(it.value).into_owned())
            })
            .collect();
        if status == 100 {
            return Answer::parse(&bytes[length..]);
        }
        let chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        let rest = &bytes[length..];
        let body = if chunked { dechunked(rest) } else { rest.to_vec() };
        Answer { status, headers, body }
    }

    /// An answer whose end is known to have come.
    fn whole(bytes: &[u8]) -> Option<Answer> {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let parsed = httparse::Response::new(&mut headers).parse(bytes);
        let Ok(httparse::Status::Complete(_)) = parsed else { return None };
        let answer = Answer::parse(bytes);
        let length = answer.one("content-length")?.parse::<usize>().ok()?;
        (answer.body.len() == length).then_some(answer)
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(it, _)| it == name);
        lines.map(|(_, value)| value.as_str()).collect()
    }

    pub fn one(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name}: {all:?}");
        all.first().copied()
    }

    pub fn is_replay(&self) -> bool {
        self.one("idempotent-replayed") == Some("true")
    }

    /// The code of a problem document.
    pub fn code(&self) -> String {
        let document: serde_json::Value = serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no document: {}", self.text()));
        document["code"].as_str().unwrap_or_default().to_owned()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// What has to be equal between a first answer and its replays.
    pub fn kept(&self) -> (u16, Vec<(String, String)>, Vec<u8>) {
        const KEPT: [&str; 8] = [
            "content-type",
            "content-language",
            "content-encoding",
            "location",
            "content-location",
            "etag",
            "last-modified",
            "link",
        ];
        let mut headers = self.headers.clone();
        headers.retain(|(name, _)| KEPT.contains(&name.as_str()));
        headers.sort();
        (self.status, headers, self.body.clone())
    }
}

fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(bytes) {
        let size = usize::try_from(size).unwrap();
        if size == 0 || bytes.len() < line + size {
            break;
        }
        body.extend_from_slice(&bytes[line..line + size]);
        bytes = &bytes[line + size + 2..];
    }
    body
}
