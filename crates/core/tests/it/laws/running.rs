//! Laws about running at most once: what starts, what frees, what a question proves.

use super::made::Lived;
use super::{Name, everywhere, lapses, name};
use proptest::prelude::*;
use samekey_core::lease::Owner;
use samekey_core::policy::{Counterparty, Rerun};
use samekey_core::record::{Record, State};
use samekey_core::step::{Finding, Input, Verdict, step};

#[test]
fn s07_a_mismatch_changes_nothing_but_a_lapse_that_was_due() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input, now, &policy);
        if verdict == Verdict::Mismatch && next != record {
            prop_assert!(lapses(&record, now));
            prop_assert!(matches!(name(&next), Name::Unknown | Name::Review));
            prop_assert_eq!((next.fence, next.holder), (record.fence, record.holder));
        }
        Ok(())
    });
}

/// Only a claim starts an execution, and only on a free key, or on a lapsed one whose operator
/// vouches for it.
#[test]
fn p29_s01_only_a_claim_of_a_free_key_starts_anything() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let claimed = matches!(input, Input::Claim(_) | Input::ClaimAfterLoss(_));
        let (next, verdict) = step(record.clone(), input, now, &policy);
        let started = name(&next) == Name::Running && next.fence != record.fence;
        if started {
            let vouched = policy.rerun == Rerun::Safe && lapses(&record, now);
            prop_assert!(claimed && (name(&record) == Name::Free || vouched));
            prop_assert!(matches!(verdict, Verdict::Run(_)));
        }
        prop_assert!(name(&next) != Name::Running || started || name(&record) == Name::Running);
        Ok(())
    });
}

/// After a loss, a key without a row is asked about or waits for a person; it does not run.
#[test]
fn s01_what_a_restored_store_does_not_know_does_not_run() {
    everywhere(|Lived { input, now, policy, .. }| {
        let Input::ClaimAfterLoss(claim) = input else { return Ok(()) };
        let (next, _) = step(Record::ABSENT, Input::ClaimAfterLoss(claim), now, &policy);
        prop_assert!(matches!(name(&next), Name::Unknown | Name::Review));
        Ok(())
    });
}

/// After a loss, nothing that was open is taken for still running, and no owner of before has its
/// hold; what is finished stays.
#[test]
fn s10_a_restore_takes_every_open_key_from_its_owner() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        if !matches!(input, Input::Restore) {
            return Ok(());
        }
        let (next, _) = step(record.clone(), Input::Restore, now, &policy);
        prop_assert!(name(&next) != Name::Running);
        prop_assert!(next == record || next.fence > record.fence);
        prop_assert!(record.is_open() || next == record);
        Ok(())
    });
}

/// An answer that was heard, late or in time, ends in *done* or waits as evidence; the key is
/// never free after it.
#[test]
fn p30_evidence_never_runs_anything() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let answer = matches!(
            input,
            Input::Settle(..) | Input::Hear(_, Finding::Executed(_) | Finding::Refused(_))
        );
        let had_evidence =
            matches!(&record.state, State::Unknown(unknown) if unknown.evidence.is_some());
        if !answer && !had_evidence {
            return Ok(());
        }
        let (next, _) = step(record.clone(), input, now, &policy);
        prop_assert!(name(&next) != Name::Free || name(&record) == Name::Free);
        Ok(())
    });
}

/// A key whose command may have run is freed only by its owner's proof, by a declared bound heard
/// twice, by a person, or by an operator who vouches.
#[test]
fn s01_a_key_is_freed_only_with_a_reason() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input.clone(), now, &policy);
        if name(&next) == Name::Free && name(&record) != Name::Free && verdict != Verdict::Swept {
            let reason = match &input {
                Input::Release(hold) => *hold == record.hold(),
                Input::Decide(seen, _) => *seen == record.hold() && name(&record) == Name::Review,
                Input::Hear(hold, Finding::NotFound) => {
                    let heard_before =
                        matches!(&record.state, State::Unknown(unknown) if unknown.not_found == 1);
                    *hold == record.hold() && heard_before
                }
                Input::Doubt(hold, _) => policy.rerun == Rerun::Safe && *hold == record.hold(),
                Input::Claim(_) | Input::ClaimAfterLoss(_) | Input::Ask(_) => {
                    policy.rerun == Rerun::Safe && lapses(&record, now)
                }
                Input::Renew(_)
                | Input::Settle(..)
                | Input::Hear(..)
                | Input::Forget(_)
                | Input::Restore
                | Input::Sweep => false,
            };
            prop_assert!(reason, "freed by {input:?}");
        }
        Ok(())
    });
}

/// The answer to a question proves what was so when it was asked, however late it is told.
#[test]
fn p31_s01_a_question_put_before_the_bound_proves_nothing() {
    everywhere(|Lived { record, input, now, policy, asked, .. }| {
        let Counterparty::Answers { not_found_after: Some(bound) } = policy.counterparty else {
            return Ok(());
        };
        let State::Unknown(before) = &record.state else { return Ok(()) };
        let proves = asked >= before.last_send.plus(bound);
        let (next, _) = step(record.clone(), input.clone(), now, &policy);
        let counted = match &next.state {
            State::Unknown(after) => after.not_found > before.not_found,
            State::Free => matches!(input, Input::Hear(..)),
            State::Running(_) | State::Review(_) | State::Done(_) | State::Closed(_) => false,
        };
        prop_assert!(proves || !counted);
        Ok(())
    });
}

/// To a counterparty that deduplicates, a question is the command sent again: it has to remember the
/// key for as long as the turn lasts, counted from the claim.
#[test]
fn s01_no_question_outlives_the_counterpartys_memory() {
    everywhere(|Lived { record, input, now, policy, claimed, .. }| {
        let Counterparty::Dedups { key_life } = policy.counterparty else { return Ok(()) };
        let (_, verdict) = step(record, input, now, &policy);
        if matches!(verdict, Verdict::Ask(_)) {
            prop_assert!(now.plus(policy.lease) <= claimed.plus(key_life));
        }
        Ok(())
    });
}

/// Questions end: after `questions_max` turns the record is out of *unknown*.
#[test]
fn questions_are_bounded() {
    everywhere(|Lived { record, now, policy, .. }| {
        if !(name(&record) == Name::Unknown || lapses(&record, now)) {
            return Ok(());
        }
        let (mut record, mut now) = (record, now);
        for turn in 0..=policy.questions_max {
            let owner = Owner::from_bytes([u8::try_from(turn % 200).unwrap_or(0) + 50; 16]);
            let (asked, verdict) = step(record, Input::Ask(owner), now, &policy);
            record = asked;
            if let Verdict::Ask(hold) = verdict {
                let (heard, _) = step(record, Input::Hear(hold, Finding::CannotTell), now, &policy);
                record = heard;
            }
            if let State::Unknown(unknown) = &record.state {
                now = unknown.ask_after;
            }
        }
        prop_assert!(name(&record) != Name::Unknown);
        Ok(())
    });
}
