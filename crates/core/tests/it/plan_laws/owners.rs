//! Laws about owners: fences, holds, views, and saying a thing twice.

use super::everywhere;
use super::made::Lived;
use proptest::prelude::*;
use samekey_core::delivery::{Delivery, State};
use samekey_core::lease::Hold;
use samekey_core::outcome::{Heard, Outcome};
use samekey_core::plan::{Input, Verdict, plan};

#[test]
fn s10_the_fence_never_falls_and_grows_with_every_change_of_owner() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, _) = plan(delivery.clone(), input, now, &profile);
        prop_assert!(next.fence >= delivery.fence);
        prop_assert!(next.holder == delivery.holder || next.fence > delivery.fence);
        Ok(())
    });
}

/// A right to send or to ask is new whenever it is given.
#[test]
fn s10_nobody_is_given_a_fence_that_another_had() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, verdict) = plan(delivery.clone(), input, now, &profile);
        let hold = match verdict {
            Verdict::Send(attempt) => attempt.hold,
            Verdict::Ask(hold, _) => hold,
            Verdict::Ended
            | Verdict::Later(_)
            | Verdict::NotDue
            | Verdict::Recorded
            | Verdict::Contradicts
            | Verdict::Stale
            | Verdict::TooLate
            | Verdict::StaleView
            | Verdict::Kept => return Ok(()),
        };
        prop_assert_eq!(hold, next.hold());
        prop_assert!(hold.fence > delivery.fence);
        Ok(())
    });
}

/// Who spoke, and whether it was certain.
fn spoken(input: &Input) -> Option<(Hold, bool)> {
    match input {
        Input::Report(hold, told, _) => {
            let certain = match told.what {
                Outcome::Done(_) | Outcome::DoneBodyLost(_) | Outcome::Refused(..) => true,
                Outcome::NotRun(_)
                | Outcome::NotAccepted(_)
                | Outcome::InFlight
                | Outcome::Pending
                | Outcome::Unknown(_)
                | Outcome::Stop(_) => false,
            };
            Some((*hold, certain))
        }
        Input::Hear(hold, told, _) => {
            let certain = matches!(told.what, Heard::Executed(_) | Heard::Refused(_));
            Some((*hold, certain))
        }
        Input::Release(hold, _) => Some((*hold, false)),
        Input::Take(_)
        | Input::Defer(_)
        | Input::Learn(_)
        | Input::Cancel
        | Input::Decide(..)
        | Input::Retry(_)
        | Input::Restore => None,
    }
}

fn is_working(delivery: &Delivery) -> bool {
    matches!(delivery.state, State::Sending(_) | State::Unknown(_))
}

#[test]
fn p58_b28_s10_a_stale_hold_changes_nothing_but_by_certain_news() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let Some((hold, certain)) = spoken(&input) else { return Ok(()) };
        if hold == delivery.hold() && is_working(&delivery) {
            return Ok(());
        }
        let (next, verdict) = plan(delivery.clone(), input, now, &profile);
        if !certain {
            prop_assert!(matches!(verdict, Verdict::Stale | Verdict::Ended), "{verdict:?}");
            prop_assert_eq!(&next, &delivery);
        }
        if next != delivery {
            let learned = matches!(
                next.state,
                State::Succeeded(_) | State::Refused(_) | State::Undecided(_) | State::Sending(_)
            );
            prop_assert!(learned, "a stale hold made it {}", next.state_name());
            prop_assert_eq!(next.holder, delivery.holder);
        }
        Ok(())
    });
}

/// The acknowledgement of a write is lost, its sender says the same again: nothing is done twice.
#[test]
fn what_was_said_counts_once() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        // Deferring for no time at all is due at once, and a second restore loses what was said after the
        // first.
        if matches!(&input, Input::Restore | Input::Defer(_)) {
            return Ok(());
        }
        let (next, verdict) = plan(delivery, input.clone(), now, &profile);
        let (again, second) = plan(next.clone(), input, now, &profile);
        prop_assert_eq!(again, next, "{:?}, then {:?}", verdict, second);
        Ok(())
    });
}

/// Who ended it and did not hear so is told that it has ended.
#[test]
fn what_ended_it_said_again_is_not_stale() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let Some((hold, _)) = spoken(&input) else { return Ok(()) };
        let (next, verdict) = plan(delivery, input.clone(), now, &profile);
        if verdict == Verdict::Ended && next.hold() == hold {
            let (_, second) = plan(next, input, now, &profile);
            prop_assert_eq!(second, Verdict::Ended);
        }
        Ok(())
    });
}

#[test]
fn a_person_moves_only_what_was_seen() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (Input::Decide(seen, _) | Input::Retry(seen)) = &input else { return Ok(()) };
        let stale = *seen != delivery.hold() || !delivery.is_in_inbox();
        let (_, verdict) = plan(delivery.clone(), input.clone(), now, &profile);
        prop_assert!(!stale || verdict == Verdict::StaleView);
        Ok(())
    });
}

/// After a loss nobody has the hold of before, nothing is sent on the ground that nothing ran, and what had
/// failed does not go on.
#[test]
fn t83_after_a_restore_nothing_is_taken_for_unrun() {
    everywhere(|Lived { delivery, now, profile, .. }| {
        let (next, _) = plan(delivery.clone(), Input::Restore, now, &profile);
        if delivery.is_finished() {
            prop_assert_eq!(next, delivery);
            return Ok(());
        }
        let ended_by_answer = matches!(next.state, State::Succeeded(_) | State::Refused(_));
        prop_assert!(ended_by_answer || next.fence > delivery.fence);
        prop_assert!(ended_by_answer || next.doubt.is_some() || next.proof.is_some());
        prop_assert!(!matches!(next.state, State::Sending(_) | State::Failed(_)));
        prop_assert!(!delivery.is_in_inbox() || matches!(next.state, State::Undecided(_)));
        Ok(())
    });
}
