//! Laws of the record machine: what holds for every record, every input, every moment and policy.
//!
//! Two kinds of records are tried. *Lived* ones were reached from nothing by a random history, with
//! holds that were given in it; they are what a store can contain. *Made up* ones have any field at
//! any value; they are what a damaged store can contain, and the machine stays total over them.

mod keeping;
pub(super) mod made;
mod owners;
mod running;

use made::{Lived, any_claim, any_input, any_policy, any_record, any_time, history};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use samekey_core::receipt::Receipt;
use samekey_core::record::{Reason, Record, State};
use samekey_core::step::{Input, Verdict, step};
use samekey_core::time::Time;

/// How many histories every law is held against, a dozen inputs each: enough for every input to
/// meet every state many times over, and quick enough for a debug build.
pub(super) const HISTORIES: u32 = 500;
/// How many made-up records the laws of totality are held against; they are cheap.
pub(super) const MADE_UP: u32 = 4_000;

pub(super) type Law = Result<(), TestCaseError>;

/// Holds a law against chance; a failure is shown in its smallest form.
pub(super) fn holds_for<S: Strategy>(cases: S, count: u32, law: impl Fn(S::Value) -> Law) {
    let config =
        ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(broken) = TestRunner::new(config).run(&cases, law) {
        panic!("{broken}");
    }
}

/// Holds a law against every step of many histories.
fn everywhere(law: impl Fn(Lived) -> Law) {
    holds_for(history(), HISTORIES, |steps| steps.into_iter().try_for_each(&law));
}

/// The state's name: who left which state is what most laws are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Free,
    Running,
    Unknown,
    Review,
    Done,
    Closed,
}

fn name(record: &Record) -> Name {
    match record.state {
        State::Free => Name::Free,
        State::Running(_) => Name::Running,
        State::Unknown(_) => Name::Unknown,
        State::Review(_) => Name::Review,
        State::Done(_) => Name::Done,
        State::Closed(_) => Name::Closed,
    }
}

/// Whether looking at the record at this moment turns it, whatever is asked.
fn lapses(record: &Record, now: Time) -> bool {
    matches!(&record.state, State::Running(running) if now >= running.lease_ends)
}

fn receipt(record: &Record) -> Option<&Receipt> {
    match &record.state {
        State::Done(done) => Some(&done.receipt),
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Closed(_) => None,
    }
}

/// It never panics, also not at the ends of time and of numbers.
#[test]
fn it_is_total() {
    let all = (any_record(), any_input(), any_time(), any_policy());
    holds_for(all, MADE_UP, |(record, input, now, policy)| {
        let _ = step(record, input, now, &policy);
        Ok(())
    });
}

#[test]
fn it_is_a_function() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let once = step(record.clone(), input.clone(), now, &policy);
        prop_assert_eq!(once, step(record, input, now, &policy));
        Ok(())
    });
}

#[test]
fn the_revision_grows_exactly_when_the_record_changed() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input, now, &policy);
        if verdict != Verdict::Swept {
            prop_assert_eq!(next.revision > record.revision, next != record);
            prop_assert!(next.revision >= record.revision);
            let mut without = next.clone();
            without.revision = record.revision;
            prop_assert_eq!(without == record, next == record, "a write that changes nothing");
        }
        Ok(())
    });
}

#[test]
fn what_is_refused_leaves_the_record() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (next, verdict) = step(record.clone(), input, now, &policy);
        let refused = matches!(
            verdict,
            Verdict::Stale
                | Verdict::StaleView
                | Verdict::NotDue
                | Verdict::RunOver
                | Verdict::Kept
                | Verdict::InProgress(_)
                | Verdict::Closed
                | Verdict::Replay(_)
        );
        prop_assert!(!refused || next == record, "{verdict:?} changed the record");
        Ok(())
    });
}

#[test]
fn p32_a_claim_is_decided_before_the_clock_is_known() {
    let this_century = (0_i64..4_000_000_000_000_000).prop_map(Time::from_micros);
    holds_for((this_century, any_claim(), any_policy()), MADE_UP, |(start, claim, policy)| {
        let (offer, early) = step(Record::ABSENT, Input::Claim(claim), Time::EPOCH, &policy);
        let (row, late) = step(Record::ABSENT, Input::Claim(claim), start, &policy);
        prop_assert_eq!(&early, &late);
        if matches!(early, Verdict::Run(_)) {
            prop_assert_eq!(offer.counted_from(start), row);
        }
        Ok(())
    });
}

#[test]
fn retry_after_is_between_one_second_and_a_minute() {
    everywhere(|Lived { record, input, now, policy, .. }| {
        let (_, verdict) = step(record, input, now, &policy);
        if let Verdict::InProgress(wait) | Verdict::OutcomePending(wait) = verdict {
            prop_assert!((1..=60).contains(&wait.seconds()));
        }
        Ok(())
    });
}

#[test]
fn the_reasons_and_their_codes_are_one_to_one() {
    for (reason, code) in Reason::ALL {
        assert_eq!(reason.code(), code);
        assert_eq!(Reason::from_code(code), Some(reason));
    }
}

/// Histories reach every state and every verdict, or the laws above are about nothing.
#[test]
fn histories_reach_every_state_and_verdict() {
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..HISTORIES {
        for Lived { record, input, now, policy, .. } in
            history().new_tree(&mut runner).unwrap().current()
        {
            *seen.entry(format!("{:?}", name(&record))).or_default() += 1;
            let (_, verdict) = step(record, input, now, &policy);
            let word = format!("{verdict:?}");
            let word = word.split('(').next().unwrap().to_owned();
            *seen.entry(word).or_default() += 1;
        }
    }
    let wanted = [
        "Free",
        "Running",
        "Unknown",
        "Review",
        "Done",
        "Closed",
        "Run",
        "Replay",
        "Mismatch",
        "InProgress",
        "OutcomePending",
        "OutcomeUnknown",
        "TooEarly",
        "Renewed",
        "RunOver",
        "Settled",
        "Freed",
        "Recorded",
        "Stale",
        "Ask",
        "NotDue",
        "AskAgain",
        "HandedOver",
        "Decided",
        "Forgotten",
        "StaleView",
        "Swept",
        "Kept",
    ];
    for word in wanted {
        assert!(seen.get(word).copied().unwrap_or(0) > 3, "{word} was hardly ever seen: {seen:?}");
    }
}
