//! Writing down how a call ended, and what the caller is told of it.

use super::run::{Claimed, Ended, decide};
use crate::body::Response;
use crate::capture::Captured;
use crate::claim::Command;
use crate::engine::Shared;
use crate::header;
use crate::problem::Problem;
use crate::signal::Signal;
use http::HeaderValue;
use samekey_core::key::Scope;
use samekey_core::lease::Owner;
use samekey_core::policy::Policy;
use samekey_core::record::{Record, State};
use samekey_core::step::{Input, RetryAfter, Verdict};
use samekey_store::{Ledger, Seen, StoreError, Swap, crash_point};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a row that changed meanwhile is decided about anew. Only recovery and late owners write
/// to an open row, each a few times.
const DECISIONS_MAX: u32 = 8;
/// How long a caller waits for a store that fails; after that it is told to come back.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The first pause before a settlement is tried again; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause: a store that is back is not left waiting.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long an answer waits for its store. After an hour recovery knows as much.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A call that has ended, on its way to be settled.
pub(super) struct Settling<S> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) command: Arc<Command>,
    pub(super) claimed: Claimed,
}

/// What the row says once it was written, or could not be.
struct Written {
    verdict: Verdict,
    seen: Seen,
}

/// Settles, and gives the caller's answer. No answer leaves before it is stored.
pub(super) async fn settle<S: Ledger>(settling: Settling<S>, ended: Ended) -> Response {
    let route = settling.command.route.clone();
    let input = ended.input(settling.claimed.seen.record.hold(), &route);
    let deadline = Instant::now() + WAIT_MAX;
    let written = write_until(&settling, &input, Some(&settling.claimed), deadline).await;
    let Settling { shared, command, .. } = &settling;
    match written {
        Ok(written) => {
            crash_point!("external.settle-after");
            if !written.seen.record.is_open() {
                shared.hints.ended(&command.scope);
            }
            let signal = told(&written, &input);
            answer(shared, command, ended, (written, signal))
        }
        Err(error) => {
            shared.signals.emit(&route, Signal::StoreFailed(error.kind()));
            let problem = command.refuse(Problem::OutcomePending(RetryAfter::MIN), &shared.signals);
            settle_later(settling, input);
            problem
        }
    }
}

/// Goes on in the background; the task keeps the answer.
fn settle_later<S: Ledger>(settling: Settling<S>, input: Input) {
    let shared = Arc::clone(&settling.shared);
    let Ok(room) = Arc::clone(&shared.waiting_answers).try_acquire_owned() else {
        shared.signals.emit(&settling.command.route, Signal::AnswerLost);
        return;
    };
    let tasks = shared.tasks.clone();
    tasks.spawn(async move {
        let deadline = Instant::now() + PATIENCE;
        let signal = match write_until(&settling, &input, None, deadline).await {
            Ok(written) => told(&written, &input),
            Err(_) => Signal::AnswerLost,
        };
        settling.shared.signals.emit(&settling.command.route, signal);
        drop(room);
    });
}

async fn write_until<S: Ledger>(
    settling: &Settling<S>,
    input: &Input,
    claimed: Option<&Claimed>,
    deadline: Instant,
) -> Result<Written, StoreError> {
    let Settling { shared, command, .. } = settling;
    let mut known = claimed.map(|claimed| Seen {
        record: claimed.seen.record.clone(),
        // The store's clock as it was told, moved on by what passed since: only "since when" and the
        // retention are counted from it, and the retention counts from the end of the run at least.
        now: claimed.seen.now.plus(claimed.answered_at.elapsed()),
    });
    let mut pause = PAUSE_MIN;
    loop {
        match write(&*shared.store, &command.scope, input, known.take(), command.route.policy())
            .await
        {
            Ok(written) => return Ok(written),
            Err(error) if Instant::now() + pause >= deadline => return Err(error),
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(PAUSE_MAX);
            }
        }
    }
}

/// Writes what the machine says of the row, as often as somebody else was quicker.
async fn write<S: Ledger>(
    store: &S,
    scope: &Scope,
    input: &Input,
    known: Option<Seen>,
    policy: &Policy,
) -> Result<Written, StoreError> {
    let mut seen = match known {
        Some(seen) => seen,
        None => store.load(scope).await?,
    };
    crash_point!("external.settle-before", return Err(super::run::injected()));
    let mut tries = 1;
    loop {
        let (next, verdict, changed) = decide(&seen, input.clone(), policy);
        if !changed {
            return Ok(Written { verdict, seen });
        }
        match store.swap(scope, &seen.record, &next).await? {
            Swap::Written => {
                return Ok(Written { verdict, seen: Seen { record: next, now: seen.now } });
            }
            Swap::Changed(now) if tries < DECISIONS_MAX => seen = now,
            Swap::Changed(now) => return Ok(Written { verdict: Verdict::Stale, seen: now }),
        }
        tries += 1;
    }
}

/// What the caller is told.
fn answer<S>(
    shared: &Shared<S>,
    command: &Command,
    ended: Ended,
    (written, signal): (Written, Signal),
) -> Response {
    shared.signals.emit(&command.route, signal);
    match (ended, &written.verdict) {
        (Ended::Final(captured), Verdict::Settled)
        | (Ended::Nothing(captured), Verdict::Freed)
        // The operator vouches that it may run again.
        | (Ended::Doubt(_, Some(captured)), Verdict::Freed) => {
            command.first(captured.into_response())
        }
        (Ended::Unbegun, Verdict::Freed) => {
            Problem::StoreUnavailable.into_response(Some(&command.scope.key))
        }
        (Ended::Doubt(_, None), Verdict::Freed) => {
            Problem::OutcomePending(RetryAfter::MIN).into_response(Some(&command.scope.key))
        }
        (
            Ended::Doubt(_, Some(captured)),
            Verdict::OutcomePending(_) | Verdict::OutcomeUnknown,
        ) => command.first(in_doubt(captured)),
        (Ended::Doubt(_, None), Verdict::OutcomePending(wait)) => {
            Problem::OutcomePending(*wait).into_response(Some(&command.scope.key))
        }
        (Ended::Doubt(_, None), Verdict::OutcomeUnknown) => {
            Problem::OutcomeUnknown.into_response(Some(&command.scope.key))
        }
        // Somebody else holds the key by now: what the row says is the answer.
        (Ended::Final(_) | Ended::Nothing(_) | Ended::Unbegun | Ended::Doubt(..), _) => {
            by_row(shared, command, &written.seen)
        }
    }
}

/// What the row says to the one that lost it.
fn by_row<S>(shared: &Shared<S>, command: &Command, seen: &Seen) -> Response {
    match command.decide(seen) {
        // It would run again, but this request has made its call.
        Ok((_, Verdict::Run(_))) => {
            command.refuse(Problem::OutcomePending(RetryAfter::MIN), &shared.signals)
        }
        Ok((_, verdict)) => command.answer(verdict, &shared.signals).err().unwrap_or_else(|| {
            Problem::OutcomePending(RetryAfter::MIN).into_response(Some(&command.scope.key))
        }),
        Err(error) => command.store_failed(&error, &shared.signals),
    }
}

/// A server error of the counterparty goes to the caller as it came, and says nothing about the key. So
/// clients are told to send it again, also where a person decides: it runs nothing, and brings the row of the
/// table that says what is known.
fn in_doubt(captured: Captured) -> Response {
    let mut response = captured.into_response();
    let headers = response.headers_mut();
    headers.insert(header::STRIPE_SHOULD_RETRY, HeaderValue::from_static("true"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What an operator is told.
fn told(written: &Written, input: &Input) -> Signal {
    let said: [(bool, Signal); 5] = [
        (matches!(written.verdict, Verdict::Settled), Signal::Executed),
        (matches!(written.verdict, Verdict::Freed), Signal::Released),
        (matches!(written.verdict, Verdict::OutcomePending(_)), Signal::Doubted),
        (matches!(written.verdict, Verdict::OutcomeUnknown), Signal::HandedOver),
        (matches!(written.verdict, Verdict::Recorded), Signal::EvidenceRecorded),
    ];
    let told = said.into_iter().find(|(is, _)| *is).map(|(_, signal)| signal);
    told.unwrap_or_else(|| late(&written.seen.record, input))
}

/// Nobody waited for this any more. Where it is an answer, and the key has a new life or is free, somebody
/// had declared that nothing ran, and that was not true. An owner that only stopped contradicts nobody.
fn late(record: &Record, input: &Input) -> Signal {
    match &record.state {
        State::Free | State::Running(_) if matches!(input, Input::Settle(..)) => {
            Signal::Contradicted
        }
        State::Free | State::Running(_) => Signal::LeaseLost,
        State::Unknown(_) | State::Review(_) | State::Done(_) | State::Closed(_) => {
            Signal::LeaseLost
        }
    }
}

/// Frees a claim that may stand without its owner knowing. Nothing was sent under it.
pub(super) async fn give_back<S: Ledger>(
    shared: &Shared<S>,
    scope: &Scope,
    owner: Owner,
    policy: &Policy,
) {
    let deadline = Instant::now() + policy.lease;
    let mut pause = PAUSE_MIN;
    loop {
        if let Ok(seen) = shared.store.load(scope).await {
            // Where there is no row yet, the claim may still be on its way.
            let is_absent = seen.record == Record::ABSENT;
            if !is_absent && seen.record.holder != owner {
                return;
            }
            let release = Input::Release(seen.record.hold());
            if !is_absent
                && write(&*shared.store, scope, &release, Some(seen), policy).await.is_ok()
            {
                return;
            }
        }
        if Instant::now() + pause >= deadline {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(PAUSE_MAX);
    }
}
