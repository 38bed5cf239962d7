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
