//! What a worker does that finds a delivery due, and how it gives it back.

use super::begin::{asking, end, given_up, into, is_remembered, is_too_late, lapse, may_be_asked};
use super::{Attempt, Verdict};
use crate::delivery::{Delivery, Grounds, Reason, Sending, State, Unknown, Waiting};
use crate::lease::{Hold, Owner};
use crate::profile::Profile;
use crate::time::Time;
use std::time::Duration;

pub(super) fn take(
    delivery: Delivery,
    owner: Owner,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    let was_sending = matches!(delivery.state, State::Sending(_));
    let delivery = lapse(delivery, now, profile);
    match delivery.state {
        State::Waiting(Waiting { due, .. }) | State::Unknown(Unknown { due, .. }) if now < due => {
            (delivery, Verdict::NotDue)
        }
        State::Waiting(waiting) => send(delivery, waiting.grounds, owner, now, profile),
        State::Unknown(unknown) => ask(delivery, unknown, owner, now, profile),
        // Its lease was over, and there was nothing more that could be done.
        State::Succeeded(_) | State::Refused(_) | State::Failed(_) | State::Undecided(_)
            if was_sending =>
        {
            (delivery, Verdict::Ended)
        }
        State::Sending(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => (delivery, Verdict::NotDue),
    }
}

fn send(
    mut delivery: Delivery,
    grounds: Grounds,
    owner: Owner,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    let counts = match grounds {
        Grounds::Unrun | Grounds::Dedups => true,
        Grounds::InFlight => false,
    };
    let limit = if is_too_late(&delivery, now) {
        Some(Reason::TimeOver)
    } else if counts && delivery.attempts >= profile.attempts_max {
        Some(Reason::AttemptsUsedUp)
    } else if grounds == Grounds::Dedups && !is_remembered(&delivery, now, profile) {
        Some(Reason::NobodyToAsk)
    } else {
        None
    };
    if let Some(reason) = limit {
        return stop_sending(delivery, reason, owner, now, profile);
    }
    delivery.fence = delivery.fence.next();
    delivery.holder = owner;
    delivery.sends = delivery.sends.saturating_add(1);
    delivery.attempts = delivery.attempts.saturating_add(u32::from(counts));
    delivery.first_send.get_or_insert(now);
    let attempt = Attempt {
        hold: delivery.hold(),
        number: delivery.sends,
        time_max: profile.attempt_time_max.min(delivery.gives_up.since(now)),
    };
    let lease_ends = now.plus(profile.lease);
    let delivery = into(delivery, State::Sending(Sending { since: now, lease_ends, grounds }));
    (delivery, Verdict::Send(attempt))
}

/// It may not be sent any more. In doubt it is asked about, if that is possible.
fn stop_sending(
    delivery: Delivery,
    reason: Reason,
    owner: Owner,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    if delivery.doubt.is_none() && delivery.proof.is_none() {
        return (end(delivery, reason, now), Verdict::Ended);
    }
    if may_be_asked(&delivery, profile) {
        return ask(delivery, asking(now), owner, now, profile);
    }
    (end(delivery, reason, now), Verdict::Ended)
}

fn ask(
    mut delivery: Delivery,
    mut unknown: Unknown,
    owner: Owner,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    if unknown.asked >= profile.questions_max {
        return (end(delivery, Reason::QuestionsUsedUp, now), Verdict::Ended);
    }
    unknown.asked = unknown.asked.saturating_add(1);
    unknown.due = now.plus(profile.lease);
    delivery.fence = delivery.fence.next();
    delivery.holder = owner;
    let verdict = Verdict::Ask(delivery.hold(), delivery.asked_by);
    (into(delivery, State::Unknown(unknown)), verdict)
}

pub(super) fn defer(mut delivery: Delivery, pause: Duration, now: Time) -> (Delivery, Verdict) {
    let later = now.plus(pause);
    let (due, state) = match delivery.state {
        State::Waiting(mut waiting) if now >= waiting.due => {
            // Not beyond its time: it ends when that is over, and not later.
            waiting.due = later.min(delivery.gives_up.max(now));
            (waiting.due, State::Waiting(waiting))
        }
        State::Unknown(mut unknown) if now >= unknown.due => {
            unknown.due = later;
            (later, State::Unknown(unknown))
        }
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => return (delivery, Verdict::NotDue),
    };
    delivery = into(delivery, state);
    (delivery, Verdict::Later(due))
}

pub(super) fn release(
    mut delivery: Delivery,
    hold: Hold,
    pause: Duration,
    now: Time,
) -> (Delivery, Verdict) {
    let held = delivery.hold() == hold;
    let due = now.plus(pause);
    let state = match delivery.state {
        State::Sending(sending) if held => {
            uncount(&mut delivery, sending.grounds);
            State::Waiting(Waiting { due, grounds: sending.grounds })
        }
        State::Unknown(mut unknown) if held => {
            unknown.asked = unknown.asked.saturating_sub(1);
            unknown.due = due;
            State::Unknown(unknown)
        }
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => return (delivery, Verdict::Stale),
    };
    (given_up(delivery, state), Verdict::Later(due))
}

/// The attempt on its way does not count.
pub(super) fn uncount(delivery: &mut Delivery, grounds: Grounds) {
    match grounds {
        Grounds::Unrun | Grounds::Dedups => {
            delivery.attempts = delivery.attempts.saturating_sub(1);
        }
        Grounds::InFlight => {}
    }
}
