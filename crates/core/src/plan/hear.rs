//! What a question came to, and proof that nobody asked for.

use super::Verdict;
use super::begin::{end, end_by, given_up, is_final};
use super::report::contradicted;
use crate::backoff::Chance;
use crate::delivery::{
    AskedBy, Delivery, Ended, Grounds, Proof, Reason, Resolution, State, Unknown, Waiting,
};
use crate::lease::Hold;
use crate::outcome::{Heard, Told};
use crate::profile::Profile;
use crate::time::Time;

/// How often *not found* has to be heard, after its bound, before it is proof. One such answer may
/// come from a replica that lags.
const NOT_FOUND_PROOF: u32 = 2;

pub(super) fn hear(
    delivery: Delivery,
    hold: Hold,
    told: Told<Heard>,
    chance: Chance,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    let held = delivery.hold() == hold;
    match delivery.state {
        State::Unknown(unknown) if held => {
            let turn = Turn { told, chance, now, profile };
            let delivery = turn.conclude(delivery, unknown);
            let verdict = match delivery.due() {
                Some(due) => Verdict::Later(due),
                None => Verdict::Ended,
            };
            (delivery, verdict)
        }
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => late(delivery, held, hold, told.what, now),
    }
}

fn late(
    delivery: Delivery,
    held: bool,
    hold: Hold,
    heard: Heard,
    now: Time,
) -> (Delivery, Verdict) {
    let proof = match heard {
        Heard::Executed(receipt) => Proof::Executed(receipt),
        Heard::Refused(receipt) => Proof::Refused(receipt),
        Heard::NotFound | Heard::Pending | Heard::CannotTell | Heard::Different => {
            return (delivery, Verdict::Stale);
        }
    };
    if hold.fence > delivery.fence {
        return (delivery, Verdict::Stale);
    }
    match learn(delivery, proof, now) {
        // The acknowledgement of this very report was lost.
        (delivery, Verdict::Kept) if held => (delivery, Verdict::Ended),
        (delivery, Verdict::Kept) => (delivery, Verdict::Stale),
        other => other,
    }
}

struct Turn<'a> {
    told: Told<Heard>,
    chance: Chance,
    now: Time,
    profile: &'a Profile,
}

impl Turn<'_> {
    fn conclude(self, mut delivery: Delivery, mut unknown: Unknown) -> Delivery {
        match self.told.what.clone() {
            Heard::Executed(receipt) => {
                let proof = Proof::Executed(receipt);
                delivery.doubt = None;
                end_by(delivery, proof, self.now)
            }
            Heard::Refused(_) if delivery.proof.is_some() => contradicted(delivery, self.now),
            Heard::Refused(receipt) => {
                delivery.doubt = None;
                end_by(delivery, Proof::Refused(receipt), self.now)
            }
            Heard::Different => {
                delivery.proof = None;
                delivery.doubt.get_or_insert(Reason::FoundDifferent);
                end(delivery, Reason::FoundDifferent, self.now)
            }
            Heard::Pending => {
                delivery.last = Some(Reason::InFlight);
                unknown.not_found = 0;
                if self.now >= delivery.gives_up {
                    return end(delivery, Reason::TimeOver, self.now);
                }
                // It is known and at work: the time bounds that, not the number of questions.
                let due = self.due(unknown.asked);
                unknown.asked = unknown.asked.saturating_sub(1);
                self.again(delivery, unknown, due)
            }
            Heard::CannotTell => {
                delivery.last = Some(Reason::AnswerUnclear);
                unknown.not_found = 0;
                let due = self.due(unknown.asked);
                self.again(delivery, unknown, due)
            }
            Heard::NotFound => self.not_found(delivery, unknown),
        }
    }

    fn not_found(&self, mut delivery: Delivery, mut unknown: Unknown) -> Delivery {
        delivery.last = Some(Reason::NotFound);
        let bound = self.profile.declared.answers.and_then(|answers| answers.not_found_after);
        let Some(bound) = bound else { return end(delivery, Reason::NotFound, self.now) };
        let proved_from = delivery.last_send.unwrap_or(self.now).plus(bound);
        let due = self.due(unknown.asked);
        // It counts when it was asked, not when it is told: the asker may have slept with an early
        // answer in its hands. A turn ends one lease after its question.
        if unknown.due < proved_from.plus(self.profile.lease) {
            return self.again(delivery, unknown, due.max(proved_from));
        }
        unknown.not_found = unknown.not_found.saturating_add(1);
        if unknown.not_found < NOT_FOUND_PROOF {
            return self.again(delivery, unknown, due);
        }
        if delivery.proof.is_some() {
            return contradicted(delivery, self.now);
        }
        delivery.doubt = None;
        delivery.asked_by = AskedBy::Key;
        let waiting = Waiting { due: self.now, grounds: Grounds::Unrun };
        given_up(delivery, State::Waiting(waiting))
    }

    /// The turn is over without a final answer.
    fn again(&self, delivery: Delivery, unknown: Unknown, due: Time) -> Delivery {
        if unknown.asked >= self.profile.questions_max {
            return end(delivery, Reason::QuestionsUsedUp, self.now);
        }
        given_up(delivery, State::Unknown(Unknown { due, ..unknown }))
    }

    fn due(&self, asked: u32) -> Time {
        self.now.plus(self.profile.questions.wait(asked, self.told.retry_after, self.chance))
    }
}

/// Proof that does not come from the owner of the moment.
pub(super) fn learn(mut delivery: Delivery, proof: Proof, now: Time) -> (Delivery, Verdict) {
    match (&delivery.state, &proof) {
        // Nobody holds it, or only somebody who asks what is known now.
        (State::Waiting(_) | State::Unknown(_), Proof::Executed(_) | Proof::Refused(_)) => {
            if let (Some(Proof::Executed(_)), Proof::Refused(_)) = (&delivery.proof, &proof) {
                return (contradicted(delivery, now), Verdict::Ended);
            }
            delivery.fence = delivery.fence.next();
            delivery.doubt = None;
            (end_by(delivery, proof, now), Verdict::Ended)
        }
        (State::Sending(_), Proof::Executed(_) | Proof::Refused(_)) => {
            match &delivery.proof {
                Some(known) if is_final(known) => return (delivery, Verdict::Kept),
                Some(_) | None => {}
            }
            delivery.proof = Some(proof);
            delivery.revision = delivery.revision.saturating_add(1);
            (delivery, Verdict::Recorded)
        }
        (State::Undecided(_), Proof::Executed(_) | Proof::Refused(_)) => {
            delivery.fence = delivery.fence.next();
            delivery.doubt = None;
            (end_by(delivery, proof, now), Verdict::Ended)
        }
        // It was taken for certain that nothing ran, and a new key may have been used since.
        (State::Failed(_), Proof::Executed(_)) => (contradicted(delivery, now), Verdict::Ended),
        (State::Refused(_), Proof::Executed(_))
        | (State::Succeeded(_), Proof::Refused(_))
        | (State::Cancelled(_), Proof::Executed(_) | Proof::Refused(_))
        | (State::Resolved(Ended { with: Resolution::WrittenOff, .. }), Proof::Executed(_))
        | (State::Resolved(Ended { with: Resolution::Executed, .. }), Proof::Refused(_)) => {
            (delivery, Verdict::Contradicts)
        }
        (State::Succeeded(_), Proof::Executed(_))
        | (State::Refused(_) | State::Failed(_), Proof::Refused(_))
        | (State::Resolved(Ended { with: Resolution::Executed, .. }), Proof::Executed(_))
        | (State::Resolved(Ended { with: Resolution::WrittenOff, .. }), Proof::Refused(_)) => {
            (delivery, Verdict::Kept)
        }
    }
}
