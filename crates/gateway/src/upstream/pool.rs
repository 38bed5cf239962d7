//! Connections that are kept for reads: what is lost with one of them may be read again.

use super::connect::{Connects, Speaks, Stream};
use super::{ANSWER_HEAD_BYTES_MAX, Failed, Passing};
use crate::tls::Protocol;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower_service::Service;

/// How long a connection for reads is kept for the next one: below the five seconds after which common
/// servers close theirs.
const IDLE_TIME_MAX: Duration = Duration::from_secs(4);
/// How many connections for reads are kept.
const IDLE_MAX: usize = 64;
/// In HTTP/2 all reads share one connection. Where the upstream's machine is gone, nobody closes it: so it is asked
/// while reads wait, and given up where nothing comes back.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_TIME_MAX: Duration = Duration::from_secs(5);

/// A client that keeps connections, and sends everything once.
pub(super) fn client(connects: &Arc<Connects>, protocol: Protocol) -> Client<Connector, Passing> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIME_MAX)
        .pool_max_idle_per_host(IDLE_MAX)
        .retry_canceled_requests(false)
        .set_host(false)
        .http1_max_buf_size(ANSWER_HEAD_BYTES_MAX)
        .http2_only(protocol == Protocol::Http2)
        .http2_max_header_list_size(u32::try_from(ANSWER_HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_TIME_MAX)
        .build(Connector(Arc::clone(connects)))
}

/// Why a connection did not come to be.
pub(super) fn failed(error: &hyper_util::client::legacy::Error) -> Failed {
    let why = error.source().and_then(|source| source.downcast_ref::<NoConnection>());
    why.map_or(Failed::NeverReached, |why| why.0)
}

/// Makes the connections of the pool.
#[derive(Clone)]
pub(super) struct Connector(Arc<Connects>);

#[derive(Debug)]
pub(super) struct NoConnection(Failed);

impl fmt::Display for NoConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl Error for NoConnection {}

impl Service<Uri> for Connector {
    type Response = Pooled;
    type Error = NoConnection;
    type Future = Pin<Box<dyn Future<Output = Result<Pooled, NoConnection>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NoConnection>> {
        Poll::Ready(Ok(()))
    }

    /// There is one upstream, whatever the target says.
    fn call(&mut self, _: Uri) -> Self::Future {
        let connects = Arc::clone(&self.0);
        Box::pin(async move {
            let opened = connects.open(Instant::now() + connects.time_max, None).await;
            let opened = opened.map_err(NoConnection)?;
            Ok(Pooled { io: TokioIo::new(opened.stream), speaks: opened.speaks })
        })
    }
}

/// A connection of the pool.
pub(super) struct Pooled {
    io: TokioIo<Box<dyn Stream>>,
    speaks: Speaks,
}

impl Connection for Pooled {
    fn connected(&self) -> Connected {
        match self.speaks {
            Speaks::Http1 => Connected::new(),
            Speaks::Http2 => Connected::new().negotiated_h2(),
        }
    }
}

impl Read for Pooled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Pooled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
