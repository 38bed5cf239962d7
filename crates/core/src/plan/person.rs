//! What a person, or the program that enqueued, may do with a delivery.

use super::begin::{asking, given_up, is_remembered, may_be_asked};
use super::{Decision, Verdict};
use crate::delivery::{AskedBy, Delivery, Ended, Grounds, Reason, Resolution, State, Waiting};
use crate::lease::Hold;
use crate::profile::Profile;
use crate::time::Time;

pub(super) fn cancel(delivery: Delivery, now: Time) -> (Delivery, Verdict) {
    match delivery.state {
        State::Waiting(_) if delivery.sends == 0 && delivery.doubt.is_none() => {
            let state = State::Cancelled(Ended { since: now, with: () });
            (given_up(delivery, state), Verdict::Ended)
        }
        State::Cancelled(_) => (delivery, Verdict::Ended),
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Resolved(_) => (delivery, Verdict::TooLate),
    }
}

pub(super) fn decide(
    mut delivery: Delivery,
    seen: Hold,
    decision: Decision,
    now: Time,
) -> (Delivery, Verdict) {
    if delivery.hold() != seen {
        return (delivery, Verdict::StaleView);
    }
    let resolved = |with| State::Resolved(Ended { since: now, with });
    let state = match (&delivery.state, decision) {
        (State::Undecided(_) | State::Failed(_), Decision::Executed) => {
            resolved(Resolution::Executed)
        }
        (State::Undecided(_) | State::Failed(_), Decision::WriteOff) => {
            resolved(Resolution::WrittenOff)
        }
        (State::Undecided(_), Decision::NotExecuted) => {
            delivery.doubt = None;
            delivery.asked_by = AskedBy::Key;
            State::Failed(Ended { since: now, with: Reason::DecidedNotExecuted })
        }
        (State::Failed(_), Decision::NotExecuted)
        | (
            State::Waiting(_)
            | State::Sending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Refused(_)
            | State::Cancelled(_)
            | State::Resolved(_),
            Decision::Executed | Decision::NotExecuted | Decision::WriteOff,
        ) => return (delivery, Verdict::StaleView),
    };
    (given_up(delivery, state), Verdict::Ended)
}

/// What failed is tried again under its key. What is undecided is asked about again, by a question or by
/// the same bytes: neither can run it a second time.
pub(super) fn retry(
    mut delivery: Delivery,
    seen: Hold,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    if delivery.hold() != seen {
        return (delivery, Verdict::StaleView);
    }
    let state = match delivery.state {
        State::Failed(_) => {
            delivery.first_send = None;
            delivery.began = now;
            State::Waiting(Waiting { due: now, grounds: Grounds::Unrun })
        }
        State::Undecided(_) if is_remembered(&delivery, now, profile) => {
            State::Waiting(Waiting { due: now, grounds: Grounds::Dedups })
        }
        State::Undecided(_) if may_be_asked(&delivery, profile) => State::Unknown(asking(now)),
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => return (delivery, Verdict::StaleView),
    };
    delivery.attempts = 0;
    delivery.gives_up = now.plus(profile.time_max);
    (given_up(delivery, state), Verdict::Later(now))
}
