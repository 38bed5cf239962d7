//! Random traces of calls: every store has to give the answers that the ledger in memory gives.
//!
//! A trace is a list of operations, [`play`] carries it out on any ledger, and [`compare`] holds the
//! transcripts against each other. A failure prints the shortest trace that shows it.

use crate::conformance::Aging;
use crate::dialogues::show_record;
use crate::records::{MINUTE, after, identity, intent, kept, offer, owner, receipts, scope};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use samekey_core::key::Scope;
use samekey_core::lease::Fence;
use samekey_core::record::{Closed, Done, Reason, Record, Review, Running, State, Unknown};
use samekey_core::time::Time;
use samekey_store::memory::{HandClock, MemoryLedger};
use samekey_store::{Arrived, Ledger, Swap};

/// How many operations a trace has at the most.
const OPERATIONS_MAX: usize = 40;

/// What is done with the current record to get the view that a swap goes by.
#[derive(Clone, Copy, Debug)]
pub enum View {
    Current,
    OlderRevision,
    OtherFence,
    OtherOwner,
    Absent,
}

/// The state that a swap goes to.
#[derive(Clone, Copy, Debug)]
pub enum To {
    Free,
    Running,
    Unknown,
    Review,
    Done(usize),
    Closed,
    Absent,
}

/// One call, or some time that goes by.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Offer { key: usize, number: u8 },
    Swap { key: usize, view: View, to: To, fences: u64, revisions: u64, keep_minutes: u32 },
    Load { key: usize },
    Sweep { batch: u32 },
    List { after: Option<usize>, limit: u32 },
    Age { minutes: u32 },
}

/// Few, so that operations meet.
const KEYS: [(&str, &str); 5] = [("a", "k"), ("a", "K"), ("a", "k "), ("b", "k"), ("B", "k")];

fn scope_of(key: usize) -> Scope {
    let (org, key) = KEYS[key % KEYS.len()];
    scope(org, key)
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let key = 0..KEYS.len();
    let view = prop_oneof![
        8 => Just(View::Current),
        1 => Just(View::OlderRevision),
        1 => Just(View::OtherFence),
        1 => Just(View::OtherOwner),
        1 => Just(View::Absent),
    ];
    let to = prop_oneof![
        3 => Just(To::Free),
        3 => Just(To::Running),
        2 => Just(To::Unknown),
        2 => Just(To::Review),
        4 => (0..receipts().len()).prop_map(To::Done),
        1 => Just(To::Closed),
        1 => Just(To::Absent),
    ];
    let swap = (key.clone(), view, to, 0..2_u64, 0..3_u64, 0..8_u32).prop_map(
        |(key, view, to, fences, revisions, keep_minutes)| Operation::Swap {
            key,
            view,
            to,
            fences,
            revisions,
            keep_minutes,
        },
    );
    let one = prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, number)| Operation::Offer { key, number }),
        8 => swap,
        2 => key.clone().prop_map(|key| Operation::Load { key }),
        2 => (0..4_u32).prop_map(|batch| Operation::Sweep { batch }),
        2 => (proptest::option::of(key), 0..4_u32)
            .prop_map(|(after, limit)| Operation::List { after, limit }),
        2 => (0..90_u32).prop_map(|minutes| Operation::Age { minutes }),
    ];
    proptest::collection::vec(one, 1..OPERATIONS_MAX)
}

/// Times lie half a minute beside what ageing moves them by, so that none is ever close to now.
fn state(to: To, now: Time) -> State {
    match to {
        To::Free | To::Absent => State::Free,
        To::Running => State::Running(Running {
            request: identity(2),
            since: now,
            lease_ends: now.plus(MINUTE),
            run_ends: now.plus(2 * MINUTE),
        }),
        To::Unknown => State::Unknown(Unknown {
            request: identity(3),
            life: Fence::new(1),
            since: now,
            reason: Reason::LeaseLapsed,
            last_send: now,
            asked: 1,
            not_found: 2,
            ask_after: now.plus(MINUTE),
            evidence: Some(kept(200, b"")),
        }),
        To::Review => State::Review(Review {
            request: identity(4),
            life: Fence::new(1),
            since: now,
            reason: Reason::Restored,
        }),
        To::Done(number) => State::Done(Done {
            request: identity(5),
            since: now,
            receipt: receipts()[number].clone(),
        }),
        To::Closed => State::Closed(Closed { request: identity(6), since: now }),
    }
}

fn seen_as(view: View, current: &Record) -> Record {
    let current = current.clone();
    match view {
        View::Current => current,
        View::OlderRevision => Record { revision: current.revision.saturating_sub(1), ..current },
        View::OtherFence => Record { fence: current.fence.next(), ..current },
        View::OtherOwner => Record { holder: owner(250), ..current },
        View::Absent => Record::ABSENT,
    }
}

/// Carries a trace out, and tells what was answered.
pub async fn play<L: Ledger, A: Aging>(
    ledger: &L,
    aging: &A,
    operations: &[Operation],
) -> Vec<String> {
    let mut told = Vec::with_capacity(operations.len());
    for operation in operations {
        told.push(match *operation {
            Operation::Offer { key, number } => {
                match ledger.insert_or_load(&scope_of(key), &offer(number), &intent()).await {
                    Ok(Arrived::Inserted(seen)) => format!("inserted {}", show_record(&seen)),
                    Ok(Arrived::Found(seen)) => format!("found {}", show_record(&seen)),
                    Err(error) => format!("{:?}", error.kind()),
                }
            }
            Operation::Swap { key, view, to, fences, revisions, keep_minutes } => {
                let scope = scope_of(key);
                let current = ledger.load(&scope).await.expect("an answer");
                let seen = seen_as(view, &current.record);
                let next = match to {
                    To::Absent => Record::ABSENT,
                    To::Free
                    | To::Running
                    | To::Unknown
                    | To::Review
                    | To::Done(_)
                    | To::Closed => Record {
                        fence: Fence::new(current.record.fence.number().max(1) + fences),
                        revision: current.record.revision + revisions,
                        keep_until: current.now.plus(keep_minutes * MINUTE + MINUTE / 2),
                        ..after(&current.record, state(to, current.now))
                    },
                };
                match ledger.swap(&scope, &seen, &next).await {
                    Ok(Swap::Written) => "written".to_owned(),
                    Ok(Swap::Changed(seen)) => format!("changed {}", show_record(&seen)),
                    Err(error) => format!("{:?}", error.kind()),
                }
            }
            Operation::Load { key } => match ledger.load(&scope_of(key)).await {
                Ok(seen) => show_record(&seen),
                Err(error) => format!("{:?}", error.kind()),
            },
            Operation::Sweep { batch } => match ledger.sweep(batch).await {
                Ok(pass) => format!("{pass:?}"),
                Err(error) => format!("{:?}", error.kind()),
            },
            Operation::List { after, limit } => {
                let after = after.map(scope_of);
                match ledger.list_open(after.as_ref(), limit).await {
                    Ok(page) => page
                        .iter()
                        .map(|open| {
                            let Scope { org, key } = &open.scope;
                            let record = show_record(&open.seen);
                            format!("{:?} {:?} {record}; ", org.as_str(), key.as_str())
                        })
                        .collect(),
                    Err(error) => format!("{:?}", error.kind()),
                }
            }
            Operation::Age { minutes } => {
                aging.age(minutes * MINUTE).await;
                "aged".to_owned()
            }
        });
    }
    told
}

/// Holds what a store answers to random traces against the ledger in memory. `answer` plays a trace
/// on a fresh, empty ledger of that store.
pub fn compare(cases: u32, answer: impl Fn(&[Operation]) -> Vec<String>) {
    compare_by(TestRunner::new(config(cases)), answer);
}

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

fn compare_by(mut runner: TestRunner, answer: impl Fn(&[Operation]) -> Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let outcome = runner.run(&operations(), |operations| {
        let clock = HandClock::at(Time::from_micros(1_700_000_000_000_000));
        let oracle = MemoryLedger::with_clock(&clock);
        let expected = runtime.block_on(play(&oracle, &clock, &operations));
        let found = answer(&operations);
        for (number, operation) in operations.iter().enumerate() {
            if found.get(number) != expected.get(number) {
                return Err(TestCaseError::fail(format!(
                    "operation {number}, {operation:?}:\n  memory: {:?}\n  store:  {:?}",
                    expected.get(number),
                    found.get(number)
                )));
            }
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// The traces reach what they are for: otherwise equal answers would say little. These are the same
/// ones each time.
#[test]
fn the_traces_reach_every_kind_of_answer() {
    use std::cell::RefCell;
    let seen = RefCell::new(String::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let dice = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    compare_by(TestRunner::new_with_rng(config(500), dice), |operations| {
        let clock = HandClock::at(Time::from_micros(1_700_000_000_000_000));
        let ledger = MemoryLedger::with_clock(&clock);
        let told = runtime.block_on(play(&ledger, &clock, operations));
        seen.borrow_mut().push_str(&told.join("\n"));
        told
    });
    let seen = seen.into_inner();
    for kind in [
        "inserted",
        "found running",
        "found done",
        "written",
        "changed done",
        "changed absent",
        "Misused",
        "removed: 1",
        "more: true",
        "unknown fence",
        "review fence",
        "closed fence",
        "fence 4",
        "fact",
    ] {
        assert!(seen.contains(kind), "no trace was answered with {kind:?}");
    }
}
