//! What a question came to, and proof that nobody asked for.

use super::Verdict;
use super::begin::{asked_until, end, end_by, given_up};
use super::report::contradicted;
use super::take::said;
use crate::backoff::Chance;
use crate::delivery::{
    AskedBy, Delivery, Ended, Grounds, Proof, Reason, Resolution, State, Unknown, Waiting,
};
use crate::lease::Hold;
use crate::outcome::{Heard, Told};
use crate::profile::Profile;
use crate::receipt::Receipt;
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
            said(turn.conclude(delivery, unknown))
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

/// An asker that lost its turn brings news.
fn late(
    delivery: Delivery,
    held: bool,
    hold: Hold,
    heard: Heard,
    now: Time,
) -> (Delivery, Verdict) {
    let proof = match heard {
        Heard::Executed(receipt) => Some(Proof::Executed(receipt)),
        Heard::Refused(receipt) => Some(Proof::Refused(receipt)),
        Heard::NotFound | Heard::Pending | Heard::CannotTell | Heard::Different => None,
    };
    learn_late(delivery, held, hold, proof, now)
}

/// What somebody knows for certain who lost the fence is evidence; the rest of it is over.
pub(super) fn learn_late(
    delivery: Delivery,
    held: bool,
    hold: Hold,
    proof: Option<Proof>,
    now: Time,
) -> (Delivery, Verdict) {
    // The acknowledgement of the report that ended it was lost, or it lapsed and nobody came since.
    let nothing_new = if held && !delivery.is_open() { Verdict::Ended } else { Verdict::Stale };
    // A hold that this command never gave proves nothing.
    let Some(proof) = proof.filter(|_| hold.fence <= delivery.fence) else {
        return (delivery, nothing_new);
    };
    match learn(delivery, proof, now) {
        (delivery, Verdict::Kept) => (delivery, nothing_new),
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
            Heard::Executed(receipt) => end_by(delivery, Proof::Executed(receipt), self.now),
            Heard::Refused(_) if delivery.proof.is_some() => contradicted(delivery, self.now),
            Heard::Refused(receipt) => end_by(delivery, Proof::Refused(receipt), self.now),
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
                // It is known and at work: the time bounds that, not the number of questions. The longer
                // it has been at work, the less often it is asked.
                let since = self.now.since(delivery.last_send.unwrap_or(delivery.began));
                let due = self.due(self.profile.questions.retry_number(since));
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
            // The next one will not be early; this one has cost nothing.
            unknown.asked = unknown.asked.saturating_sub(1);
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
        if due > asked_until(&delivery, self.profile) {
            return end(delivery, Reason::TimeOver, self.now);
        }
        given_up(delivery, State::Unknown(Unknown { due, ..unknown }))
    }

    fn due(&self, question: u32) -> Time {
        self.now.plus(self.profile.questions.wait(question, self.told.retry_after, self.chance))
    }
}

/// Proof that does not come from the owner of the moment.
pub(super) fn learn(mut delivery: Delivery, proof: Proof, now: Time) -> (Delivery, Verdict) {
    match (&delivery.state, &proof) {
        (State::Waiting(_) | State::Sending(_) | State::Unknown(_), _) => {
            match delivery.proof.as_ref().map(|known| compare(known, &proof)) {
                Some(Compared::Opposed) => (contradicted(delivery, now), Verdict::Ended),
                Some(Compared::NothingNew) => (delivery, Verdict::Kept),
                Some(Compared::Better) | None => add(delivery, proof, now),
            }
        }
        // The answers contradicted each other already: none of them moves it.
        (
            State::Undecided(Ended { with: Reason::Contradicted | Reason::FoundDifferent, .. }),
            Proof::Executed(_) | Proof::Refused(_),
        ) => (delivery, Verdict::Contradicts),
        (State::Undecided(_), Proof::Executed(_) | Proof::Refused(_)) => {
            delivery.fence = delivery.fence.next();
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

/// What one proof adds to another.
enum Compared {
    /// They cannot both be true.
    Opposed,
    /// It tells no more than is known.
    NothingNew,
    /// It has the answer, of which only the fact was known.
    Better,
}

fn compare(known: &Proof, new: &Proof) -> Compared {
    match (known, new) {
        (Proof::Executed(_), Proof::Refused(_)) | (Proof::Refused(_), Proof::Executed(_)) => {
            Compared::Opposed
        }
        (Proof::Executed(Receipt::Fact { .. }), Proof::Executed(Receipt::Kept(_))) => {
            Compared::Better
        }
        (Proof::Executed(_), Proof::Executed(_)) | (Proof::Refused(_), Proof::Refused(_)) => {
            Compared::NothingNew
        }
    }
}

/// Proof about a delivery that is open. It ends it, unless an attempt is on its way, whose owner ends it.
fn add(mut delivery: Delivery, proof: Proof, now: Time) -> (Delivery, Verdict) {
    if let State::Sending(_) = delivery.state {
        delivery.proof = Some(proof);
        delivery.revision = delivery.revision.saturating_add(1);
        return (delivery, Verdict::Recorded);
    }
    delivery.fence = delivery.fence.next();
    (end_by(delivery, proof, now), Verdict::Ended)
}
