//! How an execution ends: settled, released, in doubt, or lapsed.

use super::{RetryAfter, Verdict};
use crate::lease::{Fence, Hold};
use crate::policy::{Counterparty, Policy, Rerun};
use crate::receipt::Receipt;
use crate::record::{Done, Identity, Reason, Record, Review, State, Unknown};
use crate::time::Time;

pub(super) fn settle(
    mut record: Record,
    hold: Hold,
    receipt: Receipt,
    now: Time,
    policy: &Policy,
) -> (Record, Verdict) {
    let current = record.hold();
    let held = current == hold;
    match &mut record.state {
        // Also after the lease has ended: while nobody took the fence, the owner's answer is the
        // best that anybody knows.
        State::Running(running) if held => {
            let request = running.request;
            (finish(record, request, receipt, now, policy), Verdict::Settled)
        }
        State::Unknown(unknown) if held => {
            let request = unknown.request;
            (finish(record, request, receipt, now, policy), Verdict::Settled)
        }
        State::Unknown(unknown) if of_this_life(hold, unknown.life, current) => {
            if unknown.evidence.is_none() {
                unknown.evidence = Some(receipt);
                record.revision = record.revision.saturating_add(1);
            }
            (record, Verdict::Recorded)
        }
        State::Review(review) if of_this_life(hold, review.life, current) => {
            let request = review.request;
            (finish(record, request, receipt, now, policy), Verdict::Settled)
        }
        // The acknowledgement of this very settlement was lost.
        State::Done(done) if held && done.receipt == receipt => (record, Verdict::Settled),
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => (record, Verdict::Stale),
    }
}

pub(super) fn release(record: Record, hold: Hold, now: Time, policy: &Policy) -> (Record, Verdict) {
    let held = record.hold() == hold;
    match &record.state {
        State::Running(_) if held => (free(record, now, policy), Verdict::Freed),
        // The owner was late, but nobody has taken the fence from it since.
        State::Unknown(unknown) if held && record.fence == unknown.life => {
            (free(record, now, policy), Verdict::Freed)
        }
        State::Free if held => (record, Verdict::Freed),
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => (record, Verdict::Stale),
    }
}

pub(super) fn doubt(
    record: Record,
    hold: Hold,
    reason: Reason,
    now: Time,
    policy: &Policy,
) -> (Record, Verdict) {
    let held = record.hold() == hold;
    let next = match &record.state {
        State::Running(_) if held => interrupted(record, reason, now, now, policy),
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => record,
    };
    let verdict = match &next.state {
        State::Free if held => Verdict::Freed,
        State::Unknown(unknown) if held => {
            Verdict::OutcomePending(RetryAfter::from_duration(unknown.ask_after.since(now)))
        }
        State::Review(_) if held => Verdict::OutcomeUnknown,
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => Verdict::Stale,
    };
    (next, verdict)
}

/// A running record whose lease is over is unknown, whoever looks at it next.
pub(super) fn lapse(record: Record, now: Time, policy: &Policy) -> Record {
    match &record.state {
        State::Running(running) if now >= running.lease_ends => {
            // Its owner stops sending before the lease ends, so nothing was sent after that.
            let last_send = running.lease_ends;
            interrupted(record, Reason::LeaseLapsed, last_send, now, policy)
        }
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => record,
    }
}

fn interrupted(
    mut record: Record,
    reason: Reason,
    last_send: Time,
    now: Time,
    policy: &Policy,
) -> Record {
    let State::Running(running) = &record.state else { return record };
    if policy.rerun == Rerun::Safe {
        return free(record, now, policy);
    }
    let request = running.request;
    let run_ends = running.run_ends;
    let life = record.fence;
    record.revision = record.revision.saturating_add(1);
    // The last send bounds two things. How long a request may still be on its way: there the later
    // guess is the safe one. And since when a counterparty remembers the key: there the earlier one.
    let last_send = match policy.counterparty {
        Counterparty::Opaque => {
            record.state = State::Review(Review { request, life, since: now, reason });
            return record;
        }
        Counterparty::Answers { .. } => last_send,
        Counterparty::Dedups { .. } => last_send.min(run_ends),
    };
    record.state = State::Unknown(Unknown {
        request,
        life,
        since: now,
        reason,
        last_send,
        asked: 0,
        not_found: 0,
        ask_after: now,
        evidence: None,
    });
    record
}

/// Whether this hold was given in the life of the key that began with `life`.
///
/// The row remembers only the last token. So an earlier fence is taken at its word, and the current
/// one has to come with the token that it was given with.
pub(super) fn of_this_life(hold: Hold, life: Fence, current: Hold) -> bool {
    life <= hold.fence && (hold.fence < current.fence || hold == current)
}

/// The record as done. Its retention counts from now, never from less.
pub(super) fn finish(
    mut record: Record,
    request: Identity,
    receipt: Receipt,
    now: Time,
    policy: &Policy,
) -> Record {
    record.keep_until = record.keep_until.max(now.plus(policy.retention));
    record.revision = record.revision.saturating_add(1);
    record.state = State::Done(Done { request, since: now, receipt });
    record
}

/// The record as free. It keeps its fence, so that an owner of this life never settles the next.
pub(super) fn free(mut record: Record, now: Time, policy: &Policy) -> Record {
    record.keep_until = record.keep_until.max(now.plus(policy.retention));
    record.revision = record.revision.saturating_add(1);
    record.state = State::Free;
    record
}
