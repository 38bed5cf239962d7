//! Random traces on the outbox: every store has to give the answers that the one in memory gives. As
//! [`crate::traces`], for the other port.

use crate::commands::{command, delivery_states, failed, id, moved, note, offered, org, worker};
use crate::conformance::Aging;
use crate::records::{MINUTE, decided, owner};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use samekey_core::delivery::Delivery;
use samekey_core::time::Time;
use samekey_store::memory::{HandClock, MemoryLedger};
use samekey_store::outbox::{Command, CommandId, Enqueued, Moved, Outbox, SeenDelivery, Show};
use std::collections::BTreeSet;

/// How many operations a trace has at the most.
const OPERATIONS_MAX: usize = 50;

/// One call, or some time that goes by.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Enqueue { number: u32, of: usize, lane: usize, generation: u32, minutes: u32 },
    Take { of: usize, limit: u32, skips: bool },
    Advance { number: u32, of: usize, view: u8, to: usize, how: u8 },
    Note { number: u32, of: usize },
    Look { number: u32, of: usize },
    Due { after: usize, limit: u32 },
    List { of: usize, states: usize, after: u32, limit: u32 },
    Sweep { minutes: u32, batch: u32 },
    Age { minutes: u32 },
}

/// Few, so that operations meet.
const ORGS: [&str; 2] = ["a", "A"];
const LANES: [Option<&str>; 4] = [None, None, Some("x"), Some("X")];
const STATES: [&[&str]; 4] =
    [&[], &["failed", "undecided"], &["succeeded", "waiting"], &["cancelled"]];
const ACTIONS: u32 = 2;

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let (number, of) = (0..8_u32, 0..ORGS.len());
    let generations = prop_oneof![4 => Just(1_u32), 4 => Just(2), 1 => Just(3)];
    let one = prop_oneof![
        6 => (number.clone(), of.clone(), 0..LANES.len(), generations, 0..3_u32).prop_map(
            |(number, of, lane, generation, minutes)| Operation::Enqueue {
                number, of, lane, generation, minutes
            }
        ),
        4 => (of.clone(), 0..4_u32, prop::bool::weighted(0.2))
            .prop_map(|(of, limit, skips)| Operation::Take { of, limit, skips }),
        8 => (number.clone(), of.clone(), 0..12_u8, any::<prop::sample::Index>(), 0..8_u8).prop_map(
            |(number, of, view, to, how)| Operation::Advance {
                number, of, view, to: to.index(10_000), how
            }
        ),
        1 => (number.clone(), of.clone()).prop_map(|(number, of)| Operation::Note { number, of }),
        2 => (number.clone(), of.clone()).prop_map(|(number, of)| Operation::Look { number, of }),
        3 => (0..=ORGS.len(), 0..4_u32).prop_map(|(after, limit)| Operation::Due { after, limit }),
        2 => (0..=ORGS.len(), 0..STATES.len(), 0..13_u32, 0..6_u32).prop_map(
            |(of, states, after, limit)| Operation::List { of, states, after, limit }
        ),
        4 => (0..30_u32, 0..4_u32)
            .prop_map(|(minutes, batch)| Operation::Sweep { minutes, batch }),
        4 => (0..3_u32).prop_map(|minutes| Operation::Age { minutes }),
        2 => (0..90_u32).prop_map(|minutes| Operation::Age { minutes }),
    ];
    proptest::collection::vec(one, 1..OPERATIONS_MAX)
}

/// What is said of a delivery, with its times counted from now in half minutes: real clocks go on.
fn show(seen: &SeenDelivery) -> String {
    let from_now = |time: Time| {
        let micros = time.micros() - seen.now.micros();
        micros.div_euclid(30_000_000)
    };
    let Delivery { fence, holder, revision, sends, attempts, doubt, last, proof, .. } =
        &seen.delivery;
    let times = [Some(seen.delivery.began), seen.delivery.first_send, seen.delivery.due()];
    let times: Vec<_> = times.into_iter().map(|time| time.map(from_now)).collect();
    let state = seen.delivery.state_name();
    format!(
        "{state} fence {fence} {:02x} revision {revision} sends {sends}/{attempts} {doubt:?} {last:?} {proof:?} {times:?}",
        holder.bytes()[0]
    )
}

fn show_moved(moved: &Moved) -> String {
    match moved {
        Moved::Written => "written".to_owned(),
        Moved::Changed(seen) => format!("changed {}", show(seen)),
        Moved::Followed(seen) => format!("followed {}", show(seen)),
        Moved::Gone => "gone".to_owned(),
    }
}

fn ids(ids: impl IntoIterator<Item = CommandId>) -> String {
    ids.into_iter().map(|id| format!("{:02x} ", id.bytes()[3])).collect()
}

fn command_of(number: u32, of: usize, lane: usize, generation: u32) -> Command {
    let mut one = command(ORGS[of], number);
    one.action.business_ref = format!("order-{}", number % ACTIONS);
    one.order_key = LANES[lane].map(str::to_owned);
    Command { generation, ..one }
}

async fn play<O: Outbox, A: Aging>(outbox: &O, aging: &A, trace: &[Operation]) -> Vec<String> {
    let mut told = Vec::with_capacity(trace.len());
    for operation in trace {
        aging.tick();
        told.push(answer(outbox, aging, *operation).await);
    }
    told
}

async fn answer<O: Outbox, A: Aging>(outbox: &O, aging: &A, operation: Operation) -> String {
    match operation {
        Operation::Enqueue { number, of, lane, generation, minutes } => {
            let one = command_of(number, of, lane, generation);
            // Half a minute beside what ageing moves it by, so that it is never close to now.
            let delay = (minutes * MINUTE).saturating_sub(MINUTE / 2);
            match outbox.enqueue(&one, &offered(delay)).await {
                Ok(Enqueued::New) => "new".to_owned(),
                Ok(Enqueued::Found(found, stands)) => {
                    let state = stands.state_name();
                    format!("found {}{} {state}", ids([found.id]), found.generation)
                }
                Err(error) => format!("{:?}", error.kind()),
            }
        }
        Operation::Take { of, limit, skips } => {
            let mut take = worker(1);
            let decide = move |delivery: Delivery, now| {
                if skips && delivery.sends == 0 { None } else { take(delivery, now) }
            };
            let took = outbox.take(&org(ORGS[of]), "bank", limit, decide).await.expect("an answer");
            // Several of them may have become due in the same instant.
            let taken: BTreeSet<String> = took
                .iter()
                .map(|one| format!("{}{}; ", ids([one.command.id]), show(&one.seen)))
                .collect();
            format!("taken {taken:?}")
        }
        Operation::Advance { number, of, view, to, how } => {
            let (of, number) = (org(ORGS[of]), id(number));
            let Some(seen) = outbox.delivery(&of, number).await.expect("an answer") else {
                return "none".to_owned();
            };
            let current = seen.delivery;
            let view = match view {
                0 => Delivery { revision: current.revision + 1, ..current.clone() },
                1 => Delivery { fence: current.fence.next(), ..current.clone() },
                2 => Delivery { holder: owner(250), ..current.clone() },
                _ => current.clone(),
            };
            let states = delivery_states(seen.now.plus(MINUTE / 2));
            let mut next = moved(&current, states[to % states.len()].clone());
            if how > 4 {
                next = moved(&current, failed(seen.now));
            }
            next.revision = view.revision + 1;
            next.fence = view.fence.next();
            let moved = match how {
                0 => {
                    let account = decided("anna", view.fence);
                    outbox.advance_decided(&of, number, &view, &next, &account).await
                }
                1 | 2 => outbox.advance(&of, number, &view, &next, Some(&note(1, 1))).await,
                _ => outbox.advance(&of, number, &view, &next, None).await,
            };
            match moved {
                Ok(moved) => show_moved(&moved),
                Err(error) => format!("{:?}", error.kind()),
            }
        }
        Operation::Note { number, of } => {
            format!("{:?}", outbox.note(&org(ORGS[of]), id(number), &note(2, 3)).await)
        }
        Operation::Look { number, of } => {
            let (of, number) = (org(ORGS[of]), id(number));
            let seen = outbox.delivery(&of, number).await.expect("an answer");
            let command = outbox.command(&of, number).await.expect("an answer");
            let attempts = outbox.attempts(&of, number).await.expect("an answer");
            let accounts = outbox.accounts(&of, number).await.expect("an answer");
            let latest = match &command {
                Some(command) => outbox.latest(&command.action).await.expect("an answer"),
                None => None,
            };
            let came: Vec<_> = attempts.iter().map(|one| (one.number, &one.came_to)).collect();
            format!(
                "{:?} {:?} {came:?} {} latest {}",
                seen.as_ref().map(show),
                command.map(|one| (one.generation, one.order_key)),
                accounts.len(),
                ids(latest.map(|(one, _)| one.id))
            )
        }
        Operation::Due { after, limit } => {
            let after = ORGS.get(after).map(|of| org(of));
            let orgs = outbox.orgs_with_due("bank", after.as_ref(), limit).await;
            let orgs = orgs.expect("an answer");
            let orgs: Vec<&str> = orgs.iter().map(|of| of.as_str()).collect();
            let next = outbox.next_due("bank").await.expect("an answer");
            let next = next.map(|(due, now)| (due.micros() - now.micros()).div_euclid(30_000_000));
            let counts = outbox.count_commands().await.expect("an answer");
            format!("{orgs:?} {next:?} {counts:?}")
        }
        Operation::List { of, states, after, limit } => {
            let show_only = Show {
                org: ORGS.get(of).map(|of| org(of)),
                destination: None,
                states: STATES[states].iter().map(|one| (*one).to_owned()).collect(),
            };
            let from = org("a");
            let after = (after < 12).then(|| (&from, id(after)));
            let page = outbox.list(&show_only, after, limit).await.expect("an answer");
            page.iter()
                .map(|one| {
                    let of = one.action.org.as_str();
                    format!("{of:?} {}{}; ", ids([one.id]), show(&one.seen))
                })
                .collect()
        }
        Operation::Sweep { minutes, batch } => {
            let retention = minutes * MINUTE + MINUTE / 2;
            format!("{:?}", outbox.sweep_commands(retention, batch).await)
        }
        Operation::Age { minutes } => {
            aging.age(minutes * MINUTE).await;
            "aged".to_owned()
        }
    }
}

/// Holds what a store answers to random traces against the outbox in memory. `emptied` leaves nothing of the
/// trace before.
pub fn compare<O: Outbox, A: Aging>(
    cases: u32,
    runtime: &tokio::runtime::Runtime,
    outbox: &O,
    aging: &A,
    emptied: impl Fn(),
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&operations(), |trace| {
        emptied();
        let (expected, _) = by_memory(&trace);
        let found = runtime.block_on(play(outbox, aging, &trace));
        for (number, operation) in trace.iter().enumerate() {
            if found[number] != expected[number] {
                return Err(TestCaseError::fail(format!(
                    "operation {number}, {operation:?}:\n  memory: {}\n  store:  {}",
                    expected[number], found[number]
                )));
            }
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

fn by_memory(trace: &[Operation]) -> (Vec<String>, HandClock) {
    let clock = HandClock::at(Time::from_micros(1_700_000_000_000_000));
    let oracle = MemoryLedger::with_clock(&clock);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    (runtime.block_on(play(&oracle, &clock, trace)), clock)
}

/// The traces reach what they are for: otherwise equal answers would say little.
#[test]
fn the_traces_reach_every_kind_of_answer() {
    let mut all = String::new();
    let config = Config { cases: 3_000, failure_persistence: None, ..Config::default() };
    let dice = proptest::test_runner::TestRng::deterministic_rng(
        proptest::test_runner::RngAlgorithm::ChaCha,
    );
    let seen = std::cell::RefCell::new(&mut all);
    let outcome = TestRunner::new_with_rng(config, dice).run(&operations(), |trace| {
        seen.borrow_mut().push_str(&by_memory(&trace).0.join("\n"));
        Ok(())
    });
    assert!(outcome.is_ok());
    for kind in [
        "new",
        "found 03 1 failed",
        "refused",
        "written",
        "changed waiting",
        "changed sending",
        "followed failed",
        "Misused",
        "taken {\"",
        "sends 2/2",
        "removed: 1",
        "more: true",
        "LeaseLapsed",
        "[\"A\", \"a\"]",
        "(3, None)",
        "Some(\"x\")",
        "(2, \"timed-out\")",
    ] {
        assert!(all.contains(kind), "no trace was answered with {kind:?}");
    }
}
