//! Sending to the upstream: once, on a connection of its own, with every phase named.
//!
//! A request that may change something gets a fresh connection. So "never reached" is proved by the
//! connection that did not come to be, and no keep-alive that the upstream closes meanwhile turns a
//! command into one of which nobody knows. The connection is driven by whoever waits for the answer: a
//! process that stood still past its lease sends nothing when it wakes up. HTTP/2 changes none of that:
//! `docs/decisions/0012-a-connection-a-command.md` says why.
//!
//! Read next: `upstream/carried.rs`, then `upstream/http2.rs`.

mod carried;
mod connect;
mod guarded;
mod http1;
mod http2;
mod pool;

use crate::config::Settings;
use bytes::Bytes;
pub(crate) use carried::Driven;
use carried::Sending;
use connect::{Connects, Speaks};
use http::{HeaderValue, Request, Response, Uri, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use pool::Connector;
use samekey::{BoxError, CallLease};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The largest head of an answer, in bytes: cookies and policies fit.
const ANSWER_HEAD_BYTES_MAX: usize = 64 * 1024;

/// Who wakes up so long after the time had stood still in between: a busy machine is late by less.
const STOOD_STILL: Duration = Duration::from_millis(250);
/// How long is listened then to what has come already.
const HEAR_TIME_MAX: Duration = Duration::from_millis(250);

/// How a request failed, by what can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// No connection, so no byte was sent.
    NeverReached,
    /// TLS was not agreed on, or the certificate is not believed, so no byte was sent.
    NoTls,
    /// The upstream says, in the language of HTTP/2, that it processed nothing of it.
    NotProcessed,
    /// It was sent, at least in part, and time ran out.
    Slow,
    /// It was sent, at least in part, and the connection broke, or what came back is no answer.
    Broke,
}

impl Failed {
    /// The name, for metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Failed::NeverReached => "connect",
            Failed::NoTls => "tls",
            Failed::NotProcessed => "not-processed",
            Failed::Slow => "answer-timeout",
            Failed::Broke => "connection-lost",
        }
    }
}

/// The body of a request that passes through.
pub(crate) type Passing = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// The upstream.
pub(crate) struct Upstream {
    host: HeaderValue,
    connects: Arc<Connects>,
    reads: Client<Connector, Passing>,
}

impl Upstream {
    pub(crate) fn new(settings: &Settings) -> Result<Upstream, BoxError> {
        let host = HeaderValue::from_str(&settings.target.authority)?;
        let connects = Arc::new(Connects::new(settings));
        let reads = pool::client(&connects, settings.upstream_http);
        Ok(Upstream { host, connects, reads })
    }

    /// What `Host` says to it.
    pub(crate) fn host(&self) -> HeaderValue {
        self.host.clone()
    }

    /// Sends a request that changes nothing, on a connection that may have carried others. It is sent
    /// once all the same.
    pub(crate) async fn read(
        &self,
        mut request: Request<Passing>,
        answer_time_max: Duration,
    ) -> Result<Response<Incoming>, Failed> {
        *request.uri_mut() = self.absolute(request.uri()).ok_or(Failed::NeverReached)?;
        let answered = tokio::time::timeout(answer_time_max, self.reads.request(request)).await;
        match answered {
            Err(_) => Err(Failed::Slow),
            Ok(Ok(answer)) => proper(answer),
            Ok(Err(error)) if error.is_connect() => Err(pool::failed(&error)),
            Ok(Err(_)) => Err(Failed::Broke),
        }
    }

    /// Sends a request on a connection of its own, and nothing of it once its lease is over.
    /// `answer_time_max` counts from the moment when the connection stands, until the head of the answer is
    /// here.
    pub(crate) async fn send<B>(
        &self,
        mut request: Request<B>,
        answer_time_max: Duration,
        lease: Option<CallLease>,
    ) -> Result<Response<Driven>, Failed>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let connected_by = Instant::now() + self.connects.time_max;
        let connection = self.connects.open(connected_by, lease).await?;
        let sending = match connection.speaks {
            Speaks::Http1 => {
                *request.uri_mut() =
                    target(request.uri()).parse().map_err(|_| Failed::NeverReached)?;
                // Said out loud, so that the upstream does not wait for another request. If it ends the
                // connection first, as a quick one does, the port that rests for a minute is not one of ours.
                request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                http1::begin(connection.stream, request).await?
            }
            Speaks::Http2 => {
                *request.uri_mut() = self.absolute(request.uri()).ok_or(Failed::NeverReached)?;
                http2::begin(connection.stream, request, connected_by).await?
            }
        };
        heard(sending, Instant::now() + answer_time_max).await.and_then(proper)
    }

    fn absolute(&self, given: &Uri) -> Option<Uri> {
        let uri = Uri::builder()
            .scheme(self.connects.scheme())
            .authority(self.host.to_str().ok()?)
            .path_and_query(target(given));
        uri.build().ok()
    }
}

/// The answer, or that it did not come in time. A process that stood still past that time may have it in its
/// socket, and a timer that tells it first.
async fn heard(mut sending: Sending, ends: Instant) -> Result<Response<Driven>, Failed> {
    if let Ok(answered) = timeout_at(ends, &mut sending).await {
        return answered;
    }
    if ends.elapsed() < STOOD_STILL {
        return Err(Failed::Slow);
    }
    tokio::time::timeout(HEAR_TIME_MAX, sending).await.unwrap_or(Err(Failed::Slow))
}

fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |target| target.as_str())
}

/// An answer with a final status. 101 would hand over the connection, for which nobody asked.
fn proper<B>(answer: Response<B>) -> Result<Response<B>, Failed> {
    if answer.status().is_informational() { Err(Failed::Broke) } else { Ok(answer) }
}
