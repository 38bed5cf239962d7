//! What a store that was restored to an earlier state can still say about its deliveries.
//!
//! What happened after that state is lost: a command that waits there may have been sent since, or refused
//! and followed by one under another key. So each of them is asked about: by its business reference where
//! that can be asked, else under the key that it always had, and where nobody can be asked a person decides.
//! What had failed does not go on by itself: a person may have had it tried again.

use super::Verdict;
use super::begin::{ask_about, clear_up, end_by, into, is_final, may_have_sent};
use super::take::said;
use crate::delivery::{AskedBy, Delivery, Ended, Reason, State};
use crate::profile::Profile;
use crate::time::Time;

pub(super) fn restore(mut delivery: Delivery, now: Time, profile: &Profile) -> (Delivery, Verdict) {
    match delivery.state {
        State::Waiting(_) | State::Sending(_) | State::Unknown(_) => {
            // An answer on record is true whatever was lost after it.
            if let Some(proof) = delivery.proof.clone()
                && is_final(&proof)
            {
                return (end_by(delivery, proof, now), Verdict::Ended);
            }
            lost(&mut delivery, now);
            delivery.attempts = 0;
            delivery.gives_up = delivery.gives_up.max(now.plus(profile.time_max));
            if profile.declared.answers.is_some_and(|answers| answers.by_reference) {
                delivery.asked_by = AskedBy::Reference;
                return said(ask_about(delivery, now, now, profile));
            }
            said(clear_up(delivery, now, now, profile))
        }
        State::Failed(_) => {
            lost(&mut delivery, now);
            let ended = Ended { since: now, with: Reason::Restored };
            (into(delivery, State::Undecided(ended)), Verdict::Ended)
        }
        // Why it waits for a person is still so.
        State::Undecided(_) => {
            lost(&mut delivery, now);
            delivery.revision = delivery.revision.saturating_add(1);
            (delivery, Verdict::Ended)
        }
        State::Succeeded(_) | State::Refused(_) | State::Cancelled(_) | State::Resolved(_) => {
            (delivery, Verdict::Kept)
        }
    }
}

/// What is no longer known: whether it was sent since, and what persons saw and decided. Whoever held it
/// before is told so, and what it reports is evidence.
fn lost(delivery: &mut Delivery, now: Time) {
    delivery.fence = delivery.fence.next();
    delivery.doubt = Some(Reason::Restored);
    may_have_sent(delivery, now);
}
