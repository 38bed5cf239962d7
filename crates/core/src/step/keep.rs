//! What people and the sweep may do to a record.

use super::settle::{finish, free};
use super::{Decision, Verdict};
use crate::lease::Hold;
use crate::policy::Policy;
use crate::receipt::Receipt;
use crate::record::{Closed, Record, State};
use crate::time::Time;

pub(super) fn decide(
    mut record: Record,
    seen: Hold,
    decision: Decision,
    now: Time,
    policy: &Policy,
) -> (Record, Verdict) {
    let review = match &record.state {
        State::Review(review) if record.hold() == seen => review.clone(),
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => return (record, Verdict::StaleView),
    };
    // The person is the new owner: whatever an earlier one still reports is stale from here on. The
    // old token stays, with a fence that it was never given: a row is told by token, fence and
    // revision, and without a token of its own it could be taken for one of the key's earlier life.
    record.fence = record.fence.next();
    let next = match decision {
        Decision::Executed(receipt) => finish(record, review.request, receipt, now, policy),
        Decision::NotExecuted => free(record, now, policy),
        Decision::Close => {
            record.keep_until = record.keep_until.max(now.plus(policy.retention));
            record.revision = record.revision.saturating_add(1);
            record.state = State::Closed(Closed { request: review.request, since: now });
            record
        }
    };
    (next, Verdict::Decided)
}

pub(super) fn forget(mut record: Record, seen: Hold) -> (Record, Verdict) {
    let current = record.hold();
    match &mut record.state {
        State::Done(done) if current == seen => {
            if let Receipt::Kept(answer) = &done.receipt {
                let location = answer
                    .headers
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case("location"))
                    .map(|(_, value)| value.clone());
                done.receipt = Receipt::Fact { status: answer.status, location };
                record.revision = record.revision.saturating_add(1);
            }
            (record, Verdict::Forgotten)
        }
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => (record, Verdict::StaleView),
    }
}

/// The row goes when its time has come and nobody waits for its outcome.
///
/// The key begins anew with the fence 0 then. An owner of the old life would have to sleep through
/// the whole retention; how far its token still tells it apart is said in `docs/leases.md`.
pub(super) fn sweep(record: Record, now: Time) -> (Record, Verdict) {
    if record.is_open() || now < record.keep_until {
        return (record, Verdict::Kept);
    }
    (Record::ABSENT, Verdict::Swept)
}
