//! Laws about owners: fences, holds, and saying a thing twice.

use super::made::Lived;
use super::{Name, everywhere, name};
use proptest::prelude::*;
use samekey_core::record::{Record, State};
use samekey_core::step::{Arrival, Input, Verdict, step};

#[test]
fn s10_the_fence_never_falls_but_by_the_sweep() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input, now, &policy);
        prop_assert!(next.fence >= record.fence || verdict == Verdict::Swept);
        if verdict == Verdict::Swept {
            prop_assert_eq!(next, Record::ABSENT);
        }
        Ok(())
    });
}

#[test]
fn s10_the_fence_grows_with_every_change_of_owner() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input, now, &policy);
        if next.holder != record.holder && verdict != Verdict::Swept {
            prop_assert!(next.fence > record.fence);
        }
        Ok(())
    });
}

/// A right to act on the world is new exactly when its fence is.
#[test]
fn s10_nobody_is_given_a_fence_that_another_had() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let own = matches!(&input, Input::Claim(claim)
            if claim.owner == record.holder && name(&record) == Name::Running);
        let (next, verdict) = step(record.clone(), input, now, &policy);
        if let Verdict::Run(hold) | Verdict::Ask(hold) = verdict {
            prop_assert_eq!(hold, next.hold());
            prop_assert!(hold.fence > record.fence || (own && hold == record.hold()));
        }
        Ok(())
    });
}

/// Who does not hold the fence ends nothing but a review, which nobody works on, and starts nothing.
#[test]
fn s10_a_stale_hold_leaves_at_most_evidence() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (Input::Renew(hold)
        | Input::Settle(hold, _)
        | Input::Release(hold)
        | Input::Doubt(hold, _)
        | Input::Hear(hold, _)) = &input
        else {
            return Ok(());
        };
        if *hold == record.hold() {
            return Ok(());
        }
        let (next, verdict) = step(record.clone(), input, now, &policy);
        match (&record.state, &next.state) {
            (State::Unknown(before), State::Unknown(after)) => {
                let mut as_before = after.clone();
                as_before.evidence.clone_from(&before.evidence);
                prop_assert_eq!(&as_before, before);
                prop_assert!(before.evidence.is_none() || before.evidence == after.evidence);
            }
            (State::Review(_), State::Done(_)) => prop_assert_eq!(verdict, Verdict::Settled),
            (before, after) => {
                prop_assert_eq!(before, after);
                prop_assert_eq!(verdict, Verdict::Stale);
            }
        }
        prop_assert_eq!((next.fence, next.holder), (record.fence, record.holder));
        Ok(())
    });
}

#[test]
fn an_own_claim_repeated_gives_the_same_hold() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        if !matches!(input, Input::Claim(_)) {
            return Ok(());
        }
        let (next, verdict) = step(record, input.clone(), now, &policy);
        if let Verdict::Run(hold) = verdict {
            let (again, verdict) = step(next.clone(), input, now, &policy);
            prop_assert_eq!(verdict, Verdict::Run(hold));
            prop_assert_eq!(again, next);
        }
        Ok(())
    });
}

/// The acknowledgement of a write is lost, its sender says the same again: nothing is done twice.
#[test]
fn what_was_said_counts_once() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        // A question is a turn each time, and a second restore loses what was said after the first.
        if matches!(input, Input::Ask(_) | Input::Restore) {
            return Ok(());
        }
        let early = matches!(&input, Input::Claim(claim) if claim.arrival == Arrival::Early);
        let (next, verdict) = step(record, input.clone(), now, &policy);
        let (again, second) = step(next.clone(), input, now, &policy);
        prop_assert_eq!(again, next);
        let settled = matches!(
            verdict,
            Verdict::Settled
                | Verdict::Freed
                | Verdict::Renewed(_)
                | Verdict::Recorded
                | Verdict::OutcomePending(_)
                | Verdict::OutcomeUnknown
        );
        let heard_or_late = second == Verdict::Stale;
        prop_assert!(second == verdict || !settled || heard_or_late || early);
        Ok(())
    });
}

#[test]
fn settle_twice_is_settle_once() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        if !matches!(&input, Input::Settle(hold, _) if *hold == record.hold()) {
            return Ok(());
        }
        let (next, verdict) = step(record, input.clone(), now, &policy);
        let later = now.plus(policy.lease);
        let (again, second) = step(next.clone(), input, later, &policy);
        prop_assert_eq!((again, second), (next, verdict));
        Ok(())
    });
}

/// A lease is given for its length, renewed within the run, and never taken back.
#[test]
fn a_renewal_never_shortens_a_lease_nor_outlives_the_run() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input, now, &policy);
        if let (State::Running(before), State::Running(after)) = (&record.state, &next.state)
            && record.fence == next.fence
        {
            prop_assert!(after.lease_ends >= before.lease_ends);
            prop_assert!(after.lease_ends <= after.run_ends);
            prop_assert_eq!((after.since, after.run_ends), (before.since, before.run_ends));
        }
        if let Verdict::Renewed(ends) = verdict {
            prop_assert!(ends > now);
        }
        Ok(())
    });
}
