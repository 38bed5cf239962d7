//! The running API: start it, steer it, look at what it recorded, stop it.

mod answer;
mod door;
mod export;
mod manage;
mod service;
mod socket;
mod state;

pub use export::Seen as Request;

use crate::error::{Error, Kind};
use crate::faults::{Door, Plan};
use crate::payments::{Book, Counts, Effect, Entry, Journal, Memory, Tally};
use door::Doorkeeper;
use export::Join;
use state::Shared;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::time::timeout;

/// Entries taken at once when the book is read as a whole.
const BATCH_ENTRIES: usize = 4096;

/// How a lab is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// A second address on which management stays reachable whatever the fault plan does to connections.
    pub control: Option<SocketAddr>,
    /// The fault plan to begin with.
    pub plan: Plan,
    /// The ledger file; in memory, where it is missing.
    pub ledger: Option<PathBuf>,
}

impl Default for Options {
    /// A free port on loopback, no faults, everything in memory.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            control: None,
            plan: Plan::default(),
            ledger: None,
        }
    }
}

/// A running payments API. It ends when it is dropped.
///
/// ```
/// use samekey_lab::{Lab, Options, faults::{Late, Plan}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), samekey_lab::Error> {
/// // The article's API on a free port, a hundred times faster.
/// let plan = Plan { late: Some(Late { every: 2, ms: 60 }), ..Plan::default() };
/// let lab = Lab::start(Options { plan, ..Options::default() }).await?;
/// // Point a client at `lab.url("/payments")`, then count what was really recorded.
/// assert!(lab.payments()?.is_empty());
/// lab.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct Lab {
    shared: Arc<Shared>,
    address: SocketAddr,
    control: Option<SocketAddr>,
}

impl Lab {
    /// Starts the API on the current tokio runtime.
    pub async fn start(options: Options) -> Result<Self, Error> {
        options
            .plan
            .check()
            .map_err(|complaint| Error::new(Kind::Plan, format!("the fault plan: {complaint}")))?;
        let book = match &options.ledger {
            None => Book::new(Box::new(Memory::default())),
            Some(path) => {
                let mut tally = Tally::default();
                let journal = Journal::open(path, |journal, position, entry| {
                    tally.take(journal, position, entry)
                })?;
                Book::resume(Box::new(journal), tally)
            }
        };
        let shared = Arc::new(Shared::new(book, options.plan, options.control.is_some()));
        let next_connection = Arc::new(AtomicU64::new(0));
        let open = |address: SocketAddr, is_control: bool| -> Result<SocketAddr, Error> {
            let listener = door::listen(address)?;
            let bound = listener.local_addr();
            let keeper = Doorkeeper {
                shared: Arc::clone(&shared),
                next_connection: Arc::clone(&next_connection),
                is_control,
            };
            shared.tasks().spawn(keeper.run(listener));
            bound.map_err(|error| {
                Error::new(Kind::System, format!("{address} has no address: {error}"))
            })
        };
        let address = open(options.listen, false)?;
        let control = options.control.map(|control| open(control, true)).transpose()?;
        Ok(Self { shared, address, control })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Where management listens, if it was asked for.
    pub fn control_addr(&self) -> Option<SocketAddr> {
        self.control
    }

    /// An address in full, for a path that begins with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Puts another fault plan into force and starts its counting. Inside a test every plan can be undone by the
    /// next one, so a shut door needs no time of its own.
    pub fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        self.shared.force_plan(plan)
    }

    /// The plan in force, and how often each of its rules was applied.
    pub fn plan(&self) -> (Plan, Vec<u64>) {
        self.shared.plan()
    }

    /// What happens to new connections now.
    pub fn door(&self) -> Door {
        self.shared.door().borrow().mode
    }

    /// Forgets everything recorded and starts the plan again.
    pub fn reset(&self) -> Result<(), Error> {
        self.shared.reset().map_err(|error| ledger_error(&error))
    }

    /// Lets go of everything that is held.
    pub fn release(&self) {
        self.shared.release();
    }

    /// From now on this order is no longer declined.
    pub fn repair(&self, order_id: &str) {
        self.shared.lock().repair(order_id);
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Waits until `condition` holds; false where it did not within the time. It is looked at after every entry.
    pub async fn until(&self, within: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let met = async {
            loop {
                let mut changed = std::pin::pin!(self.shared.changed().notified());
                // Registered before the look, so that no entry between look and wait is missed.
                changed.as_mut().enable();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        timeout(within, met).await.is_ok()
    }

    /// Payments and authorisations, in the order in which they were recorded.
    pub fn payments(&self) -> Result<Vec<Effect>, Error> {
        let mut effects = self.ledger()?;
        effects.retain(|effect| effect.effect.is_payment());
        Ok(effects)
    }

    /// Every effect, in the order in which it was recorded.
    pub fn ledger(&self) -> Result<Vec<Effect>, Error> {
        let mut effects = Vec::new();
        self.read(|entry| match entry {
            Entry::Effect(effect) => effects.push(*effect),
            Entry::Arrived(_) | Entry::Answered(_) | Entry::Reset { .. } => {}
        })?;
        Ok(effects)
    }

    /// Every request, in the order in which they came in, with what became of its answer.
    pub fn requests(&self) -> Result<Vec<Request>, Error> {
        let mut join = Join::default();
        let mut requests = Vec::new();
        self.read(|entry| requests.extend(join.take(entry)))?;
        requests.extend(join.rest());
        requests.sort_by_key(|request| request.arrived.request);
        Ok(requests)
    }

    /// Ends the API: open connections end, nothing listens any more.
    pub async fn stop(self) {
        self.shared.stop().cancel();
        self.shared.tasks().close();
        self.shared.tasks().wait().await;
    }

    fn read(&self, mut take: impl FnMut(Entry)) -> Result<(), Error> {
        let mut next = 0;
        loop {
            let batch = self.shared.lock().book().batch(next, BATCH_ENTRIES);
            let (entries, after) = batch.map_err(|error| ledger_error(&error))?;
            if entries.is_empty() {
                return Ok(());
            }
            next = after;
            entries.into_iter().for_each(&mut take);
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.shared.stop().cancel();
    }
}

fn ledger_error(error: &std::io::Error) -> Error {
    Error::new(Kind::Ledger, format!("the ledger cannot be read or written: {error}"))
}
