//! The accept loop, and what the fault plan does to connections before anybody speaks HTTP.

use super::service::{self, Connection};
use super::socket::{Faulty, Valve};
use super::state::Shared;
use crate::error::{Error, Kind};
use crate::faults::{Connections, Door};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, sleep, timeout};

/// Connections served at once. More wait in the backlog.
const CONNECTIONS_MAX: usize = 8192;
/// The backlog of the listening socket; the kernel cuts it to its own limit.
const BACKLOG: u32 = 4096;
/// A connection on which nothing was written, no request came in and none is at work from one look to the next is ended:
/// idle ones and slow heads must not pile up. One look for all that comes in between is cheaper than a timer a request.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Connections made to fill the backlog of a black hole at most; the kernel takes one or two.
const FILLERS_MAX: usize = 64;
/// A connection to a full backlog hangs for ever; on loopback one that does not hang is made far sooner than this.
const FILLER_TIME_MAX: Duration = Duration::from_millis(200);
/// Tries to listen again, and the pause between them, where the system still holds the address.
const REBIND_TRIES: u32 = 100;
const REBIND_PAUSE: Duration = Duration::from_millis(20);
/// A pause after a failed accept (no file descriptors left, for one), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Connections that a silent door holds; more are dropped.
const SILENT_MAX: usize = 1024;

/// Serves one address until it is told to stop.
pub struct Doorkeeper {
    /// What all requests share.
    pub shared: Arc<Shared>,
    /// Numbers connections.
    pub next_connection: Arc<AtomicU64>,
    /// True for the control address: always open, management only.
    pub is_control: bool,
}

/// Listens on an address, or says in one sentence why not.
pub fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let bound = bind(address).and_then(|socket| socket.listen(BACKLOG));
    bound.map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            let advice = "is in use by another process; stop it, or listen on another address";
            return Error::new(Kind::AddressInUse, format!("{address} {advice}"));
        }
        Error::new(Kind::System, format!("cannot listen on {address}: {error}"))
    })
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a process that ended a moment ago must not keep the next one from the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Doorkeeper {
    /// Serves until the end.
    pub async fn run(self, mut listener: TcpListener) {
        let Ok(address) = listener.local_addr() else { return };
        let mut door = self.shared.door().subscribe();
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut open = JoinSet::new();
        loop {
            let connections = *door.borrow_and_update();
            let mode = if self.is_control { Door::Open } else { connections.mode };
            let reopened = match mode {
                Door::Open => {
                    tokio::select! {
                                           () = self.shared.stop().cancelled() => break,
                                           _ = door.changed() => {}
                                           connection = self.accept_one(&listener, &slots) => {
                                               if let Some(connection) = connection {
                    open.spawn(connection);
                    }
                                               while open.try_join_next().is_some() {}
                                           }
                                       }
                    continue;
                }
                Door::Silent => {
                    tokio::select! {
                        () = self.shared.stop().cancelled() => break,
                        () = self.until_open(&mut door, connections) => {}
                        () = hold_all(&listener) => {}
                    }
                    continue;
                }
                Door::Refuse | Door::BlackHole => {
                    drop(listener);
                    open.shutdown().await;
                    tokio::select! {
                        () = self.shared.stop().cancelled() => break,
                        reopened = self.shut(address, mode, &mut door, connections) => reopened,
                    }
                }
            };
            match reopened {
                Some(again) => listener = again,
                None => break,
            }
        }
        open.shutdown().await;
    }

    /// Keeps the address shut until the plan opens it; then listens again.
    async fn shut(
        &self,
        address: SocketAddr,
        mode: Door,
        door: &mut tokio::sync::watch::Receiver<Connections>,
        connections: Connections,
    ) -> Option<TcpListener> {
        let socket = bind_again(address).await?;
        if mode == Door::BlackHole {
            let hole = socket.listen(1).ok()?;
            let _fillers = fill(address).await;
            self.until_open(door, connections).await;
            drop(hole);
            return bind_again(address).await?.listen(BACKLOG).ok();
        }
        // The socket holds the address without listening: connections are refused, and nobody else takes the port.
        self.until_open(door, connections).await;
        socket.listen(BACKLOG).ok()
    }

    async fn until_open(
        &self,
        door: &mut tokio::sync::watch::Receiver<Connections>,
        connections: Connections,
    ) {
        let Some(for_ms) = connections.for_ms else {
            // An error means that the lab has ended, which the caller waits for as well.
            let _ = door.changed().await;
            return;
        };
        if timeout(Duration::from_millis(for_ms), door.changed()).await.is_err() {
            self.shared.door().send_replace(Connections::default());
        }
    }

    async fn accept_one(
        &self,
        listener: &TcpListener,
        slots: &Arc<Semaphore>,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                sleep(ACCEPT_PAUSE).await;
                return None;
            }
        };
        // Small answers must not wait for each other's acknowledgements.
        let _ = stream.set_nodelay(true);
        let valve = Arc::new(Valve::default());
        let connection = Arc::new(Connection {
            shared: Arc::clone(&self.shared),
            id: self.next_connection.fetch_add(1, Ordering::Relaxed) + 1,
            begun: AtomicU64::new(0),
            at_work: AtomicU64::new(0),
            served: AtomicU64::new(0),
            valve: Arc::clone(&valve),
            is_control: self.is_control,
        });
        Some(async move {
            speak_http(stream, valve, connection).await;
            drop(slot);
        })
    }
}

async fn speak_http(stream: TcpStream, valve: Arc<Valve>, connection: Arc<Connection>) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The default timeout for heads needs a timer; the looks below do the same for less.
    builder.http1().header_read_timeout(None);
    builder.http2().timer(TokioTimer::new());
    let progress = Arc::clone(&connection);
    let service = service_fn(move |request| service::serve(Arc::clone(&connection), request));
    let mut serving =
        pin!(builder.serve_connection(TokioIo::new(Faulty::new(stream, valve)), service));
    let mut looks = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
    let mut before = 0;
    loop {
        tokio::select! {
            biased;
            // How a connection ends is the caller's to see; rubbish was answered with 400 by then.
            _ = &mut serving => return,
            _ = looks.tick() => {
                let now = progress.begun.load(Ordering::Relaxed) + progress.valve.writes();
                if now == before && progress.at_work.load(Ordering::Relaxed) == 0 {
                    return;
                }
                before = now;
            }
        }
    }
}

async fn bind_again(address: SocketAddr) -> Option<TcpSocket> {
    for _ in 0..REBIND_TRIES {
        if let Ok(socket) = bind(address) {
            return Some(socket);
        }
        sleep(REBIND_PAUSE).await;
    }
    None
}

/// Fills a backlog until one more connection hangs. The connections are kept: each holds a place.
async fn fill(address: SocketAddr) -> Vec<TcpStream> {
    let mut fillers = Vec::new();
    for _ in 0..FILLERS_MAX {
        match timeout(FILLER_TIME_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => fillers.push(stream),
            Ok(Err(_)) | Err(_) => break,
        }
    }
    fillers
}

/// Accepts and never reads.
async fn hold_all(listener: &TcpListener) {
    let mut held = Vec::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) if held.len() < SILENT_MAX => held.push(stream),
            Ok(_) => {}
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}
