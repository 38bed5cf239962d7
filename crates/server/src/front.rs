//! What every mode does before the claim: the request is read to its end and its key parsed, and then a
//! task of its own, which a client that hangs up cannot cancel, sees the command through.

use crate::body::{Request, Response};
use crate::capture::{Broken, Taken};
use crate::claim::Command;
use crate::engine::{Engine, Shared};
use crate::header;
use crate::problem::Problem;
use crate::route::{Caller, Route};
use crate::signal::Signal;
use bytes::Bytes;
use http::HeaderMap;
use samekey_core::key::{Key, KeyFault, Scope};
use samekey_core::policy::KeyRule;
use samekey_core::step::RetryAfter;
use samekey_store::crash_point;
use std::future::Future;
use std::sync::Arc;

/// How a command is run once it is read and its key is known: one of the modes of `docs/contract.md`.
pub(crate) trait Mode<S>: Send + 'static {
    /// Sees a command with a key through to its answer.
    fn keyed(
        self,
        shared: Arc<Shared<S>>,
        command: Command,
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
    pub(crate) async fn front<B, M>(
        &self,
        route: &Route,
        caller: &Caller,
        request: http::Request<B>,
        mode: M,
    ) -> Response
    where
        B: http_body::Body<Data = Bytes>,
        M: Mode<S>,
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
                return join(task.spawn(mode.unkeyed(shared, route, request)), None).await;
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
                Box::pin(mode.keyed(shared, command));
            return inline.await;
        }
        // Boxed, since a task is moved about before it runs, and this one is large.
        let response = join(task.spawn(Box::pin(mode.keyed(shared, command))), Some(&key)).await;
        crash_point!("reply.before");
        response
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
