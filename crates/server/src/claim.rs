//! From a request to what the machine is asked, and from what it says to an answer.

use crate::body::{Request, Response, whole};
use crate::capture::empty;
use crate::header;
use crate::problem::{Problem, echo_key};
use crate::route::{Caller, Route};
use crate::signal::{Signal, Signals};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use samekey_core::fingerprint::{self, Algorithms, Version};
use samekey_core::key::Scope;
use samekey_core::lease::{Hold, Owner};
use samekey_core::policy::ReplayStatus;
use samekey_core::receipt::{Answer, Receipt};
#[cfg(any(feature = "postgres", feature = "sqlx"))]
use samekey_core::record::Reason;
use samekey_core::record::{Identity, Record};
use samekey_core::step::{Arrival, Claim, Input, Verdict, step};
use samekey_core::time::Time;
use samekey_store::{Kind, Seen, StoreError};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// A keyed command on its way: everything that deciding about it needs.
pub(crate) struct Command {
    pub(crate) scope: Scope,
    pub(crate) route: Route,
    pub(crate) request: Request,
    pub(crate) arrival: Arrival,
    /// One token for all tries of this request, by which it recognises its own commit.
    pub(crate) owner: Owner,
    principal_sha: Option<[u8; 32]>,
    algorithms: Algorithms,
    current: Identity,
}

impl Command {
    pub(crate) fn new(
        scope: Scope,
        route: Route,
        caller: &Caller,
        request: Request,
        algorithms: Algorithms,
    ) -> Result<Command, StoreError> {
        let principal_sha = match &caller.principal {
            Some(principal) if route.policy().bind_principal => {
                Some(Sha256::digest(principal.as_bytes()).into())
            }
            Some(_) | None => None,
        };
        // Repeated and invalid values count as `1` (RFC 8470, section 5.1): a proxy may have added its
        // own to what a client had sent.
        let arrival = if request.headers().contains_key(header::EARLY_DATA) {
            Arrival::Early
        } else {
            Arrival::Ordinary
        };
        let current =
            identity(&algorithms, algorithms.current().version, &route, &request, principal_sha)
                .ok_or_else(unknown_version)?;
        let owner = new_owner()?;
        Ok(Command { scope, route, request, arrival, owner, principal_sha, algorithms, current })
    }

    /// The fingerprint by the current algorithm.
    pub(crate) fn request_sha(&self) -> [u8; 32] {
        self.current.digest.request_sha
    }

    /// The record that a free key would get, its times counted from the epoch; nothing where this
    /// request may not start an execution.
    pub(crate) fn offer(&self) -> Option<Record> {
        let claim = Claim { request: self.current, owner: self.owner, arrival: self.arrival };
        let (offer, verdict) =
            step(Record::ABSENT, Input::Claim(claim), Time::EPOCH, self.route.policy());
        matches!(verdict, Verdict::Run(_)).then_some(offer)
    }

    /// What is offered to a key whose handler has ended its transaction by itself: a record that waits for a person,
    /// since nobody can be asked what of its work stands.
    #[cfg(any(feature = "postgres", feature = "sqlx"))]
    pub(crate) fn offer_in_doubt(&self) -> Option<Record> {
        let offer = self.offer()?;
        let input = Input::Doubt(offer.hold(), Reason::HandlerFailed);
        let (doubted, _) = step(offer, input, Time::EPOCH, self.route.policy());
        Some(doubted)
    }

    /// As [`Command::offer`], where the store was restored and may have lost an execution: the record
    /// waits for an answer.
    pub(crate) fn offer_after_loss(&self) -> Option<Record> {
        let claim = Claim { request: self.current, owner: self.owner, arrival: self.arrival };
        let input = Input::ClaimAfterLoss(claim);
        let (offer, _) = step(Record::ABSENT, input, Time::EPOCH, self.route.policy());
        (offer != Record::ABSENT).then_some(offer)
    }

    /// Asks the machine what this request gets from a row.
    pub(crate) fn decide(&self, seen: &Seen) -> Result<(Record, Verdict), StoreError> {
        let request = match seen.record.request() {
            Some(stored) if stored.version != self.current.version => identity(
                &self.algorithms,
                stored.version,
                &self.route,
                &self.request,
                self.principal_sha,
            )
            .ok_or_else(unknown_version)?,
            Some(_) | None => self.current,
        };
        let claim = Claim { request, owner: self.owner, arrival: self.arrival };
        let now = seen.now;
        #[cfg(samekey_bugs)]
        let now = crate::bugs::now(now);
        Ok(step(seen.record.clone(), Input::Claim(claim), now, self.route.policy()))
    }

    /// The answer of a row to this request, or the hold to run under.
    pub(crate) fn answer(&self, verdict: Verdict, signals: &Signals) -> Result<Hold, Response> {
        let problem = match verdict {
            Verdict::Run(hold) => return Ok(hold),
            Verdict::Replay(Receipt::Kept(answer)) => {
                signals.emit(&self.route, Signal::Replayed);
                return Err(self.replay(&answer));
            }
            Verdict::Replay(Receipt::Fact { status, location }) => {
                Problem::ResponseNotKept { status, location }
            }
            Verdict::Mismatch => Problem::KeyReused(self.route.policy().mismatch_status),
            Verdict::InProgress(wait) => Problem::InProgress(wait),
            Verdict::OutcomePending(wait) => Problem::OutcomePending(wait),
            Verdict::OutcomeUnknown => Problem::OutcomeUnknown,
            Verdict::Closed => Problem::ClosedByOperator,
            Verdict::TooEarly => Problem::TooEarly,
            // A claim is never told any of these; saying that nothing ran is true for all of them.
            Verdict::Renewed(_)
            | Verdict::RunOver
            | Verdict::Settled
            | Verdict::Freed
            | Verdict::Recorded
            | Verdict::Stale
            | Verdict::Ask(_)
            | Verdict::NotDue
            | Verdict::AskAgain(_)
            | Verdict::HandedOver
            | Verdict::Decided
            | Verdict::Forgotten
            | Verdict::StaleView
            | Verdict::Swept
            | Verdict::Kept => Problem::StoreUnavailable,
        };
        Err(self.refuse(problem, signals))
    }

    /// The answer to a problem, signalled.
    pub(crate) fn refuse(&self, problem: Problem, signals: &Signals) -> Response {
        let signal = match problem {
            Problem::KeyReused(_) => Signal::Mismatched,
            Problem::InProgress(_) => Signal::InProgress,
            Problem::HandlerFailed => Signal::RolledBack,
            Problem::KeyMissing
            | Problem::KeyInvalid(_)
            | Problem::OutcomePending(_)
            | Problem::OutcomeUnknown
            | Problem::ResponseNotKept { .. }
            | Problem::ClosedByOperator
            | Problem::UpstreamUnreached
            | Problem::StoreUnavailable
            | Problem::BodyTooLarge(_)
            | Problem::TooEarly => Signal::Refused,
        };
        signals.emit(&self.route, signal);
        problem.into_response(Some(&self.scope.key))
    }

    /// The answer to a failure of the store before anything was committed.
    pub(crate) fn store_failed(&self, error: &StoreError, signals: &Signals) -> Response {
        tracing::warn!(route = self.route.name(), kind = ?error.kind(), error = %error, "store failed");
        signals.emit(&self.route, Signal::StoreFailed(error.kind()));
        Problem::StoreUnavailable.into_response(Some(&self.scope.key))
    }

    /// A first answer on its way to the caller.
    pub(crate) fn first(&self, mut response: Response) -> Response {
        echo_key(&mut response, Some(&self.scope.key));
        response
    }

    fn replay(&self, answer: &Answer) -> Response {
        #[cfg(samekey_bugs)]
        let answer = &crate::bugs::replayed(answer);
        let status = match self.route.policy().replay_status {
            ReplayStatus::Fixed(fixed) if (200..=299).contains(&answer.status) => fixed,
            ReplayStatus::Fixed(_) | ReplayStatus::Stored => answer.status,
        };
        let body = if answer.body.is_empty() { empty() } else { whole(answer.body.clone()) };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        let headers = response.headers_mut();
        for (name, value) in &answer.headers {
            // They were valid when they were kept; a damaged one is left out rather than guessed.
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
            {
                headers.append(name, value);
            }
        }
        headers.insert(header::IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        echo_key(&mut response, Some(&self.scope.key));
        response
    }
}

fn identity(
    algorithms: &Algorithms,
    version: Version,
    route: &Route,
    request: &Request,
    principal_sha: Option<[u8; 32]>,
) -> Option<Identity> {
    let algorithm = algorithms.get(version)?;
    let headers = request.headers();
    let content_type = joined(headers, http::header::CONTENT_TYPE);
    let content_encoding = joined(headers, http::header::CONTENT_ENCODING);
    let mut semantic: Vec<(&str, &[u8])> = Vec::new();
    for name in &route.policy().semantic_headers {
        for value in headers.get_all(name) {
            semantic.push((name, value.as_bytes()));
        }
    }
    let uri = full_uri(request);
    let digest = (algorithm.digest)(
        &fingerprint::Request {
            method: request.method().as_str(),
            path: uri.path().as_bytes(),
            query: uri.query().map(str::as_bytes),
            content_type: content_type.as_deref(),
            content_encoding: content_encoding.as_deref(),
            semantic: &semantic,
            body: request.body(),
        },
        route.policy().fingerprint,
    );
    Some(Identity { version, digest, principal_sha })
}

/// A header's value; of several lines one, with commas between them, so that none is overlooked.
fn joined(headers: &HeaderMap, name: HeaderName) -> Option<Cow<'_, [u8]>> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next()?;
    let mut value = Cow::Borrowed(first.as_bytes());
    for line in lines {
        let all = value.to_mut();
        all.extend_from_slice(b", ");
        all.extend_from_slice(line.as_bytes());
    }
    Some(value)
}

/// The target as the caller sent it: a nested router may have cut a prefix off the request's own.
#[cfg(feature = "axum")]
pub(crate) fn full_uri(request: &Request) -> &http::Uri {
    request
        .extensions()
        .get::<axum::extract::OriginalUri>()
        .map_or_else(|| request.uri(), |original| &original.0)
}

#[cfg(not(feature = "axum"))]
pub(crate) fn full_uri(request: &Request) -> &http::Uri {
    request.uri()
}

fn unknown_version() -> StoreError {
    StoreError::new(
        Kind::Damaged,
        "a record's fingerprint was made by an algorithm that this version does not have; upgrade this process to the version that wrote it",
    )
}

/// A token from the operating system's randomness.
pub(crate) fn new_owner() -> Result<Owner, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| StoreError::new(Kind::Other, "the operating system gave no randomness"))?;
    Ok(Owner::from_bytes(bytes))
}
