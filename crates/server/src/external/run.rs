//! From the claim over the call to the settlement, each with nothing of the store's held open.

use super::lease::{Lease, UnderLease};
use super::settle::{self, Settling};
use super::{Call, Calling, External, Outcome, outbound, stored};
use crate::body::{Request, Response};
use crate::capture::Captured;
use crate::claim::Command;
use crate::engine::Shared;
use crate::front::Mode;
use crate::problem::Problem;
use crate::route::Route;
use crate::signal::Signal;
use futures_util::FutureExt;
use samekey_core::lease::Hold;
use samekey_core::outcome::Ending;
use samekey_core::policy::{Counterparty, OnServerError, Policy};
use samekey_core::record::{Reason, Record, State};
use samekey_core::step::{Input, RetryAfter, Verdict, step};
#[cfg(debug_assertions)]
use samekey_store::Kind;
use samekey_store::{Arrived, Intent, Ledger, Seen, StoreError, Swap, crash_point};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a claim is tried at the most: once, and four times more after a lost acknowledgement or
/// where another request was quicker each time.
const TRIES_MAX: u32 = 5;
/// The pause before the next try; it doubles.
const TRY_PAUSE: Duration = Duration::from_millis(20);

/// How long a call goes on whose lease is over and that sends nothing more: what came while the process
/// stood still lies there already, and its caller waits.
const HEAR_TIME_MAX: Duration = Duration::from_secs(1);

/// The mode of external commands.
pub(super) struct Calls<S, F> {
    pub(super) external: External<S>,
    pub(super) call: F,
}

/// A claim that stands. Whoever has one may call once, and settles it.
#[must_use = "a claim that is not settled is unknown when its lease ends"]
pub(super) struct Claimed {
    /// The row as it was claimed.
    pub(super) seen: Seen,
    /// A moment before the store was asked: a lease counted from here ends too early rather than too
    /// late.
    pub(super) asked_at: Instant,
    /// A moment after it had answered: its clock counted from here is behind rather than ahead.
    pub(super) answered_at: Instant,
}

/// What a call came to.
pub(super) enum Ended {
    /// The answer is final.
    Final(Captured),
    /// Nothing ran; the caller gets this.
    Nothing(Captured),
    /// The call was never begun: nothing was sent, and the key is given back.
    Unbegun,
    /// Nobody knows. The counterparty's answer goes to the caller, if there is one.
    Doubt(Reason, Option<Captured>),
}

impl<S, F> Mode<S> for Calls<S, F>
where
    S: Ledger,
    F: FnOnce(Call) -> Calling + Send + 'static,
{
    async fn keyed(self, shared: Arc<Shared<S>>, command: Command) -> Response {
        let outbound_key = match self.external.0.secret.key(&command.scope, command.route.name()) {
            Ok(key) => key,
            Err(error) => return command.store_failed(&error, &shared.signals),
        };
        let policy = command.route.policy();
        let stored = || stored::encode(&command.request, &policy.semantic_headers);
        let intent = Intent {
            route: command.route.name().to_owned(),
            outbound_key,
            request: is_asked(policy).then(stored),
        };
        let claimed = match claim(&self.external, &shared, &command, &intent).await {
            Ok(claimed) => claimed,
            Err(response) => return response,
        };
        crash_point!("external.claim-after");
        let lease = Lease::of(&shared, &command, &claimed);
        let sha = Some(command.request_sha());
        let call = Call::new(command.request.clone(), outbound_key, sha, Some(lease.deadline()));
        let ended = see_through(self.call, call, &command.route, Some(lease)).await;
        crash_point!("external.call-after");
        let command = Arc::new(command);
        settle::settle(Settling { shared, command, claimed }, ended).await
    }

    async fn unkeyed(self, shared: Arc<Shared<S>>, route: Route, request: Request) -> Response {
        let outbound_key = match outbound::fresh() {
            Ok(key) => key,
            Err(error) => {
                shared.signals.emit(&route, Signal::StoreFailed(error.kind()));
                return Problem::StoreUnavailable.into_response(None);
            }
        };
        let call = Call::new(request, outbound_key, None, None);
        let ended = see_through::<S, F>(self.call, call, &route, None).await;
        shared.signals.emit(&route, Signal::Unkeyed);
        match ended {
            Ended::Final(captured) | Ended::Nothing(captured) | Ended::Doubt(_, Some(captured)) => {
                captured.into_response()
            }
            Ended::Unbegun => Problem::StoreUnavailable.into_response(None),
            // Without a key nobody can ask again.
            Ended::Doubt(_, None) => Problem::OutcomeUnknown.into_response(None),
        }
    }
}

fn is_asked(policy: &Policy) -> bool {
    match policy.counterparty {
        Counterparty::Opaque => false,
        Counterparty::Answers { .. } | Counterparty::Dedups { .. } => true,
    }
}

/// Claims the key, or gives the answer of its row.
async fn claim<S: Ledger>(
    external: &External<S>,
    shared: &Arc<Shared<S>>,
    command: &Command,
    intent: &Intent,
) -> Result<Claimed, Response> {
    let mut pause = TRY_PAUSE;
    let mut may_stand = false;
    let mut tries = 1;
    loop {
        let asked_at = Instant::now();
        let error = match try_claim(external, shared, command, intent).await {
            Ok(Tried::Claimed(seen)) => {
                return Ok(Claimed { seen, asked_at, answered_at: Instant::now() });
            }
            Ok(Tried::Row(verdict)) => {
                let answer = command.answer(verdict, &shared.signals);
                // A verdict to run has become a claim.
                return Err(answer.err().unwrap_or_else(|| {
                    Problem::StoreUnavailable.into_response(Some(&command.scope.key))
                }));
            }
            // Somebody was quicker; the row says something else now.
            Ok(Tried::Overtaken) => None,
            Err(error) => Some(error),
        };
        may_stand |= error.as_ref().is_some_and(StoreError::may_have_committed);
        let again = error.as_ref().is_none_or(|error| error.is_transient() || may_stand);
        if !again || tries >= TRIES_MAX {
            if may_stand {
                let (shared, scope, owner) =
                    (Arc::clone(shared), command.scope.clone(), command.owner);
                let policy = command.route.policy().clone();
                let tasks = shared.tasks.clone();
                // Nothing was sent, so the claim is given back as soon as the store can be reached.
                tasks
                    .spawn(async move { settle::give_back(&shared, &scope, owner, &policy).await });
            }
            return Err(match error {
                Some(error) => command.store_failed(&error, &shared.signals),
                None => command.refuse(Problem::InProgress(RetryAfter::MIN), &shared.signals),
            });
        }
        tries += 1;
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2);
    }
}

/// What a crash point gives where the store is asked.
#[cfg(debug_assertions)]
pub(crate) fn injected() -> StoreError {
    StoreError::new(Kind::Unreachable, "a crash point took the store away")
}

/// How one try to claim ended.
enum Tried {
    Claimed(Seen),
    Row(Verdict),
    Overtaken,
}

async fn try_claim<S: Ledger>(
    external: &External<S>,
    shared: &Shared<S>,
    command: &Command,
    intent: &Intent,
) -> Result<Tried, StoreError> {
    let store = &shared.store;
    crash_point!("external.claim-before", return Err(injected()));
    let lost = match external.restored() {
        Some(restored) => {
            let seen = store.load(&command.scope).await?;
            restored.is_in_force(seen.now)
        }
        None => false,
    };
    if shared.hints.probably_ended(&command.scope) {
        let seen = store.load(&command.scope).await?;
        let (_, verdict) = command.decide(&seen)?;
        if !seen.record.is_open() && !matches!(verdict, Verdict::Run(_)) {
            return Ok(Tried::Row(verdict));
        }
    }
    let offer = if lost { command.offer_after_loss() } else { command.offer() };
    let seen = match offer {
        None => store.load(&command.scope).await?,
        Some(offer) => match store.insert_or_load(&command.scope, &offer, intent).await? {
            Arrived::Inserted(seen) if matches!(seen.record.state, State::Running(_)) => {
                return Ok(Tried::Claimed(seen));
            }
            Arrived::Inserted(seen) | Arrived::Found(seen) => seen,
        },
    };
    let (next, verdict) = command.decide(&seen)?;
    let runs = matches!(verdict, Verdict::Run(_));
    if next.revision == seen.record.revision {
        if !seen.record.is_open() && !runs {
            shared.hints.ended(&command.scope);
        }
        // An unchanged row that says "run" is this request's own claim, whose acknowledgement was lost.
        return Ok(if runs { Tried::Claimed(seen) } else { Tried::Row(verdict) });
    }
    let swap = if next.is_open() && !seen.record.is_open() {
        store.reclaim(&command.scope, &seen.record, &next, intent).await?
    } else {
        // A lease that is over: written at once, so that a person sees it where nobody asks.
        store.swap(&command.scope, &seen.record, &next).await?
    };
    Ok(match swap {
        Swap::Changed(_) => Tried::Overtaken,
        Swap::Written => {
            let seen = Seen { record: next, now: seen.now };
            if runs { Tried::Claimed(seen) } else { Tried::Row(verdict) }
        }
    })
}

/// Makes the call and reads its answer as far as it is kept, for as long as the lease lasts.
async fn see_through<S, F>(
    call: F,
    given: Call,
    route: &Route,
    lease: Option<Lease<'_, S>>,
) -> Ended
where
    S: Ledger,
    F: FnOnce(Call) -> Calling,
{
    let kept_bytes_max = route.keep().body_bytes_max();
    let run_max = route.policy().run_max;
    let working = AssertUnwindSafe(async move {
        crash_point!("external.call-before", return Ended::Doubt(Reason::HandlerFailed, None));
        match call(given).await {
            Ok(Outcome::Finished(answer)) => read(answer.read(kept_bytes_max).await),
            Ok(Outcome::NotStarted(answer)) => match answer.read(kept_bytes_max).await {
                Ok(captured) => Ended::Nothing(captured),
                Err(_) => Ended::Doubt(Reason::HandlerFailed, None),
            },
            Ok(Outcome::Unknown(reason)) => Ended::Doubt(reason, None),
            Err(_) => Ended::Doubt(Reason::HandlerFailed, None),
        }
    });
    let working = working.catch_unwind();
    let ended: std::thread::Result<Ended> = match lease {
        Some(lease) => {
            let deadline = lease.deadline();
            let mut working = UnderLease { call: Box::pin(working), deadline: deadline.clone() };
            let known = |ended: std::thread::Result<Ended>| {
                ended
                    .unwrap_or(Ended::Doubt(Reason::HandlerPanicked, None))
                    .by_policy(route.policy())
            };
            let given_up = tokio::select! {
                biased;
                reason = lease.keep() => reason,
                ended = &mut working => match ended {
                    Some(ended) => return known(ended),
                    None => Reason::LeaseLapsed,
                },
            };
            // It sends nothing any more, and what it has been told by now is evidence.
            if deadline.is_watched()
                && let Ok(Some(ended)) = tokio::time::timeout(HEAR_TIME_MAX, working).await
            {
                return known(ended);
            }
            // The store took so long over the claim that its lease was over before the call began.
            return if deadline.has_begun() {
                Ended::Doubt(given_up, None)
            } else {
                Ended::Unbegun
            };
        }
        None => match tokio::time::timeout(run_max, working).await {
            Ok(ended) => ended,
            Err(_) => return Ended::Doubt(Reason::TimedOut, None),
        },
    };
    ended.unwrap_or(Ended::Doubt(Reason::HandlerPanicked, None)).by_policy(route.policy())
}

fn read(captured: Result<Captured, crate::BoxError>) -> Ended {
    match captured {
        Ok(captured) => Ended::Final(captured),
        // A status came and the rest did not: it was executed or it was not.
        Err(_) => Ended::Doubt(Reason::ConnectionLost, None),
    }
}

impl Ended {
    /// What a status means on this route.
    fn by_policy(self, policy: &Policy) -> Ended {
        let Ended::Final(captured) = self else { return self };
        #[cfg(samekey_bugs)]
        if captured.status() >= 500 && crate::bugs::planted("5xx-frees-key") {
            return Ended::Nothing(captured);
        }
        match Ending::of_status(captured.status()) {
            Ending::Success | Ending::Refused => Ended::Final(captured),
            Ending::NotNow => Ended::Nothing(captured),
            Ending::Failed => match policy.on_server_error {
                OnServerError::Unknown => Ended::Doubt(Reason::ServerError, Some(captured)),
                OnServerError::Store => Ended::Final(captured),
                OnServerError::Free => Ended::Nothing(captured),
            },
        }
    }

    /// What the machine is told.
    pub(super) fn input(&self, hold: Hold, route: &Route) -> Input {
        match self {
            Ended::Final(captured) => Input::Settle(hold, captured.receipt(route)),
            Ended::Nothing(_) | Ended::Unbegun => Input::Release(hold),
            Ended::Doubt(reason, _) => Input::Doubt(hold, *reason),
        }
    }
}

/// The end of a running record's lease.
pub(super) fn lease_of(
    record: &Record,
) -> Option<(samekey_core::time::Time, samekey_core::time::Time)> {
    match &record.state {
        State::Running(running) => Some((running.lease_ends, running.run_ends)),
        State::Free | State::Unknown(_) | State::Review(_) | State::Done(_) | State::Closed(_) => {
            None
        }
    }
}

/// The machine's word on a row, and whether it has to be written.
pub(super) fn decide(seen: &Seen, input: Input, policy: &Policy) -> (Record, Verdict, bool) {
    let (next, verdict) = step(seen.record.clone(), input, seen.now, policy);
    let changed = next.revision != seen.record.revision;
    (next, verdict, changed)
}
