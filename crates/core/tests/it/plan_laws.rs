//! Laws of the calling side's machine: what holds for every delivery, every input, every moment and
//! profile. As in [`crate::laws`], *lived* deliveries were reached by a random history, and *made up* ones
//! have any field at any value.

mod bounds;
mod doubt;
mod made;
mod owners;

use crate::laws::{HISTORIES, Law, MADE_UP, holds_for, made::any_time};
use made::{Lived, any_delivery, any_input, any_profile, history};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use samekey_core::delivery::{Delivery, Proof, Reason, State};
use samekey_core::plan::{Input, Verdict, plan};
use samekey_core::time::Time;

/// Holds a law against every step of many histories.
fn everywhere(law: impl Fn(Lived) -> Law) {
    holds_for(history(), HISTORIES, |steps| steps.into_iter().try_for_each(&law));
}

/// Whether looking at the delivery at this moment turns it, whatever is wanted of it.
fn lapses(delivery: &Delivery, now: Time) -> bool {
    matches!(&delivery.state, State::Sending(sending) if now >= sending.lease_ends)
}

/// It never panics, also not at the ends of time and of numbers.
#[test]
fn it_is_total() {
    let all = (any_delivery(), any_input(), any_time(), any_profile());
    holds_for(all, MADE_UP, |(delivery, input, now, profile)| {
        let _ = plan(delivery, input, now, &profile);
        Ok(())
    });
}

#[test]
fn the_revision_grows_exactly_when_the_delivery_changed() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, _) = plan(delivery.clone(), input, now, &profile);
        prop_assert!(next.revision >= delivery.revision);
        prop_assert_eq!(next.revision > delivery.revision, next != delivery);
        let mut without = next.clone();
        without.revision = delivery.revision;
        prop_assert_eq!(without == delivery, next == delivery, "a write that changes nothing");
        Ok(())
    });
}

#[test]
fn what_is_refused_leaves_the_delivery() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, verdict) = plan(delivery.clone(), input, now, &profile);
        let refused = match verdict {
            Verdict::NotDue
            | Verdict::Contradicts
            | Verdict::Stale
            | Verdict::TooLate
            | Verdict::StaleView
            | Verdict::Kept => true,
            Verdict::Send(_)
            | Verdict::Ask(..)
            | Verdict::Ended
            | Verdict::Later(_)
            | Verdict::Recorded => false,
        };
        prop_assert!(!refused || next == delivery, "{verdict:?} changed the delivery");
        Ok(())
    });
}

/// The verdict tells the state: what is due again is open, and what has ended is not.
#[test]
fn the_verdict_tells_what_the_delivery_is() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, verdict) = plan(delivery, input, now, &profile);
        match verdict {
            Verdict::Later(due) => prop_assert_eq!(next.due(), Some(due)),
            Verdict::Ended => prop_assert!(!next.is_open()),
            Verdict::Send(_) => prop_assert!(matches!(next.state, State::Sending(_))),
            Verdict::Ask(..) => prop_assert!(matches!(next.state, State::Unknown(_))),
            Verdict::Recorded => prop_assert!(next.proof.is_some()),
            Verdict::NotDue
            | Verdict::Contradicts
            | Verdict::Stale
            | Verdict::TooLate
            | Verdict::StaleView
            | Verdict::Kept => {}
        }
        Ok(())
    });
}

#[test]
fn what_is_finished_never_changes() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, _) = plan(delivery.clone(), input, now, &profile);
        prop_assert!(!delivery.is_finished() || next == delivery);
        Ok(())
    });
}

/// What waits for a person goes on by itself only towards certainty.
#[test]
fn b16_only_a_person_or_certainty_leads_out_of_the_inbox() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        if !delivery.is_in_inbox() {
            return Ok(());
        }
        let by_person = matches!(input, Input::Decide(..) | Input::Retry(_));
        let (next, verdict) = plan(delivery, input, now, &profile);
        let certain = matches!(next.state, State::Succeeded(_) | State::Refused(_));
        prop_assert!(by_person || certain || next.is_in_inbox());
        prop_assert!(!matches!(verdict, Verdict::Send(_) | Verdict::Ask(..)));
        Ok(())
    });
}

/// A late answer moves what is undecided, and nothing is sent; but what was contradicted is a person's.
#[test]
fn b16_certain_news_ends_what_is_undecided() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (State::Undecided(ended), Input::Learn(proof)) = (&delivery.state, &input) else {
            return Ok(());
        };
        let for_a_person = matches!(ended.with, Reason::Contradicted | Reason::FoundDifferent);
        let (next, verdict) = plan(delivery.clone(), input.clone(), now, &profile);
        if for_a_person {
            prop_assert_eq!((next, verdict), (delivery.clone(), Verdict::Contradicts));
            return Ok(());
        }
        match proof {
            Proof::Executed(_) => prop_assert!(matches!(next.state, State::Succeeded(_))),
            Proof::Refused(_) => prop_assert!(matches!(next.state, State::Refused(_))),
        }
        prop_assert_eq!(next.sends, delivery.sends);
        Ok(())
    });
}

#[test]
fn the_reasons_and_their_codes_are_one_to_one() {
    for (reason, code) in Reason::ALL {
        assert_eq!(reason.code(), code);
        assert_eq!(Reason::from_code(code), Some(reason));
    }
    assert_eq!(Reason::from_code("no-such-reason"), None);
}

/// Histories reach every state and every verdict, or the laws above are about nothing.
#[test]
fn histories_reach_every_state_and_verdict() {
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..HISTORIES {
        for Lived { delivery, input, now, profile, .. } in
            history().new_tree(&mut runner).unwrap().current()
        {
            *seen.entry(delivery.state_name().to_owned()).or_default() += 1;
            let (_, verdict) = plan(delivery, input, now, &profile);
            let word = format!("{verdict:?}");
            let word = word.split(['(', ' ']).next().unwrap().to_owned();
            *seen.entry(word).or_default() += 1;
        }
    }
    let wanted = [
        "waiting",
        "sending",
        "unknown",
        "succeeded",
        "refused",
        "failed",
        "undecided",
        "cancelled",
        "resolved",
        "Send",
        "Ask",
        "Ended",
        "Later",
        "NotDue",
        "Recorded",
        "Contradicts",
        "Stale",
        "TooLate",
        "StaleView",
        "Kept",
    ];
    for word in wanted {
        assert!(seen.get(word).copied().unwrap_or(0) > 3, "{word} was hardly ever seen: {seen:?}");
    }
}
