//! What a store that was restored to an earlier state can still say.
//!
//! What was written after that state is lost, and with it the executions that it told of. So nothing
//! that such a store does not know is taken for something that never ran: it is asked about, or a
//! person decides. A counterparty that deduplicates cannot be asked here, since nobody knows any more
//! since when it remembers the key.

use super::claim::claim;
use super::{Arrival, Claim, RetryAfter, Verdict};
use crate::lease::Fence;
use crate::policy::{Counterparty, Policy};
use crate::record::{Identity, Reason, Record, Review, State, Unknown};
use crate::time::Time;

/// As a claim; but a key that has no row is claimed straight into *unknown*.
///
/// A row that was freed since the restore has a fence: there somebody has asked, and it may run.
pub(super) fn claim_after_loss(
    mut record: Record,
    request: Claim,
    now: Time,
    policy: &Policy,
) -> (Record, Verdict) {
    if record.fence != Fence::NONE {
        return claim(record, request, now, policy);
    }
    if request.arrival == Arrival::Early {
        return (record, Verdict::TooEarly);
    }
    record.fence = record.fence.next();
    record.holder = request.owner;
    record.keep_until = record.keep_until.max(now.plus(policy.run_max).plus(policy.retention));
    record = doubtful(record, request.request, now, policy);
    let verdict = said(&record, now);
    (record, verdict)
}

/// An open record as it was restored: what became of it since is lost.
pub(super) fn restore(mut record: Record, now: Time, policy: &Policy) -> (Record, Verdict) {
    let request = match &record.state {
        State::Running(running) => running.request,
        // An answer on record is true whatever was lost after it.
        State::Unknown(unknown) if unknown.evidence.is_some() => return (record, Verdict::Kept),
        State::Unknown(unknown) => unknown.request,
        State::Free | State::Review(_) | State::Done(_) | State::Closed(_) => {
            return (record, Verdict::Kept);
        }
    };
    let life = match &record.state {
        State::Unknown(unknown) => unknown.life,
        State::Free | State::Running(_) | State::Review(_) | State::Done(_) | State::Closed(_) => {
            record.fence
        }
    };
    // Whoever held it before the restore is told so; what it reports is evidence.
    record.fence = record.fence.next();
    record = doubtful(record, request, now, policy);
    match &mut record.state {
        State::Unknown(unknown) => unknown.life = life,
        State::Review(review) => review.life = life,
        State::Free | State::Running(_) | State::Done(_) | State::Closed(_) => {}
    }
    let verdict = said(&record, now);
    (record, verdict)
}

/// The record as unknown, or in review where nobody can be asked.
fn doubtful(mut record: Record, request: Identity, now: Time, policy: &Policy) -> Record {
    let life = record.fence;
    let reason = Reason::Restored;
    record.revision = record.revision.saturating_add(1);
    record.state = match policy.counterparty {
        Counterparty::Opaque | Counterparty::Dedups { .. } => {
            State::Review(Review { request, life, since: now, reason })
        }
        Counterparty::Answers { .. } => State::Unknown(Unknown {
            request,
            life,
            since: now,
            reason,
            // It may have been sent at any time until now; the later guess is the safe one.
            last_send: now,
            asked: 0,
            not_found: 0,
            ask_after: now,
            evidence: None,
        }),
    };
    record
}

fn said(record: &Record, now: Time) -> Verdict {
    match &record.state {
        State::Unknown(unknown) => {
            Verdict::OutcomePending(RetryAfter::from_duration(unknown.ask_after.since(now)))
        }
        State::Free | State::Running(_) | State::Review(_) | State::Done(_) | State::Closed(_) => {
            Verdict::OutcomeUnknown
        }
    }
}
