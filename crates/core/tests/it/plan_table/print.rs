//! How deliveries and the machine's words are written in the grid.

use crate::grid::{self, Fields, Outcome, hold, owner, receipt, time};
use samekey_core::delivery::{AskedBy, Delivery, Grounds, Proof, Reason, Resolution, State};
use samekey_core::plan::Verdict;
use samekey_core::time::Time;

fn proof(proof: &Proof) -> String {
    match proof {
        Proof::Executed(it) => format!("executed, {}", receipt(it)),
        Proof::Refused(it) => format!("refused, {}", receipt(it)),
    }
}

fn grounds(grounds: Grounds) -> String {
    match grounds {
        Grounds::Unrun => "unrun",
        Grounds::Dedups => "dedups",
        Grounds::InFlight => "in flight",
    }
    .to_owned()
}

fn asked_by(by: AskedBy) -> String {
    match by {
        AskedBy::Key => "key",
        AskedBy::Reference => "reference",
    }
    .to_owned()
}

fn or_none<T>(value: Option<T>, word: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "none".to_owned(), word)
}

/// The fields of a delivery, each under the name by which a change of it is told.
fn fields(delivery: &Delivery) -> Fields {
    let reason = |reason: Reason| reason.code().to_owned();
    let mut fields = vec![
        ("state", delivery.state_name().to_owned()),
        ("fence", delivery.fence.to_string()),
        ("holder", owner(delivery.holder)),
        ("revision", delivery.revision.to_string()),
        ("began", time(delivery.began)),
        ("gives_up", time(delivery.gives_up)),
        ("sends", delivery.sends.to_string()),
        ("attempts", delivery.attempts.to_string()),
        ("first_send", or_none(delivery.first_send, time)),
        ("last_send", or_none(delivery.last_send, time)),
        ("doubt", or_none(delivery.doubt, reason)),
        ("last", or_none(delivery.last, reason)),
        ("proof", or_none(delivery.proof.as_ref(), proof)),
        ("asked_by", asked_by(delivery.asked_by)),
    ];
    let mut ended = |since: Time, with: String| {
        fields.push(("since", time(since)));
        fields.push(("with", with));
    };
    match &delivery.state {
        State::Waiting(waiting) => {
            fields.push(("due", time(waiting.due)));
            fields.push(("grounds", grounds(waiting.grounds)));
        }
        State::Sending(sending) => {
            fields.push(("since", time(sending.since)));
            fields.push(("lease_ends", time(sending.lease_ends)));
            fields.push(("grounds", grounds(sending.grounds)));
        }
        State::Unknown(unknown) => {
            fields.push(("due", time(unknown.due)));
            fields.push(("asked", unknown.asked.to_string()));
            fields.push(("not_found", unknown.not_found.to_string()));
        }
        State::Succeeded(end) | State::Refused(end) => ended(end.since, receipt(&end.with)),
        State::Failed(end) | State::Undecided(end) => ended(end.since, reason(end.with)),
        State::Cancelled(end) => ended(end.since, "nothing".to_owned()),
        State::Resolved(end) => {
            let with = match end.with {
                Resolution::Executed => "executed",
                Resolution::WrittenOff => "written off",
            };
            ended(end.since, with.to_owned());
        }
    }
    fields
}

pub(super) fn delivery(delivery: &Delivery) -> String {
    grid::all_fields(&fields(delivery))
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Send(attempt) => format!(
            "SEND number {} for {} ({})",
            attempt.number,
            attempt.time_max.as_secs(),
            hold(attempt.hold)
        ),
        Verdict::Ask(to, by) => format!("ASK by {} ({})", asked_by(*by), hold(*to)),
        Verdict::Ended => "ENDED".to_owned(),
        Verdict::Later(due) => format!("LATER, at {}", time(*due)),
        Verdict::NotDue => "NOT DUE".to_owned(),
        Verdict::Recorded => "RECORDED".to_owned(),
        Verdict::Contradicts => "CONTRADICTS".to_owned(),
        Verdict::Stale => "STALE".to_owned(),
        Verdict::TooLate => "TOO LATE".to_owned(),
        Verdict::StaleView => "STALE VIEW".to_owned(),
        Verdict::Kept => "KEPT".to_owned(),
    }
}

pub(super) fn outcome(before: &Delivery, after: &Delivery, said: &Verdict) -> Outcome {
    let change = if before == after {
        "unchanged".to_owned()
    } else {
        grid::change(&fields(before), fields(after), after.revision - before.revision)
    };
    Outcome { verdict: verdict(said), change }
}
