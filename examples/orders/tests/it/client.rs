//! A caller of the service.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// No answer takes longer in any test.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }

    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }
}

/// One request on a connection of its own.
pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> Reply {
    let body = Full::new(Bytes::from(body.into()));
    tokio::time::timeout(PATIENCE, async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = http::Request::builder().method(method).uri(path).header("host", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender.send_request(request.body(body).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        connection.abort();
        let body = String::from_utf8(body).unwrap();
        Reply { status: head.status.as_u16(), headers: head.headers, body }
    })
    .await
    .expect("no answer came in time")
}

/// Orders under a key.
pub async fn order(address: SocketAddr, token: &str, key: &str, body: &str) -> Reply {
    let authorization = format!("Bearer {token}");
    let headers = [
        ("authorization", authorization.as_str()),
        ("idempotency-key", key),
        ("content-type", "application/json"),
    ];
    send(address, "POST", "/orders", &headers, body).await
}

/// Pays under a key.
pub async fn pay(address: SocketAddr, token: &str, key: &str, body: &str) -> Reply {
    try_pay(address, token, key, body).await.expect("the service hung up")
}

/// Pays under a key; nothing where there was no whole answer.
pub async fn try_pay(address: SocketAddr, token: &str, key: &str, body: &str) -> Option<Reply> {
    try_post(address, "/payments", token, key, body).await
}

/// Sends a command under a key; nothing where there was no whole answer.
pub async fn try_post(
    address: SocketAddr,
    path: &str,
    token: &str,
    key: &str,
    body: &str,
) -> Option<Reply> {
    let body = Full::new(Bytes::from(body.to_owned()));
    tokio::time::timeout(PATIENCE, async {
        let stream = TcpStream::connect(address).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        let connection = tokio::spawn(connection);
        let request = http::Request::post(path)
            .header("host", "test")
            .header("authorization", format!("Bearer {token}"))
            .header("idempotency-key", key)
            .header("content-type", "application/json");
        let response = sender.send_request(request.body(body).unwrap()).await.ok()?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes().to_vec();
        connection.abort();
        let body = String::from_utf8(body).unwrap();
        Some(Reply { status: head.status.as_u16(), headers: head.headers, body })
    })
    .await
    .expect("no answer came in time")
}

/// The code of a problem document; empty where it is none.
pub fn code(reply: &Reply) -> String {
    let json: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_default();
    json["code"].as_str().unwrap_or_default().to_owned()
}

/// How long a caller waits before it sends the same again.
const AGAIN: Duration = Duration::from_millis(150);
/// A payment is final by then, on a busy machine too.
const FINAL_BY: Duration = Duration::from_secs(120);

/// Sends the same payment until its answer is no "wait": gives it, and the codes on the way. `address` is
/// asked for each time, since a service that was killed may be back elsewhere.
pub async fn pay_until_final(
    address: impl Fn() -> SocketAddr,
    token: &str,
    key: &str,
    body: &str,
) -> (Reply, Vec<String>) {
    let mut codes = Vec::new();
    let sending = async {
        loop {
            if let Some(reply) = try_pay(address(), token, key, body).await {
                let code = code(&reply);
                let wait = ["samekey.in-progress", "samekey.outcome-pending"];
                let refused = [502, 503].contains(&reply.status);
                if !refused && !wait.contains(&code.as_str()) {
                    return reply;
                }
                codes.push(code);
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    let reply = tokio::time::timeout(FINAL_BY, sending).await;
    let reply = reply.unwrap_or_else(|_| panic!("{key} never ended: {codes:?}"));
    (reply, codes)
}
