//! Random traces of calls: every store has to give the answers that the ledger in memory gives.
//!
//! A trace is a list of operations, [`play`] carries it out on any ledger, and [`compare`] holds the
//! transcripts against each other. A failure prints the shortest trace that shows it.

use crate::conformance::Aging;
use crate::dialogues::{show_decided, show_intent, show_record};
use crate::records::{
    MINUTE, after, decided, identity, intent_of, kept, offer, owner, receipts, scope,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use samekey_core::key::{Org, Scope};
use samekey_core::lease::Fence;
use samekey_core::record::{Closed, Done, Reason, Record, Review, Running, State, Unknown};
use samekey_core::time::Time;
use samekey_store::memory::{HandClock, MemoryLedger};
use samekey_store::{Arrived, Intent, Ledger, Swap};

/// How many operations a trace has at the most.
const OPERATIONS_MAX: usize = 60;

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

/// By which call a record is replaced.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Swap,
    Reclaim(u8),
    Decide(u8),
}

/// What the next record has that its state does not say.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    fences: u64,
    revisions: u64,
    keep_minutes: u32,
    due_minutes: u32,
}

/// One call, or some time that goes by.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Offer { key: usize, number: u8 },
    Swap { how: How, key: usize, view: View, to: To, next: Next },
    Load { key: usize },
    Sweep { batch: u32 },
    DropFree,
    List { after: Option<usize>, limit: u32 },
    Intent { key: usize },
    Decisions { key: usize },
    Orgs { route: usize, after: Option<usize>, limit: u32 },
    Due { key: usize, limit: u32 },
    Count,
    Share { once: bool, number: u8 },
    Age { minutes: u32 },
}

/// Few, so that operations meet.
const KEYS: [(&str, &str); 5] = [("a", "k"), ("a", "K"), ("a", "k "), ("b", "k"), ("B", "k")];

fn scope_of(key: usize) -> Scope {
    let (org, key) = KEYS[key % KEYS.len()];
    scope(org, key)
}

const ROUTES: [&str; 2] = ["pay", "refund"];

/// A number says the route, and whether a request is kept.
fn intent(number: u8) -> Intent {
    intent_of(ROUTES[usize::from(number / 2) % ROUTES.len()], number)
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
    let how = prop_oneof![
        4 => Just(How::Swap),
        3 => any::<u8>().prop_map(How::Reclaim),
        1 => any::<u8>().prop_map(How::Decide),
    ];
    let next = (0..2_u64, 0..3_u64, 0..8_u32, 0..4_u32).prop_map(
        |(fences, revisions, keep_minutes, due_minutes)| Next {
            fences,
            revisions,
            keep_minutes,
            due_minutes,
        },
    );
    let swap = (how, key.clone(), view, to, next)
        .prop_map(|(how, key, view, to, next)| Operation::Swap { how, key, view, to, next });
    let route = 0..ROUTES.len();
    let one = prop_oneof![
        6 => (key.clone(), any::<u8>()).prop_map(|(key, number)| Operation::Offer { key, number }),
        14 => swap,
        2 => key.clone().prop_map(|key| Operation::Load { key }),
        2 => (0..4_u32).prop_map(|batch| Operation::Sweep { batch }),
        1 => Just(Operation::DropFree),
        2 => (proptest::option::of(key.clone()), 0..4_u32)
            .prop_map(|(after, limit)| Operation::List { after, limit }),
        2 => key.clone().prop_map(|key| Operation::Intent { key }),
        2 => key.clone().prop_map(|key| Operation::Decisions { key }),
        2 => (route, proptest::option::of(key.clone()), 0..4_u32)
            .prop_map(|(route, after, limit)| Operation::Orgs { route, after, limit }),
        8 => (key, 0..4_u32).prop_map(|(key, limit)| Operation::Due { key, limit }),
        1 => Just(Operation::Count),
        1 => (any::<bool>(), any::<u8>())
            .prop_map(|(once, number)| Operation::Share { once, number }),
        4 => (0..3_u32).prop_map(|minutes| Operation::Age { minutes }),
        1 => (0..90_u32).prop_map(|minutes| Operation::Age { minutes }),
    ];
    proptest::collection::vec(one, 1..OPERATIONS_MAX)
}

/// What is kept lies half a minute beside what ageing moves it by, so that it is never close to now.
fn state(to: To, now: Time, due_minutes: u32) -> State {
    match to {
        To::Free | To::Absent => State::Free,
        To::Running => State::Running(Running {
            request: identity(2),
            since: now,
            lease_ends: now.plus(MINUTE + due_minutes * MINUTE),
            run_ends: now.plus(5 * MINUTE),
        }),
        To::Unknown => State::Unknown(Unknown {
            request: identity(3),
            life: Fence::new(1),
            since: now,
            reason: Reason::LeaseLapsed,
            last_send: now,
            asked: 1,
            not_found: 2,
            ask_after: now.plus(due_minutes * MINUTE),
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
        aging.tick();
        told.push(match *operation {
            Operation::Offer { key, number } => {
                match ledger.insert_or_load(&scope_of(key), &offer(number), &intent(number)).await {
                    Ok(Arrived::Inserted(seen)) => format!("inserted {}", show_record(&seen)),
                    Ok(Arrived::Found(seen)) => format!("found {}", show_record(&seen)),
                    Err(error) => format!("{:?}", error.kind()),
                }
            }
            Operation::Swap { how, key, view, to, next } => {
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
                        fence: Fence::new(current.record.fence.number().max(1) + next.fences),
                        revision: current.record.revision + next.revisions,
                        keep_until: current.now.plus(next.keep_minutes * MINUTE + MINUTE / 2),
                        ..after(&current.record, state(to, current.now, next.due_minutes))
                    },
                };
                let swap = match how {
                    How::Swap => ledger.swap(&scope, &seen, &next).await,
                    How::Reclaim(number) => {
                        ledger.reclaim(&scope, &seen, &next, &intent(number)).await
                    }
                    How::Decide(number) => {
                        let account = decided(&format!("person {number}"), seen.fence);
                        ledger.decide(&scope, &seen, &next, &account).await
                    }
                };
                match swap {
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
                            let route = &open.route;
                            format!("{:?} {:?} {route} {record}; ", org.as_str(), key.as_str())
                        })
                        .collect(),
                    Err(error) => format!("{:?}", error.kind()),
                }
            }
            Operation::DropFree => match ledger.drop_free(100).await {
                Ok(pass) => format!("dropped {pass:?}"),
                Err(error) => format!("{:?}", error.kind()),
            },
            Operation::Intent { key } => match ledger.intent(&scope_of(key)).await {
                Ok(intent) => format!("intent {}", show_intent(intent.as_ref())),
                Err(error) => format!("{:?}", error.kind()),
            },
            Operation::Decisions { key } => {
                let scope = scope_of(key);
                let now = ledger.load(&scope).await.expect("an answer").now;
                match ledger.decisions(&scope).await {
                    Ok(all) => all.iter().map(|one| show_decided(one, now) + "; ").collect(),
                    Err(error) => format!("{:?}", error.kind()),
                }
            }
            Operation::Orgs { route, after, limit } => {
                let after = after.map(|key| scope_of(key).org);
                match ledger.orgs_with_open(ROUTES[route], after.as_ref(), limit).await {
                    Ok(orgs) => {
                        format!("orgs {:?}", orgs.iter().map(Org::as_str).collect::<Vec<_>>())
                    }
                    Err(error) => format!("{:?}", error.kind()),
                }
            }
            Operation::Due { key, limit } => {
                let mut due = Vec::new();
                for route in ROUTES {
                    let keys = ledger.due(route, &scope_of(key).org, limit).await;
                    let keys = keys.expect("an answer");
                    due.push(keys.iter().map(|key| key.as_str().to_owned()).collect::<Vec<_>>());
                }
                format!("due {due:?}")
            }
            Operation::Count => format!("{:?}", ledger.count_open().await),
            Operation::Share { once, number } => {
                if once {
                    format!("shared {:?}", ledger.share_once("name", &[number]).await)
                } else {
                    ledger.share("name", &[number]).await.expect("an answer");
                    format!("shared {:?}", ledger.shared("name").await)
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
        "fence 3",
        "intent pay",
        "intent refund",
        "intent none",
        "close by person",
        "orgs [\"B\", \"a\"]",
        "due [[\"K\", \"k\"]",
        "due [[\"k\", \"K\"]",
        "due [[], [\"k\"]",
        "state: \"review\"",
        "count: 2",
        "dropped SweepPass { removed: 1",
        "fact",
    ] {
        assert!(seen.contains(kind), "no trace was answered with {kind:?}");
    }
}
