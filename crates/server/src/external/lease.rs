//! Keeping a claim while its call is made.

use super::run::{Claimed, decide, lease_of};
use crate::claim::Command;
use crate::engine::Shared;
use crate::signal::Signal;
use samekey_core::record::{Reason, Record};
use samekey_core::step::{Input, Verdict};
use samekey_core::time::Time;
use samekey_store::{Ledger, StoreError, Swap, crash_point};
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
    deadline: Instant,
    /// From here on a renewal is due.
    renew_at: Instant,
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
        let mut lease = Lease {
            shared,
            command,
            record,
            deadline: claimed.asked_at,
            renew_at: claimed.asked_at,
        };
        let left = lease_of(&lease.record)
            .map_or(Duration::ZERO, |(ends, _)| ends.since(claimed.seen.now));
        lease.lasts(claimed.asked_at, left);
        lease
    }

    fn policy(&self) -> &samekey_core::policy::Policy {
        self.command.route.policy()
    }

    fn lasts(&mut self, from: Instant, left: Duration) {
        let lease = self.policy().lease;
        self.deadline = from + left.saturating_sub(lease / MARGIN_PART);
        self.renew_at = (from + left / RENEW_PART).min(self.deadline);
    }

    /// Renews until that is no longer possible, and says why. Whatever waits for the call stops then.
    pub(super) async fn keep(mut self) -> Reason {
        loop {
            if self.is_last() {
                tokio::time::sleep_until(self.deadline).await;
                return Reason::TimedOut;
            }
            tokio::time::sleep_until(self.renew_at).await;
            let asked_at = Instant::now();
            match tokio::time::timeout_at(self.deadline, self.renew()).await {
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
                        (asked_at + self.policy().lease / AGAIN_PART).min(self.deadline);
                }
                Err(_) => return Reason::LeaseLapsed,
            }
            if Instant::now() >= self.deadline {
                return Reason::LeaseLapsed;
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
