//! What an attempt came to, and what follows from it.

use super::Verdict;
use super::begin::{
    ask_about, clear_up, end, end_by, given_up, is_final, is_remembered, is_too_late, may_be_asked,
    may_repeat,
};
use super::hear::learn;
use super::take::uncount;
use crate::backoff::Chance;
use crate::delivery::{Delivery, Ended, Grounds, Proof, Reason, Sending, State, Waiting};
use crate::lease::Hold;
use crate::outcome::{NotRun, Outcome, Speaks, Told};
use crate::profile::Profile;
use crate::receipt::Receipt;
use crate::time::Time;

pub(super) fn report(
    mut delivery: Delivery,
    hold: Hold,
    told: Told<Outcome>,
    chance: Chance,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    let held = delivery.hold() == hold;
    match delivery.state {
        // Also after the lease has ended: while nobody took the fence, the owner knows best.
        State::Sending(sending) if held => {
            delivery.last_send = Some(now);
            let told = Report { told, chance, now, profile };
            let delivery = told.conclude(delivery, sending);
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

/// An owner that lost the fence brings news. What it was told for certain is evidence; the rest is over.
fn late(
    delivery: Delivery,
    held: bool,
    hold: Hold,
    outcome: Outcome,
    now: Time,
) -> (Delivery, Verdict) {
    let proof = match outcome {
        Outcome::Done(receipt) | Outcome::DoneBodyLost(receipt) => Proof::Executed(receipt),
        Outcome::Refused(receipt, Speaks::ForTheKey) => Proof::Refused(receipt),
        Outcome::Refused(_, Speaks::ForItself)
        | Outcome::NotRun(_)
        | Outcome::NotAccepted(_)
        | Outcome::InFlight
        | Outcome::Pending
        | Outcome::Unknown(_)
        | Outcome::Stop(_) => return (delivery, Verdict::Stale),
    };
    // The acknowledgement of this very report was lost.
    if held && has_ended_by(&delivery, &proof) {
        return (delivery, Verdict::Ended);
    }
    // A hold that this command never gave proves nothing.
    if hold.fence > delivery.fence {
        return (delivery, Verdict::Stale);
    }
    match learn(delivery, proof, now) {
        (delivery, Verdict::Kept) => (delivery, Verdict::Stale),
        other => other,
    }
}

fn has_ended_by(delivery: &Delivery, proof: &Proof) -> bool {
    match (&delivery.state, proof) {
        (State::Succeeded(ended), Proof::Executed(receipt))
        | (State::Refused(ended), Proof::Refused(receipt)) => ended.with == *receipt,
        (
            State::Waiting(_)
            | State::Sending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Refused(_)
            | State::Failed(_)
            | State::Undecided(_)
            | State::Cancelled(_)
            | State::Resolved(_),
            Proof::Executed(_) | Proof::Refused(_),
        ) => false,
    }
}

struct Report<'a> {
    told: Told<Outcome>,
    chance: Chance,
    now: Time,
    profile: &'a Profile,
}

impl Report<'_> {
    fn conclude(self, mut delivery: Delivery, sending: Sending) -> Delivery {
        let now = self.now;
        // An answer for certain that came meanwhile is better than any doubt.
        if let Some(proof) = delivery.proof.clone()
            && is_final(&proof)
        {
            return match (&self.told.what, &proof) {
                (Outcome::Done(_), Proof::Refused(_)) => contradicted(delivery, now),
                (_, Proof::Executed(_) | Proof::Refused(_)) => end_by(delivery, proof, now),
            };
        }
        match self.told.what.clone() {
            Outcome::Done(receipt) => end_by(delivery, Proof::Executed(receipt), now),
            Outcome::DoneBodyLost(receipt) => {
                delivery.proof = Some(Proof::Executed(receipt));
                self.clear_up(delivery, Reason::ConnectionLost)
            }
            Outcome::Refused(receipt, speaks) => self.refused(delivery, receipt, speaks),
            Outcome::NotRun(how) => self.not_run(delivery, sending, how),
            Outcome::NotAccepted(reason) => {
                uncount(&mut delivery, sending.grounds);
                delivery.last = Some(reason);
                self.again(delivery, sending.grounds)
            }
            Outcome::InFlight => {
                uncount(&mut delivery, sending.grounds);
                delivery.doubt.get_or_insert(Reason::InFlight);
                delivery.last = Some(Reason::InFlight);
                self.again(delivery, Grounds::InFlight)
            }
            Outcome::Pending => {
                delivery.doubt.get_or_insert(Reason::InFlight);
                delivery.last = Some(Reason::InFlight);
                self.pending(delivery, sending)
            }
            Outcome::Unknown(reason) => {
                delivery.doubt.get_or_insert(reason);
                self.clear_up(delivery, reason)
            }
            Outcome::Stop(reason) => {
                delivery.doubt.get_or_insert(reason);
                delivery.last = Some(reason);
                end(delivery, reason, now)
            }
        }
    }

    fn refused(&self, mut delivery: Delivery, receipt: Receipt, speaks: Speaks) -> Delivery {
        if delivery.proof.is_some() {
            return contradicted(delivery, self.now);
        }
        match speaks {
            Speaks::ForItself if delivery.doubt.is_some() => {
                delivery.last = Some(Reason::RefusedInDoubt);
                self.clear_up(delivery, Reason::RefusedInDoubt)
            }
            Speaks::ForItself | Speaks::ForTheKey => {
                delivery.doubt = None;
                end_by(delivery, Proof::Refused(receipt), self.now)
            }
        }
    }

    fn not_run(&self, mut delivery: Delivery, sending: Sending, how: NotRun) -> Delivery {
        let reason = match how {
            NotRun::NotSent => Reason::NotConnected,
            NotRun::NotProcessed => Reason::NotProcessed,
            NotRun::RateLimited => Reason::RateLimited,
        };
        delivery.last = Some(reason);
        match sending.grounds {
            Grounds::Unrun => self.again(delivery, Grounds::Unrun),
            // An earlier attempt may have run all the same.
            Grounds::Dedups | Grounds::InFlight => self.clear_up(delivery, reason),
        }
    }

    /// It is sent again on these grounds, if its time and its attempts allow it.
    fn again(&self, delivery: Delivery, grounds: Grounds) -> Delivery {
        let due = self.due(&delivery);
        let counts = match grounds {
            Grounds::Unrun | Grounds::Dedups => true,
            Grounds::InFlight => false,
        };
        let forgotten = grounds == Grounds::Dedups && !is_remembered(&delivery, due, self.profile);
        let reason = if is_too_late(&delivery, due) {
            Reason::TimeOver
        } else if counts && delivery.attempts >= self.profile.attempts_max {
            Reason::AttemptsUsedUp
        } else if forgotten {
            Reason::NobodyToAsk
        } else {
            return given_up(delivery, State::Waiting(Waiting { due, grounds }));
        };
        self.stop(delivery, reason)
    }

    /// The counterparty says later how it ended: it is asked, and where it answers no questions the same
    /// bytes are the question.
    fn pending(&self, mut delivery: Delivery, sending: Sending) -> Delivery {
        if self.profile.declared.answers.is_some() {
            let due =
                self.now.plus(self.profile.questions.wait(1, self.told.retry_after, self.chance));
            return lost_fence(ask_about(delivery, due, self.now, self.profile));
        }
        if self.profile.declared.dedups.is_some() {
            uncount(&mut delivery, sending.grounds);
            return self.again(delivery, Grounds::InFlight);
        }
        end(delivery, Reason::NobodyToAsk, self.now)
    }

    fn clear_up(&self, mut delivery: Delivery, last: Reason) -> Delivery {
        delivery.last = Some(last);
        let due = self.due(&delivery);
        if may_repeat(&delivery, due, self.profile) {
            return lost_fence(clear_up(delivery, due, self.now, self.profile));
        }
        // A question waits as long as a retry would, at the most until the time is over.
        let due = due.min(delivery.gives_up.max(self.now));
        lost_fence(ask_about(delivery, due, self.now, self.profile))
    }

    fn stop(&self, delivery: Delivery, reason: Reason) -> Delivery {
        if delivery.doubt.is_none() && delivery.proof.is_none() {
            return end(delivery, reason, self.now);
        }
        if may_be_asked(&delivery, self.profile) {
            return lost_fence(ask_about(delivery, self.now, self.now, self.profile));
        }
        end(delivery, reason, self.now)
    }

    fn due(&self, delivery: &Delivery) -> Time {
        let retry = delivery.attempts.max(1);
        self.now.plus(self.profile.backoff.wait(retry, self.told.retry_after, self.chance))
    }
}

/// What goes on is nobody's until it is taken again; how it ended was said by who held it.
fn lost_fence(mut delivery: Delivery) -> Delivery {
    if delivery.is_open() {
        delivery.fence = delivery.fence.next();
    }
    delivery
}

/// Two certain answers that cannot both be true: a person has to look.
pub(super) fn contradicted(mut delivery: Delivery, now: Time) -> Delivery {
    delivery.doubt.get_or_insert(Reason::Contradicted);
    delivery.proof = None;
    let ended = Ended { since: now, with: Reason::Contradicted };
    given_up(delivery, State::Undecided(ended))
}
