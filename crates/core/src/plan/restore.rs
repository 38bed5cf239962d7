//! What a store that was restored to an earlier state can still say about its deliveries.
//!
//! What happened after that state is lost: a command that waits there may have been sent since, and one
//! that had failed may have been tried again. So each of them is asked about under the key that it always
//! had, and where nobody can be asked a person decides.

use super::Verdict;
use super::begin::{clear_up, end_by, is_final};
use crate::delivery::{Delivery, Reason, State};
use crate::profile::Profile;
use crate::time::Time;

pub(super) fn restore(mut delivery: Delivery, now: Time, profile: &Profile) -> (Delivery, Verdict) {
    match delivery.state {
        State::Waiting(_) | State::Sending(_) | State::Unknown(_) | State::Failed(_) => {
            // An answer on record is true whatever was lost after it.
            if let Some(proof) = delivery.proof.clone()
                && is_final(&proof)
            {
                return (end_by(delivery, proof, now), Verdict::Ended);
            }
            // Whoever held it before the restore is told so; what it reports is evidence.
            delivery.fence = delivery.fence.next();
            delivery.doubt = Some(Reason::Restored);
            delivery.last_send = Some(now);
            delivery.attempts = 0;
            delivery.gives_up = delivery.gives_up.max(now.plus(profile.time_max));
            (clear_up(delivery, now, now, profile), Verdict::Ended)
        }
        State::Succeeded(_)
        | State::Refused(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => (delivery, Verdict::Kept),
    }
}
