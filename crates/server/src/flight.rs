//! One execution a key and process: duplicates that arrive meanwhile wait here, not in the pool.
//!
//! The first request of a key leads; the others follow it and are told what its row says. A leader
//! that goes without a result (it was rolled back, or its task died) leaves the key to one of them.

use samekey_core::key::Scope;
use samekey_store::Seen;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How far a leader has come.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// It asks the store.
    Claiming,
    /// It runs; this is its uncommitted row.
    Running(Seen),
    /// This row is committed.
    Ended(Seen),
    /// Nothing is committed, as far as the leader knows.
    Gone,
}

/// The keys that this process works on now. Bounded by the requests in flight, which the server in
/// front bounds.
#[derive(Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<HashMap<Scope, watch::Receiver<Stage>>>>);

pub(crate) enum Joined {
    Leader(Leader),
    Follower(watch::Receiver<Stage>),
}

/// The right, and the duty, to find out what becomes of a key.
pub(crate) struct Leader {
    scope: Scope,
    stage: watch::Sender<Stage>,
    flights: Flights,
}

impl Flights {
    pub(crate) fn join(&self, scope: &Scope) -> Joined {
        match self.lock().entry(scope.clone()) {
            Entry::Occupied(flight) => Joined::Follower(flight.get().clone()),
            Entry::Vacant(place) => {
                let (stage, receiver) = watch::channel(Stage::Claiming);
                place.insert(receiver);
                Joined::Leader(Leader { scope: scope.clone(), stage, flights: self.clone() })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, watch::Receiver<Stage>>> {
        // The map is whole between any two of its calls, also after a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leader {
    /// What tells the followers that the claim stands, for the thread that makes it.
    pub(crate) fn herald(&self) -> Herald {
        Herald(self.stage.clone())
    }

    /// The row as it is committed: what every follower gets.
    pub(crate) fn ended(self, seen: Seen) {
        self.stage.send_replace(Stage::Ended(seen));
    }
}

/// Tells a leader's followers that its claim stands.
pub(crate) struct Herald(watch::Sender<Stage>);

impl Herald {
    /// The row as it stands uncommitted in the leader's transaction.
    pub(crate) fn running(&self, seen: &Seen) {
        self.0.send_if_modified(|stage| match stage {
            Stage::Claiming => {
                *stage = Stage::Running(seen.clone());
                true
            }
            Stage::Running(_) | Stage::Ended(_) | Stage::Gone => false,
        });
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        // First out of the map, then the news: a follower that is told "gone" and joins again must
        // not find this flight.
        self.flights.lock().remove(&self.scope);
        self.stage.send_if_modified(|stage| match stage {
            Stage::Ended(_) => false,
            Stage::Claiming | Stage::Running(_) | Stage::Gone => {
                *stage = Stage::Gone;
                true
            }
        });
    }
}
