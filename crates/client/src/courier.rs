//! The courier: takes commands out of the outbox, has them executed once, and writes down how they ended.
//!
//! Every process that enqueues has one, since it knows the destinations; a process that also delivers spawns
//! it. Any number of them may deliver from one database: the store hands each command to one of them at a
//! time, and its fence keeps whoever was too slow from writing.
//!
//! Read next: `courier/lane.rs` (what is taken, and when), `courier/attempt.rs` (one attempt),
//! `courier/settle.rs` (how its outcome is written).

mod attempt;
mod health;
mod lane;
mod settle;
mod setup;
mod until;
mod wait;

pub use setup::{CONCURRENCY_MAX, Destination, Setup};
pub use wait::Waited;

use crate::command::{NewCommand, Placed, Prepared};
use crate::counterparty::Boxed;
use crate::error::{Error, Kind};
use crate::restored;
use crate::signal::{Signal, Signals};
use health::Health;
use samekey_core::delivery::Delivery;
use samekey_core::plan::{enqueued, enqueued_after_loss};
use samekey_core::profile::Profile;
use samekey_core::time::Time;
use samekey_store::outbox::{Action, CommandId, Enqueued, Outbox, SeenDelivery};
use samekey_store::{Ledger, StoreError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wait::Waiters;

/// Enqueues commands and delivers them. Made once, cheap to clone.
///
/// `S` is the store, which has both ports.
pub struct Courier<S>(Arc<Shared<S>>);

impl<S> Clone for Courier<S> {
    fn clone(&self) -> Courier<S> {
        Courier(Arc::clone(&self.0))
    }
}

pub(crate) struct Shared<S> {
    pub(crate) store: Arc<S>,
    places: BTreeMap<String, Arc<Place>>,
    pub(crate) signals: Signals,
    waiters: Waiters,
    tasks: TaskTracker,
    closing: CancellationToken,
    /// The mark of a restored store is looked up again this long after the last time.
    pub(crate) restored: restored::Watch,
}

impl<S> Shared<S> {
    pub(crate) fn places(&self) -> impl Iterator<Item = &Arc<Place>> {
        self.places.values()
    }
}

/// One destination: who executes there, how it is tried, and how it is doing.
pub(crate) struct Place {
    name: String,
    counterparty: Box<dyn Boxed>,
    pub(crate) profile: Profile,
    /// Attempts and questions of this process that are on their way.
    in_flight: AtomicU32,
    health: Mutex<Health>,
    /// Something may be due, or there is room again.
    wake: Notify,
    /// For which mark of a restored store this process knows that the commands were doubted.
    pub(crate) heeded: AtomicI64,
}

impl Place {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }
}

/// A courier at work. When this is dropped nothing more is taken, and what is on its way is given up: its
/// commands are unknown when their leases end. [`Running::drain`] lets it end first.
#[derive(Debug)]
#[must_use = "a courier that is dropped delivers nothing"]
pub struct Running {
    lanes: Vec<JoinHandle<()>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Running {
    /// Takes nothing more and waits until everything that is on its way is written down, `grace` at the
    /// longest; says whether all is. What is not is unknown when its lease ends, and is cleared up by
    /// whoever delivers next.
    pub async fn drain(mut self, grace: Duration) -> bool {
        self.closing.cancel();
        self.tasks.close();
        let lanes = std::mem::take(&mut self.lanes);
        let all = async {
            for lane in lanes {
                // A lane that panicked has taken nothing that its attempts do not write down.
                let _ = lane.await;
            }
            self.tasks.wait().await;
        };
        tokio::time::timeout(grace, all).await.is_ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.closing.cancel();
        for lane in &self.lanes {
            lane.abort();
        }
    }
}

impl<S: Outbox + Ledger> Courier<S> {
    /// A courier on this store. `environment` names the one world in which this database may send, such as
    /// `production`: the first courier writes it into the database, and a copy that is opened in another
    /// environment is refused.
    ///
    /// # Errors
    /// [`Kind::OtherEnvironment`], [`Kind::Config`] for two destinations of one name, and what the store
    /// fails with.
    pub async fn open(store: Arc<S>, setup: Setup) -> Result<Courier<S>, Error> {
        let Setup { environment, destinations, listener } = setup;
        check_environment(&*store, &environment).await?;
        let mut places = BTreeMap::new();
        for destination in destinations {
            let place = destination.into_place();
            let name = place.name.clone();
            if places.insert(name.clone(), Arc::new(place)).is_some() {
                return Err(Error::new(
                    Kind::Config,
                    format!("there are two destinations `{name}`; each needs a name of its own"),
                ));
            }
        }
        let restored = restored::Watch::new(&*store).await?;
        Ok(Courier(Arc::new(Shared {
            store,
            places,
            signals: listener.map(Signals::to).unwrap_or_default(),
            waiters: Waiters::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            restored,
        })))
    }

    /// The store itself.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// The names of the destinations.
    pub fn destinations(&self) -> impl Iterator<Item = &str> {
        self.0.places.keys().map(String::as_str)
    }

    /// The profile of a destination.
    ///
    /// # Errors
    /// [`Kind::UnknownDestination`].
    pub fn profile(&self, destination: &str) -> Result<Profile, Error> {
        self.place(destination).map(|place| place.profile)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<S>> {
        &self.0
    }

    /// Wakes whoever waits for this command.
    pub(crate) fn ended(&self, id: CommandId) {
        self.0.waiters.wake(id);
    }

    pub(crate) fn place(&self, destination: &str) -> Result<&Arc<Place>, Error> {
        self.0.places.get(destination).ok_or_else(|| {
            let known: Vec<&str> = self.0.places.keys().map(String::as_str).collect();
            Error::new(
                Kind::UnknownDestination,
                format!(
                    "there is no destination `{}`; known are: {}",
                    destination.escape_debug(),
                    known.join(", ")
                ),
            )
        })
    }

    /// Checks a command and draws its id and its key. It is enqueued by writing it in the transaction of
    /// the business row that it belongs to; the store's own functions do that.
    ///
    /// # Errors
    /// [`Kind::Request`], [`Kind::UnknownDestination`], and what the store fails with.
    pub async fn prepare(&self, command: NewCommand) -> Result<Prepared, Error> {
        self.prepare_generation(command, 1).await
    }

    async fn prepare_generation(
        &self,
        command: NewCommand,
        generation: u32,
    ) -> Result<Prepared, Error> {
        let place = self.place(&command.destination)?;
        let delivery = if self.0.restored.is_in_force(&*self.0.store).await? {
            enqueued_after_loss(Time::EPOCH, command.delay, &place.profile)
        } else {
            enqueued(Time::EPOCH, command.delay, &place.profile)
        };
        command.prepare(generation, delivery)
    }

    /// Enqueues a command in a transaction of its own. Enqueuing the same action with the same request
    /// again gives the command that is there.
    ///
    /// # Errors
    /// As [`Courier::prepare`], and [`Kind::OtherContent`].
    pub async fn enqueue(&self, command: NewCommand) -> Result<Placed, Error> {
        let prepared = self.prepare(command).await?;
        self.write(&prepared).await
    }

    /// Enqueues an action anew, under a new key: only where its last command was refused or has failed, so
    /// that nothing of it can have run.
    ///
    /// # Errors
    /// As [`Courier::enqueue`], and [`Kind::NotFollowed`].
    pub async fn enqueue_anew(&self, command: NewCommand) -> Result<Placed, Error> {
        let action = Action {
            org: command.org.clone(),
            destination: command.destination.clone(),
            operation: command.operation.clone(),
            business_ref: command.business_ref.clone(),
        };
        let Some((last, seen)) = self.0.store.latest(&action).await? else {
            return self.enqueue(command).await;
        };
        if !seen.delivery.may_be_followed() {
            return Err(Error::new(
                Kind::NotFollowed,
                format!(
                    "the last command of this action is {}; a new key is only given after one that was refused or has failed, since anything else may have run",
                    seen.delivery.state_name()
                ),
            ));
        }
        let generation = last.generation.saturating_add(1);
        let prepared = self.prepare_generation(command, generation).await?;
        self.write(&prepared).await
    }

    async fn write(&self, prepared: &Prepared) -> Result<Placed, Error> {
        let enqueued = self.written(prepared).await?;
        let placed = prepared.placed(enqueued)?;
        let destination = &prepared.command.action.destination;
        if placed.is_new {
            self.0.signals.emit(destination, Signal::Enqueued);
        }
        self.wake(destination);
        Ok(placed)
    }

    /// A lost acknowledgement is asked about by writing the same command again: its id tells.
    async fn written(&self, prepared: &Prepared) -> Result<Enqueued, StoreError> {
        let Prepared { command, delivery } = prepared;
        let first = self.0.store.enqueue(command, delivery).await;
        if !first.as_ref().is_err_and(StoreError::may_have_committed) {
            return first;
        }
        Ok(match self.0.store.enqueue(command, delivery).await? {
            Enqueued::Found(known, _) if known.id == command.id => Enqueued::New,
            found @ (Enqueued::New | Enqueued::Found(..)) => found,
        })
    }

    /// Says that something was enqueued for this destination, in a transaction that has committed: it is
    /// looked for at once. Without it, it is found within a second.
    pub fn wake(&self, destination: &str) {
        if let Some(place) = self.0.places.get(destination) {
            place.wake.notify_one();
        }
    }

    /// Where a command stands.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn delivery(
        &self,
        org: &samekey_core::key::Org,
        id: CommandId,
    ) -> Result<Option<Delivery>, Error> {
        Ok(self.0.store.delivery(org, id).await?.map(|SeenDelivery { delivery, .. }| delivery))
    }

    /// Begins to deliver, to every destination.
    pub fn spawn(&self) -> Running {
        let lanes = self.0.places.values().map(|place| {
            let (shared, place) = (Arc::clone(&self.0), Arc::clone(place));
            tokio::spawn(async move { lane::run(shared, place).await })
        });
        Running {
            lanes: lanes.collect(),
            tasks: self.0.tasks.clone(),
            closing: self.0.closing.clone(),
        }
    }
}

/// Under which name the environment lies in the store.
const ENVIRONMENT_NAME: &str = "environment";

async fn check_environment<S: Ledger>(store: &S, environment: &str) -> Result<(), Error> {
    let known = store.share_once(ENVIRONMENT_NAME, environment.as_bytes()).await?;
    if known == environment.as_bytes() {
        return Ok(());
    }
    Err(Error::new(
        Kind::OtherEnvironment,
        format!(
            "this database belongs to the environment `{}`, and this program runs in `{}`: a copied database must not send; delete the copy's outbox and its `environment`, or name the right environment",
            String::from_utf8_lossy(&known).escape_debug(),
            environment.escape_debug()
        ),
    ))
}
