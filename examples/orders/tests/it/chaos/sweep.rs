//! The program comes to each boundary of an external command, and dies, fails, panics or falls asleep
//! there; another process goes on.

use super::on_both;
use super::program::Which;
use super::world::{Judged, Payment, World};
use samekey::store::crash::{Way, points_on};
use samekey_sim::Sweep;
use samekey_sim::history::{Limits, Sometimes, sometimes};
use samekey_sim::sweep::{Action, Combination, Outcome, Reach};
use std::time::Duration;
use tokio::task::block_in_place;

on_both!(p36_b04_b25_a_payment_is_made_once_whatever_happens_at_a_boundary);

/// What these runs have to have met.
pub const MET: &[&str] = &[sometimes::RENEWED, sometimes::TAKEN_OVER, sometimes::FENCED_OUT];

const ACTIONS: [Action; 4] = [Action::Abort, Action::Error, Action::Panic, Action::Sleep];
/// Past every lease here, a renewed one included.
const SLEEP: Duration = Duration::from_secs(4);
/// So many worlds at a time: most of them wait most of the time.
const AT_ONCE: usize = 5;
/// How long a program may take to its boundary.
const REACH_BOUND: Duration = Duration::from_secs(30);
const COMBINATION_BOUND: Duration = Duration::from_secs(150);
const TOTAL_BOUND: Duration = Duration::from_secs(170);

/// A call may be longer than half its lease, so that the lease is renewed. Nothing is on its way for longer
/// than a payment may go on. A question may take a third of the lease, and whoever asks has its turn for one: where
/// that was a second, a busy machine failed questions until their waits had doubled to a minute.
const FLAGS: [&str; 8] = [
    "--payment-lease-ms",
    "2400",
    "--call-timeout-ms",
    "1500",
    "--payment-time-max-ms",
    "2500",
    "--not-found-after-ms",
    "2500",
];
/// The provider deduplicates nothing: whatever is sent twice is paid twice. One answer comes after more than half
/// a lease, one never, and one too late.
const PLAN: &str = r#"{"keys": {"dedup": false}, "rules": [
    {"when": {"order_id": "alpha-1"}, "answer": {"late_ms": 1300}},
    {"when": {"order_id": "alpha-2"}, "wire": "close"},
    {"when": {"order_id": "beta-2"}, "answer": {"late_ms": 5000}}]}"#;

async fn p36_b04_b25_a_payment_is_made_once_whatever_happens_at_a_boundary(which: Which) {
    let points = points_on(Way::External);
    assert!(points.iter().any(|point| !point.starts_with("external.")), "{points:?}");
    let met = Sometimes::default();
    let sweep = Sweep::of(&points, &[which])
        .with_actions(&ACTIONS)
        .sleeping(SLEEP)
        .at_once(AT_ONCE)
        .within(COMBINATION_BOUND, TOTAL_BOUND);
    let table = sweep.run(|combination| Some(drive(combination, met.clone()))).await;
    table.hold();
    println!("{:?}", met.counts());
    assert_eq!(table.combinations(), points.len() * ACTIONS.len());
    assert_eq!(met.missing(MET), [""; 0]);
}

async fn drive(combination: Combination<Which>, met: Sometimes) -> Outcome {
    let mut world = World::new(combination.database, PLAN, &FLAGS).await;
    world.start(Some(&combination.armed()));
    let payments = [("alpha", 1), ("beta", 1), ("alpha", 2), ("beta", 2)];
    let payments = payments.map(|(org, number)| Payment::of(org, number));
    // The slow one comes to every boundary of a command by itself. Those of recovery are met by the one
    // whose answer is lost.
    let alone = if combination.boundary.starts_with("recover.") { payments.len() } else { 1 };
    let (first, others) = payments.split_at(alone);
    let mut callers: Vec<_> = first.iter().map(|payment| world.call(payment)).collect();
    let process = &world.nodes[0].process;
    let reach = block_in_place(|| combination.wait_until_reached(process, REACH_BOUND)).unwrap();
    let is_dead = match (reach, combination.action) {
        (Reach::NotReached, _) => return Outcome::NotReached,
        // It ends there, as by a crash.
        (Reach::NoError, _) | (Reach::Reached, Action::Abort) => true,
        (Reach::Reached, Action::Error | Action::Panic | Action::Sleep | Action::Stop) => false,
    };
    if is_dead {
        let ended = world.bury();
        let expected = if reach == Reach::NoError { (Some(2), None) } else { (None, Some(6)) };
        assert_eq!((ended.code(), ended.signal()), expected, "{}", ended.stderr);
    }
    // What only failed in a turn of recovery has to go on by itself.
    let is_recovery = combination.boundary.starts_with("recover.");
    let is_failure = matches!(combination.action, Action::Error | Action::Panic);
    if is_dead || !(is_recovery && is_failure) {
        world.start(None);
    }
    callers.extend(others.iter().map(|payment| world.call(payment)));
    for caller in callers {
        if let Err(ended) = caller.await {
            let logs: Vec<String> = world.nodes.iter().map(|node| node.process.stderr()).collect();
            return Outcome::Broken(format!("{ended}; {}", logs.concat()));
        }
    }
    // An asker that slept over its turn may put its question beside another's. And a thread that stands still
    // leaves a statement of its own unread: that is the fault, and no transaction through a call.
    let is_spaced = combination.action != Action::Sleep;
    let stands_still = if is_spaced { Duration::ZERO } else { SLEEP };
    let pause_first = if is_spaced { Duration::from_millis(300) } else { Duration::ZERO };
    let limits = Limits {
        calls_max: 8,
        pause_first,
        pause_max: Duration::from_secs(1),
        transaction_max: Duration::from_secs(1) + stands_still,
        ..Limits::default()
    };
    let judged = world.audit(limits).await;
    judged.note(&met);
    outcome(&judged, &payments, reach)
}

fn outcome(judged: &Judged, payments: &[Payment], reach: Reach) -> Outcome {
    let mut wrong: Vec<String> = judged.violations.iter().map(ToString::to_string).collect();
    for payment in payments {
        let sent = judged.sent.get(&payment.order()).copied().unwrap_or_default();
        if sent != 1 {
            wrong.push(format!("{} was sent {sent} times", payment.order()));
        }
        let answer = judged.answer(payment);
        if (answer.status, answer.is_replay) != (201, true) {
            wrong.push(format!("{} ended with {answer:?}", payment.order()));
        }
    }
    if !wrong.is_empty() {
        return Outcome::Broken(format!("{}; {}", wrong.join("; "), judged.log));
    }
    if reach == Reach::NoError {
        return Outcome::NoError;
    }
    let results = ["recovered", "freed-by-proof", "renewed", "lease-lost", "panicked"];
    let counted = results.map(|result| (judged.said(result), result));
    let counted = counted.iter().filter(|(times, _)| *times > 0);
    let words: Vec<_> = counted.map(|(times, result)| format!("{times} {result}")).collect();
    Outcome::Held(format!("{} questions, {}", judged.questions, words.join(", ")))
}
