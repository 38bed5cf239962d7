//! Keeping a claim while its call is made.

use super::run::{Claimed, decide, lease_of};
use crate::claim::Command;
use crate::engine::Shared;
use crate::signal::Signal;
use samekey_core::record::{Reason, Record};
use samekey_core::step::{Input, Verdict};
use samekey_core::time::Time;
use samekey_store::{Ledger, StoreError, Swap, crash_point};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// A lease that is over for the store is over for its owner a tenth of a lease earlier: so far may the
/// two clocks run apart in one lease, and a request that is being sent gets away.
const MARGIN_PART: u32 = 10;
/// The lease is renewed when half of it is over, and then more often until it works.
const RENEW_PART: u32 = 2;
/// The pause after a renewal that failed, as a part of the lease.
const AGAIN_PART: u32 = 20;

/// The lease of one claim. It trusts the store's clock, and its own only to stop sooner.
pub(super) struct Lease<'a, S> {
    shared: &'a Shared<S>,
    command: &'a Command,
    record: Record,
    /// From here on the claim is no longer this process's to call under.
    deadline: Deadline,
    /// From here on a renewal is due.
    renew_at: Instant,
}

/// The moment from which on nothing may be sent any more, shared by who renews and who calls.
#[derive(Clone, Debug)]
pub(super) struct Deadline {
    from: Instant,
    micros: Arc<AtomicU64>,
    /// Whether the call was begun; before that nothing can have been sent.
    begun: Arc<AtomicBool>,
    /// Whether the call itself sees to it that nothing is sent when this is over.
    watched: Arc<AtomicBool>,
}

impl Deadline {
    fn new(from: Instant) -> Deadline {
        Deadline { from, micros: Arc::default(), begun: Arc::default(), watched: Arc::default() }
    }

    fn put(&self, at: Instant) {
        let micros = u64::try_from(at.duration_since(self.from).as_micros()).unwrap_or(u64::MAX);
        self.micros.store(micros, Ordering::SeqCst);
    }

    fn at(&self) -> Instant {
        self.from + Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }

    /// Whether the call was begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.at()
    }

    /// Whether the call goes on although this is over, to hear what has come.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    /// For a call that looks at it before each write.
    pub(super) fn watch(&self) -> CallLease {
        self.watched.store(true, Ordering::SeqCst);
        CallLease(self.clone())
    }
}

/// The lease of a call, for a call that looks at it before each write.
///
/// Without this, a call whose lease is over is dropped at that moment, and with it an answer that has come
/// already: a process that was stopped for a minute wakes up with the answer in its socket and a lease that is
/// over. Whoever takes this promises that nothing is sent any more once [`CallLease::is_over`] says so. In return
/// the call goes on for a second after its lease, and the answer that it hears then is evidence: it settles a key
/// that waits for a person, or is kept for whoever holds the key by then.
#[derive(Clone, Debug)]
pub struct CallLease(Deadline);

impl CallLease {
    /// Whether nothing may be sent any more.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// A call that goes no further once its deadline is over. Every step looks at the clock: a process that
/// stood still for a minute wakes up in the middle of its call, and timers tell it later than sockets do.
pub(super) struct UnderLease<F> {
    pub(super) call: Pin<Box<F>>,
    pub(super) deadline: Deadline,
}

impl<F: Future> Future for UnderLease<F> {
    /// Nothing where the deadline was over, unless the call sends nothing by itself then.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if self.deadline.is_over() && !(self.deadline.has_begun() && self.deadline.is_watched()) {
            return Poll::Ready(None);
        }
        self.deadline.begun.store(true, Ordering::SeqCst);
        self.call.as_mut().poll(context).map(Some)
    }
}

/// What a renewal came to.
enum Renewal {
    /// Until when, from the moment before it was asked for.
    Until(Record, Duration),
    /// There is no more.
    Over(Reason),
}

impl<'a, S: Ledger> Lease<'a, S> {
    pub(super) fn of(
        shared: &'a Shared<S>,
        command: &'a Command,
        claimed: &Claimed,
    ) -> Lease<'a, S> {
        let record = claimed.seen.record.clone();
        let deadline = Deadline::new(claimed.asked_at);
        let mut lease = Lease { shared, command, record, deadline, renew_at: claimed.asked_at };
        let left = lease_of(&lease.record)
            .map_or(Duration::ZERO, |(ends, _)| ends.since(claimed.seen.now));
        lease.lasts(claimed.asked_at, left);
        lease
    }

    /// The moment from which on nothing may be sent.
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline.clone()
    }

    fn policy(&self) -> &samekey_core::policy::Policy {
        self.command.route.policy()
    }

    fn lasts(&mut self, from: Instant, left: Duration) {
        let lease = self.policy().lease;
        self.deadline.put(from + left.saturating_sub(lease / MARGIN_PART));
        self.renew_at = (from + left / RENEW_PART).min(self.deadline.at());
    }

    /// Renews until that is no longer possible, and says why. Whatever waits for the call stops then.
    pub(super) async fn keep(mut self) -> Reason {
        loop {
            if self.is_last() {
                tokio::time::sleep_until(self.deadline.at()).await;
                return Reason::TimedOut;
            }
            tokio::time::sleep_until(self.renew_at).await;
            if self.deadline.is_over() {
                return Reason::LeaseLapsed;
            }
            let asked_at = Instant::now();
            match tokio::time::timeout_at(self.deadline.at(), self.renew()).await {
                Ok(Ok(Renewal::Until(record, left))) => {
                    self.record = record;
                    self.lasts(asked_at, left);
                    crash_point!("external.renewed");
                    self.shared.signals.emit(&self.command.route, Signal::Renewed);
                }
                Ok(Ok(Renewal::Over(reason))) => return reason,
                Ok(Err(error)) => {
                    tracing::warn!(
                        route = self.command.route.name(),
                        kind = ?error.kind(),
                        error = %error,
                        "a lease could not be renewed"
                    );
                    self.renew_at =
                        (asked_at + self.policy().lease / AGAIN_PART).min(self.deadline.at());
                }
                Err(_) => return Reason::LeaseLapsed,
            }
        }
    }

    /// Whether the lease already goes to the end of all renewals.
    fn is_last(&self) -> bool {
        lease_of(&self.record).is_none_or(|(ends, run_ends): (Time, Time)| ends >= run_ends)
    }

    async fn renew(&self) -> Result<Renewal, StoreError> {
        let store = &self.shared.store;
        let seen = store.load(&self.command.scope).await?;
        let input = Input::Renew(self.record.hold());
        let (next, verdict, changed) = decide(&seen, input, self.policy());
        let Verdict::Renewed(ends) = verdict else {
            return Ok(Renewal::Over(Reason::LeaseLapsed));
        };
        if changed
            && let Swap::Changed(_) = store.swap(&self.command.scope, &seen.record, &next).await?
        {
            // Only somebody else's take-over changes a running row.
            return Ok(Renewal::Over(Reason::LeaseLapsed));
        }
        Ok(Renewal::Until(next, ends.since(seen.now)))
    }
}
