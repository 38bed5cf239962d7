//! The machine that decides: one record, one input, one moment, one policy; out come the next
//! record and a verdict.
//!
//! [`step`] is total: every input has an answer in every state, a refused request included. It
//! never fails, because failures are of the world and the world is not here. When the returned
//! record has the revision of the one that went in, nothing has to be written.
//!
//! The states and who may leave them are told in `docs/contract.md`; the whole grid stands as a
//! reviewed snapshot in `tests/it/snapshots`.

mod ask;
mod claim;
mod keep;
mod restore;
mod settle;

use crate::lease::{Hold, Owner};
use crate::policy::Policy;
use crate::receipt::Receipt;
use crate::record::{Identity, Reason, Record};
use crate::time::Time;

/// What happens to a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A request with the key arrived.
    Claim(Claim),
    /// A request with the key arrived at a store that was restored to an earlier state: where it has
    /// no row, an execution of it may have been lost.
    ClaimAfterLoss(Claim),
    /// The owner is still at work.
    Renew(Hold),
    /// The owner knows the final answer.
    Settle(Hold, Receipt),
    /// The owner has proof that nothing was started.
    Release(Hold),
    /// The owner cannot know how it ended.
    Doubt(Hold, Reason),
    /// Recovery wants to ask the counterparty, under this new token.
    Ask(Owner),
    /// Recovery was told something.
    Hear(Hold, Finding),
    /// A person decided, having seen the record in this hold.
    Decide(Hold, Decision),
    /// A person wants the stored answer removed, having seen the record in this hold.
    Forget(Hold),
    /// The store was restored to an earlier state, and this record with it.
    Restore,
    /// The sweep wants to remove the record.
    Sweep,
}

/// A request, as far as the machine needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// What it asks for, fingerprinted by the algorithm of the stored record if there is one.
    pub request: Identity,
    /// The token under which it would run.
    pub owner: Owner,
    /// How it arrived.
    pub arrival: Arrival,
}

/// Whether a request may have been replayed by somebody on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arrival {
    /// As usual.
    #[default]
    Ordinary,
    /// In TLS early data (RFC 8470), which an attacker can send again.
    Early,
}

/// What the counterparty said when it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// It executed the command; this is what the caller gets.
    Executed(Receipt),
    /// It refused the command for good; this is what the caller gets.
    Refused(Receipt),
    /// It does not know of the command.
    NotFound,
    /// It is still at work.
    Pending,
    /// It could not be asked, or its answer could not be understood.
    CannotTell,
    /// It executed something under this key, but with another amount, currency or reference.
    Different,
}

/// What a person decided about a record in review.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It was executed; this is what the caller gets.
    Executed(Receipt),
    /// It was not executed, and may run.
    NotExecuted,
    /// It was compensated or written off, and will never run.
    Close,
}

/// What the machine says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Claim: it is yours; work, and settle with this.
    Run(Hold),
    /// Claim: it is done; this is the answer, or the fact of it.
    Replay(Receipt),
    /// Claim: the key belongs to another command.
    Mismatch,
    /// Claim: the first one still runs.
    InProgress(RetryAfter),
    /// Claim, doubt, restore: the outcome is unknown and recovery asks.
    OutcomePending(RetryAfter),
    /// Claim, doubt, restore: the outcome is unknown and a person has to decide.
    OutcomeUnknown,
    /// Claim: a person closed it.
    Closed,
    /// Claim: early data may not start an execution.
    TooEarly,
    /// Renew: go on until then.
    Renewed(Time),
    /// Renew: the time is over; start nothing new, and settle what is known.
    RunOver,
    /// Settle, ask, hear: the answer is on record.
    Settled,
    /// Release, doubt, ask, hear: the key is free.
    Freed,
    /// Settle, hear: somebody else holds the fence; the answer is kept as evidence for it.
    Recorded,
    /// Renew, settle, release, doubt, hear: no longer yours. What the row says now is the answer.
    Stale,
    /// Ask: ask now, and report with this.
    Ask(Hold),
    /// Ask: nothing to ask, or not yet.
    NotDue,
    /// Hear: nothing final yet; ask again when it is due.
    AskAgain(Time),
    /// Ask, hear: a person has to decide.
    HandedOver,
    /// Decide: so be it.
    Decided,
    /// Forget: the answer is gone, the fact stays.
    Forgotten,
    /// Decide, forget: the record is not what the person saw, or not in a state for that.
    StaleView,
    /// Sweep: remove the row.
    Swept,
    /// Sweep: it stays, because it is open or its time has not come. Restore: it stays as it was
    /// restored.
    Kept,
}

/// Whole seconds after which a caller should try again, 1 to 60.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RetryAfter(u8);

impl RetryAfter {
    /// The least that is ever said: callers that poll faster only load the store.
    pub const MIN: RetryAfter = RetryAfter(1);
    /// The most that is ever said: after a minute something has usually changed.
    pub const MAX: RetryAfter = RetryAfter(60);

    /// This time in whole seconds, rounded up and kept within 1..=60.
    pub fn from_duration(wait: std::time::Duration) -> RetryAfter {
        let up = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        RetryAfter(u8::try_from(up.clamp(1, 60)).unwrap_or(60))
    }

    /// Seconds.
    pub fn seconds(self) -> u8 {
        self.0
    }
}

/// Decides what `input` does to `record` at the moment `now` of the database's clock.
///
/// ```
/// use samekey_core::fingerprint::{Digest, V1};
/// use samekey_core::lease::Owner;
/// use samekey_core::policy::Policy;
/// use samekey_core::record::{Identity, Record};
/// use samekey_core::step::{step, Arrival, Claim, Input, Verdict};
/// use samekey_core::time::Time;
///
/// let request = Identity {
///     version: V1.version,
///     digest: Digest { request_sha: [1; 32], frame_sha: [2; 32] },
///     principal_sha: None,
/// };
/// let claim = |owner| Input::Claim(Claim { request, owner, arrival: Arrival::Ordinary });
/// let now = Time::from_micros(0);
/// let policy = Policy::default();
///
/// let (record, first) = step(Record::ABSENT, claim(Owner::from_bytes([1; 16])), now, &policy);
/// assert!(matches!(first, Verdict::Run(_)));
/// let (_, second) = step(record, claim(Owner::from_bytes([2; 16])), now, &policy);
/// assert!(matches!(second, Verdict::InProgress(_)));
/// ```
#[must_use]
pub fn step(record: Record, input: Input, now: Time, policy: &Policy) -> (Record, Verdict) {
    match input {
        Input::Claim(claim) => claim::claim(record, claim, now, policy),
        Input::ClaimAfterLoss(claim) => restore::claim_after_loss(record, claim, now, policy),
        Input::Renew(hold) => claim::renew(record, hold, now, policy),
        Input::Settle(hold, receipt) => settle::settle(record, hold, receipt, now, policy),
        Input::Release(hold) => settle::release(record, hold, now, policy),
        Input::Doubt(hold, reason) => settle::doubt(record, hold, reason, now, policy),
        Input::Ask(owner) => ask::ask(record, owner, now, policy),
        Input::Hear(hold, finding) => ask::hear(record, hold, finding, now, policy),
        Input::Decide(seen, decision) => keep::decide(record, seen, decision, now, policy),
        Input::Forget(seen) => keep::forget(record, seen),
        Input::Restore => restore::restore(record, now, policy),
        Input::Sweep => keep::sweep(record, now),
    }
}
