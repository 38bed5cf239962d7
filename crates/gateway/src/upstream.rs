//! Sending to the upstream: once, on a connection of its own, with every phase named.
//!
//! A request that may change something gets a fresh connection. So "never reached" is proved by the
//! connection that did not come to be, and no keep-alive that the upstream closes meanwhile turns a
//! command into one of which nobody knows. The connection is driven by whoever waits for the answer: a
//! process that stood still past its lease sends nothing when it wakes up.

use crate::config::{Limits, Target};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use samekey::BoxError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a connection for reads is kept for the next one: below the five seconds after which common
/// servers close theirs.
const IDLE_TIME_MAX: Duration = Duration::from_secs(4);
/// How many connections for reads are kept.
const IDLE_MAX: usize = 64;

/// How a request failed, by what can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// No connection, so no byte was sent.
    NeverReached,
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
            Failed::Slow => "answer-timeout",
            Failed::Broke => "connection-lost",
        }
    }
}

/// The body of a request that passes through.
pub(crate) type Passing = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// The upstream.
pub(crate) struct Upstream {
    target: Target,
    host: HeaderValue,
    connect_time_max: Duration,
    reads: Client<HttpConnector, Passing>,
}

impl Upstream {
    pub(crate) fn new(target: Target, limits: &Limits) -> Result<Upstream, BoxError> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(limits.connect_time_max));
        connector.set_nodelay(true);
        let reads = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME_MAX)
            .pool_max_idle_per_host(IDLE_MAX)
            .retry_canceled_requests(false)
            .set_host(false)
            .build(connector);
        let host = HeaderValue::from_str(&target.authority)?;
        Ok(Upstream { target, host, connect_time_max: limits.connect_time_max, reads })
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
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let uri = Uri::builder()
            .scheme("http")
            .authority(self.target.authority.as_str())
            .path_and_query(target)
            .build();
        *request.uri_mut() = uri.map_err(|_| Failed::NeverReached)?;
        let answered = tokio::time::timeout(answer_time_max, self.reads.request(request)).await;
        match answered {
            Err(_) => Err(Failed::Slow),
            Ok(Ok(answer)) => proper(answer),
            Ok(Err(error)) if error.is_connect() => Err(Failed::NeverReached),
            Ok(Err(_)) => Err(Failed::Broke),
        }
    }

    /// Sends a request on a connection of its own. `answer_time_max` counts from the moment when that
    /// stands, until the head of the answer is here.
    pub(crate) async fn send<B>(
        &self,
        mut request: Request<B>,
        answer_time_max: Duration,
    ) -> Result<Response<Driven<B>>, Failed>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        *request.uri_mut() = target.parse().map_err(|_| Failed::NeverReached)?;
        // Said out loud, so that the upstream does not wait for another request. If it ends the connection
        // first, as a quick one does, the port that rests for a minute is not one of ours.
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|_| Failed::NeverReached)?;
        let connection = Box::pin(connection);
        let answer = Box::pin(async move { sender.try_send_request(request).await });
        let sending = Sending { connection: Some(connection), answer };
        match tokio::time::timeout(answer_time_max, sending).await {
            Err(_) => Err(Failed::Slow),
            Ok(sent) => sent.and_then(proper),
        }
    }

    async fn connect(&self) -> Result<TcpStream, Failed> {
        let connecting = TcpStream::connect((self.target.host.as_str(), self.target.port));
        let stream = tokio::time::timeout(self.connect_time_max, connecting)
            .await
            .map_err(|_| Failed::NeverReached)?
            .map_err(|_| Failed::NeverReached)?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// An answer with a final status. 101 would hand over the connection, for which nobody asked.
fn proper<B>(answer: Response<B>) -> Result<Response<B>, Failed> {
    if answer.status().is_informational() { Err(Failed::Broke) } else { Ok(answer) }
}

type Carrier<B> = Pin<Box<Connection<TokioIo<TcpStream>, B>>>;
/// The library's error, which gives a request back of which no byte was written.
type Unsent<B> = TrySendError<Request<B>>;
type Answering<B> = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Unsent<B>>> + Send>>;

/// A request on its way: its connection is driven here.
struct Sending<B: Body + 'static> {
    connection: Option<Carrier<B>>,
    answer: Answering<B>,
}

impl<B> Future for Sending<B>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<Driven<B>>, Failed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Asked first: the connection wants to know that somebody waits.
        if let Poll::Ready(answered) = self.answer.as_mut().poll(context) {
            return Poll::Ready(self.ended(answered));
        }
        drive(&mut self.connection, context);
        self.answer.as_mut().poll(context).map(|answered| self.ended(answered))
    }
}

impl<B: Body + 'static> Sending<B> {
    fn ended(
        &mut self,
        answered: Result<Response<Incoming>, Unsent<B>>,
    ) -> Result<Response<Driven<B>>, Failed> {
        match answered {
            Ok(answer) => {
                let connection = self.connection.take();
                Ok(answer.map(|body| Driven { connection, body }))
            }
            Err(mut error) => match error.take_message() {
                Some(_) => Err(Failed::NeverReached),
                None => Err(Failed::Broke),
            },
        }
    }
}

/// Moves the connection on.
fn drive<B>(connection: &mut Option<Carrier<B>>, context: &mut Context<'_>)
where
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    let ended = connection.as_mut().is_some_and(|it| it.as_mut().poll(context).is_ready());
    if ended {
        *connection = None;
    }
}

/// The body of an answer, together with the connection on which it comes.
pub(crate) struct Driven<B: Body + 'static> {
    connection: Option<Carrier<B>>,
    body: Incoming,
}

impl<B> Body for Driven<B>
where
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        drive(&mut self.connection, context);
        Pin::new(&mut self.body).poll_frame(context).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
