//! Callers: one that speaks HTTP properly, and one that sends what it is told.

use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// No answer takes longer in any test.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The `code` of a problem document; nothing for any other answer.
    pub fn code(&self) -> Option<String> {
        if self.header("content-type") != Some("application/problem+json") {
            return None;
        }
        Some(self.json()["code"].as_str().unwrap().to_owned())
    }

    /// Asserts that this is the truth "wait": 409, its code, and a Retry-After of 1 to 60.
    pub fn assert_busy(&self) {
        assert_eq!((self.status, self.code().as_deref()), (409, Some("samekey.in-progress")));
        let wait: u64 = self.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "Retry-After {wait}");
    }

    /// Asserts that this answer is the other's replay, or the other way round: status, kept headers
    /// and every byte.
    pub fn assert_same(&self, other: &Reply) {
        assert_eq!(self.status, other.status);
        assert_eq!(self.body, other.body);
        for name in [
            "content-type",
            "content-language",
            "content-encoding",
            "location",
            "content-location",
            "etag",
            "last-modified",
            "link",
        ] {
            let mine: Vec<_> = self.headers.get_all(name).iter().collect();
            let theirs: Vec<_> = other.headers.get_all(name).iter().collect();
            assert_eq!(mine, theirs, "header {name}");
        }
    }
}

/// Sends one request over a connection of its own, as A1 unless the headers say who.
pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Reply {
    tokio::time::timeout(PATIENCE, async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = http::Request::builder().method(method).uri(path).header("host", "test");
        let has = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if !has("authorization") {
            request = request.header("authorization", "Bearer a1");
        }
        if !has("content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(bytes::Bytes::from(body))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        connection.abort();
        Reply { status: head.status.as_u16(), headers: head.headers, body }
    })
    .await
    .expect("no answer came in time")
}
