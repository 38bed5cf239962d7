//! A proxy in front of an HTTP/1.1 service, such as a payment provider, that fails at a chosen request:
//! before the service gets it, after the service has answered and before anybody is told, within the
//! answer, with the request still on its way, or with the kept connection gone as the client writes.
//!
//! It writes down every request with the moments, by the history's counter, at which it was begun and
//! ended upstream. What it does not do: TLS, upgrades, and requests of more than
//! `serve::REQUEST_BYTES_MAX`. It reads a request to its end before it hands it on.
//!
//! Read next: `proxy/http/serve.rs` for what happens on one connection.

mod chunks;
mod exchange;
mod message;
mod serve;

use super::pump::{LOG_MAX, Plan, Pump, Switches, wait_until_fired};
use crate::error::{Error, ErrorKind, Result};
use crate::history::{History, Moment};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use exchange::Exchange;

/// The header that the log shows unless a test names another.
const NOTED: &str = "idempotency-key";

/// Which requests are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    method: Option<&'static str>,
    path: &'static str,
}

impl Target {
    /// Every request.
    pub const EVERY: Target = Target { method: None, path: "" };

    /// Requests with this method whose path, with its query, begins like this.
    pub const fn to(method: &'static str, path: &'static str) -> Target {
        Target { method: Some(method), path }
    }

    /// Whether a request is meant.
    pub fn is_met(&self, method: &str, path: &str) -> bool {
        self.method.is_none_or(|wanted| wanted == method) && path.starts_with(self.path)
    }
}

/// How an exchange fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The service never gets the request.
    Before,
    /// The service gets it and answers to the end; the client is told nothing.
    After,
    /// The service answers, and the client gets this much of it: bytes of head and body together.
    Answer {
        /// Bytes that arrive; a shorter answer arrives whole, and then the connection ends.
        after_bytes: u64,
    },
    /// The client's connection is cut while the request is on its way; the service gets it when
    /// [`HttpProxy::deliver`] says so.
    Held,
    /// A connection that has served a request already is closed as the next one begins to arrive.
    /// The service gets nothing. Only requests on such connections are counted.
    AsWritten,
}

/// One fault, which happens once.
#[derive(Clone, Copy, Debug)]
struct Fault {
    at: Target,
    nth: u64,
    cut: Cut,
    /// Whether nothing gets through afterwards.
    is_last: bool,
}

/// A running proxy. Dropping it cuts every connection and ends its thread.
#[derive(Debug)]
pub struct HttpProxy {
    url: String,
    shared: Arc<Shared>,
    pump: Pump,
}

/// What the test says and the connections do.
#[derive(Debug)]
struct Shared {
    switches: Switches,
    history: History,
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    plan: Plan<Fault>,
    noted: String,
    log: Vec<Exchange>,
    /// Log entries that were forgotten: an exchange knows its place from the start.
    forgotten: usize,
}

impl HttpProxy {
    /// Starts a proxy in front of the service of this address, `http://HOST:PORT[/PATH]`.
    ///
    /// # Errors
    /// `Missing` for another form of address; `System` where the system has no port, thread or runtime
    /// left.
    pub fn before(url: &str, history: &History) -> Result<Self> {
        let unclear = || {
            let expected = "the address is none of a plain HTTP service; expected http://HOST:PORT";
            Error::new(ErrorKind::Missing, expected)
        };
        let rest = url.strip_prefix("http://").ok_or_else(unclear)?;
        let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let upstream =
            server.to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(unclear)?;
        let book =
            Book { plan: Plan::default(), noted: NOTED.to_owned(), log: Vec::new(), forgotten: 0 };
        let shared = Arc::new(Shared {
            switches: Switches::to(upstream),
            history: history.clone(),
            book: Mutex::new(book),
        });
        let pump =
            Pump::start("http-proxy", &shared, |shared: &Shared| &shared.switches, serve::serve)?;
        let url = format!("http://{}{path}", pump.address());
        Ok(Self { url, shared, pump })
    }

    /// The address to listen on.
    pub fn address(&self) -> SocketAddr {
        self.pump.address()
    }

    /// The address that was given, with this proxy in place of the service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The header that [`Exchange::key`] shows from now on; `idempotency-key` at first.
    pub fn note_header(&self, name: &str) {
        self.shared.book().noted = name.to_owned();
    }

    /// From now on, lets the `nth` request (from 1) that is meant fail. Replaces what was armed before.
    pub fn arm(&self, at: Target, nth: u64, cut: Cut) {
        self.arm_fault(Fault { at, nth, cut, is_last: false });
    }

    /// The same, and in that moment the service is gone: every other connection is cut as well, and new
    /// ones are refused, until [`HttpProxy::accept`].
    pub fn arm_last(&self, at: Target, nth: u64, cut: Cut) {
        self.arm_fault(Fault { at, nth, cut, is_last: true });
    }

    fn arm_fault(&self, fault: Fault) {
        self.shared.switches.deliver(false);
        self.shared.book().plan.arm(fault);
    }

    /// Takes back a fault that has not happened.
    pub fn disarm(&self) {
        self.shared.book().plan.fault = None;
    }

    /// Hands on the request that [`Cut::Held`] holds back, or will.
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

    /// Lets every answer of the service wait for so long: one wait for what arrives together.
    pub fn delay(&self, time: Duration) {
        self.shared.switches.delay(time);
    }

    /// Cuts every connection, and lets the system refuse every new one: a client has sent no byte then.
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

    /// Forgets the log.
    pub fn forget(&self) {
        let mut book = self.shared.book();
        book.forgotten += book.log.len();
        book.log.clear();
    }

    /// Every request that came, in order, with what became of it so far.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.book().log.clone()
    }

    /// Those of them that are meant and that the service has got, or began to get.
    pub fn sent(&self, at: Target) -> Vec<Exchange> {
        let book = self.shared.book();
        let sent = book.log.iter().filter(|e| e.sent.is_some() && at.is_met(&e.method, &e.path));
        sent.cloned().collect()
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Each change is one assignment, so that the book is whole after a panic elsewhere.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> Moment {
        self.history.moment()
    }

    /// Whether the next request on a kept connection may be the one that its end meets.
    fn may_cut_as_written(&self) -> bool {
        self.book().plan.fault.is_some_and(|fault| fault.cut == Cut::AsWritten)
    }

    /// Notes what a kept connection begins to bring, and says whether the connection is closed now.
    fn pass_first_line(&self, method: &str, path: &str, on_connection: u64) -> bool {
        let mut book = self.book();
        let Some(fault) = book.plan.fault.filter(|fault| fault.cut == Cut::AsWritten) else {
            return false;
        };
        if !fault.at.is_met(method, path) || !book.plan.count_to(fault.nth) {
            return false;
        }
        let cut = Some(Cut::AsWritten);
        book.note(Exchange { cut, ..Exchange::begun(method, path, on_connection) });
        self.end_where_last(fault);
        true
    }

    /// Notes a whole request: its place in the log, and the fault that meets it.
    fn pass_request(&self, message: &message::Message, on_connection: u64) -> (usize, Option<Cut>) {
        let mut book = self.book();
        let mut exchange = Exchange::of(message, &book.noted, on_connection);
        let fault = book.plan.fault.filter(|fault| {
            fault.cut != Cut::AsWritten && fault.at.is_met(&exchange.method, &exchange.path)
        });
        let fault = fault.filter(|fault| book.plan.count_to(fault.nth));
        exchange.cut = fault.map(|fault| fault.cut);
        let place = book.note(exchange);
        if let Some(fault) = fault {
            self.end_where_last(fault);
        }
        (place, fault.map(|fault| fault.cut))
    }

    fn end_where_last(&self, fault: Fault) {
        if fault.is_last {
            self.switches.refuse_soon();
        }
    }

    /// Changes an exchange that is still in the log.
    fn change(&self, place: usize, change: impl FnOnce(&mut Exchange)) {
        let mut book = self.book();
        let index = place.checked_sub(book.forgotten);
        if let Some(exchange) = index.and_then(|index| book.log.get_mut(index)) {
            change(exchange);
        }
    }
}

impl Book {
    fn note(&mut self, exchange: Exchange) -> usize {
        let place = self.forgotten + self.log.len();
        if self.log.len() >= LOG_MAX {
            return usize::MAX;
        }
        self.log.push(exchange);
        place
    }
}
