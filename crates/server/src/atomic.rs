//! Commands whose effect is in the same database as their key: one transaction holds both.
//!
//! One request of a key leads it in this process, and the others follow.
//! The leader begins a transaction with the claim, calls the handler in it, and settles and commits
//! in one step. How that looks depends on the driver: [`transaction`] for tokio-postgres and sqlx,
//! [`sqlite`] for the one writer of SQLite.

#[cfg(any(feature = "postgres", feature = "sqlx"))]
mod conflict;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(any(feature = "postgres", feature = "sqlx"))]
mod transaction;

#[cfg(feature = "sqlx")]
pub use self::sqlx::Borrowing;

use crate::body::{Request, Response};
use crate::capture::Captured;
use crate::claim::Command;
use crate::engine::Shared;
use crate::flight::{Joined, Leader, Stage};
use crate::front::Mode;
use crate::problem::Problem;
use crate::route::Route;
use samekey_core::outcome::Ending;
use samekey_core::receipt::Receipt;
use samekey_core::step::{RetryAfter, Verdict};
use samekey_store::Seen;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How often a command is tried at the most: once, and three times more after a deadlock, a
/// serialisation failure or a lost acknowledgement. Whoever still fails then is in a crowd that a
/// fourth try only makes denser.
const TRIES_MAX: u32 = 4;
/// The pause before the next try; it doubles. A deadlock's other side needs a moment to end, and a
/// database that restarts needs some.
const TRY_PAUSE: Duration = Duration::from_millis(20);

/// What leads a key: begins, calls the handler and ends, as the only one in this process.
pub(crate) trait Lead<S>: Send + 'static {
    /// Sees a key through.
    fn keyed(
        self,
        shared: Arc<Shared<S>>,
        command: Command,
        leader: Leader,
    ) -> impl Future<Output = Response> + Send;

    /// Runs a command that has no key.
    fn unkeyed(
        self,
        shared: Arc<Shared<S>>,
        route: Route,
        request: Request,
    ) -> impl Future<Output = Response> + Send;
}

/// The mode of atomic commands: one leads each key in this process, the others follow.
pub(crate) struct Led<L>(pub(crate) L);

impl<S, L> Mode<S> for Led<L>
where
    S: Send + Sync + 'static,
    L: Lead<S>,
{
    fn keyed(
        self,
        shared: Arc<Shared<S>>,
        command: Command,
    ) -> impl Future<Output = Response> + Send {
        see_through(shared, command, self.0)
    }

    fn unkeyed(
        self,
        shared: Arc<Shared<S>>,
        route: Route,
        request: Request,
    ) -> impl Future<Output = Response> + Send {
        self.0.unkeyed(shared, route, request)
    }
}

/// Leads the key or follows its leader, until there is an answer.
async fn see_through<S, L>(shared: Arc<Shared<S>>, command: Command, lead: L) -> Response
where
    S: Send + Sync + 'static,
    L: Lead<S>,
{
    let deadline = Instant::now() + command.route.policy().wait;
    loop {
        match shared.flights.join(&command.scope) {
            Joined::Leader(leader) => return lead.keyed(shared, command, leader).await,
            Joined::Follower(stage) => {
                if let Some(response) = follow(&shared, &command, stage, deadline).await {
                    return response;
                }
                // The leader left nothing behind. Whoever has waited long enough comes back later;
                // the others run for its place.
                if Instant::now() >= deadline {
                    return command.refuse(Problem::InProgress(RetryAfter::MIN), &shared.signals);
                }
            }
        }
    }
}

/// Waits for a leader's result without touching the pool; nothing when it left none.
async fn follow<S>(
    shared: &Shared<S>,
    command: &Command,
    mut stage: watch::Receiver<Stage>,
    deadline: Instant,
) -> Option<Response> {
    loop {
        let reached = stage.borrow_and_update().clone();
        match reached {
            // A claim ends by the store's own limits; until then nobody can say truthfully whether
            // the key is taken at all.
            Stage::Claiming => stage.changed().await.ok()?,
            Stage::Running(seen) => {
                match tokio::time::timeout_at(deadline, stage.changed()).await {
                    Ok(changed) => changed.ok()?,
                    Err(_) => return answer_from(shared, command, &seen),
                }
            }
            Stage::Ended(seen) => return answer_from(shared, command, &seen),
            Stage::Gone => return None,
        }
    }
}

/// What a row says to this command; nothing when it says that the command may run.
fn answer_from<S>(shared: &Shared<S>, command: &Command, seen: &Seen) -> Option<Response> {
    match command.decide(seen) {
        Ok((_, Verdict::Run(_))) => None,
        Ok((_, verdict)) => command.answer(verdict, &shared.signals).err(),
        Err(error) => Some(command.store_failed(&error, &shared.signals)),
    }
}

/// What a handler's answer means for its transaction.
pub(crate) enum Conclusion {
    /// Its effects and this receipt are committed.
    Keep(Receipt),
    /// Its effects are undone, and this receipt is committed.
    Undo(Receipt),
    /// Nothing is committed.
    Discard,
}

/// Reads a handler's answer by its status.
pub(crate) fn conclude(route: &Route, captured: &Captured) -> Conclusion {
    let (status, receipt) = (captured.status(), captured.receipt(route));
    #[cfg(samekey_bugs)]
    let receipt = crate::bugs::receipt(receipt, captured.headers());
    #[cfg(samekey_bugs)]
    if status == 408 && crate::bugs::planted("timeout-status-stored") {
        return Conclusion::Undo(receipt);
    }
    match Ending::of_status(status) {
        Ending::Success => Conclusion::Keep(receipt),
        Ending::Refused => Conclusion::Undo(receipt),
        Ending::NotNow | Ending::Failed => Conclusion::Discard,
    }
}

/// Says in the log that a handler was given up because it ran too long.
pub(crate) fn too_long(route: &Route) {
    tracing::warn!(
        route = route.name(),
        run_max_ms = route.policy().run_max.as_millis(),
        "a handler ran longer than run_max; everything that it wrote is rolled back"
    );
}
