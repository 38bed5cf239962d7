//! How much a counterparty is bothered: waits, the budget for retries, the gate, and the limits of a
//! profile.

use crate::laws::{HISTORIES, MADE_UP, holds_for};
use proptest::prelude::*;
use proptest::sample::select;
use samekey_core::backoff::{Backoff, Chance};
use samekey_core::budget::{Budget, Gate, Passing};
use samekey_core::profile::{Answers, Declared, Limits};
use std::time::Duration;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    let base = select(vec![10_u64, 200, 1_000, 2_000]).prop_map(Duration::from_millis);
    let cap = select(vec![seconds(2), seconds(300), seconds(900)]);
    (base, cap).prop_map(|(base, cap)| Backoff { base, cap })
}

fn any_chance() -> impl Strategy<Value = Chance> {
    any::<u16>().prop_map(Chance::new)
}

/// Whatever chance says, every gap is longer than the one before, until the cap; from there on it is
/// between half of the cap and all of it.
#[test]
fn s12_gaps_grow_strictly_until_the_cap() {
    let all = (any_backoff(), 1_u32..40, any_chance(), any_chance());
    holds_for(all, MADE_UP, |(backoff, retry, one, other)| {
        let (gap, next) = (backoff.wait(retry, None, one), backoff.wait(retry + 1, None, other));
        let at_cap = backoff.base.saturating_mul(1 << (retry - 1).min(30)) >= backoff.cap;
        prop_assert!(gap <= backoff.cap && next <= backoff.cap);
        if at_cap {
            prop_assert!(gap >= backoff.cap / 2 && next >= backoff.cap / 2);
        } else if backoff.base.saturating_mul(1 << retry) <= backoff.cap {
            prop_assert!(next > gap, "{gap:?}, then {next:?}");
        }
        Ok(())
    });
}

#[test]
fn p67_b22_gaps_differ_by_chance_and_never_undercut_retry_after() {
    let backoff = Limits::DURABLE.backoff;
    let all = (1_u32..30, 0_u64..100_000, any_chance(), any_chance());
    holds_for(all, MADE_UP, |(retry, asked, one, other)| {
        for retry_after in [None, Some(seconds(asked))] {
            let gaps = [one, other].map(|chance| backoff.wait(retry, retry_after, chance));
            let far = one.max(other) > one.min(other);
            prop_assert!(gaps.iter().all(|gap| Some(*gap) >= retry_after));
            prop_assert!(!far || gaps[0] != gaps[1], "{gaps:?}");
            let own = backoff.wait(retry, None, one);
            prop_assert!(gaps[0] >= own, "lengthens, never shortens");
        }
        Ok(())
    });
}

/// 200 callers that were told the same moment do not come back in one tenth of a second.
#[test]
fn b22_callers_told_the_same_moment_come_back_spread() {
    let waits: Vec<Duration> = (0..200_u16)
        .map(|caller| {
            let chance = Chance::new(caller.wrapping_mul(40_503));
            Limits::DURABLE.backoff.wait(1, Some(seconds(10)), chance)
        })
        .collect();
    let (first, last) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(*first >= seconds(10));
    assert!(*last - *first >= seconds(1), "{first:?} to {last:?}");
}

/// The numbers are clamped before a `Duration` is made of them, which would panic.
#[test]
fn absurd_numbers_make_no_panic() {
    let most = Backoff { base: Duration::MAX, cap: Duration::MAX };
    let least = Backoff { base: Duration::ZERO, cap: Duration::ZERO };
    for backoff in [most, least, Limits::DURABLE.backoff] {
        for retry in [0, 1, 31, 32, 33, u32::MAX] {
            for retry_after in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
                let _ = backoff.wait(retry, retry_after, Chance::MOST);
            }
        }
        let _ = backoff.retry_number(Duration::MAX);
    }
}

/// Who does not count its tries waits by the time that has passed: its gaps grow all the same, and so it
/// tries twice at most before each doubling.
#[test]
fn t76_tries_that_are_not_counted_become_rare() {
    let all = (any_backoff(), prop::collection::vec(any_chance(), 200));
    holds_for(all, HISTORIES, |(backoff, chances)| {
        let mut passed = Duration::ZERO;
        let mut used = std::collections::BTreeMap::<u32, u32>::new();
        for chance in chances {
            let number = backoff.retry_number(passed);
            let at_cap = backoff.base.saturating_mul(1 << (number - 1).min(30)) >= backoff.cap;
            *used.entry(number).or_default() += u32::from(!at_cap);
            passed += backoff.wait(number, None, chance);
        }
        prop_assert!(used.values().all(|count| *count <= 2), "{used:?}");
        Ok(())
    });
}

/// What happens to a budget or a gate, after so many milliseconds.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Draw(u32),
    Success,
    GiveBack,
    Failure,
    Limited(u64),
}

fn any_turns() -> impl Strategy<Value = Vec<(u64, Turn)>> {
    let pause = prop_oneof![3 => Just(0_u64), 3 => 1_u64..400, 1 => 1_000_u64..40_000];
    let turn = prop_oneof![
        6 => (0_u32..30).prop_map(Turn::Draw),
        3 => Just(Turn::Success),
        1 => Just(Turn::GiveBack),
        6 => Just(Turn::Failure),
        1 => (0_u64..90).prop_map(Turn::Limited),
    ];
    prop::collection::vec((pause, turn), 1..120)
}

/// In any window, retries are paid from what was saved (10 at the start, 50 later), a fifth for every
/// success, and a fifth for every second.
#[test]
fn s12_retries_in_any_window_stay_within_the_budget() {
    holds_for(any_turns(), HISTORIES, |turns| {
        let mut budget = Budget::new(Duration::ZERO);
        let mut now = Duration::ZERO;
        // When, and by how many thousandths of a retry: sent above zero, paid back below.
        let mut events: Vec<(Duration, i64)> = Vec::new();
        let mut drawn = 0;
        for (pause, turn) in turns {
            now += Duration::from_millis(pause);
            match turn {
                Turn::Draw(wanted) => {
                    let granted = budget.draw(wanted, now);
                    prop_assert!(granted <= wanted);
                    prop_assert!(granted == wanted || budget.wait(now) > Duration::ZERO);
                    drawn += granted;
                    events.push((now, i64::from(granted) * 1_000));
                }
                Turn::GiveBack if drawn > 0 => {
                    budget.give_back(1);
                    drawn -= 1;
                    events.push((now, -1_000));
                }
                Turn::Success => {
                    budget.succeeded(now);
                    events.push((now, -200));
                }
                Turn::GiveBack | Turn::Failure | Turn::Limited(_) => {}
            }
        }
        for (first, (from, _)) in events.iter().enumerate() {
            let mut sum = 0;
            for (until, change) in &events[first..] {
                sum += change;
                let time = i64::try_from((*until - *from).as_millis()).unwrap() / 5;
                // What had not made a whole thousandth at the start of the window is paid within it.
                let most = 50_000 + time + 1;
                prop_assert!(sum <= most, "{sum} of {most} in {:?}", *until - *from);
                let from_start = 10_000 + i64::try_from(until.as_millis()).unwrap() / 5;
                prop_assert!(first > 0 || sum <= from_start, "{sum} of {from_start} at {until:?}");
            }
        }
        Ok(())
    });
}

#[test]
fn an_empty_budget_says_when_it_pays_again_and_keeps_to_it() {
    holds_for((0_u64..10_000, 0_u64..10), HISTORIES, |(millis, odd)| {
        let mut now = Duration::from_millis(millis);
        let mut budget = Budget::new(Duration::ZERO);
        while budget.draw(1, now) == 1 {}
        let wait = budget.wait(now);
        prop_assert!(wait > Duration::ZERO && wait <= seconds(5));
        now += wait.saturating_sub(Duration::from_millis(5 + odd));
        prop_assert_eq!(budget.draw(1, now), 0);
        now += Duration::from_millis(5 + odd);
        prop_assert_eq!(budget.draw(1, now), 1);
        Ok(())
    });
    let mut quiet = Budget::new(Duration::ZERO);
    assert_eq!(quiet.draw(u32::MAX, seconds(1_000_000_000)), 50, "a quiet year saves no more");
    let mut calm = Budget::new(Duration::ZERO);
    assert_eq!(calm.draw(100, seconds(1_000)), 50, "nor does a quarter of an hour");
    let mut back = Budget::new(seconds(100));
    assert_eq!(back.draw(11, seconds(1)), 10, "a clock that goes back pays nothing");
}

/// Shut, one probe goes out at a time, never before Retry-After; and it opens only by a probe that
/// succeeded, one at a time at first.
#[test]
fn s12_a_shut_gate_lets_one_probe_pass_and_keeps_retry_after() {
    holds_for(any_turns(), HISTORIES, |turns| {
        let mut gate = Gate::new(16);
        let mut now = Duration::ZERO;
        let mut alone_until = Duration::ZERO;
        let mut probing = false;
        for (pause, turn) in turns {
            now += Duration::from_millis(pause);
            let was_shut = gate.is_shut();
            match gate.passing(now) {
                Passing::Probe => {
                    prop_assert!(was_shut && !probing, "a second probe");
                    prop_assert!(now >= alone_until, "before Retry-After");
                    gate.probe();
                    probing = true;
                    prop_assert!(matches!(gate.passing(now), Passing::Nothing(_)));
                }
                Passing::Nothing(moment) => {
                    prop_assert!(was_shut);
                    prop_assert!(moment > now, "look again at once");
                }
                Passing::UpTo(limit) => prop_assert!(!was_shut && (1..=16).contains(&limit)),
            }
            let chance = Chance::new(u16::try_from(pause.wrapping_mul(40_503) & 0xffff).unwrap());
            let wait = match turn {
                Turn::Success => {
                    gate.succeeded();
                    None
                }
                Turn::Failure => {
                    gate.failed(now, None, chance);
                    Some(Duration::ZERO)
                }
                Turn::Limited(wait) => {
                    gate.refused_for_now(now, Some(seconds(wait)), chance);
                    prop_assert!(gate.is_shut());
                    Some(seconds(wait))
                }
                Turn::GiveBack => {
                    gate.probe_given_back();
                    probing = false;
                    continue;
                }
                Turn::Draw(_) => continue,
            };
            if was_shut && !gate.is_shut() {
                prop_assert!(probing && wait.is_none(), "opened without a probe");
                prop_assert!(matches!(gate.passing(now), Passing::UpTo(2)));
            }
            // Whatever is told while a probe is on its way is taken for what became of it.
            probing = false;
            if let (Some(wait), true) = (wait, gate.is_shut()) {
                alone_until = alone_until.max(now + wait);
            }
        }
        Ok(())
    });
}

#[test]
fn a_gate_shuts_when_most_fail_and_opens_step_by_step() {
    let mut gate = Gate::new(8);
    let least = Chance::LEAST;
    let fails =
        |gate: &mut Gate, count: u32| (0..count).for_each(|_| gate.failed(seconds(1), None, least));
    fails(&mut gate, 4);
    assert!(!gate.is_shut(), "too few to judge");
    (0..5).for_each(|_| gate.succeeded());
    fails(&mut gate, 1);
    assert!(!gate.is_shut(), "half of ten");
    fails(&mut gate, 1);
    assert!(gate.is_shut(), "six of eleven");
    assert_eq!(gate.passing(seconds(1)), Passing::Nothing(Duration::from_millis(1_500)));

    // Probes that fail come at longer and longer distances.
    let mut pauses = Vec::new();
    let mut now = seconds(1);
    for _ in 0..8 {
        let Passing::Nothing(moment) = gate.passing(now) else { panic!("{gate:?}") };
        pauses.push((moment - now).as_millis());
        now = moment;
        assert_eq!(gate.passing(now), Passing::Probe);
        gate.probe();
        gate.failed(now, None, least);
    }
    assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);

    let Passing::Nothing(moment) = gate.passing(now) else { panic!("{gate:?}") };
    assert_eq!(gate.passing(moment), Passing::Probe);
    gate.probe();
    gate.succeeded();
    let mut limits = Vec::new();
    for _ in 0..7 {
        let Passing::UpTo(limit) = gate.passing(moment) else { panic!("{gate:?}") };
        limits.push(limit);
        gate.succeeded();
    }
    assert_eq!(limits, [2, 2, 4, 4, 4, 4, 8], "no second collapse: one step at a time");
}

/// What was on its way when the gate shut neither opens it nor makes its pauses longer.
#[test]
fn what_was_sent_before_the_gate_shut_does_not_move_it() {
    let mut gate = Gate::new(8);
    gate.refused_for_now(seconds(1), Some(seconds(60)), Chance::LEAST);
    for _ in 0..20 {
        gate.failed(seconds(2), None, Chance::LEAST);
    }
    gate.succeeded();
    assert_eq!(gate.passing(seconds(2)), Passing::Nothing(seconds(61)));
    assert_eq!(gate.passing(seconds(61)), Passing::Probe);
    gate.probe();
    gate.failed(seconds(61), None, Chance::LEAST);
    assert_eq!(gate.passing(seconds(61)), Passing::Nothing(seconds(62)), "doubled once");
}

/// When its probes are that all fail, from the moment at which it shuts.
fn probes(chances: &[u16], retry_after: Option<Duration>) -> Vec<Duration> {
    let mut gate = Gate::new(8);
    let mut now = Duration::ZERO;
    let mut moments = Vec::new();
    for chance in chances {
        gate.probe();
        gate.refused_for_now(now, retry_after, Chance::new(*chance));
        let Passing::Nothing(moment) = gate.passing(now) else { panic!("{gate:?}") };
        now = moment;
        moments.push(moment);
    }
    moments
}

/// The gates of two hundred processes shut in one moment. Their probes come back spread, however long they are
/// told to wait, and never sooner than that; and between two probes the pauses grow whatever chance says.
#[test]
fn p67_b22_gates_that_shut_together_do_not_probe_together() {
    for retry_after in [None, Some(seconds(10))] {
        let all: Vec<Vec<Duration>> = (0..200_u16)
            .map(|gate| {
                let chances = [1_u16, 3, 5, 7, 9, 11, 13]
                    .map(|it| gate.wrapping_mul(40_503).wrapping_add(it.wrapping_mul(7_919)));
                probes(&chances, retry_after)
            })
            .collect();
        for probe in 0..7 {
            let moments: Vec<Duration> = all.iter().map(|gate| gate[probe]).collect();
            let (first, last) = (moments.iter().min().unwrap(), moments.iter().max().unwrap());
            assert!(*last - *first >= Duration::from_millis(400), "probe {probe}: {first:?}");
        }
        for gate in &all {
            let gaps: Vec<Duration> = gate.windows(2).map(|two| two[1] - two[0]).collect();
            assert!(gaps.iter().all(|gap| Some(*gap) >= retry_after), "{gaps:?}");
            assert!(gaps.iter().all(|gap| *gap <= seconds(30)), "{gaps:?}");
            let grows = |two: &[Duration]| two[1] > two[0] || two[1] >= seconds(15);
            assert!(retry_after.is_some() || gaps.windows(2).all(grows), "{gaps:?}");
        }
    }
}

#[test]
fn the_three_profiles_are_those_of_the_documentation() {
    let table: Vec<String> = [Limits::INLINE, Limits::DURABLE, Limits::PATIENT]
        .map(|limits| {
            let it = limits.check(Declared::OPAQUE).unwrap();
            format!(
                "{:?} {:?}/{:?} {} {:?} {:?}",
                it.attempt_time_max,
                it.backoff.base,
                it.backoff.cap,
                it.attempts_max,
                it.time_max,
                it.lease
            )
        })
        .into();
    assert_eq!(
        table,
        ["10s 200ms/2s 3 15s 15s", "30s 1s/300s 24 3600s 45s", "30s 2s/900s 72 43200s 45s"]
    );
}

/// Every limit out of bounds is refused by its name, with what was found and what is expected.
#[test]
fn every_limit_out_of_bounds_is_refused_by_its_name() {
    let bounded = |bound| Declared {
        answers: Some(Answers { not_found_after: Some(bound), by_reference: false }),
        ..Declared::OPAQUE
    };
    let limits = |change: fn(&mut Limits)| {
        let mut limits = Limits::DURABLE;
        change(&mut limits);
        limits
    };
    let opaque = Declared::OPAQUE;
    let faults = [
        (limits(|it| it.attempt_time_max = Duration::from_millis(49)), opaque),
        (limits(|it| it.attempt_time_max = seconds(601)), opaque),
        (limits(|it| it.backoff.base = Duration::from_millis(9)), opaque),
        (limits(|it| it.backoff.cap = Duration::from_millis(900)), opaque),
        (limits(|it| it.questions.base = Duration::ZERO), opaque),
        (limits(|it| it.time_max = seconds(29)), opaque),
        (limits(|it| it.time_max = seconds(8 * 24 * 3_600)), opaque),
        (limits(|it| it.lease = Duration::from_millis(99)), opaque),
        (limits(|it| it.lease = seconds(33)), opaque),
        (limits(|it| it.attempts_max = 0), opaque),
        (limits(|it| it.attempts_max = 1_001), opaque),
        (limits(|it| it.questions_max = 0), opaque),
        (limits(|_| {}), Declared { dedups: Some(seconds(3_644)), answers: None }),
        (limits(|_| {}), bounded(seconds(44))),
        (limits(|it| it.questions_max = 1), bounded(seconds(60))),
    ];
    let page: Vec<String> = faults
        .map(|(limits, declared)| limits.check(declared).unwrap_err())
        .map(|fault| {
            assert!(fault.to_string().contains(fault.limit));
            fault.to_string()
        })
        .into();
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("profile_faults", page.join("\n"));
    });
}

/// On the edge, each of them is taken.
#[test]
fn every_limit_on_its_edge_is_taken() {
    let edge = Limits { lease: Duration::from_nanos(33_333_333_334), ..Limits::DURABLE };
    assert!(edge.check(Declared::OPAQUE).is_ok());
    let remembers = Declared { dedups: Some(seconds(3_645)), answers: None };
    assert!(Limits::DURABLE.check(remembers).is_ok());
    let answers = Some(Answers { not_found_after: Some(seconds(45)), by_reference: false });
    let twice = Limits { questions_max: 2, ..Limits::DURABLE };
    assert!(twice.check(Declared { dedups: None, answers }).is_ok());
}
