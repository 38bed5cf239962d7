//! How a delivery begins, and the moves that several inputs share.

use crate::delivery::{
    AskedBy, Delivery, Ended, Grounds, Proof, Reason, Sending, State, Unknown, Waiting,
};
use crate::lease::{Fence, Owner};
use crate::profile::{ASKING_TIME_MAX, ATTEMPT_TIME_MIN, Profile};
use crate::receipt::Receipt;
use crate::time::Time;
use std::time::Duration;

/// A command as it is enqueued: due after `delay`. Its time begins now.
///
/// Counted from [`Time::EPOCH`] it holds offsets, to which a store adds its own now.
pub fn enqueued(now: Time, delay: Duration, profile: &Profile) -> Delivery {
    let due = now.plus(delay);
    Delivery {
        fence: Fence::NONE,
        holder: Owner::NONE,
        revision: 1,
        began: now,
        gives_up: due.plus(profile.time_max),
        sends: 0,
        attempts: 0,
        first_send: None,
        last_send: None,
        doubt: None,
        last: None,
        proof: None,
        asked_by: AskedBy::Key,
        state: State::Waiting(Waiting { due, grounds: Grounds::Unrun }),
    }
}

/// A command as it is enqueued in a store that was restored to an earlier state, for a time of which the
/// store has lost what happened: it may have been executed under another key. It is asked about by its
/// business reference, or a person decides.
pub fn enqueued_after_loss(now: Time, delay: Duration, profile: &Profile) -> Delivery {
    let mut delivery = enqueued(now, delay, profile);
    delivery.doubt = Some(Reason::Restored);
    delivery.last_send = Some(now);
    delivery.asked_by = AskedBy::Reference;
    delivery.state = match profile.declared.answers {
        Some(answers) if answers.by_reference => State::Unknown(asking(now)),
        Some(_) | None => State::Undecided(Ended { since: now, with: Reason::Restored }),
    };
    delivery
}

/// About to be asked about, for the first time.
pub(super) fn asking(due: Time) -> Unknown {
    Unknown { due, asked: 0, not_found: 0 }
}

/// The delivery with its next state, changed.
pub(super) fn into(mut delivery: Delivery, state: State) -> Delivery {
    delivery.revision = delivery.revision.saturating_add(1);
    delivery.state = state;
    delivery
}

/// As [`into`], and whoever held the fence has given it up. So telling the same outcome again, after a
/// lost acknowledgement, changes nothing.
pub(super) fn given_up(mut delivery: Delivery, state: State) -> Delivery {
    delivery.fence = delivery.fence.next();
    into(delivery, state)
}

/// The end by what is known for sure. Nothing is in doubt any more.
pub(super) fn end_by(mut delivery: Delivery, proof: Proof, now: Time) -> Delivery {
    delivery.proof = None;
    delivery.doubt = None;
    delivery.last = None;
    let state = match proof {
        Proof::Executed(receipt) => State::Succeeded(Ended { since: now, with: receipt }),
        Proof::Refused(receipt) => State::Refused(Ended { since: now, with: receipt }),
    };
    into(delivery, state)
}

/// Whether nothing better can be heard than what is known already.
pub(super) fn is_final(proof: &Proof) -> bool {
    match proof {
        Proof::Executed(Receipt::Kept(_)) | Proof::Refused(_) => true,
        Proof::Executed(Receipt::Fact { .. }) => false,
    }
}

/// A request may have been sent until then. The database's clock may go back; what was sent stays sent.
pub(super) fn may_have_sent(delivery: &mut Delivery, until: Time) {
    delivery.last_send = delivery.last_send.max(Some(until));
}

/// The end of trying. What is known for sure is the end; without it a doubt goes to a person, and where
/// every attempt proved to have run nothing it has failed.
pub(super) fn end(delivery: Delivery, reason: Reason, now: Time) -> Delivery {
    if let Some(proof) = delivery.proof.clone() {
        return end_by(delivery, proof, now);
    }
    let ended = Ended { since: now, with: reason };
    let state = match delivery.doubt {
        Some(_) => State::Undecided(ended),
        None => State::Failed(ended),
    };
    into(delivery, state)
}

/// Something may have run, or an answer is missing: the same bytes are sent again, a question is asked, or
/// it ends, whichever is the first that is allowed. It is due then.
pub(super) fn clear_up(delivery: Delivery, due: Time, now: Time, profile: &Profile) -> Delivery {
    if may_repeat(&delivery, due, profile) {
        return into(delivery, State::Waiting(Waiting { due, grounds: Grounds::Dedups }));
    }
    ask_about(delivery, due, now, profile)
}

/// As [`clear_up`], but without sending anything.
pub(super) fn ask_about(delivery: Delivery, due: Time, now: Time, profile: &Profile) -> Delivery {
    let reason = why_ended(&delivery, due, profile);
    ask_or_end(delivery, reason, due, now, profile)
}

/// It is asked about then, if anybody can be asked within the time for questions; else it ends for this
/// reason.
pub(super) fn ask_or_end(
    delivery: Delivery,
    reason: Reason,
    due: Time,
    now: Time,
    profile: &Profile,
) -> Delivery {
    if !may_be_asked(&delivery, profile) {
        return end(delivery, reason, now);
    }
    if due > asked_until(&delivery, profile) {
        return end(delivery, Reason::TimeOver, now);
    }
    into(delivery, State::Unknown(asking(due)))
}

/// It waits to be sent, until then. What is known to have been executed is not sent again because this
/// attempt ran nothing.
pub(super) fn wait(delivery: Delivery, due: Time, grounds: Grounds, now: Time) -> Delivery {
    match (grounds, delivery.proof.clone()) {
        (Grounds::Unrun, Some(proof)) => end_by(delivery, proof, now),
        (Grounds::Unrun, None) | (Grounds::Dedups | Grounds::InFlight, _) => {
            given_up(delivery, State::Waiting(Waiting { due, grounds }))
        }
    }
}

/// When the last question about it may be due: some time after it is no longer sent, and after *not found*
/// has become proof.
pub(super) fn asked_until(delivery: &Delivery, profile: &Profile) -> Time {
    let bound = profile.declared.answers.and_then(|answers| answers.not_found_after);
    let proved_from = delivery.last_send.unwrap_or(delivery.began).plus(bound.unwrap_or_default());
    delivery.gives_up.max(proved_from).plus(ASKING_TIME_MAX)
}

/// What kept a command in doubt from going on.
fn why_ended(delivery: &Delivery, due: Time, profile: &Profile) -> Reason {
    if profile.declared.dedups.is_none() || delivery.asked_by == AskedBy::Reference {
        return delivery.doubt.unwrap_or(Reason::NobodyToAsk);
    }
    if delivery.attempts >= profile.attempts_max {
        return Reason::AttemptsUsedUp;
    }
    if is_too_late(delivery, due) { Reason::TimeOver } else { Reason::NobodyToAsk }
}

/// Whether its time leaves none for an attempt that begins then.
pub(super) fn is_too_late(delivery: &Delivery, due: Time) -> bool {
    due.plus(ATTEMPT_TIME_MIN) > delivery.gives_up
}

/// Whether the counterparty can be asked about it.
pub(super) fn may_be_asked(delivery: &Delivery, profile: &Profile) -> bool {
    profile.declared.answers.is_some_and(|answers| match delivery.asked_by {
        AskedBy::Key => true,
        AskedBy::Reference => answers.by_reference,
    })
}

/// Whether the same bytes under the same key may be sent then, although an attempt may have run.
pub(super) fn may_repeat(delivery: &Delivery, due: Time, profile: &Profile) -> bool {
    let counted = delivery.attempts < profile.attempts_max && !is_too_late(delivery, due);
    counted && is_remembered(delivery, due, profile)
}

/// Whether the counterparty may have forgotten a key of which these grounds say that it knows it.
pub(super) fn is_forgotten(
    delivery: &Delivery,
    grounds: Grounds,
    due: Time,
    profile: &Profile,
) -> bool {
    match grounds {
        Grounds::Unrun => false,
        Grounds::Dedups => !is_remembered(delivery, due, profile),
        // Where nothing is declared, its own word counts.
        Grounds::InFlight => {
            profile.declared.dedups.is_some() && !is_remembered(delivery, due, profile)
        }
    }
}

/// Whether the counterparty still remembers the key throughout an attempt that begins then.
pub(super) fn is_remembered(delivery: &Delivery, due: Time, profile: &Profile) -> bool {
    let Some(key_life) = profile.declared.dedups else { return false };
    // Its memory begins with the first send, which was not before its time began.
    let remembers = delivery.first_send.unwrap_or(delivery.began).plus(key_life);
    delivery.asked_by == AskedBy::Key && due.plus(profile.lease) <= remembers
}

/// An attempt whose lease is over ended in doubt, whoever looks at it next.
pub(super) fn lapse(mut delivery: Delivery, now: Time, profile: &Profile) -> Delivery {
    match delivery.state {
        State::Sending(Sending { lease_ends, .. }) if now >= lease_ends => {
            // Its owner stops sending before the lease ends, so nothing was sent after that.
            may_have_sent(&mut delivery, lease_ends);
            delivery.doubt.get_or_insert(Reason::LeaseLapsed);
            delivery.last = Some(Reason::LeaseLapsed);
            match delivery.proof.clone() {
                Some(proof) if is_final(&proof) => end_by(delivery, proof, now),
                Some(_) | None => clear_up(delivery, now, now, profile),
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
        | State::Resolved(_) => delivery,
    }
}
