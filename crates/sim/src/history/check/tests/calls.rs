//! S11 to S13, over the calls to the counterparty.

use super::{Run, attempt, bent, effect, first};
use crate::history::{Activity, Call, CallKind, Moment, OpenTransaction};
use std::time::Duration;

fn moment(at: u64) -> Moment {
    Moment { at, when: millis(at) }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A call that is answered after ten milliseconds; the counter and the clock go together here.
pub(super) fn call(began: u64) -> Call {
    Call {
        org: "a".to_owned(),
        reference: "r1".to_owned(),
        kind: CallKind::Command,
        life: 0,
        outbound_key: Some("out-1".to_owned()),
        body_sha: [1; 32],
        began: moment(began),
        ended: Some(moment(began + 10)),
        retry_after: None,
        by_person: false,
    }
}

/// Three attempts with pauses of 50, 120 and 250 milliseconds, the second of which was asked for.
fn sound() -> Run {
    bent(|run| {
        run.more.calls = vec![call(100), call(160), call(290), call(550)];
        run.more.calls[1].retry_after = Some(millis(100));
        run.more.limits.calls_max = 4;
        run.more.limits.pause_first = millis(50);
    })
}

fn with(bend: impl FnOnce(&mut Vec<Call>)) -> Run {
    let mut run = sound();
    bend(&mut run.more.calls);
    run
}

fn active(at: u64, age: u64) -> Activity {
    let transaction = OpenTransaction {
        pid: 7,
        age: millis(age),
        held: millis(age),
        state: "idle in transaction".to_owned(),
        statement: "update t".to_owned(),
    };
    Activity { moment: moment(at), until: moment(at), transactions: vec![transaction], waiting: 0 }
}

#[test]
fn calls_in_order_are_let_through() {
    assert_eq!(sound().check(), []);
    // A person's order, another life of the key, and a question are none of this claim's attempts.
    let others = with(|calls| {
        calls.push(Call { by_person: true, body_sha: [2; 32], ..call(300) });
        calls.push(Call { life: 1, body_sha: [2; 32], ..call(570) });
        calls.push(Call { kind: CallKind::Question, body_sha: [3; 32], ..call(580) });
    });
    assert_eq!(others.check(), []);
}

#[test]
fn s11_a_transaction_through_a_call_is_found() {
    let at = |at, age| {
        let mut run = sound();
        run.more.activity = vec![active(at, age)];
        run.more.limits.transaction_max = millis(5);
        run
    };
    at(105, 5).breaks("S11", "open in process 7 through a call: update t");
    at(109, 80).breaks("S11", "through a call");
    at(295, 80).breaks("S11", "through a call");
    assert_eq!(at(109, 4).check(), [], "it is as young as any other");
    assert_eq!(at(104, 80).check(), [], "so early into a call it may be another's");
    assert_eq!(at(115, 80).check(), [], "nothing is on its way");
    let mut working = at(109, 80);
    working.more.activity[0].transactions[0].held = Duration::ZERO;
    working.more.activity[0].transactions[0].state = "active".to_owned();
    assert_eq!(working.check(), [], "a slow commit is waited for, and so no call is made in it");
    let mut late = at(109, 80);
    late.more.activity[0].until = moment(112);
    assert_eq!(late.check(), [], "the call may have ended before it was seen");
}

#[test]
fn s12_a_call_that_comes_too_soon_is_found() {
    with(|calls| calls[1] = call(140)).breaks("S12", "30ms after the last one, and not 50ms");
    with(|calls| calls[2] = call(269)).breaks("S12", "99ms after the last one, and not 100ms");
    with(|calls| calls[1].retry_after = Some(millis(121))).breaks("S12", "Retry-After was 121ms");
    with(|calls| calls.push(call(2_000))).breaks("S12", "5 calls, and 4 at most");
    let held = with(|calls| calls[0].ended = Some(moment(5_000)));
    assert_eq!(held.check(), [], "one that lands late is counted from its begin");
}

#[test]
fn s12_pauses_that_are_all_alike_are_found() {
    let of = |spread: u64| {
        let mut run = sound();
        run.more.limits.jitter_min = millis(5);
        run.more.calls.clear();
        run.attempts.clear();
        run.effects.clear();
        for number in 0..8 {
            let reference = format!("r{number}");
            let mut sent = attempt(&reference, 1, 9, Some(first()));
            sent.key = reference.clone();
            run.attempts.push(sent);
            run.effects.push(effect(&reference));
            for began in [100, 160 + number * spread] {
                let outbound_key = Some(format!("out-{number}"));
                run.more.calls.push(Call {
                    reference: reference.clone(),
                    outbound_key,
                    ..call(began)
                });
            }
        }
        run
    };
    of(0).breaks("S12", "the first pauses of 8 claims differ by 0ns only");
    assert!(of(1).check().iter().all(|violation| violation.rule != "S12"));
}

#[test]
fn s13_another_key_or_other_bytes_are_found() {
    with(|calls| calls[2].outbound_key = Some("out-2".to_owned())).breaks("S13", "carry two keys");
    with(|calls| calls[2].outbound_key = None).breaks("S13", "carry two keys");
    with(|calls| calls[3].body_sha = [2; 32]).breaks("S13", "different bytes");
    let shared = bent(|run| {
        let mut other = attempt("r9", 14, 15, Some(first()));
        other.org = "b".to_owned();
        run.attempts.push(other);
        let of_b = Call { org: "b".to_owned(), reference: "r9".to_owned(), ..call(300) };
        run.more.calls = vec![call(100), of_b];
    });
    shared.breaks("S13", "its outbound key is another key's, too");
}

#[test]
fn s8_a_call_that_nobody_asked_for_is_found() {
    with(|calls| calls[0].reference = "r9".to_owned())
        .breaks("S8", "a call for r9 was never asked");
}
