//! Leading a key in a transaction of PostgreSQL, by tokio-postgres or sqlx.

use super::conflict::is_conflict;
use super::{Conclusion, Lead, TRIES_MAX, TRY_PAUSE, conclude, too_long};
use crate::body::{BoxError, Request, Response};
use crate::capture::Captured;
use crate::claim::Command;
use crate::engine::Shared;
use crate::flight::Leader;
use crate::problem::Problem;
use crate::route::Route;
use crate::signal::Signal;
use futures_util::FutureExt;
use samekey_core::record::Record;
use samekey_core::step::{Input, RetryAfter, Verdict, step};
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::{Kind, Seen, StoreError, Swap, crash_point};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::Instant;

/// The future of a handler in a transaction.
pub(crate) type Working<'a> = Pin<Box<dyn Future<Output = Result<Captured, BoxError>> + Send + 'a>>;

/// A handler, as a driver calls it.
pub(crate) trait Work<O>: Send + Sync + 'static {
    /// Runs the handler in the open transaction and reads its answer, as far as it is kept.
    fn run<'a>(&'a self, open: &'a mut O, request: Request, kept_bytes_max: usize) -> Working<'a>;
}

/// The lead of a handler.
pub(crate) struct InTransaction<W>(pub(crate) W);

/// Why a handler gave no answer. Whatever it wrote is rolled back.
enum Failure {
    /// The database wants to be asked again.
    Conflict,
    /// An error of its own.
    Error,
    /// It panicked.
    Panic,
    /// It ran longer than its route lets it.
    TooLong,
}

/// How one try ended.
enum Try {
    /// With an answer, and the committed row that the followers share, if there is one.
    Answer(Response, Option<Seen>),
    /// Nothing is committed, or nobody knows: try again.
    Again(StoreError),
}

impl<S, W> Lead<S> for InTransaction<W>
where
    S: AtomicLedger,
    W: Work<S::Open>,
{
    async fn keyed(self, shared: Arc<Shared<S>>, command: Command, leader: Leader) -> Response {
        // The answer of a commit whose acknowledgement was lost; it goes out only once the row says
        // that the commit stands.
        let mut unconfirmed: Option<Response> = None;
        let mut pause = TRY_PAUSE;
        let mut tries = 1;
        loop {
            let tried = self.try_once(&shared, &command, &leader, &mut unconfirmed).await;
            let error = match tried {
                Try::Answer(response, None) => return response,
                Try::Answer(response, Some(seen)) => {
                    shared.hints.ended(&command.scope);
                    leader.ended(seen);
                    return response;
                }
                Try::Again(error) => error,
            };
            if tries >= TRIES_MAX {
                if unconfirmed.is_some() {
                    shared.signals.emit(&command.route, Signal::StoreFailed(error.kind()));
                    return command
                        .refuse(Problem::OutcomePending(RetryAfter::MIN), &shared.signals);
                }
                return command.store_failed(&error, &shared.signals);
            }
            tries += 1;
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
    }

    async fn unkeyed(self, shared: Arc<Shared<S>>, route: Route, request: Request) -> Response {
        let mut tries = 1;
        loop {
            match self.try_unkeyed(&shared, &route, &request).await {
                Ok(response) => return response,
                Err(error) if error.kind() == Kind::Conflict && tries < TRIES_MAX => {
                    tries += 1;
                    tokio::time::sleep(TRY_PAUSE).await;
                }
                // Without a key nobody can ask again, and "nothing ran" may not be true.
                Err(error) if error.may_have_committed() || error.kind() == Kind::Ended => {
                    shared.signals.emit(&route, Signal::CommitUnknown);
                    return Problem::OutcomeUnknown.into_response(None);
                }
                Err(error) => {
                    tracing::warn!(route = route.name(), kind = ?error.kind(), error = %error, "store failed");
                    shared.signals.emit(&route, Signal::StoreFailed(error.kind()));
                    return Problem::StoreUnavailable.into_response(None);
                }
            }
        }
    }
}

impl<W> InTransaction<W> {
    async fn try_once<S>(
        &self,
        shared: &Shared<S>,
        command: &Command,
        leader: &Leader,
        unconfirmed: &mut Option<Response>,
    ) -> Try
    where
        S: AtomicLedger,
        W: Work<S::Open>,
    {
        let Some(offer) = command.offer() else {
            return look_up(shared, command)
                .await
                .unwrap_or_else(|error| failed(shared, command, &error));
        };
        if unconfirmed.is_none()
            && shared.hints.probably_ended(&command.scope)
            && let Ok(found) = look_up(shared, command).await
            && matches!(found, Try::Answer(_, Some(_)))
        {
            return found;
        }
        let wait = command.route.policy().wait;
        let asked = Instant::now();
        crash_point!("claim.before");
        let (open, seen) = match shared.store.begin(&command.scope, &offer, wait).await {
            Ok(Begun::Claimed(open, seen)) => (open, seen),
            Ok(Begun::Found(open, seen)) => {
                match take_found(shared, command, open, seen, unconfirmed).await {
                    Ok(taken) => taken,
                    Err(tried) => return tried,
                }
            }
            Ok(Begun::Busy) if unconfirmed.is_some() => {
                return Try::Again(StoreError::new(
                    Kind::CommitUnknown,
                    "a commit whose acknowledgement was lost has not ended yet",
                ));
            }
            Ok(Begun::Busy) => {
                // The holder may have committed since; else its row is still invisible, and the
                // truth is that it runs.
                return match look_up(shared, command).await {
                    Ok(Try::Answer(response, seen)) => Try::Answer(response, seen),
                    Ok(Try::Again(_)) => Try::Answer(
                        command.refuse(Problem::InProgress(RetryAfter::MIN), &shared.signals),
                        None,
                    ),
                    Err(error) => failed(shared, command, &error),
                };
            }
            Err(error) if unconfirmed.is_some() || error.kind() == Kind::Conflict => {
                return Try::Again(error);
            }
            Err(error) => return failed(shared, command, &error),
        };
        // The claim stands here, so an earlier commit that went unconfirmed never landed.
        *unconfirmed = None;
        leader.herald().running(&seen);
        crash_point!("claim.after");
        self.work(shared, command, open, seen, asked, unconfirmed).await
    }

    /// Calls the handler in its transaction and ends it as the answer says.
    ///
    /// `seen` has the clock of the transaction's begin, which came after `asked`. So what has passed
    /// since then is never less than what has passed on the database's clock, and a retention that is
    /// counted with it never ends too soon.
    async fn work<S>(
        &self,
        shared: &Shared<S>,
        command: &Command,
        mut open: S::Open,
        seen: Seen,
        asked: Instant,
        unconfirmed: &mut Option<Response>,
    ) -> Try
    where
        S: AtomicLedger,
        W: Work<S::Open>,
    {
        crash_point!("call.before");
        let captured = match self.call(&mut open, &command.request, &command.route).await {
            Ok(captured) => captured,
            Err(failure) => {
                if is_ended(&open.roll_back().await) {
                    return in_doubt(shared, command).await;
                }
                return match failure {
                    Failure::Conflict => Try::Again(conflict()),
                    Failure::Error | Failure::TooLong => {
                        Try::Answer(command.refuse(Problem::HandlerFailed, &shared.signals), None)
                    }
                    Failure::Panic => {
                        shared.signals.emit(&command.route, Signal::Panicked);
                        let key = Some(&command.scope.key);
                        Try::Answer(Problem::HandlerFailed.into_response(key), None)
                    }
                };
            }
        };
        crash_point!("call.after");
        let receipt = match conclude(&command.route, &captured) {
            Conclusion::Keep(receipt) => receipt,
            Conclusion::Undo(receipt) => {
                let undone = open.undo(&command.scope).await;
                if is_ended(&undone) {
                    drop(open);
                    return in_doubt(shared, command).await;
                }
                if let Err(error) = undone {
                    drop_back(open).await;
                    return retry_or_fail(shared, command, error);
                }
                receipt
            }
            Conclusion::Discard => {
                if is_ended(&open.roll_back().await) {
                    return in_doubt(shared, command).await;
                }
                shared.signals.emit(&command.route, Signal::RolledBack);
                return Try::Answer(command.first(captured.into_response()), None);
            }
        };
        let input = Input::Settle(seen.record.hold(), receipt);
        let now = seen.now.plus(asked.elapsed());
        let (next, _) = step(seen.record.clone(), input, now, command.route.policy());
        #[cfg(samekey_bugs)]
        if crate::bugs::planted("answer-before-stored") {
            let (scope, record) = (command.scope.clone(), seen.record.clone());
            tokio::spawn(async move {
                tokio::time::sleep(TRY_PAUSE).await;
                open.settle(&scope, &record, &next).await
            });
            return Try::Answer(command.first(captured.into_response()), None);
        }
        crash_point!("settle.before-commit");
        match open.settle(&command.scope, &seen.record, &next).await {
            Ok(()) => {
                crash_point!("settle.after-commit");
                shared.signals.emit(&command.route, Signal::Executed);
                Try::Answer(
                    command.first(captured.into_response()),
                    Some(Seen { record: next, now }),
                )
            }
            Err(error) if error.may_have_committed() => {
                shared.signals.emit(&command.route, Signal::CommitUnknown);
                *unconfirmed = Some(command.first(captured.into_response()));
                Try::Again(error)
            }
            Err(error) if error.kind() == Kind::Ended => in_doubt(shared, command).await,
            Err(error) => retry_or_fail(shared, command, error),
        }
    }

    async fn try_unkeyed<S>(
        &self,
        shared: &Shared<S>,
        route: &Route,
        request: &Request,
    ) -> Result<Response, StoreError>
    where
        S: AtomicLedger,
        W: Work<S::Open>,
    {
        let mut open = shared.store.begin_unkeyed().await?;
        let captured = match self.call(&mut open, request, route).await {
            Ok(captured) => captured,
            Err(failure) => {
                drop_back(open).await;
                let signal = match failure {
                    Failure::Conflict => return Err(conflict()),
                    Failure::Error | Failure::TooLong => Signal::RolledBack,
                    Failure::Panic => Signal::Panicked,
                };
                shared.signals.emit(route, signal);
                return Ok(Problem::HandlerFailed.into_response(None));
            }
        };
        match conclude(route, &captured) {
            Conclusion::Keep(_) => {
                open.commit_unkeyed().await?;
                shared.signals.emit(route, Signal::Unkeyed);
            }
            Conclusion::Undo(_) | Conclusion::Discard => drop_back(open).await,
        }
        Ok(captured.into_response())
    }

    /// Calls the handler and reads its answer, for as long as its route lets it.
    async fn call<O>(
        &self,
        open: &mut O,
        request: &Request,
        route: &Route,
    ) -> Result<Captured, Failure>
    where
        W: Work<O>,
    {
        let working = self.0.run(open, request.clone(), route.keep().body_bytes_max());
        let working = AssertUnwindSafe(working).catch_unwind();
        match tokio::time::timeout(route.policy().run_max, working).await {
            Ok(Ok(Ok(captured))) => Ok(captured),
            Ok(Ok(Err(error))) if is_conflict(&error) => Err(Failure::Conflict),
            Ok(Ok(Err(_))) => Err(Failure::Error),
            Ok(Err(_)) => Err(Failure::Panic),
            Err(_) => {
                too_long(route);
                Err(Failure::TooLong)
            }
        }
    }
}

fn conflict() -> StoreError {
    StoreError::new(Kind::Conflict, "the handler met a deadlock or a serialisation failure")
}

/// What a committed row means for a transaction that found it: run in it if it is free, else answer.
async fn take_found<S: AtomicLedger>(
    shared: &Shared<S>,
    command: &Command,
    mut open: S::Open,
    seen: Seen,
    unconfirmed: &mut Option<Response>,
) -> Result<(S::Open, Seen), Try> {
    let decided = command.decide(&seen);
    if let Ok((next, Verdict::Run(_))) = decided {
        return match open.reclaim(&command.scope, &seen.record, &next).await {
            Ok(Swap::Written) => Ok((open, Seen { record: next, now: seen.now })),
            Ok(Swap::Changed(_)) => {
                drop_back(open).await;
                Err(Try::Again(StoreError::new(
                    Kind::Conflict,
                    "a free key was taken by another request in the same moment",
                )))
            }
            Err(error) => {
                drop_back(open).await;
                Err(retry_or_fail(shared, command, error))
            }
        };
    }
    drop_back(open).await;
    if seen.record.holder == command.owner
        && let Some(response) = unconfirmed.take()
    {
        shared.signals.emit(&command.route, Signal::Executed);
        return Err(Try::Answer(response, Some(seen)));
    }
    *unconfirmed = None;
    Err(answered(shared, command, seen, decided))
}

/// Looks a key up without a transaction. `Try::Again` means that it is free to run.
async fn look_up<S: AtomicLedger>(
    shared: &Shared<S>,
    command: &Command,
) -> Result<Try, StoreError> {
    let seen = shared.store.load_committed(&command.scope).await?;
    let decided = command.decide(&seen);
    if let Ok((_, Verdict::Run(_))) = decided {
        return Ok(Try::Again(StoreError::new(Kind::Conflict, "the key is free")));
    }
    Ok(answered(shared, command, seen, decided))
}

fn answered<S>(
    shared: &Shared<S>,
    command: &Command,
    seen: Seen,
    decided: Result<(Record, Verdict), StoreError>,
) -> Try {
    match decided {
        Ok((_, verdict)) => match command.answer(verdict, &shared.signals) {
            Err(response) => {
                let ended = (!seen.record.is_open() && seen.record.revision > 0).then_some(seen);
                Try::Answer(response, ended)
            }
            Ok(_) => Try::Again(StoreError::new(Kind::Conflict, "the key is free")),
        },
        Err(error) => failed(shared, command, &error),
    }
}

fn retry_or_fail<S>(shared: &Shared<S>, command: &Command, error: StoreError) -> Try {
    if error.kind() == Kind::Conflict {
        return Try::Again(error);
    }
    failed(shared, command, &error)
}

fn failed<S>(shared: &Shared<S>, command: &Command, error: &StoreError) -> Try {
    Try::Answer(command.store_failed(error, &shared.signals), None)
}

/// Whether a transaction turned out to have been ended by its handler.
fn is_ended(ended: &Result<(), StoreError>) -> bool {
    ended.as_ref().is_err_and(|error| error.kind() == Kind::Ended)
}

/// A handler has ended its transaction by itself, so nobody knows what of its work stands. Its key must not run again by
/// itself: a person gets to see it.
async fn in_doubt<S: AtomicLedger>(shared: &Shared<S>, command: &Command) -> Try {
    let route = command.route.name();
    tracing::error!(
        route,
        "a handler ended its transaction by itself, and what it wrote may stand; leave commit and rollback to samekey"
    );
    let mut pause = TRY_PAUSE;
    for _ in 0..TRIES_MAX {
        let Some(offer) = command.offer_in_doubt() else { break };
        match shared.store.put_in_doubt(&command.scope, &offer, route).await {
            Ok(true) => break,
            Ok(false) => {
                tracing::error!(route, "its key has a row by now: look there, and for two effects");
                break;
            }
            Err(error) => {
                tracing::error!(route, kind = ?error.kind(), error = %error, "its key could not be kept for a person");
                shared.signals.emit(&command.route, Signal::StoreFailed(error.kind()));
            }
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2);
    }
    Try::Answer(command.refuse(Problem::OutcomeUnknown, &shared.signals), None)
}

/// Rolls back. Where that fails the connection is closed, which rolls back as well.
async fn drop_back<O: OpenTransaction>(open: O) {
    if let Err(error) = open.roll_back().await {
        tracing::debug!(kind = ?error.kind(), "rollback failed; the connection was closed");
    }
}
