//! Atomic commands on SQLite: the whole command is one job of the one writer.
//!
//! The writer's thread runs one command after another, each in a savepoint of a transaction that many
//! of them share, so a duplicate never meets an uncommitted row of another request: it is decided
//! when its turn comes.

use super::{Conclusion, Lead, Led, TRIES_MAX, TRY_PAUSE, conclude, too_long};
use crate::body::{Answer, BoxError, Request, Response, whole};
use crate::capture::Captured;
use crate::claim::Command;
use crate::engine::{Engine, Shared};
use crate::flight::{Herald, Leader};
use crate::problem::Problem;
use crate::route::{Caller, Route};
use crate::signal::Signal;
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use rusqlite::Connection;
use samekey_core::record::Record;
use samekey_core::step::{Input, RetryAfter, Verdict, step};
use samekey_store::sqlite::outbox::WriteTx;
use samekey_store::sqlite::{AtomicEnd, AtomicTx, SqliteLedger};
use samekey_store::{Arrived, Kind, Ledger, Seen, StoreError, Swap, crash_point};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A handler on the writer's thread.
struct OnWriter<H>(Arc<H>);

/// How a job ended, told once its group is committed.
enum Ended {
    /// The row answers; the handler was not called.
    Row(Seen),
    /// The handler's answer, and the row that was written with it.
    Stored(Captured, Seen),
    /// The handler's answer, of which nothing is stored.
    Passed(Captured),
    /// The handler failed.
    Failed,
    /// The handler panicked.
    Panicked,
    /// The store failed within the job.
    Store(StoreError),
}

impl<H, E> Lead<SqliteLedger> for OnWriter<H>
where
    H: Fn(&WriteTx<'_>, &Request) -> Result<Answer, E> + Send + Sync + 'static,
    E: Into<BoxError>,
{
    async fn keyed(
        self,
        shared: Arc<Shared<SqliteLedger>>,
        command: Command,
        leader: Leader,
    ) -> Response {
        let command = Arc::new(command);
        let ended = match command.offer() {
            None => shared.store.load(&command.scope).await.map(Ended::Row),
            Some(offer) => match looked_up(&shared, &command).await {
                Some(seen) => Ok(Ended::Row(seen)),
                None => {
                    crash_point!("claim.before");
                    self.run(&shared, &command, offer, &leader).await
                }
            },
        };
        let signals = &shared.signals;
        match ended {
            Ok(Ended::Row(seen)) => {
                let answer = match command.decide(&seen) {
                    Ok((_, verdict)) => command.answer(verdict, signals).err(),
                    Err(error) => Some(command.store_failed(&error, signals)),
                };
                if !seen.record.is_open() && seen.record.revision > 0 {
                    shared.hints.ended(&command.scope);
                    leader.ended(seen);
                }
                answer.unwrap_or_else(|| command.refuse(Problem::StoreUnavailable, signals))
            }
            Ok(Ended::Stored(captured, seen)) => {
                crash_point!("settle.after-commit");
                signals.emit(&command.route, Signal::Executed);
                shared.hints.ended(&command.scope);
                leader.ended(seen);
                command.first(captured.into_response())
            }
            Ok(Ended::Passed(captured)) => {
                signals.emit(&command.route, Signal::RolledBack);
                command.first(captured.into_response())
            }
            Ok(Ended::Failed) => command.refuse(Problem::HandlerFailed, signals),
            Ok(Ended::Panicked) => {
                signals.emit(&command.route, Signal::Panicked);
                Problem::HandlerFailed.into_response(Some(&command.scope.key))
            }
            // Whether it stands is told by the row, as soon as the file can be used again.
            Err(error) if error.may_have_committed() => {
                signals.emit(&command.route, Signal::StoreFailed(error.kind()));
                command.refuse(Problem::OutcomePending(RetryAfter::MIN), signals)
            }
            Ok(Ended::Store(error)) | Err(error) => command.store_failed(&error, signals),
        }
    }

    async fn unkeyed(
        self,
        shared: Arc<Shared<SqliteLedger>>,
        route: Route,
        request: Request,
    ) -> Response {
        let handler = self.0;
        let judged = route.clone();
        let written = shared
            .store
            .write_tx_within(route.policy().run_max, move |tx| {
                let ended = call(&*handler, tx, &request, &judged);
                let keep = match &ended {
                    Ended::Passed(captured) => {
                        matches!(conclude(&judged, captured), Conclusion::Keep(_))
                    }
                    Ended::Row(_)
                    | Ended::Stored(..)
                    | Ended::Failed
                    | Ended::Panicked
                    | Ended::Store(_) => false,
                };
                if keep { AtomicEnd::Commit(ended) } else { AtomicEnd::RollBack(ended) }
            })
            .await;
        match written {
            Ok(Ended::Passed(captured)) => {
                shared.signals.emit(&route, Signal::Unkeyed);
                captured.into_response()
            }
            Ok(Ended::Row(_) | Ended::Stored(..) | Ended::Failed) => {
                shared.signals.emit(&route, Signal::RolledBack);
                Problem::HandlerFailed.into_response(None)
            }
            Ok(Ended::Panicked) => {
                shared.signals.emit(&route, Signal::Panicked);
                Problem::HandlerFailed.into_response(None)
            }
            // Without a key nobody can ask again, and "nothing ran" may not be true.
            Err(error) if error.may_have_committed() => {
                shared.signals.emit(&route, Signal::CommitUnknown);
                Problem::OutcomeUnknown.into_response(None)
            }
            Ok(Ended::Store(error)) | Err(error) => {
                shared.signals.emit(&route, Signal::StoreFailed(error.kind()));
                Problem::StoreUnavailable.into_response(None)
            }
        }
    }
}

impl<H, E> OnWriter<H>
where
    H: Fn(&WriteTx<'_>, &Request) -> Result<Answer, E> + Send + Sync + 'static,
    E: Into<BoxError>,
{
    /// Runs the job, and again where another job ended the transaction that both shared, or where
    /// nobody knows whether it was committed: then the claim finds the row, or there is none.
    async fn run(
        &self,
        shared: &Shared<SqliteLedger>,
        command: &Arc<Command>,
        offer: Record,
        leader: &Leader,
    ) -> Result<Ended, StoreError> {
        let mut unknown = None;
        let mut pause = TRY_PAUSE;
        let mut tries = 1;
        loop {
            let (handler, herald) = (Arc::clone(&self.0), leader.herald());
            let (scope, owned) = (command.scope.clone(), Arc::clone(command));
            let job = move |tx: &AtomicTx<'_>| job(&*handler, &owned, &herald, tx);
            let run_max = command.route.policy().run_max;
            let ran = shared.store.atomic_within(run_max, scope, offer.clone(), job).await;
            let error = match ran {
                Ok(ended) => return Ok(ended),
                Err(error) => error,
            };
            if error.may_have_committed() {
                shared.signals.emit(&command.route, Signal::CommitUnknown);
                unknown = Some(error.clone());
            }
            let is_worth_it = unknown.is_some() || error.kind() == Kind::Conflict;
            if !is_worth_it || tries >= TRIES_MAX {
                return Err(unknown.unwrap_or(error));
            }
            tries += 1;
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
    }
}

/// The row of a key that has probably ended, if it has: read without the writer.
async fn looked_up(shared: &Shared<SqliteLedger>, command: &Command) -> Option<Seen> {
    if !shared.hints.probably_ended(&command.scope) {
        return None;
    }
    let seen = shared.store.load(&command.scope).await.ok()?;
    (!seen.record.is_open() && seen.record.request().is_some()).then_some(seen)
}

/// One command on the writer's thread: claim, handler, settlement.
fn job<H, E>(handler: &H, command: &Command, herald: &Herald, tx: &AtomicTx<'_>) -> AtomicEnd<Ended>
where
    H: Fn(&WriteTx<'_>, &Request) -> Result<Answer, E>,
    E: Into<BoxError>,
{
    // The row's clock was read before this, within this very job.
    let begun = Instant::now();
    let seen = match tx.arrived() {
        Arrived::Inserted(seen) => seen.clone(),
        Arrived::Found(seen) => match command.decide(seen) {
            Ok((next, Verdict::Run(_))) => match tx.reclaim(&next) {
                Ok(Swap::Written) => Seen { record: next, now: seen.now },
                Ok(Swap::Changed(seen)) => return AtomicEnd::RollBack(Ended::Row(seen)),
                Err(error) => return AtomicEnd::RollBack(Ended::Store(error)),
            },
            Ok(_) => return AtomicEnd::RollBack(Ended::Row(seen.clone())),
            Err(error) => return AtomicEnd::RollBack(Ended::Store(error)),
        },
    };
    herald.running(&seen);
    crash_point!("claim.after");
    crash_point!("call.before");
    let captured = match call(handler, &tx.application(), &command.request, &command.route) {
        Ended::Passed(captured) => captured,
        ended @ (Ended::Row(_)
        | Ended::Stored(..)
        | Ended::Failed
        | Ended::Panicked
        | Ended::Store(_)) => return AtomicEnd::RollBack(ended),
    };
    crash_point!("call.after");
    let receipt = match conclude(&command.route, &captured) {
        Conclusion::Keep(receipt) => receipt,
        Conclusion::Undo(receipt) => match tx.undo() {
            Ok(()) => receipt,
            Err(error) => return AtomicEnd::RollBack(Ended::Store(error)),
        },
        Conclusion::Discard => return AtomicEnd::RollBack(Ended::Passed(captured)),
    };
    let input = Input::Settle(seen.record.hold(), receipt);
    let now = tx.now().max(seen.now.plus(begun.elapsed()));
    let (next, _) = step(seen.record, input, now, command.route.policy());
    crash_point!("settle.before-commit");
    match tx.settle(&next) {
        Ok(Swap::Written) => AtomicEnd::Commit(Ended::Stored(captured, Seen { record: next, now })),
        // Nobody else writes meanwhile; the handler itself must have changed the row.
        Ok(Swap::Changed(_)) => AtomicEnd::RollBack(Ended::Store(StoreError::new(
            Kind::Misused,
            "the row of a command changed under its own transaction; handlers must leave the ledger's tables alone",
        ))),
        Err(error) => AtomicEnd::RollBack(Ended::Store(error)),
    }
}

/// Calls the handler and reads its answer. `Ended::Passed` is an answer that nobody has judged yet.
fn call<H, E>(handler: &H, tx: &WriteTx<'_>, request: &Request, route: &Route) -> Ended
where
    H: Fn(&WriteTx<'_>, &Request) -> Result<Answer, E>,
    E: Into<BoxError>,
{
    let (begun, run_max) = (Instant::now(), route.policy().run_max);
    let called = catch_unwind(AssertUnwindSafe(|| handler(tx, request)));
    // The store has broken off a statement that went on for too long. The handler's own code nobody can
    // break off; what it wrote is rolled back when it comes back at last.
    if begun.elapsed() > run_max && called.is_ok() {
        too_long(route);
        return Ended::Failed;
    }
    match called {
        Ok(Ok(answer)) => {
            let (head, body) = answer.into_parts();
            // A full body is there at once and cannot fail.
            let Some(Ok(body)) = body.collect().now_or_never() else { return Ended::Failed };
            let body = body.to_bytes();
            Ended::Passed(if body.len() > route.keep().body_bytes_max() {
                Captured::Long(http::Response::from_parts(head, whole(body)))
            } else {
                Captured::Whole { head, body }
            })
        }
        Ok(Err(error)) => {
            let error: BoxError = error.into();
            match error.downcast_ref::<rusqlite::Error>().and_then(full_disk) {
                Some(error) => Ended::Store(error),
                None => Ended::Failed,
            }
        }
        Err(_) => Ended::Panicked,
    }
}

/// A full disk met inside the handler is the store's failure and not the command's.
fn full_disk(error: &rusqlite::Error) -> Option<StoreError> {
    (error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)).then(|| {
        StoreError::new(
            Kind::Full,
            "the database's disk is full; free some room and send the command again",
        )
    })
}

impl Engine<SqliteLedger> {
    /// Runs a command in one transaction of SQLite together with its key, at most once.
    ///
    /// `handler` runs on the writer's own thread: it is given the connection, inside the open
    /// transaction, and the request, read to its end. It must not block on anything else, since every
    /// other write waits for it, and must not end the transaction. What its answer means:
    ///
    /// | handler's result | effects | stored |
    /// |---|---|---|
    /// | 2xx, 3xx | committed | the answer |
    /// | final 4xx | rolled back | the answer |
    /// | 401, 403, 407, 413, 421, 425, 429 | rolled back | nothing |
    /// | 408, 5xx, error, panic | rolled back | nothing |
    ///
    /// Whoever sends the key again gets what `docs/contract.md` says. The caller's identity must have
    /// been verified before.
    pub async fn atomic<H, E, R>(
        &self,
        route: &Route,
        caller: &Caller,
        request: http::Request<R>,
        handler: H,
    ) -> Response
    where
        H: Fn(&Connection, &Request) -> Result<Answer, E> + Send + Sync + 'static,
        E: Into<BoxError>,
        R: http_body::Body<Data = Bytes>,
    {
        let handler = move |tx: &WriteTx<'_>, request: &Request| handler(tx.connection(), request);
        self.atomic_tx(route, caller, request, handler).await
    }

    /// The same for a handler that also enqueues commands: they are in the outbox if and only if what else
    /// the handler wrote is committed, and are executed once at somebody else's by a courier.
    pub async fn atomic_tx<H, E, R>(
        &self,
        route: &Route,
        caller: &Caller,
        request: http::Request<R>,
        handler: H,
    ) -> Response
    where
        H: Fn(&WriteTx<'_>, &Request) -> Result<Answer, E> + Send + Sync + 'static,
        E: Into<BoxError>,
        R: http_body::Body<Data = Bytes>,
    {
        self.front(route, caller, request, Led(OnWriter(Arc::new(handler)))).await
    }
}
