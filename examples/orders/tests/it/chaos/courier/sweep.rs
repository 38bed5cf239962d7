//! Every boundary of the courier, with every action, on both databases.

use super::program::Which;
use super::{FLAGS, Judged, Payment, World, judge, limits, on_both};
use samekey::store::crash::{Way, points_on};
use samekey_sim::Sweep;
use samekey_sim::sweep::{Action, Combination, Outcome, Reach};
use std::time::Duration;
use tokio::task::block_in_place;

on_both!(p36_t74_b62_a_command_is_executed_once_whatever_happens_at_a_boundary);

const ACTIONS: [Action; 4] = [Action::Abort, Action::Error, Action::Panic, Action::Sleep];
/// Past every lease here.
const SLEEP: Duration = Duration::from_millis(1_800);
/// So many worlds at a time: most of them wait most of the time.
const AT_ONCE: usize = 6;
/// No call about a command comes sooner after the one before it.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const REACH_BOUND: Duration = Duration::from_secs(30);
const COMBINATION_BOUND: Duration = Duration::from_secs(60);
const TOTAL_BOUND: Duration = Duration::from_secs(160);

/// The provider deduplicates nothing: whatever is sent twice is paid twice. One answer comes and one is lost.
const PLAN: &str = r#"{"keys": {"dedup": false}, "rules": [
    {"when": {"op": ["pay"]}, "wire": "close", "times": 1}]}"#;
/// One that does, and cannot be asked.
const DEDUPS_PLAN: &str = r#"{"rules": [
    {"when": {"op": ["query"]}, "answer": {"status": 500}},
    {"when": {"op": ["pay"]}, "wire": "close", "times": 1}]}"#;

async fn p36_t74_b62_a_command_is_executed_once_whatever_happens_at_a_boundary(which: Which) {
    let points = points_on(Way::Courier);
    assert!(points.iter().any(|point| point.starts_with("courier.ask")), "{points:?}");
    let sweep = Sweep::of(&points, &[which])
        .with_actions(&ACTIONS)
        .sleeping(SLEEP)
        .at_once(AT_ONCE)
        .within(COMBINATION_BOUND, TOTAL_BOUND);
    let table = sweep.run(|combination| Some(drive(combination))).await;
    table.hold();
    assert_eq!(table.combinations(), points.len() * ACTIONS.len());
}

async fn drive(combination: Combination<Which>) -> Outcome {
    // Where a crash is between a send and its record, the same is shown of one that deduplicates.
    let dedups = combination.action == Action::Abort && combination.boundary.contains(".se");
    let outcome = of(&combination, false).await;
    if dedups && outcome.is_good() { of(&combination, true).await } else { outcome }
}

async fn of(combination: &Combination<Which>, dedups: bool) -> Outcome {
    let (plan, kind) = if dedups { (DEDUPS_PLAN, "dedups") } else { (PLAN, "answers") };
    let more: &[&str] =
        if dedups { &["--counterparty", kind] } else { &["--not-found-after-ms", "1000"] };
    let mut world = World::new(combination.database, plan, &[&FLAGS[..], more].concat()).await;
    world.start(Some(&combination.armed()));
    let payments = [("alpha", 1), ("beta", 1)];
    let payments = payments.map(|(org, number)| Payment::of_order(org, number));
    let callers = payments.each_ref().map(|payment| world.call(payment));
    let process = &world.nodes[0].process;
    let reach = block_in_place(|| combination.wait_until_reached(process, REACH_BOUND)).unwrap();
    let is_dead = match (reach, combination.action) {
        (Reach::NotReached, _) => return Outcome::NotReached,
        // It ends there, as by a crash.
        (Reach::NoError, _) | (Reach::Reached, Action::Abort) => true,
        // The same process goes on: what failed or panicked there is none of its other work.
        (Reach::Reached, Action::Error | Action::Stop | Action::Panic | Action::Sleep) => false,
    };
    if is_dead {
        world.bury();
    }
    if is_dead || combination.action == Action::Sleep {
        world.start(None);
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let mut limits = limits();
    limits.asks_first = !dedups;
    // Half of the least wait, by chance. Who slept over its lease may come beside the one that has it.
    if combination.action != Action::Sleep {
        (limits.pause_first, limits.pause_max) = (PAUSE_MIN, PAUSE_MIN);
    } else {
        // A thread that stands still leaves a statement of its own unread, which is the fault.
        limits.transaction_max += SLEEP;
    }
    let judged = judge(world, limits).await;
    outcome(&judged, &payments, reach)
}

fn outcome(judged: &Judged, payments: &[Payment], reach: Reach) -> Outcome {
    let mut wrong: Vec<String> = judged.violations.iter().map(ToString::to_string).collect();
    for payment in payments {
        let answer = judged.answer(payment);
        if (answer.status, answer.is_replay) != (200, true) {
            wrong.push(format!("{} ended with {answer:?}", payment.order()));
        }
    }
    if !wrong.is_empty() {
        return Outcome::Broken(format!("{}; {}", wrong.join("; "), judged.log));
    }
    if reach == Reach::NoError {
        return Outcome::NoError;
    }
    let sent: usize = judged.sent.values().sum();
    let results = ["lapsed", "lease-lost", "evidence-recorded", "panicked"];
    let counted = results.map(|result| (judged.said(result), result));
    let counted = counted.iter().filter(|(times, _)| *times > 0);
    let words: Vec<_> = counted.map(|(times, result)| format!("{times} {result}")).collect();
    Outcome::Held(format!("{sent} sent, {} questions, {}", judged.questions, words.join(", ")))
}
