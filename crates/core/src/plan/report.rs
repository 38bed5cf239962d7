//! What an attempt came to, and what follows from it.

use super::Verdict;
use super::begin::{
    ask_about, ask_or_end, clear_up, end, end_by, given_up, is_final, is_forgotten, is_too_late,
    may_be_asked, may_have_sent, wait,
};
use super::hear::learn_late;
use super::take::{said, uncount};
use crate::backoff::Chance;
use crate::delivery::{Delivery, Ended, Grounds, Proof, Reason, Sending, State};
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
            may_have_sent(&mut delivery, now);
            let told = Report { told, chance, now, profile };
            said(told.conclude(delivery, sending))
        }
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => late(delivery, held, hold, told.what, now, profile),
    }
}

/// An owner that lost the fence brings news. What it was told for certain is evidence.
fn late(
    delivery: Delivery,
    held: bool,
    hold: Hold,
    outcome: Outcome,
    now: Time,
    profile: &Profile,
) -> (Delivery, Verdict) {
    let proof = match outcome {
        Outcome::Done(receipt) | Outcome::DoneBodyLost(receipt) => Some(Proof::Executed(receipt)),
        Outcome::Refused(receipt, Speaks::ForTheKey) => Some(Proof::Refused(receipt)),
        Outcome::Refused(receipt, Speaks::ForItself) => {
            is_only_attempt(&delivery).then_some(Proof::Refused(receipt))
        }
        Outcome::NotRun(_)
        | Outcome::NotAccepted(_)
        | Outcome::InFlight
        | Outcome::Pending
        | Outcome::Unknown(_)
        | Outcome::Stop(_) => None,
    };
    if let Some(Proof::Executed(_)) = proof
        && is_second_effect(&delivery, hold, profile)
    {
        return match delivery.state {
            State::Sending(_) => (contradicted(delivery, now), Verdict::Ended),
            State::Waiting(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Refused(_)
            | State::Failed(_)
            | State::Undecided(_)
            | State::Cancelled(_)
            | State::Resolved(_) => (delivery, Verdict::Contradicts),
        };
    }
    learn_late(delivery, held, hold, proof, now)
}

/// Whether it is in doubt about one attempt only, so that what is said of that is said of the command.
fn is_only_attempt(delivery: &Delivery) -> bool {
    let in_doubt = match delivery.state {
        State::Waiting(_) | State::Unknown(_) | State::Undecided(_) => true,
        State::Sending(_)
        | State::Succeeded(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Cancelled(_)
        | State::Resolved(_) => false,
    };
    in_doubt && delivery.sends == 1 && delivery.doubt != Some(Reason::Restored)
}

/// Whether an execution that this earlier hold reports is one more than that of the last attempt: every
/// attempt before that had been proved to have run nothing, so the proof was wrong. A counterparty that
/// deduplicates gives all of them one answer.
fn is_second_effect(delivery: &Delivery, hold: Hold, profile: &Profile) -> bool {
    if hold.fence >= delivery.fence || profile.declared.dedups.is_some() {
        return false;
    }
    match &delivery.state {
        State::Sending(sending) => sending.grounds == Grounds::Unrun,
        // The report of the last attempt ended it, and set both moments. Otherwise the fence is not the
        // attempt's, and the report may be its own.
        State::Succeeded(ended) => delivery.last_send == Some(ended.since),
        State::Waiting(_)
        | State::Unknown(_)
        | State::Refused(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => false,
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
            let agrees = agrees(&self.told.what, &proof);
            return if agrees { end_by(delivery, proof, now) } else { contradicted(delivery, now) };
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
                let due = self.due_uncounted(&delivery);
                self.again(delivery, sending.grounds, due)
            }
            Outcome::InFlight => {
                uncount(&mut delivery, sending.grounds);
                delivery.doubt.get_or_insert(Reason::InFlight);
                delivery.last = Some(Reason::InFlight);
                let due = self.due_uncounted(&delivery);
                self.again(delivery, Grounds::InFlight, due)
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
        match (speaks, delivery.proof.clone()) {
            (Speaks::ForTheKey, Some(_)) => contradicted(delivery, self.now),
            // The answer that was to be fetched is not given a second time.
            (Speaks::ForItself, Some(proof)) => end_by(delivery, proof, self.now),
            (Speaks::ForItself, None) if delivery.doubt.is_some() => {
                delivery.last = Some(Reason::RefusedInDoubt);
                if may_be_asked(&delivery, self.profile) {
                    let due = self.due(&delivery);
                    return lost_fence(ask_about(delivery, due, self.now, self.profile));
                }
                self.clear_up(delivery, Reason::RefusedInDoubt)
            }
            (Speaks::ForItself | Speaks::ForTheKey, None) => {
                end_by(delivery, Proof::Refused(receipt), self.now)
            }
        }
    }

    /// This attempt changed nothing: what was known before it is known after it.
    fn not_run(&self, mut delivery: Delivery, sending: Sending, how: NotRun) -> Delivery {
        delivery.last = Some(match how {
            NotRun::NotSent => Reason::NotConnected,
            NotRun::NotProcessed => Reason::NotProcessed,
            NotRun::RateLimited => Reason::RateLimited,
        });
        let due = match sending.grounds {
            Grounds::Unrun | Grounds::Dedups => self.due(&delivery),
            Grounds::InFlight => self.due_uncounted(&delivery),
        };
        self.again(delivery, sending.grounds, due)
    }

    /// It is sent again on these grounds, if its time and its attempts allow it; if not, and something may
    /// have run, it is asked about.
    fn again(&self, delivery: Delivery, grounds: Grounds, due: Time) -> Delivery {
        let counts = match grounds {
            Grounds::Unrun | Grounds::Dedups => true,
            Grounds::InFlight => false,
        };
        let reason = if is_too_late(&delivery, due) {
            Reason::TimeOver
        } else if counts && delivery.attempts >= self.profile.attempts_max {
            Reason::AttemptsUsedUp
        } else if is_forgotten(&delivery, grounds, due, self.profile) {
            Reason::NobodyToAsk
        } else {
            return wait(delivery, due, grounds, self.now);
        };
        if delivery.doubt.is_none() && delivery.proof.is_none() {
            return end(delivery, reason, self.now);
        }
        lost_fence(ask_or_end(delivery, reason, due, self.now, self.profile))
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
            let due = self.due_uncounted(&delivery);
            return self.again(delivery, Grounds::InFlight, due);
        }
        end(delivery, Reason::NobodyToAsk, self.now)
    }

    fn clear_up(&self, mut delivery: Delivery, last: Reason) -> Delivery {
        delivery.last = Some(last);
        let due = self.due(&delivery);
        lost_fence(clear_up(delivery, due, self.now, self.profile))
    }

    fn due(&self, delivery: &Delivery) -> Time {
        self.due_before(delivery.attempts.max(1))
    }

    /// When an attempt that does not count is made again: as if all the time that it had were spent on
    /// attempts that do.
    fn due_uncounted(&self, delivery: &Delivery) -> Time {
        let left = delivery.gives_up.since(self.now);
        let since = self.profile.time_max.saturating_sub(left);
        self.due_before(self.profile.backoff.retry_number(since).max(delivery.attempts))
    }

    fn due_before(&self, retry: u32) -> Time {
        self.now.plus(self.profile.backoff.wait(retry, self.told.retry_after, self.chance))
    }
}

/// Whether what an attempt came to and what became known meanwhile can both be true.
fn agrees(outcome: &Outcome, proof: &Proof) -> bool {
    match (proof, outcome) {
        (Proof::Executed(_), Outcome::Refused(_, Speaks::ForTheKey))
        | (
            Proof::Refused(_),
            Outcome::Done(_)
            | Outcome::DoneBodyLost(_)
            | Outcome::InFlight
            | Outcome::Pending
            | Outcome::Stop(_),
        ) => false,
        (
            Proof::Executed(_),
            Outcome::Done(_)
            | Outcome::DoneBodyLost(_)
            | Outcome::InFlight
            | Outcome::Pending
            | Outcome::Stop(_),
        )
        | (Proof::Refused(_), Outcome::Refused(_, Speaks::ForTheKey))
        | (
            Proof::Executed(_) | Proof::Refused(_),
            Outcome::Refused(_, Speaks::ForItself)
            | Outcome::NotRun(_)
            | Outcome::NotAccepted(_)
            | Outcome::Unknown(_),
        ) => true,
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
