//! A proxy in front of PostgreSQL that knows just enough of its protocol to fail at a chosen message:
//! before the server gets it, after the server has obeyed and before anybody is told, or with the
//! message still on its way.
//!
//! It runs on a thread of its own, so that a test may block. What it does not do: TLS (it answers
//! that it has none), copying, and messages of more than `wire::MESSAGE_BYTES_MAX`.
//!
//! Read next: `proxy/pump.rs` for what happens on one connection.

mod pump;
mod wire;

use crate::error::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

pub use wire::Request;

/// How many requests the log keeps; a test that looks at it sends fewer.
const LOG_MAX: usize = 10_000;

/// How often [`Proxy::wait_until_fired`] looks again.
const POLL: Duration = Duration::from_millis(2);

/// Which of the client's messages is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Every message after the log-in.
    Every,
    /// A statement, executed, whose text has this in it, in lower case.
    Statement(&'static str),
    /// The commit of a transaction, sent as a statement of its own.
    Commit,
}

/// How a connection fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never gets the message.
    Before,
    /// The server gets it, does what it says and answers; the client is told nothing.
    After,
    /// The client's connection is cut while the message is on its way; the server gets it when
    /// [`Proxy::deliver`] says so.
    Held,
}

/// One fault, which happens once.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Request { at: Target, nth: u64, cut: Cut },
    Answer { nth: u64 },
}

/// A running proxy. Dropping it cuts every connection and ends its thread.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the test says and the connections do.
#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    plan: Mutex<Plan>,
    frozen: watch::Sender<bool>,
    delivered: watch::Sender<bool>,
    /// Grows whenever all connections are to be cut.
    epoch: watch::Sender<u64>,
    refusing: AtomicBool,
    delay_micros: AtomicU64,
}

#[derive(Debug, Default)]
struct Plan {
    fault: Option<Fault>,
    /// Whether nothing gets through after the fault.
    is_last: bool,
    passed: u64,
    fired: u64,
    log: Vec<Request>,
    answers: u64,
}

impl Proxy {
    /// Starts a proxy in front of the server of this address, `postgres://USER@HOST:PORT/DATABASE`.
    ///
    /// # Errors
    /// `Missing` for an address without a host and a port; `System` where the system has no port,
    /// thread or runtime left.
    pub fn before(url: &str) -> Result<Self> {
        let unclear = || {
            Error::new(
                ErrorKind::Missing,
                "the address has no host and port; expected postgres://USER@HOST:PORT/DATABASE",
            )
        };
        let (user, rest) = url.split_once('@').ok_or_else(unclear)?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (server, path) = rest.split_at(end);
        let upstream =
            server.to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(unclear)?;
        let shared = Arc::new(Shared {
            upstream,
            plan: Mutex::default(),
            frozen: watch::Sender::new(false),
            delivered: watch::Sender::new(false),
            epoch: watch::Sender::new(0),
            refusing: AtomicBool::new(false),
            delay_micros: AtomicU64::new(0),
        });
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
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("postgres-proxy".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(listener) = TcpListener::from_std(listener) else { return };
                    tokio::select! {
                        () = pump::accept(served, listener) => {}
                        _ = stopped => {}
                    }
                });
                // Connections that are being served are dropped, and so cut, here.
                runtime.shutdown_background();
            })
            .map_err(|cause| Error::system("start the proxy's thread", cause))?;
        let url = format!("{user}@{address}{path}");
        Ok(Self { address, url, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The address to listen on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that was given, with this proxy in place of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on, cuts the connection of the `nth` message (from 1) that is meant. Replaces what
    /// was armed before.
    pub fn arm(&self, at: Target, nth: u64, cut: Cut) {
        self.arm_request(at, nth, cut, false);
    }

    /// The same, and in that moment the server is gone: every other connection is cut as well, and
    /// new ones are, until [`Proxy::accept`].
    pub fn arm_last(&self, at: Target, nth: u64, cut: Cut) {
        self.arm_request(at, nth, cut, true);
    }

    fn arm_request(&self, at: Target, nth: u64, cut: Cut, is_last: bool) {
        self.shared.delivered.send_replace(false);
        let mut plan = self.shared.plan();
        plan.passed = 0;
        plan.is_last = is_last;
        plan.fault = Some(Fault::Request { at, nth, cut });
    }

    /// From now on, cuts the connection on which the server sends its `nth` message (from 1), before
    /// the client gets it. The server has everything that the client sent.
    pub fn arm_answer(&self, nth: u64) {
        let mut plan = self.shared.plan();
        plan.passed = 0;
        plan.is_last = false;
        plan.fault = Some(Fault::Answer { nth });
    }

    /// Takes back a fault that has not happened.
    pub fn disarm(&self) {
        self.shared.plan().fault = None;
    }

    /// Hands on the message that [`Cut::Held`] holds back, or will.
    pub fn deliver(&self) {
        self.shared.delivered.send_replace(true);
    }

    /// How many faults have happened.
    pub fn fired(&self) -> u64 {
        self.shared.plan().fired
    }

    /// Waits until `count` faults have happened, for `bound` at most; says whether they have.
    pub async fn wait_until_fired(&self, count: u64, bound: Duration) -> bool {
        let wait = async {
            while self.fired() < count {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(bound, wait).await.is_ok()
    }

    /// Holds everything back in both directions, as a network does that went away.
    pub fn freeze(&self) {
        self.shared.frozen.send_replace(true);
    }

    /// Hands on again.
    pub fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    /// Lets every answer of the server wait for so long: one wait for what arrives together.
    pub fn delay(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.shared.delay_micros.store(micros, Ordering::SeqCst);
    }

    /// Cuts every connection, and every new one at once, as a server does that is down.
    pub fn refuse(&self) {
        self.shared.refusing.store(true, Ordering::SeqCst);
        self.cut_all();
    }

    /// Takes connections again.
    pub fn accept(&self) {
        self.shared.refusing.store(false, Ordering::SeqCst);
    }

    /// Cuts every connection that is open now.
    pub fn cut_all(&self) {
        self.shared.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Forgets the log of requests and the count of answers.
    pub fn forget(&self) {
        let mut plan = self.shared.plan();
        plan.log.clear();
        plan.answers = 0;
    }

    /// What the clients sent after their log-in, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.plan().log.clone()
    }

    /// How many messages the server sent after the log-in.
    pub fn answers(&self) -> u64 {
        self.shared.plan().answers
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("proxy: its thread panicked");
        }
    }
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        // Each change is one assignment, so that the plan is whole after a panic elsewhere.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request, and says whether this is the one at which the connection is cut.
    fn pass_request(&self, request: &Request) -> Option<Cut> {
        let mut plan = self.plan();
        if plan.log.len() < LOG_MAX {
            plan.log.push(request.clone());
        }
        let Some(Fault::Request { at, nth, cut }) = plan.fault.clone() else { return None };
        let is_meant = match at {
            Target::Every => true,
            Target::Statement(text) => request.executes(text),
            // Not whatever has the word in it: "read committed" stands in every begin.
            Target::Commit => request.executes("commit") && request.statement == "commit",
        };
        if !is_meant || !plan.count_to(nth) {
            return None;
        }
        if plan.is_last {
            self.refusing.store(true, Ordering::SeqCst);
            self.epoch.send_modify(|epoch| *epoch += 1);
        }
        Some(cut)
    }

    /// The same for a message of the server.
    fn pass_answer(&self) -> bool {
        let mut plan = self.plan();
        plan.answers += 1;
        let Some(Fault::Answer { nth }) = plan.fault else { return false };
        plan.count_to(nth)
    }
}

impl Plan {
    fn count_to(&mut self, nth: u64) -> bool {
        self.passed += 1;
        if self.passed < nth {
            return false;
        }
        self.fault = None;
        self.fired += 1;
        true
    }
}
