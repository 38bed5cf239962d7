//! Commands whose effect is in the same database as their key: one transaction holds both.
//!
//! The request is read to its end and its key parsed; then a task of its own, which a client that
//! hangs up cannot cancel, either leads the key or follows the one that leads it in this process.
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
mod stream;
#[cfg(any(feature = "postgres", feature = "sqlx"))]
mod transaction;

#[cfg(feature = "sqlx")]
pub use self::sqlx::Borrowing;

use crate::body::{Request, Response};
use crate::capture::{Broken, Captured, Taken};
use crate::claim::Command;
use crate::engine::{Engine, Shared};
use crate::flight::{Joined, Leader, Stage};
use crate::header;
use crate::problem::Problem;
use crate::route::{Caller, Route};
use crate::signal::Signal;
use bytes::Bytes;
use http::HeaderMap;
use samekey_core::key::{Key, KeyFault, Scope};
use samekey_core::outcome::Ending;
use samekey_core::policy::KeyRule;
use samekey_core::receipt::Receipt;
use samekey_core::step::{RetryAfter, Verdict};
use samekey_store::{Seen, crash_point};
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

/// What the front hands a command to, once it is read and its key is known.
pub(crate) trait Lead<S>: Send + 'static {
    /// Sees a key through, as the only one in this process.
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

impl<S: Send + Sync + 'static> Engine<S> {
    /// Everything before the claim, in the order that `docs/contract.md` gives.
    pub(crate) async fn front<B, L>(
        &self,
        route: &Route,
        caller: &Caller,
        request: http::Request<B>,
        lead: L,
    ) -> Response
    where
        B: http_body::Body<Data = Bytes>,
        L: Lead<S>,
    {
        let shared = Arc::clone(self.shared());
        let request = match route.read(request).await {
            Ok(request) => request,
            Err(response) => {
                shared.signals.emit(route, Signal::Refused);
                return response;
            }
        };
        let key = match key_of(route, request.headers()) {
            Ok(Some(key)) => key,
            Ok(None) => {
                let route = route.clone();
                let task = shared.tasks.clone();
                return join(task.spawn(lead.unkeyed(shared, route, request)), None).await;
            }
            Err(problem) => {
                shared.signals.emit(route, Signal::Refused);
                return problem.into_response(None);
            }
        };
        let scope = Scope { org: caller.org.clone(), key: key.clone() };
        #[cfg(samekey_bugs)]
        let scope = crate::bugs::scope(scope);
        let command =
            Command::new(scope, route.clone(), caller, request, shared.algorithms.clone());
        let command = match command {
            Ok(command) => command,
            Err(error) => {
                shared.signals.emit(route, Signal::StoreFailed(error.kind()));
                return Problem::StoreUnavailable.into_response(Some(&key));
            }
        };
        let task = shared.tasks.clone();
        #[cfg(samekey_bugs)]
        if crate::bugs::planted("handler-not-spawned") {
            let inline: std::pin::Pin<Box<dyn Future<Output = Response> + Send>> =
                Box::pin(see_through(shared, command, lead));
            return inline.await;
        }
        let response = join(task.spawn(see_through(shared, command, lead)), Some(&key)).await;
        crash_point!("reply.before");
        response
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

fn key_of(route: &Route, headers: &HeaderMap) -> Result<Option<Key>, Problem> {
    let lines = headers.get_all(header::IDEMPOTENCY_KEY);
    let key = || {
        Key::from_header_lines(lines.iter().map(http::HeaderValue::as_bytes))
            .map_err(|fault: KeyFault| Problem::KeyInvalid(fault))
    };
    match route.policy().key {
        KeyRule::Off => Ok(None),
        KeyRule::Optional => key(),
        KeyRule::Required => match key()? {
            Some(key) => Ok(Some(key)),
            None => Err(Problem::KeyMissing),
        },
    }
}

impl Route {
    /// Reads a command to the end of its body, or gives the answer to a body that is too large or
    /// broke off. A client that holds its body back until it is asked for (`Expect: 100-continue`)
    /// is not asked under a key that cannot be read. A service that wants to look at the body before
    /// the key is claimed reads it with this, and hands the request on.
    pub async fn read<B>(&self, request: http::Request<B>) -> Result<Request, Response>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let (mut head, body) = request.into_parts();
        if holds_its_body_back(&head.headers)
            && body.size_hint().lower()
                <= u64::try_from(self.policy().body_bytes_max).unwrap_or(u64::MAX)
            && let Err(problem) = key_of(self, &head.headers)
        {
            // Nobody asks for a body that cannot run. It is not read, so the connection ends here.
            return Err(closing(problem.into_response(None)));
        }
        // A service that has read the body already hands in a request that has its room.
        let taken = head.extensions.remove::<Taken>();
        match self.room().read(body, taken).await {
            Ok((body, taken)) => {
                if let Some(taken) = taken {
                    head.extensions.insert(taken);
                }
                Ok(Request::from_parts(head, body))
            }
            Err(broken) => Err(unread(self, &broken, &head.headers)),
        }
    }
}

fn unread(route: &Route, broken: &Broken, headers: &HeaderMap) -> Response {
    let key = key_of(route, headers).ok().flatten();
    match broken {
        Broken::TooLarge(limit) => Problem::BodyTooLarge(*limit).into_response(key.as_ref()),
        // Nothing ran. Whoever still reads this answer is told that its body did not arrive.
        Broken::Slow | Broken::Lost => {
            let mut response = Response::new(crate::capture::empty());
            *response.status_mut() = match broken {
                Broken::Slow => http::StatusCode::REQUEST_TIMEOUT,
                Broken::TooLarge(_) | Broken::Lost => http::StatusCode::BAD_REQUEST,
            };
            closing(response)
        }
    }
}

/// Whether the client waits for a word before it sends its body.
fn holds_its_body_back(headers: &HeaderMap) -> bool {
    let expected = headers.get(http::header::EXPECT);
    expected.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

fn closing(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

async fn join(task: tokio::task::JoinHandle<Response>, key: Option<&Key>) -> Response {
    match task.await {
        Ok(response) => response,
        // The handler's own panics are caught where they can be rolled back. This one came from
        // somewhere else, perhaps after the commit, so it proves nothing: with a key the row tells, and
        // without one nobody can.
        Err(_) if key.is_some() => Problem::OutcomePending(RetryAfter::MIN).into_response(key),
        Err(_) => Problem::OutcomeUnknown.into_response(None),
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
    let (status, receipt) = match captured {
        Captured::Whole { head, body } => {
            let status = head.status.as_u16();
            (status, route.keep().receipt(status, lines(&head.headers), body.clone()))
        }
        Captured::Long(response) => {
            let status = response.status().as_u16();
            (status, route.keep().fact(status, lines(response.headers())))
        }
    };
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

fn lines(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
}
