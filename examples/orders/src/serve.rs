//! An accept loop with limits: how long a client may take for its headers, and how many may come.

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

/// How long a client may take for its request line and headers, and an idle connection stays open.
pub const HEADERS_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a client may take for its body: a mebibyte over a bad mobile link. The library gives up
/// after 30 s; this service says why, so it does so before.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(20);
/// How many connections are open at a time; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 2_048;
/// How many connections the kernel may hold until they are accepted. With the usual 128 a burst of
/// clients overflows it, and then some believe in a connection that no server has ever seen.
const WAITING_MAX: u32 = 1_024;
/// How long open requests may go on after the signal to stop.
const GRACE: Duration = Duration::from_secs(10);
/// The pause after a failed accept (no file descriptors left), so that it is no hot loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Listens on this address.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As everybody does: a restart does not wait for the connections of the process before it.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING_MAX)
}

/// Serves until SIGINT or SIGTERM, then lets open requests end.
pub async fn serve(listener: TcpListener, router: Router, headers_time_max: Duration) {
    let mut http = Builder::new(TokioExecutor::new()).http1_only();
    http.http1().timer(TokioTimer::new()).header_read_timeout(headers_time_max);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stop = std::pin::pin!(stop_signal());
    loop {
        // All places may be taken for long; the signal is heard all the same.
        let place = tokio::select! {
            Ok(place) = Arc::clone(&places).acquire_owned() => place,
            () = &mut stop => break,
        };
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(_) => {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is its own business; what it started goes on.
            let _ = connection.await;
            drop(place);
        });
    }
    let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
}

async fn stop_signal() {
    let interrupt = tokio::signal::ctrl_c();
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! { _ = interrupt => {}, _ = terminate.recv() => {} }
        }
        Err(_) => {
            let _ = interrupt.await;
        }
    }
}
