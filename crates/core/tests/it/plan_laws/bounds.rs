//! Laws about time and numbers: Retry-After, attempts, questions, and that everything ends.

use super::everywhere;
use super::made::{Lived, any_chance, any_heard, any_outcome, any_profile, any_told};
use crate::laws::{HISTORIES, holds_for};
use proptest::prelude::*;
use samekey_core::delivery::{Delivery, State};
use samekey_core::lease::Owner;
use samekey_core::outcome::Told;
use samekey_core::plan::{Input, Verdict, enqueued, plan};
use samekey_core::profile::{ASKING_TIME_MAX, ATTEMPT_TIME_MIN, Profile};
use samekey_core::time::Time;
use std::time::Duration;

#[test]
fn s12_nothing_is_due_before_retry_after() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (Input::Report(hold, Told { retry_after: Some(wait), .. }, _)
        | Input::Hear(hold, Told { retry_after: Some(wait), .. }, _)) = &input
        else {
            return Ok(());
        };
        let (held, wait) = (*hold == delivery.hold(), *wait);
        let (next, verdict) = plan(delivery, input, now, &profile);
        if let (true, Verdict::Later(due)) = (held, verdict) {
            prop_assert!(due >= now.plus(wait) || is_proof(&next), "due {due:?}");
        }
        Ok(())
    });
}

/// *Not found* for the second time is certain, and the counterparty answered: it is sent at once.
fn is_proof(next: &Delivery) -> bool {
    matches!(&next.state, State::Waiting(_))
        && next.doubt.is_none()
        && next.proof.is_none()
        && matches!(next.last, Some(samekey_core::delivery::Reason::NotFound))
}

#[test]
fn every_attempt_is_counted_and_on_record_before_it_leaves() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, verdict) = plan(delivery.clone(), input, now, &profile);
        let grew = next.sends.checked_sub(delivery.sends);
        if let Verdict::Send(attempt) = verdict {
            prop_assert_eq!(grew, Some(1));
            prop_assert_eq!(attempt.number, next.sends);
            prop_assert!(next.first_send.is_some());
        } else {
            prop_assert_eq!(grew, Some(0));
        }
        prop_assert!(next.attempts <= next.sends);
        prop_assert!(next.attempts <= profile.attempts_max);
        prop_assert!(next.last_send >= delivery.last_send, "what was sent stays sent");
        Ok(())
    });
}

#[test]
fn b74_an_attempt_fits_into_its_time_and_its_lease() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, verdict) = plan(delivery, input, now, &profile);
        if let (Verdict::Send(attempt), State::Sending(sending)) = (verdict, &next.state) {
            prop_assert!(attempt.time_max >= ATTEMPT_TIME_MIN);
            prop_assert!(attempt.time_max <= profile.attempt_time_max);
            prop_assert!(now.plus(attempt.time_max) <= next.gives_up);
            prop_assert!(now.plus(attempt.time_max) < sending.lease_ends);
        }
        Ok(())
    });
}

/// When the last question may be due, told once more.
fn asked_until(delivery: &Delivery, profile: &Profile) -> Time {
    let bound = profile.declared.answers.and_then(|it| it.not_found_after).unwrap_or_default();
    let proved_from = delivery.last_send.unwrap_or(delivery.began).plus(bound);
    delivery.gives_up.max(proved_from).plus(ASKING_TIME_MAX)
}

#[test]
fn b73_b74_no_wait_passes_the_end_of_its_time() {
    everywhere(|Lived { delivery, input, now, profile, .. }| {
        let (next, verdict) = plan(delivery, input, now, &profile);
        let Verdict::Later(due) = verdict else { return Ok(()) };
        let latest = if matches!(next.state, State::Waiting(_)) {
            next.gives_up
        } else {
            prop_assert!(matches!(next.state, State::Unknown(_)));
            asked_until(&next, &profile)
        };
        prop_assert!(due <= latest.max(now));
        Ok(())
    });
}

/// Whatever is answered, and whether workers crash or not: it ends, after so many requests and so much
/// time.
#[test]
fn t75_every_delivery_ends() {
    let replies = (any_told(any_outcome()), any_told(any_heard()), any_chance(), any::<bool>());
    let replies = prop::collection::vec(replies, 1..12);
    holds_for((any_profile(), replies), HISTORIES, |(profile, replies)| {
        let began = Time::from_micros(1_000_000_000);
        let mut now = began;
        let mut delivery = enqueued(now, Duration::ZERO, &profile);
        let requests_max = requests_max(&profile);
        let mut requests = 0;
        let mut last = now;
        for (outcome, heard, chance, crashes) in replies.iter().cycle() {
            let Some(due) = delivery.due() else { break };
            now = now.max(due);
            let (next, verdict) = plan(delivery, Input::Take(owner(requests)), now, &profile);
            let input = if let Verdict::Send(attempt) = verdict {
                Input::Report(attempt.hold, outcome.clone(), *chance)
            } else if let Verdict::Ask(hold, _) = verdict {
                Input::Hear(hold, heard.clone(), *chance)
            } else {
                prop_assert!(!next.is_open());
                return Ok(());
            };
            requests += 1;
            last = now;
            prop_assert!(requests <= requests_max, "{requests} requests: {next:?}");
            delivery = if *crashes { next } else { plan(next, input, now, &profile).0 };
        }
        let ends = asked_until(&delivery, &profile).plus(profile.lease);
        prop_assert!(last <= ends);
        prop_assert!(delivery.gives_up == began.plus(profile.time_max));
        Ok(())
    });
}

fn owner(number: u32) -> Owner {
    Owner::from_bytes(u128::from(number).to_le_bytes())
}

/// More requests than any delivery of this profile makes: its attempts; those that do not count, each wait
/// before which is used twice at the most until it is at the cap; and after every one of them questions.
fn requests_max(profile: &Profile) -> u32 {
    let doublings = profile.time_max.as_nanos() / profile.backoff.base.as_nanos();
    let at_cap = profile.time_max.as_nanos() / (profile.backoff.cap.as_nanos() / 2);
    let uncounted = 2 * (doublings.ilog2() + 2) + u32::try_from(at_cap).unwrap();
    // Pending is bounded by time, as what does not count is.
    let questions = profile.questions_max + 2 * 32;
    (profile.attempts_max + uncounted) + questions * (profile.attempts_max + 1)
}
