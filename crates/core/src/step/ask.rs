//! Recovery: whose turn it is to ask, and what an answer means.

use super::settle::{finish, free, lapse, of_this_life, settle};
use super::{Finding, Verdict};
use crate::lease::{Hold, Owner};
use crate::policy::{ASK_PAUSE_MAX, ASK_PAUSE_MIN, Counterparty, Policy};
use crate::record::{Reason, Record, Review, State, Unknown};
use crate::time::Time;
use std::time::Duration;

/// How often *not found* has to be heard, after its bound, before it is proof. One such answer may
/// come from a replica that lags.
const NOT_FOUND_PROOF: u32 = 2;

pub(super) fn ask(record: Record, owner: Owner, now: Time, policy: &Policy) -> (Record, Verdict) {
    let was_running = matches!(record.state, State::Running(_));
    let mut record = lapse(record, now, policy);
    match &mut record.state {
        State::Unknown(unknown) => {
            // An answer on record waits for no turn: nothing that an asker may still hear betters it.
            if let Some(receipt) = unknown.evidence.take() {
                let request = unknown.request;
                record.fence = record.fence.next();
                record.holder = owner;
                return (finish(record, request, receipt, now, policy), Verdict::Settled);
            }
            if now < unknown.ask_after {
                return (record, Verdict::NotDue);
            }
            if !may_be_asked(unknown, now, policy) {
                return (hand_over(record, Reason::NobodyToAsk, now), Verdict::HandedOver);
            }
            if unknown.asked >= policy.questions_max {
                return (hand_over(record, Reason::QuestionsUsedUp, now), Verdict::HandedOver);
            }
            unknown.asked = unknown.asked.saturating_add(1);
            unknown.ask_after = now.plus(policy.lease);
            record.fence = record.fence.next();
            record.holder = owner;
            record.revision = record.revision.saturating_add(1);
            let hold = record.hold();
            (record, Verdict::Ask(hold))
        }
        State::Free if was_running => (record, Verdict::Freed),
        State::Review(_) if was_running => (record, Verdict::HandedOver),
        State::Free | State::Running(_) | State::Review(_) | State::Done(_) | State::Closed(_) => {
            (record, Verdict::NotDue)
        }
    }
}

pub(super) fn hear(
    mut record: Record,
    hold: Hold,
    finding: Finding,
    now: Time,
    policy: &Policy,
) -> (Record, Verdict) {
    let current = record.hold();
    let held = current == hold;
    match &mut record.state {
        State::Unknown(unknown) if held && record.fence != unknown.life => {
            if let Some(receipt) = unknown.evidence.take() {
                let request = unknown.request;
                return (finish(record, request, receipt, now, policy), Verdict::Settled);
            }
            conclude(record, finding, now, policy)
        }
        State::Unknown(Unknown { life, .. }) | State::Review(Review { life, .. })
            if of_this_life(hold, *life, current) =>
        {
            match finding {
                Finding::Executed(receipt) | Finding::Refused(receipt) => {
                    settle(record, hold, receipt, now, policy)
                }
                Finding::NotFound | Finding::Pending | Finding::CannotTell | Finding::Different => {
                    (record, Verdict::Stale)
                }
            }
        }
        State::Done(done) if held => match finding {
            Finding::Executed(receipt) | Finding::Refused(receipt) if done.receipt == receipt => {
                (record, Verdict::Settled)
            }
            Finding::Executed(_)
            | Finding::Refused(_)
            | Finding::NotFound
            | Finding::Pending
            | Finding::CannotTell
            | Finding::Different => (record, Verdict::Stale),
        },
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => (record, Verdict::Stale),
    }
}

/// What a finding means to the one that holds the fence.
fn conclude(mut record: Record, finding: Finding, now: Time, policy: &Policy) -> (Record, Verdict) {
    let State::Unknown(unknown) = &mut record.state else { return (record, Verdict::Stale) };
    let request = unknown.request;
    match finding {
        Finding::Executed(receipt) | Finding::Refused(receipt) => {
            (finish(record, request, receipt, now, policy), Verdict::Settled)
        }
        Finding::Different => (hand_over(record, Reason::FoundDifferent, now), Verdict::HandedOver),
        Finding::Pending | Finding::CannotTell => {
            unknown.not_found = 0;
            let after = now.plus(pause(unknown.asked));
            ask_again(record, after, now, policy)
        }
        Finding::NotFound => match proof_bound(policy) {
            None => (hand_over(record, Reason::NotFound, now), Verdict::HandedOver),
            Some(bound) => {
                let proved_from = unknown.last_send.plus(bound);
                // It counts when it was asked, not when it is told: the asker may have slept with
                // an early answer in its hands. A turn ends one lease after its question.
                if unknown.ask_after < proved_from.plus(policy.lease) {
                    let after = proved_from.max(now.plus(pause(unknown.asked)));
                    return ask_again(record, after, now, policy);
                }
                unknown.not_found = unknown.not_found.saturating_add(1);
                if unknown.not_found >= NOT_FOUND_PROOF {
                    return (free(record, now, policy), Verdict::Freed);
                }
                let after = now.plus(pause(unknown.asked));
                ask_again(record, after, now, policy)
            }
        },
    }
}

/// The turn is over without a final answer. The asker gives up the fence, so that telling the same
/// answer again, after a lost acknowledgement, does not count as a second one.
fn ask_again(mut record: Record, after: Time, now: Time, policy: &Policy) -> (Record, Verdict) {
    let State::Unknown(unknown) = &mut record.state else { return (record, Verdict::Stale) };
    if unknown.asked >= policy.questions_max {
        return (hand_over(record, Reason::QuestionsUsedUp, now), Verdict::HandedOver);
    }
    unknown.ask_after = after;
    record.fence = record.fence.next();
    record.revision = record.revision.saturating_add(1);
    (record, Verdict::AskAgain(after))
}

/// Whether a turn that begins now may put its question.
///
/// To a counterparty that deduplicates, the question is the command itself, sent again. Once it has
/// forgotten the key it would execute it again, so the whole turn has to lie within its memory. That
/// begins with the first send, which was no earlier than the claim, and the claim no later than
/// `run_max` before the last send.
fn may_be_asked(unknown: &Unknown, now: Time, policy: &Policy) -> bool {
    match policy.counterparty {
        Counterparty::Opaque => false,
        Counterparty::Answers { .. } => true,
        // After a restore nobody knows when it was first sent.
        Counterparty::Dedups { .. } if unknown.reason == Reason::Restored => false,
        Counterparty::Dedups { key_life } => {
            let forgets = unknown.last_send.plus(key_life.saturating_sub(policy.run_max));
            now.plus(policy.lease) <= forgets
        }
    }
}

/// The time after which *not found* proves that nothing ran, where somebody declared one.
fn proof_bound(policy: &Policy) -> Option<Duration> {
    match policy.counterparty {
        Counterparty::Answers { not_found_after } => not_found_after,
        Counterparty::Opaque | Counterparty::Dedups { .. } => None,
    }
}

fn hand_over(mut record: Record, reason: Reason, now: Time) -> Record {
    if let State::Unknown(unknown) = &record.state {
        record.state = State::Review(Review {
            request: unknown.request,
            life: unknown.life,
            since: now,
            reason,
        });
        record.revision = record.revision.saturating_add(1);
    }
    record
}

/// The pause after question number `asked`: it doubles from one to the next, up to a cap.
fn pause(asked: u32) -> Duration {
    let doublings = asked.saturating_sub(1).min(16);
    ASK_PAUSE_MIN.saturating_mul(1 << doublings).min(ASK_PAUSE_MAX)
}
