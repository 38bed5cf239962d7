//! A proxy in front of PostgreSQL that knows just enough of its protocol to fail at a chosen message:
//! before the server gets it, after the server has obeyed and before anybody is told, or with the
//! message still on its way.
//!
//! What it does not do: TLS (it answers that it has none), copying, and messages of more than
//! `wire::MESSAGE_BYTES_MAX`.
//!
//! Read next: `proxy/postgres/serve.rs` for what happens on one connection.

mod serve;
mod wire;

use super::pump::{LOG_MAX, Plan, Pump, Switches, wait_until_fired};
use crate::error::{Error, ErrorKind, Result};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use wire::Request;

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
    url: String,
    shared: Arc<Shared>,
    pump: Pump,
}

/// What the test says and the connections do.
#[derive(Debug)]
struct Shared {
    switches: Switches,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    plan: Plan<Fault>,
    /// Whether nothing gets through after the fault.
    is_last: bool,
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
        let shared = Arc::new(Shared { switches: Switches::to(upstream), book: Mutex::default() });
        let pump = Pump::start(
            "postgres-proxy",
            &shared,
            |shared: &Shared| &shared.switches,
            serve::serve,
        )?;
        let url = format!("{user}@{}{path}", pump.address());
        Ok(Self { url, shared, pump })
    }

    /// The address to listen on.
    pub fn address(&self) -> SocketAddr {
        self.pump.address()
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
        self.shared.switches.deliver(false);
        let mut book = self.shared.book();
        book.is_last = is_last;
        book.plan.arm(Fault::Request { at, nth, cut });
    }

    /// From now on, cuts the connection on which the server sends its `nth` message (from 1), before
    /// the client gets it. The server has everything that the client sent.
    pub fn arm_answer(&self, nth: u64) {
        let mut book = self.shared.book();
        book.is_last = false;
        book.plan.arm(Fault::Answer { nth });
    }

    /// Takes back a fault that has not happened.
    pub fn disarm(&self) {
        self.shared.book().plan.fault = None;
    }

    /// Hands on the message that [`Cut::Held`] holds back, or will.
    pub fn deliver(&self) {
        self.shared.switches.deliver(true);
    }

    /// How many faults have happened.
    pub fn fired(&self) -> u64 {
        self.shared.book().plan.fired()
    }

    /// Waits until `count` faults have happened, for `bound` at most; says whether they have.
    pub async fn wait_until_fired(&self, count: u64, bound: Duration) -> bool {
        wait_until_fired(|| self.fired(), count, bound).await
    }

    /// Holds everything back in both directions, as a network does that went away.
    pub fn freeze(&self) {
        self.shared.switches.freeze(true);
    }

    /// Hands on again.
    pub fn thaw(&self) {
        self.shared.switches.freeze(false);
    }

    /// Lets every answer of the server wait for so long: one wait for what arrives together.
    pub fn delay(&self, time: Duration) {
        self.shared.switches.delay(time);
    }

    /// Cuts every connection, and lets the system refuse every new one, as where a server is down.
    pub fn refuse(&self) {
        self.shared.switches.refuse();
    }

    /// Takes connections again.
    pub fn accept(&self) {
        self.shared.switches.accept();
    }

    /// Cuts every connection that is open now.
    pub fn cut_all(&self) {
        self.shared.switches.cut_all();
    }

    /// Forgets the log of requests and the count of answers.
    pub fn forget(&self) {
        let mut book = self.shared.book();
        book.log.clear();
        book.answers = 0;
    }

    /// What the clients sent after their log-in, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.book().log.clone()
    }

    /// How many messages the server sent after the log-in.
    pub fn answers(&self) -> u64 {
        self.shared.book().answers
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Each change is one assignment, so that the book is whole after a panic elsewhere.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request, and says whether this is the one at which the connection is cut.
    fn pass_request(&self, request: &Request) -> Option<Cut> {
        let mut book = self.book();
        if book.log.len() < LOG_MAX {
            book.log.push(request.clone());
        }
        let Some(Fault::Request { at, nth, cut }) = book.plan.fault.clone() else { return None };
        let is_meant = match at {
            Target::Every => true,
            Target::Statement(text) => request.executes(text),
            // Not whatever has the word in it: "read committed" stands in every begin.
            Target::Commit => request.executes("commit") && request.statement == "commit",
        };
        if !is_meant || !book.plan.count_to(nth) {
            return None;
        }
        if book.is_last {
            self.switches.refuse_soon();
        }
        Some(cut)
    }

    /// The same for a message of the server.
    fn pass_answer(&self) -> bool {
        let mut book = self.book();
        book.answers += 1;
        let Some(Fault::Answer { nth }) = book.plan.fault else { return false };
        book.plan.count_to(nth)
    }
}
