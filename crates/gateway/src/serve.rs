//! An accept loop with limits: how many may come, how long they may take, and how they are let go.

use crate::config::Limits;
use crate::tls::ServerTls;
use crate::wire::Wire;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use samekey::{BoxError, Response};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_rustls::server::TlsStream;

/// How many connections the kernel may hold until they are accepted.
const WAITING_MAX: u32 = 1_024;
/// The pause after a failed accept (no file descriptors left), so that it is no hot loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The largest head of a request, in bytes. Cookies and tokens fit, and 4,096 connections of them in 256 MiB.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How many headers a request may have.
const HEADERS_MAX: usize = 128;
/// How many requests of one HTTP/2 connection run at a time.
const STREAMS_MAX: u32 = 128;
/// How often an HTTP/2 client is asked whether it is still there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection that was told to end may take to do so.
const GOODBYE: Duration = Duration::from_secs(1);

/// Answers one request.
pub(crate) trait Handler: Send + Sync + 'static {
    fn handle(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response> + Send;
}

/// Listens on this address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As everybody does: a restart does not wait for the connections of the process before it.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING_MAX)
}

/// Where clients come in.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    /// Nothing where they come without TLS.
    pub(crate) tls: Option<ServerTls>,
}

/// Serves until `stopping` says so, then lets open requests end; says whether all did within the grace.
pub(crate) async fn serve<H: Handler>(
    door: Door,
    handler: Arc<H>,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) -> bool {
    let Door { listener, tls } = door;
    let places = Arc::new(Semaphore::new(limits.connections_max));
    loop {
        // All places may be taken for long; the word to stop is heard all the same.
        let place = tokio::select! {
            Ok(place) = Arc::clone(&places).acquire_owned() => place,
            () = told(&mut stopping) => break,
        };
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(_) => {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = told(&mut stopping) => break,
        };
        let (handler, stopping, tls) = (Arc::clone(&handler), stopping.clone(), tls.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            match tls {
                None => connection(stream, peer, handler, limits, stopping).await,
                Some(tls) => {
                    if let Some(stream) = secured(stream, &tls, limits, stopping.clone()).await {
                        connection(stream, peer, handler, limits, stopping).await;
                    }
                }
            }
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    tokio::time::timeout(limits.grace, places.acquire_many(all)).await.is_ok()
}

/// Waits for the word to stop.
async fn told(stopping: &mut watch::Receiver<bool>) {
    // Nobody left to say it means the same.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Speaks TLS, as long as a head may take at the most; the place of the connection is taken meanwhile.
async fn secured(
    stream: TcpStream,
    tls: &ServerTls,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) -> Option<TlsStream<TcpStream>> {
    let spoken = tokio::select! {
        spoken = tokio::time::timeout(limits.headers_time_max, tls.acceptor().accept(stream)) => spoken,
        () = told(&mut stopping) => return None,
    };
    match spoken {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "a client spoke no TLS"),
        Err(_) => tracing::debug!("a client took too long over TLS"),
    }
    metrics::counter!("samekey_gateway_handshakes_failed_total").increment(1);
    None
}

/// Serves one connection to its end.
async fn connection<H: Handler, I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: I,
    peer: SocketAddr,
    handler: Arc<H>,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIME_MAX);
    let busy = Arc::new(Busy::default());
    let service = service_fn(|request: Request<Incoming>| {
        let (handler, at_work) = (Arc::clone(&handler), AtWork::begin(&busy));
        async move {
            let response = handler.handle(peer, request).await;
            Ok::<_, Infallible>(response.map(|body| Tracked { body, _at_work: at_work }))
        }
    });
    let wire = Wire::new(stream, limits.headers_time_max, limits.stall_time_max);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(wire), service));
    tokio::select! {
        // A client that breaks off is its own business; what it started goes on.
        _ = serving.as_mut() => return,
        () = busy.idle_for(limits.idle_time_max) => {}
        () = told(&mut stopping) => {}
    }
    serving.as_mut().graceful_shutdown();
    let mut serving_on = Box::pin(async {
        // Requests on their way go on; whoever waits for all of them has its own patience.
        while !busy.is_idle() {
            tokio::select! {
                _ = serving.as_mut() => return,
                () = busy.changed.notified() => {}
            }
        }
        let _ = tokio::time::timeout(GOODBYE, serving.as_mut()).await;
    });
    serving_on.as_mut().await;
}

/// How many requests of a connection are being answered.
#[derive(Default)]
struct Busy {
    count: AtomicUsize,
    changed: Notify,
}

impl Busy {
    fn is_idle(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Waits until nothing was asked for this long.
    async fn idle_for(&self, time: Duration) {
        loop {
            let changed = self.changed.notified();
            if self.is_idle() {
                if tokio::time::timeout(time, changed).await.is_err() && self.is_idle() {
                    return;
                }
            } else {
                changed.await;
            }
        }
    }
}

/// A request that is being answered, until the last byte of its answer was taken.
struct AtWork(Arc<Busy>);

impl AtWork {
    fn begin(busy: &Arc<Busy>) -> AtWork {
        busy.count.fetch_add(1, Ordering::SeqCst);
        busy.changed.notify_one();
        AtWork(Arc::clone(busy))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

/// An answer's body whose request counts as being answered.
struct Tracked {
    body: samekey::Body,
    _at_work: AtWork,
}

impl Body for Tracked {
    type Data = bytes::Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
