//! What a worker does that finds a delivery due, and how it gives it back.

use super::begin::{
    ask_or_end, asked_until, asking, end, end_by, given_up, into, is_final, is_forgotten,
    is_too_late, lapse, may_be_asked, wait,
};
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
    } else if is_forgotten(&delivery, grounds, now, profile) {
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
    // Who was never asked is asked, however late: perhaps it was us who were away.
    if unknown.asked > 0 && now > asked_until(&delivery, profile) {
        return (end(delivery, Reason::TimeOver, now), Verdict::Ended);
    }
    unknown.asked = unknown.asked.saturating_add(1);
    unknown.due = now.plus(profile.lease);
    delivery.fence = delivery.fence.next();
    delivery.holder = owner;
    let verdict = Verdict::Ask(delivery.hold(), delivery.asked_by);
    (into(delivery, State::Unknown(unknown)), verdict)
}

/// It is put off. What may not be sent any more by then is asked about or ends, as it would when taken.
pub(super) fn defer(
    delivery: Delivery,
    pause: Duration,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    let later = now.plus(pause);
    let revision = delivery.revision;
    let delivery = lapse(delivery, now, profile);
    let delivery = match delivery.state {
        State::Waiting(waiting) if now >= waiting.due => {
            put_off(delivery, waiting.grounds, later, now, profile)
        }
        // An asker whose turn is over could still bring an old answer as one to a later question: the
        // fence keeps it out.
        State::Unknown(mut unknown) if now >= unknown.due => {
            if later > asked_until(&delivery, profile) {
                end(delivery, Reason::TimeOver, now)
            } else {
                unknown.due = later;
                given_up(delivery, State::Unknown(unknown))
            }
        }
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => {
            // It may have ended by its lapse.
            let verdict =
                if delivery.revision == revision { Verdict::NotDue } else { Verdict::Ended };
            return (delivery, verdict);
        }
    };
    said(delivery)
}

/// A command that is not sent yet although it is due. It is due again when its time is over at the latest.
fn put_off(
    delivery: Delivery,
    grounds: Grounds,
    later: Time,
    now: Time,
    profile: &Profile,
) -> Delivery {
    if !is_too_late(&delivery, now) {
        let due = later.min(delivery.gives_up);
        return wait(delivery, due, grounds, now);
    }
    if delivery.doubt.is_none() && delivery.proof.is_none() {
        return end(delivery, Reason::TimeOver, now);
    }
    let mut delivery = ask_or_end(delivery, Reason::TimeOver, later, now, profile);
    delivery.fence = delivery.fence.next();
    delivery
}

pub(super) fn release(
    mut delivery: Delivery,
    hold: Hold,
    pause: Duration,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    let held = delivery.hold() == hold;
    let later = now.plus(pause);
    let delivery = match delivery.state {
        State::Sending(sending) if held => {
            uncount(&mut delivery, sending.grounds);
            match delivery.proof.clone() {
                Some(proof) if is_final(&proof) => end_by(delivery, proof, now),
                Some(_) | None => put_off(delivery, sending.grounds, later, now, profile),
            }
        }
        State::Unknown(mut unknown) if held => {
            unknown.asked = unknown.asked.saturating_sub(1);
            unknown.due = later.min(asked_until(&delivery, profile).max(now));
            given_up(delivery, State::Unknown(unknown))
        }
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => {
            let over = held && !delivery.is_open();
            return (delivery, if over { Verdict::Ended } else { Verdict::Stale });
        }
    };
    said(delivery)
}

/// What became of it: due again, or over.
pub(super) fn said(delivery: Delivery) -> (Delivery, Verdict) {
    let verdict = match delivery.due() {
        Some(due) => Verdict::Later(due),
        None => Verdict::Ended,
    };
    (delivery, verdict)
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
