//! Callers whom nothing surprises: an answer that never came is a value, and all is written down.

use super::caller::Reply;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use samekey_sim::history::{Answer, Attempt, History};
use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpSocket, TcpStream};

/// How long one attempt waits for its answer. A machine that stands still for half a minute, as shared
/// ones do, is no defect of the service.
const ATTEMPT_BOUND: Duration = Duration::from_secs(100);
/// How long a condition is waited for.
pub const BOUND: Duration = Duration::from_secs(120);
/// The pause of a caller before it sends again. `Retry-After` is in seconds; a test has no time.
const PAUSE: Duration = Duration::from_millis(15);
const POLL: Duration = Duration::from_millis(3);

/// The headers that a replay keeps.
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

/// A command as a caller repeats it: the same key and the same bytes.
#[derive(Clone, Debug)]
pub struct Order {
    pub token: &'static str,
    pub path: &'static str,
    pub key: String,
    pub body: String,
}

impl Order {
    /// An order of A1 with a reference, on the harness's plain route.
    pub fn of(key: &str, reference: &str) -> Order {
        let body = format!(r#"{{"ref":"{reference}","amount":1}}"#);
        Order { token: "a1", path: "/orders", key: key.to_owned(), body }
    }

    /// Its bytes on the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let Order { token, path, key, body } = self;
        format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// Sends it once; nothing where no whole answer came.
    pub async fn send(&self, address: SocketAddr) -> Option<Reply> {
        tokio::time::timeout(ATTEMPT_BOUND, self.exchange(address)).await.ok().flatten()
    }

    async fn exchange(&self, address: SocketAddr) -> Option<Reply> {
        let stream = TcpStream::connect(address).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        let connection = tokio::spawn(connection);
        let request = http::Request::post(self.path)
            .header("host", "test")
            .header("authorization", format!("Bearer {}", self.token))
            .header("idempotency-key", &self.key)
            .header("content-type", "application/json")
            .body(Full::new(bytes::Bytes::from(self.body.clone())))
            .unwrap();
        let answered = async {
            let (head, body) = sender.send_request(request).await.ok()?.into_parts();
            let body = body.collect().await.ok()?.to_bytes().to_vec();
            Some(Reply { status: head.status.as_u16(), headers: head.headers, body })
        }
        .await;
        connection.abort();
        answered
    }

    /// Sends it and writes down what came of it. `reference` is the effect that it asks for, and
    /// `told` the member of the answer's body that tells of one.
    pub async fn send_recorded(
        &self,
        address: SocketAddr,
        history: &History,
        (org, reference, told): (&str, &str, &str),
    ) -> Option<Answer> {
        let began = history.now();
        let reply = self.send(address).await;
        let answer = reply.map(|reply| answer_of(&reply, told));
        history.add(Attempt {
            org: org.to_owned(),
            key: self.key.clone(),
            reference: reference.to_owned(),
            began,
            ended: history.now(),
            answer: answer.clone(),
        });
        answer
    }

    /// Sends it again and again until its answer is final.
    pub async fn send_until_final(&self, address: SocketAddr) -> Reply {
        let deadline = Instant::now() + BOUND;
        loop {
            if let Some(reply) = self.send(address).await
                && answer_of(&reply, "ref").is_final()
            {
                return reply;
            }
            assert!(Instant::now() < deadline, "no final answer for {}", self.key);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// An answer as the history keeps it.
pub fn answer_of(reply: &Reply, told: &str) -> Answer {
    let json: Option<serde_json::Value> = serde_json::from_slice(&reply.body).ok();
    let told = json.as_ref().and_then(|json| json.get(told));
    let told = told.map(|told| told.as_str().map_or_else(|| told.to_string(), str::to_owned));
    let headers = KEPT.iter().flat_map(|name| {
        let lines = reply.headers.get_all(*name).iter();
        lines.map(|value| ((*name).to_owned(), value.as_bytes().to_vec()))
    });
    Answer {
        status: reply.status,
        code: reply.code(),
        headers: headers.collect(),
        body: reply.body.clone(),
        is_replay: reply.is_replay(),
        told,
    }
}

/// The pause between two attempts of one caller.
pub async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// Polls until a condition holds; `what` names it when it does not.
pub async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + BOUND;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(POLL).await;
    }
}

/// A connection whose receive buffer is tiny, so that a large answer is not all on its way at once.
pub async fn narrow(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2_048).unwrap();
    socket.connect(address).await.unwrap()
}
