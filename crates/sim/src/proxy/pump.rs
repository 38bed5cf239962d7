//! What both proxies are below their protocol: a thread that listens, and the switches that a test
//! turns while connections run.

use crate::error::{Error, Result};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};

/// What is read at a time.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

/// How many requests a log keeps; a test that looks at it sends fewer.
pub(super) const LOG_MAX: usize = 10_000;

/// How often a condition of another thread is looked at again.
pub(super) const POLL: Duration = Duration::from_millis(2);

/// The pause after a failed accept, so that it is no hot loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);

/// Connections that the system may keep waiting.
const BACKLOG: u32 = 1024;

/// How long the proxy's thread may take to stop or to begin listening, on a loaded machine.
const LISTEN_BOUND: Duration = Duration::from_secs(30);

/// What the listening thread has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listening {
    Yes,
    /// It was told not to, and may not have noticed.
    Closing,
    No,
}

/// What the test says and every connection obeys.
#[derive(Debug)]
pub(super) struct Switches {
    pub(super) upstream: SocketAddr,
    frozen: watch::Sender<bool>,
    delivered: watch::Sender<bool>,
    /// Grows whenever all connections are to be cut.
    epoch: watch::Sender<u64>,
    refusing: watch::Sender<bool>,
    listening: watch::Sender<Listening>,
    delay_micros: AtomicU64,
}

impl Switches {
    pub(super) fn to(upstream: SocketAddr) -> Self {
        Self {
            upstream,
            frozen: watch::Sender::new(false),
            delivered: watch::Sender::new(false),
            epoch: watch::Sender::new(0),
            refusing: watch::Sender::new(false),
            listening: watch::Sender::new(Listening::Yes),
            delay_micros: AtomicU64::new(0),
        }
    }

    pub(super) fn freeze(&self, is_frozen: bool) {
        self.frozen.send_replace(is_frozen);
    }

    pub(super) fn deliver(&self, is_delivered: bool) {
        self.delivered.send_replace(is_delivered);
    }

    pub(super) fn delay(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.delay_micros.store(micros, Ordering::SeqCst);
    }

    pub(super) fn cut_all(&self) {
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Ends every connection and says that no other is wanted; the thread obeys a moment later.
    pub(super) fn refuse_soon(&self) {
        if !*self.refusing.borrow() {
            // First this: the thread answers it when it sees the other.
            self.listening.send_replace(Listening::Closing);
            self.refusing.send_replace(true);
        }
        self.cut_all();
    }

    /// The same, and waits until the system refuses connections.
    pub(super) fn refuse(&self) {
        self.refuse_soon();
        self.wait_until(Listening::No);
    }

    /// Takes connections again; returns when the system does.
    pub(super) fn accept(&self) {
        self.refusing.send_replace(false);
        self.wait_until(Listening::Yes);
    }

    /// Blocks, but only for the few milliseconds that the other thread needs.
    fn wait_until(&self, wanted: Listening) {
        let deadline = Instant::now() + LISTEN_BOUND;
        while *self.listening.borrow() != wanted && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }

    /// Waits while everything is held back.
    pub(super) async fn thawed(&self) {
        let mut frozen = self.frozen.subscribe();
        // An error means that the proxy ends, which cuts this connection anyway.
        let _ = frozen.wait_for(|frozen| !*frozen).await;
    }

    /// Waits until what is held is to be handed on; false when the proxy ends first.
    pub(super) async fn delivered(&self) -> bool {
        let mut delivered = self.delivered.subscribe();
        delivered.wait_for(|delivered| *delivered).await.is_ok()
    }

    /// Waits for as long as answers are delayed.
    pub(super) async fn delayed(&self) {
        let micros = self.delay_micros.load(Ordering::SeqCst);
        if micros > 0 {
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
    }

    /// Tells when all connections are to be cut, from now on.
    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }
}

/// The listening thread. Dropping it cuts every connection and ends it.
#[derive(Debug)]
pub(super) struct Pump {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    /// Listens on a free port of loopback, and gives every connection to `serve`.
    pub(super) fn start<S, R>(
        name: &str,
        shared: &Arc<S>,
        switches: fn(&S) -> &Switches,
        serve: fn(Arc<S>, TcpStream) -> R,
    ) -> Result<Self>
    where
        S: Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| Error::system("start the proxy's runtime", cause))?;
        // By the standard library, since the caller may be inside a runtime of its own.
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|cause| Error::system("listen for the proxy", cause))?;
        let address = listener
            .local_addr()
            .map_err(|cause| Error::system("find the proxy's own address", cause))?;
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(mut listener) = TcpListener::from_std(listener) else { return };
                    let listen = async {
                        loop {
                            take_connections(&listener, &shared, switches(&shared), serve).await;
                            drop(listener);
                            listener = listen_again(address, switches(&shared)).await;
                        }
                    };
                    tokio::select! {
                        () = listen => {}
                        _ = stopped => {}
                    }
                });
                // Connections that are being served are dropped, and so cut, here.
                runtime.shutdown_background();
            })
            .map_err(|cause| Error::system("start the proxy's thread", cause))?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("proxy: its thread panicked");
        }
    }
}

/// Takes connections until none is wanted.
async fn take_connections<S, R>(
    listener: &TcpListener,
    shared: &Arc<S>,
    switches: &Switches,
    serve: fn(Arc<S>, TcpStream) -> R,
) where
    R: Future<Output = ()> + Send + 'static,
{
    let mut refusing = switches.refusing.subscribe();
    if *refusing.borrow_and_update() {
        return;
    }
    loop {
        let accepted = tokio::select! {
            biased;
            changed = refusing.changed() => {
                if changed.is_err() || *refusing.borrow_and_update() {
                    return;
                }
                // The order to stop was taken back before it was noticed.
                switches.listening.send_replace(Listening::Yes);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        tokio::spawn(serve(Arc::clone(shared), client));
    }
}

/// Keeps the address while nobody listens on it, so that no other program gets it and the system
/// refuses every connection; listens again when that is wanted.
async fn listen_again(address: SocketAddr, switches: &Switches) -> TcpListener {
    loop {
        let kept = TcpSocket::new_v4().and_then(|socket| {
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        });
        let mut refusing = switches.refusing.subscribe();
        while *refusing.borrow_and_update() {
            switches.listening.send_replace(Listening::No);
            // An error means that the proxy ends.
            let _ = refusing.changed().await;
        }
        if let Ok(listener) = kept.and_then(|socket| socket.listen(BACKLOG)) {
            switches.listening.send_replace(Listening::Yes);
            return listener;
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

/// Counts up to the one message at which a fault happens.
#[derive(Debug)]
pub(super) struct Plan<F> {
    pub(super) fault: Option<F>,
    passed: u64,
    fired: u64,
}

impl<F> Default for Plan<F> {
    fn default() -> Self {
        Self { fault: None, passed: 0, fired: 0 }
    }
}

impl<F> Plan<F> {
    /// Replaces what was armed before.
    pub(super) fn arm(&mut self, fault: F) {
        self.passed = 0;
        self.fault = Some(fault);
    }

    /// Counts one message that is meant; true for the one at which the fault happens, which is then
    /// no longer armed.
    pub(super) fn count_to(&mut self, nth: u64) -> bool {
        self.passed += 1;
        if self.passed < nth {
            return false;
        }
        self.fault = None;
        self.fired += 1;
        true
    }

    pub(super) fn fired(&self) -> u64 {
        self.fired
    }
}

/// Waits until `fired` says at least `count`, for `bound` at most; says whether it does.
pub(super) async fn wait_until_fired(fired: impl Fn() -> u64, count: u64, bound: Duration) -> bool {
    let wait = async {
        while fired() < count {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(bound, wait).await.is_ok()
}
