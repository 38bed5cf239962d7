//! Laws about what may have run: what is sent, what has failed, what is refused.

use super::made::Lived;
use super::{everywhere, lapses};
use proptest::prelude::*;
use samekey_core::backoff::Chance;
use samekey_core::delivery::{AskedBy, Delivery, Grounds, Reason, State};
use samekey_core::outcome::{Outcome, Speaks, Told};
use samekey_core::plan::{Input, Verdict, plan};
use samekey_core::receipt::Receipt;
use std::cell::Cell;

/// What is sent because nothing ran comes after proof of that for every attempt.
#[test]
fn s01_what_is_sent_as_unrun_has_not_run() {
    everywhere(|Lived { delivery, input, now, profile, suspects, .. }| {
        let (next, verdict) = plan(delivery, input, now, &profile);
        if let (Verdict::Send(_), State::Sending(sending)) = (verdict, &next.state)
            && sending.grounds == Grounds::Unrun
        {
            prop_assert!(suspects.none(), "{suspects:?}");
            prop_assert!(next.doubt.is_none() && next.proof.is_none());
        }
        Ok(())
    });
}

#[test]
fn p50_b17_b70_failed_means_that_nothing_can_have_run() {
    everywhere(|Lived { delivery, input, now, profile, suspects, .. }| {
        let (next, verdict) = plan(delivery.clone(), input.clone(), now, &profile);
        if let State::Failed(_) = next.state {
            let suspects = suspects.after(&delivery, &input, &next, &verdict);
            prop_assert!(suspects.none(), "{suspects:?}");
            prop_assert!(next.doubt.is_none() && next.proof.is_none());
        }
        Ok(())
    });
}

/// A refusal speaks only for its own attempt. At every step of every history each attempt that was ever made is
/// refused, as its counterparty may do: waiting for chance to refuse just the second one, in time, would wait for
/// ever.
#[test]
fn b17_a_refusal_ends_it_only_if_nothing_else_may_have_run() {
    let (told_in_doubt, told_alone) = (Cell::new(0), Cell::new(0));
    everywhere(|Lived { delivery, now, profile, suspects, sent, .. }| {
        if delivery.proof.is_some() || delivery.is_finished() {
            return Ok(());
        }
        for hold in sent {
            let refused = Outcome::Refused(REFUSAL, Speaks::ForItself);
            let input = Input::Report(hold, Told::plain(refused), Chance::LEAST);
            let (next, _) = plan(delivery.clone(), input, now, &profile);
            let mut others = suspects.clone();
            others.attempts.remove(&hold.fence.number());
            let ends = matches!(next.state, State::Refused(_));
            prop_assert!(!ends || others.none(), "{others:?}");
            // Its owner tells so while it is under way. When its lease is over, it is in doubt itself.
            let is_under_way =
                matches!(delivery.state, State::Sending(_)) && !lapses(&delivery, now);
            if hold == delivery.hold() && is_under_way {
                let told = if others.none() { &told_alone } else { &told_in_doubt };
                told.set(told.get() + 1);
                // Where two answers contradicted each other, no third one is believed.
                let is_believed = delivery.doubt != Some(Reason::Contradicted);
                prop_assert_eq!(ends, others.none() && is_believed);
            }
        }
        Ok(())
    });
    // Or the law is about nothing.
    assert!(told_in_doubt.get() > 0 && told_alone.get() > 0, "{told_in_doubt:?} {told_alone:?}");
}

const REFUSAL: Receipt = Receipt::Fact { status: 402, location: None };

/// A state that speaks of doubt has one on record, and one that is certain has none.
#[test]
fn doubt_is_on_record_exactly_where_it_is_so() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, _) = plan(delivery, input, now, &profile);
        let uncertain = next.doubt.is_some() || next.proof.is_some();
        let right = match &next.state {
            State::Waiting(waiting) => (waiting.grounds == Grounds::Unrun) != uncertain,
            State::Sending(sending) => {
                (sending.grounds == Grounds::Unrun) == next.doubt.is_none() || next.proof.is_some()
            }
            State::Unknown(_) => uncertain,
            State::Undecided(_) => next.doubt.is_some() && next.proof.is_none(),
            State::Succeeded(_) | State::Refused(_) | State::Failed(_) | State::Cancelled(_) => {
                !uncertain
            }
            State::Resolved(_) => next.proof.is_none(),
        };
        prop_assert!(right, "{next:?}");
        Ok(())
    });
}

/// What may have run is sent again only to a counterparty that remembers the key for as long as the
/// attempt can last.
#[test]
fn p51_t79_nothing_in_doubt_is_sent_to_one_that_may_have_forgotten() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, verdict) = plan(delivery, input, now, &profile);
        let (Verdict::Send(_), State::Sending(sending)) = (verdict, &next.state) else {
            return Ok(());
        };
        let bounded = match sending.grounds {
            Grounds::Unrun => false,
            Grounds::Dedups => true,
            Grounds::InFlight => profile.declared.dedups.is_some(),
        };
        if bounded {
            let life = profile.declared.dedups.unwrap();
            prop_assert!(sending.lease_ends <= next.first_send.unwrap().plus(life));
            prop_assert_eq!(next.asked_by, AskedBy::Key);
        }
        Ok(())
    });
}

/// The answer to a question proves what was so when it was asked, however late it is told.
#[test]
fn b35_not_found_counts_only_when_it_was_asked_after_the_bound() {
    everywhere(|Lived { delivery, input, now, profile, asked, .. }| {
        let State::Unknown(before) = &delivery.state else { return Ok(()) };
        let (next, _) = plan(delivery.clone(), input, now, &profile);
        let counted = match &next.state {
            State::Unknown(after) => after.not_found > before.not_found,
            State::Waiting(waiting) => waiting.grounds == Grounds::Unrun,
            State::Sending(_)
            | State::Succeeded(_)
            | State::Refused(_)
            | State::Failed(_)
            | State::Undecided(_)
            | State::Cancelled(_)
            | State::Resolved(_) => false,
        };
        if counted {
            let bound = profile.declared.answers.and_then(|it| it.not_found_after);
            prop_assert!(bound.is_some());
            let proved_from = delivery.last_send.unwrap().plus(bound.unwrap_or_default());
            prop_assert!(asked >= proved_from);
            prop_assert!(matches!(next.state, State::Unknown(_)) || before.not_found == 1);
        }
        Ok(())
    });
}

#[test]
fn only_what_was_never_sent_is_cancelled() {
    everywhere(|Lived { delivery, now, profile, suspects, .. }| {
        let (next, verdict) = plan(delivery.clone(), Input::Cancel, now, &profile);
        if matches!(next.state, State::Cancelled(_)) {
            prop_assert_eq!(verdict, Verdict::Ended);
            prop_assert!(next.sends == 0 && suspects.none());
        } else {
            prop_assert_eq!((next, verdict), (delivery, Verdict::TooLate));
        }
        Ok(())
    });
}

fn is_certain(delivery: &Delivery) -> bool {
    matches!(delivery.state, State::Succeeded(_) | State::Refused(_))
}

/// What is certain is never taken back into doubt, and an end by proof sends nothing.
#[test]
fn a_lapse_never_ends_in_certainty_but_by_proof() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        if !lapses(&delivery, now) || !matches!(input, Input::Take(_) | Input::Defer(_)) {
            return Ok(());
        }
        let known = delivery.proof.is_some();
        let (next, _) = plan(delivery, input, now, &profile);
        prop_assert!(!is_certain(&next) || known);
        prop_assert!(!matches!(next.state, State::Failed(_)));
        Ok(())
    });
}
