//! The engine of a service: one store, the keys in flight, and the tasks that see them through.

use crate::flight::Flights;
use crate::hint::Hints;
use crate::signal::{Listener, Signals};
use samekey_core::fingerprint::Algorithms;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// How many answers of external calls may wait for a store that went away meanwhile. With 64 KiB each
/// it is 64 MiB at the worst; what finds no room is asked about by recovery.
const WAITING_ANSWERS_MAX: usize = 1_024;

/// Runs commands at most once a key. Made once, cheap to clone.
///
/// `S` is the store: a `PostgresLedger`, a `SqliteLedger` or a `SqlxLedger`. A `SqlxLedger` runs atomic
/// commands only; [`External`](crate::External) and [`Protect`](crate::Protect) want one of the first two.
pub struct Engine<S>(Arc<Shared<S>>);

pub(crate) struct Shared<S> {
    pub(crate) store: Arc<S>,
    pub(crate) flights: Flights,
    pub(crate) hints: Hints,
    pub(crate) signals: Signals,
    pub(crate) algorithms: Algorithms,
    pub(crate) tasks: TaskTracker,
    pub(crate) outbound_secret: Option<Arc<[u8]>>,
    /// Room for answers that wait for their store.
    pub(crate) waiting_answers: Arc<Semaphore>,
}

impl<S> Clone for Engine<S> {
    fn clone(&self) -> Engine<S> {
        Engine(Arc::clone(&self.0))
    }
}

impl<S: Send + Sync + 'static> Engine<S> {
    /// An engine on this store.
    pub fn new(store: S) -> Engine<S> {
        Engine::with(store, Setup::default())
    }

    /// An engine on this store with more than the defaults.
    pub fn with(store: S, setup: Setup) -> Engine<S> {
        Engine(Arc::new(Shared {
            store: Arc::new(store),
            flights: Flights::default(),
            hints: Hints::default(),
            signals: setup.listener.map(Signals::to).unwrap_or_default(),
            algorithms: setup.algorithms.unwrap_or_else(Algorithms::shipped),
            tasks: TaskTracker::new(),
            outbound_secret: setup.outbound_secret,
            waiting_answers: Arc::new(Semaphore::new(WAITING_ANSWERS_MAX)),
        }))
    }

    /// The store itself.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// The store, to be shared with what works on the same database beside this engine, such as a courier.
    pub fn store_handle(&self) -> Arc<S> {
        Arc::clone(&self.0.store)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<S>> {
        &self.0
    }

    /// Waits until every command that has begun is settled or rolled back, `grace` at the longest;
    /// says whether all are. Stop accepting requests first.
    pub async fn drain(&self, grace: Duration) -> bool {
        self.0.tasks.close();
        let drained = tokio::time::timeout(grace, self.0.tasks.wait()).await.is_ok();
        self.0.tasks.reopen();
        drained
    }
}

/// What an engine may be given besides its store.
#[derive(Clone, Default)]
pub struct Setup {
    listener: Option<Listener>,
    algorithms: Option<Algorithms>,
    outbound_secret: Option<Arc<[u8]>>,
}

impl Setup {
    /// Hands every signal to this function, with the name of the route. It is called on the
    /// command's own task and must not block.
    #[must_use]
    pub fn listener(mut self, listener: Listener) -> Setup {
        self.listener = Some(listener);
        self
    }

    /// Makes outbound keys with this secret instead of the one in the store. All processes on one store
    /// need the same; a change concerns new commands only.
    #[must_use]
    pub fn outbound_secret(mut self, secret: &[u8]) -> Setup {
        self.outbound_secret = Some(Arc::from(secret));
        self
    }

    /// Fingerprints by this table instead of the shipped one, so that a test can see an upgrade.
    #[must_use]
    pub fn algorithms(mut self, algorithms: Algorithms) -> Setup {
        self.algorithms = Some(algorithms);
        self
    }
}
