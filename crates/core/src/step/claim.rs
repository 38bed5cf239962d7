//! What a request with the key gets, and how an owner stays one.

use super::settle::lapse;
use super::{Arrival, Claim, RetryAfter, Verdict};
use crate::lease::Hold;
use crate::policy::{OnMismatch, Policy};
use crate::record::{Identity, Record, Running, State};
use crate::time::Time;

pub(super) fn claim(record: Record, claim: Claim, now: Time, policy: &Policy) -> (Record, Verdict) {
    let record = lapse(record, now, policy);
    if let Some(stored) = record.request()
        && !same_command(stored, &claim.request, policy)
    {
        return (record, Verdict::Mismatch);
    }
    match &record.state {
        State::Free => match claim.arrival {
            Arrival::Early => (record, Verdict::TooEarly),
            Arrival::Ordinary => start(record, claim, now, policy),
        },
        // The acknowledgement of this very claim was lost: it asks again and is told so.
        State::Running(_) if record.holder == claim.owner => {
            let hold = record.hold();
            (record, Verdict::Run(hold))
        }
        // Who waits as long again as it has run already asks in doubling steps.
        State::Running(running) => {
            let wait = RetryAfter::from_duration(now.since(running.since));
            (record, Verdict::InProgress(wait))
        }
        State::Unknown(unknown) => {
            let wait = RetryAfter::from_duration(unknown.ask_after.since(now));
            (record, Verdict::OutcomePending(wait))
        }
        State::Review(_) => (record, Verdict::OutcomeUnknown),
        State::Done(done) => {
            let receipt = done.receipt.clone();
            (record, Verdict::Replay(receipt))
        }
        State::Closed(_) => (record, Verdict::Closed),
    }
}

fn start(record: Record, claim: Claim, now: Time, policy: &Policy) -> (Record, Verdict) {
    let run_ends = now.plus(policy.run_max);
    let next = Record {
        fence: record.fence.next(),
        holder: claim.owner,
        revision: record.revision.saturating_add(1),
        // Whatever ends within run_max is kept long enough by this, so that settling leaves the
        // column alone which the sweep's index stands on.
        keep_until: record.keep_until.max(run_ends.plus(policy.retention)),
        state: State::Running(Running {
            request: claim.request,
            since: now,
            lease_ends: now.plus(policy.lease),
            run_ends,
        }),
    };
    let hold = next.hold();
    (next, Verdict::Run(hold))
}

/// Whether a request is the command that the key belongs to, under the route's policy.
fn same_command(stored: &Identity, request: &Identity, policy: &Policy) -> bool {
    if stored.version != request.version {
        return false;
    }
    if policy.bind_principal && stored.principal_sha != request.principal_sha {
        return false;
    }
    match policy.on_mismatch {
        OnMismatch::Reject => stored.digest.request_sha == request.digest.request_sha,
        OnMismatch::Replay => stored.digest.frame_sha == request.digest.frame_sha,
    }
}

pub(super) fn renew(
    mut record: Record,
    hold: Hold,
    now: Time,
    policy: &Policy,
) -> (Record, Verdict) {
    let held = record.hold() == hold;
    match &mut record.state {
        State::Running(running) if held => {
            // A lease that has ended is not taken up again: from then on the row may be read as
            // unknown by anybody, and a question may be on its way.
            if now >= running.lease_ends || now >= running.run_ends {
                return (record, Verdict::RunOver);
            }
            // A renewal never shortens what was given, also when the clock went back since.
            let ends = running.lease_ends.max(now.plus(policy.lease).min(running.run_ends));
            if ends != running.lease_ends {
                running.lease_ends = ends;
                record.revision = record.revision.saturating_add(1);
            }
            (record, Verdict::Renewed(ends))
        }
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => (record, Verdict::Stale),
    }
}
