//! One HTTP request on a connection of its own, and exactly as much as its end proves.
//!
//! Every request opens a connection and ends it. A kept connection may be closed by the other side in the very
//! moment in which it is written to, and then nobody knows whether the request arrived: with a fresh one,
//! whatever fails before its first byte is proved not to have been sent. What that costs is a handshake a
//! command; `examples/connection_cost.rs` measures it.
//!
//! The connection is driven by the call itself and not by a task of its own, so that dropping the call ends
//! both, and so that the clock is looked at before every step that may send something: a process that stood
//! still for a minute wakes up in the middle of its call.
//!
//! Nothing is sent twice, no redirect is followed, and no proxy is taken from the environment. It does not
//! know what an answer means; that is `samekey_core::answer`.

mod connect;
mod http1;
mod http2;
mod resolve;
mod tls;
mod wait;

pub(crate) use connect::is_certificate;
pub(crate) use http2::is_not_processed;
pub use resolve::{Resolver, Resolving};
pub use tls::Trust;
pub(crate) use tls::config as tls_config;
pub use wait::retry_after;

use crate::address::{Base, Reach};
use bytes::{Buf, Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use samekey_core::delivery::Reason;
use samekey_core::outcome::{NotRun, Outcome};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// How long a connection may take by default, its name look-up and its TLS handshake included. A longer wait
/// for a packet that was lost twice would only use up the attempt.
pub const CONNECT_TIME_MAX_DEFAULT: Duration = Duration::from_secs(5);
/// As much of an answer's body is read: what a command is answered with is described in far less, and all of
/// it is kept with the command.
pub const ANSWER_BYTES_MAX: usize = samekey_core::receipt::BODY_BYTES_MAX;
/// The largest head of an answer.
pub const ANSWER_HEAD_BYTES_MAX: usize = 64 * 1024;

/// The way to counterparties: limits, TLS, and which addresses may be connected to. It is cheap to clone and
/// keeps no connection.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

struct Inner {
    connect_time_max: Duration,
    protocol: Protocol,
    reach: Reach,
    resolver: Resolver,
    tls: Arc<rustls::ClientConfig>,
}

/// How a [`Transport`] is made.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// How long a connection may take, name look-up and TLS handshake included.
    pub connect_time_max: Duration,
    /// Which HTTP is spoken.
    pub protocol: Protocol,
    /// Which addresses may be connected to.
    pub reach: Reach,
    /// Whose certificates are trusted.
    pub trust: Trust,
    /// How names are resolved.
    pub resolver: Resolver,
}

impl Default for TransportOptions {
    fn default() -> TransportOptions {
        TransportOptions {
            connect_time_max: CONNECT_TIME_MAX_DEFAULT,
            protocol: Protocol::Negotiated,
            reach: Reach::PUBLIC,
            trust: Trust::System,
            resolver: Resolver::system(),
        }
    }
}

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Over TLS what the two sides agree on, HTTP/2 first; without TLS HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1 always.
    Http1,
    /// HTTP/2 always, without asking.
    Http2,
}

/// A request, complete but for what the connection adds.
#[derive(Clone)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: PathAndQuery,
    /// The headers; those of the connection are added.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// The step in which an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The name of the host was looked up.
    Resolve,
    /// The TCP connection was made.
    Connect,
    /// TLS, or HTTP/2's own greeting, was spoken.
    Handshake,
    /// The request was sent and the head of an answer awaited.
    Head,
    /// The head had come, and its body was read.
    Body,
}

impl Phase {
    /// Its name, for logs.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Resolve => "resolve",
            Phase::Connect => "connect",
            Phase::Handshake => "handshake",
            Phase::Head => "head",
            Phase::Body => "body",
        }
    }
}

/// Why nothing of a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotSent {
    /// The host has no address, or its name could not be looked up.
    UnknownHost,
    /// No address of the host may be connected to.
    AddressRefused,
    /// The connection was refused or broke before the first byte of the request.
    NotConnected,
    /// The connection did not stand in time.
    ConnectTimedOut,
    /// TLS could not be agreed on.
    Tls,
    /// The certificate is not valid for this host.
    CertificateInvalid,
}

/// How an exchange ended.
#[derive(Debug)]
pub enum Exchange {
    /// No byte of the request was sent.
    NotSent(Phase, NotSent),
    /// The other side said, in the language of HTTP/2, that it processed nothing of it.
    NotProcessed,
    /// Some of it may have been sent, and there is no answer.
    Lost(Reason),
    /// An answer came, or at least its head.
    Answered(Incoming),
}

/// An answer.
#[derive(Debug)]
pub struct Incoming {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: IncomingBody,
}

/// The body of an answer.
#[derive(Clone, PartialEq, Eq)]
pub enum IncomingBody {
    /// All of it.
    Whole(Bytes),
    /// More than [`ANSWER_BYTES_MAX`]; it was not read on.
    TooLarge,
    /// It broke off or did not come in time.
    Lost,
}

impl IncomingBody {
    /// Reads a body to its end, or as far as it is kept.
    pub(crate) async fn read<B: http_body::Body>(body: B) -> IncomingBody {
        let mut body = pin!(body);
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return IncomingBody::Lost };
            let Ok(mut data) = frame.into_data() else { continue };
            if bytes.len().saturating_add(data.remaining()) > ANSWER_BYTES_MAX {
                return IncomingBody::TooLarge;
            }
            bytes.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        IncomingBody::Whole(bytes.freeze())
    }
}

impl fmt::Debug for IncomingBody {
    /// Answers are other people's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IncomingBody::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            IncomingBody::TooLarge => f.write_str("TooLarge"),
            IncomingBody::Lost => f.write_str("Lost"),
        }
    }
}

impl Exchange {
    /// The step in which it failed; none where a whole answer came.
    pub fn failed_in(&self) -> Option<Phase> {
        match self {
            Exchange::NotSent(phase, _) => Some(*phase),
            Exchange::NotProcessed | Exchange::Lost(_) => Some(Phase::Head),
            Exchange::Answered(Incoming { body: IncomingBody::Lost, .. }) => Some(Phase::Body),
            Exchange::Answered(_) => None,
        }
    }
}

impl NotSent {
    /// What an attempt proves that ended so.
    pub fn outcome(self) -> Outcome {
        match self {
            NotSent::UnknownHost
            | NotSent::NotConnected
            | NotSent::ConnectTimedOut
            | NotSent::Tls => Outcome::NotRun(NotRun::NotSent),
            NotSent::CertificateInvalid => Outcome::NotAccepted(Reason::NotAccepted),
            NotSent::AddressRefused => Outcome::NotAccepted(Reason::NotSendable),
        }
    }
}

impl Transport {
    /// A transport with these limits.
    ///
    /// # Errors
    /// Certificates that are to be trusted cannot be read.
    pub fn new(options: TransportOptions) -> Result<Transport, crate::Error> {
        let TransportOptions { connect_time_max, protocol, reach, trust, resolver } = options;
        let tls = tls::config(&trust, protocol)?;
        Ok(Transport(Arc::new(Inner { connect_time_max, protocol, reach, resolver, tls })))
    }

    /// Sends one request, once or not at all, and reads its answer. All of it takes no longer than `time_max`,
    /// and the connection no longer than its own limit.
    pub async fn exchange(&self, base: &Base, outgoing: Outgoing, time_max: Duration) -> Exchange {
        let began = Instant::now();
        let ends = began + time_max;
        let exchange = self.run(base, outgoing, began, ends).await;
        log(base.host(), &exchange, began);
        exchange
    }

    async fn run(
        &self,
        base: &Base,
        outgoing: Outgoing,
        began: Instant,
        ends: Instant,
    ) -> Exchange {
        let connected_by = ends.min(began + self.0.connect_time_max);
        let connection = match connect::open(&self.0, base, connected_by).await {
            Ok(connection) => connection,
            Err((phase, why)) => return Exchange::NotSent(phase, why),
        };
        // Where the connection stood at once, this is still the step that began before it; nothing is sent
        // without another look at whoever may have stopped the call.
        tokio::task::yield_now().await;
        match connection.speaks {
            connect::Speaks::Http1 => {
                http1::exchange(connection.stream, base, outgoing, ends).await
            }
            connect::Speaks::Http2 => {
                http2::exchange(connection.stream, base, outgoing, connected_by, ends).await
            }
        }
    }
}

/// The host and the phase are said; addresses, keys, bodies and credentials never are.
pub(crate) fn log(host: &str, exchange: &Exchange, began: Instant) {
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let phase = exchange.failed_in().map_or("done", Phase::name);
    match exchange {
        Exchange::NotSent(_, why) => {
            tracing::warn!(host, phase, why = ?why, ms, "nothing was sent");
        }
        Exchange::NotProcessed => {
            tracing::warn!(host, phase, ms, "the counterparty processed nothing");
        }
        Exchange::Lost(reason) => {
            tracing::warn!(host, phase, why = reason.code(), ms, "the answer is lost");
        }
        Exchange::Answered(Incoming { status, .. }) => {
            tracing::debug!(host, phase, status, ms, "answered");
        }
    }
}

/// The result of a future, or nothing where it is not there by then. The clock is looked at before every step
/// of the future: after a pause of the whole process, a timer may tell it later than a socket.
pub(crate) async fn by<F: Future>(ends: Instant, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut over = pin!(tokio::time::sleep_until(ends));
    poll_fn(|context| {
        if Instant::now() >= ends {
            return Poll::Ready(None);
        }
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        over.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::by;
    use std::time::Duration;
    use tokio::time::Instant;

    /// A process that was stopped for longer than its call may last sends nothing when it wakes up.
    #[tokio::test]
    async fn nothing_is_begun_after_the_end() {
        let mut begun = false;
        let over = Instant::now() - Duration::from_millis(1);
        assert_eq!(by(over, async { begun = true }).await, None);
        assert!(!begun, "the future was polled");
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(by(soon, std::future::pending::<()>()).await, None);
        assert_eq!(by(Instant::now() + Duration::from_secs(9), async { 7 }).await, Some(7));
    }
}
