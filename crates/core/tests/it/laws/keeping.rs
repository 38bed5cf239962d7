//! Laws about what is kept: finished records, the sweep, the fence of a freed key.

use super::made::{self, Lived};
use super::{Name, everywhere, name, receipt};
use proptest::prelude::*;
use samekey_core::lease::Owner;
use samekey_core::receipt::Receipt;
use samekey_core::record::Record;
use samekey_core::step::{Arrival, Claim, Input, Verdict, step};
use samekey_core::time::Time;

#[test]
fn p27_s10_a_done_record_never_changes_but_by_forget_and_sweep() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        if name(&record) != Name::Done {
            return Ok(());
        }
        let by_right = matches!(input, Input::Forget(_) | Input::Sweep);
        let (next, verdict) = step(record.clone(), input, now, &policy);
        if by_right {
            if verdict != Verdict::Swept {
                prop_assert_eq!(name(&next), Name::Done);
                prop_assert_eq!(next.request(), record.request());
                let status = |it: &Record| {
                    receipt(it).map(|it| match it {
                        Receipt::Kept(answer) => answer.status,
                        Receipt::Fact { status, .. } => *status,
                    })
                };
                prop_assert_eq!(status(&next), status(&record));
            }
        } else {
            prop_assert_eq!(next, record);
        }
        Ok(())
    });
}

#[test]
fn a_closed_record_never_runs_and_leaves_only_by_the_sweep() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        if name(&record) != Name::Closed {
            return Ok(());
        }
        let (next, verdict) = step(record.clone(), input, now, &policy);
        prop_assert!(next == record || verdict == Verdict::Swept);
        Ok(())
    });
}

#[test]
fn s15_open_records_are_never_swept() {
    everywhere(|Lived { record, now, policy, .. }| {
        let end_of_time = Time::from_micros(i64::MAX);
        for moment in [now, end_of_time] {
            let (next, verdict) = step(record.clone(), Input::Sweep, moment, &policy);
            if record.is_open() {
                prop_assert_eq!(&verdict, &Verdict::Kept);
            }
            if verdict == Verdict::Kept {
                prop_assert_eq!(next, record.clone());
            }
        }
        Ok(())
    });
}

#[test]
fn s15_nothing_is_swept_before_its_time() {
    everywhere(|Lived { record, now, policy, .. }| {
        let (_, verdict) = step(record.clone(), Input::Sweep, now, &policy);
        prop_assert_eq!(verdict == Verdict::Swept, !record.is_open() && now >= record.keep_until);
        Ok(())
    });
}

#[test]
fn s15_what_ends_is_kept_for_the_whole_retention() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input, now, &policy);
        if verdict != Verdict::Swept {
            prop_assert!(next.keep_until >= record.keep_until, "kept shorter than was said");
            if name(&next) != name(&record) && !next.is_open() {
                prop_assert!(next.keep_until >= now.plus(policy.retention));
            }
        }
        Ok(())
    });
}

#[test]
fn a_freed_key_never_loses_its_fence() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input, now, &policy);
        if name(&next) == Name::Free && verdict != Verdict::Swept {
            prop_assert!(next.fence >= record.fence);
            let claim = Claim {
                request: made::COMMAND,
                owner: Owner::from_bytes([77; 16]),
                arrival: Arrival::Ordinary,
            };
            let (running, _) = step(next.clone(), Input::Claim(claim), now, &policy);
            prop_assert!(running.fence > next.fence);
        }
        Ok(())
    });
}
