//! What becomes of a claim that ended without an answer.

use super::home::Home;
use super::on_every_store;
use super::provider::{Plan, Say};
use super::world::{SHORT, World, answers, opaque, pay, plan, scope};
use samekey::store::Ledger;
use samekey::{Call, RecoveryPlan, Setup, Signal};
use samekey_core::policy::{Choices, Counterparty};
use samekey_core::record::{Reason, State};
use std::collections::BTreeMap;
use std::time::Duration;

on_every_store!(
    t61_a_claim_whose_owner_died_is_found_and_asked_about,
    b35_a_key_that_is_asked_about_waits_and_ends_as_it_was_found,
    each_finding_ends_as_the_table_says,
    an_answer_without_a_body_is_a_fact,
    whoever_lies_hangs_or_panics_when_asked_is_asked_again_and_then_a_person_decides,
    t62_a_stopped_owner_changes_nothing_and_gets_the_answer,
    b16_a_late_answer_is_evidence,
    t84_two_workers_share_what_is_due,
    p30_a_late_answer_on_a_free_key_is_an_alarm,
    p30_a_call_that_watches_its_lease_is_heard_after_its_end,
    a_lapsed_claim_that_nobody_can_be_asked_about_waits_for_a_person,
    one_org_with_many_open_keys_keeps_no_other_waiting,
);

/// A payment whose process is gone in the middle of the call: its task is dropped.
async fn abandoned<H: Home>(world: &World<H>, key: &'static str) {
    world.provider.plan(Plan::Hang);
    let gone = world.another(choices_of(world), Setup::default()).await;
    let provider = world.provider.clone();
    let runtime = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let call = pay(&gone, &provider, "alpha", key, r#"{"amount":1200}"#);
            tokio::select! {
                _ = call => panic!("it hangs"),
                () = provider.reached() => {}
            }
        });
        // The runtime ends here, and every task of it with it: nothing is settled.
        drop(runtime);
    });
    tokio::task::spawn_blocking(move || runtime.join().unwrap()).await.unwrap();
}

fn choices_of<H: Home>(world: &World<H>) -> Choices {
    let policy: &Choices = world.external.route().policy();
    policy.clone()
}

async fn t61_a_claim_whose_owner_died_is_found_and_asked_about<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    abandoned(&world, "k").await;
    assert_eq!(world.state("k").await, "running");
    world.recover_all().await;
    assert_eq!(world.state("k").await, "done");
    let replay = world.pay("k").await;
    assert_eq!((replay.status, replay.is_replay()), (201, true));
    assert_eq!((world.provider.calls().len(), world.provider.effects()), (1, 1));
    let question = world.provider.questions().remove(0);
    assert_eq!(question.outbound_key.to_string(), world.provider.calls()[0]);
    assert_eq!(question.request.unwrap().body(), &br#"{"amount":1200}"#[..]);
    assert_eq!(question.number, 1);
}

async fn b35_a_key_that_is_asked_about_waits_and_ends_as_it_was_found<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    world.provider.plan(Plan::LoseAnswer);
    world.pay("k").await;
    world.provider.say(Say::CannotTell);
    let pass = world.recover().await;
    assert_eq!((pass.asked, pass.settled), (1, 0));
    assert_eq!(world.pay("k").await.told(), (409, "samekey.outcome-pending".into()));
    // The next question is not due yet.
    assert_eq!(world.recover().await.asked, 0);
    world.recover_all().await;
    assert_eq!(world.pay("k").await.status, 201);
    assert_eq!(world.provider.effects(), 1);
}

async fn each_finding_ends_as_the_table_says<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    let cases = [
        (Say::Truth, "done", 201, ""),
        (Say::Refused, "done", 402, ""),
        (Say::Different, "review", 409, "samekey.outcome-unknown"),
        // No `not_found_after` is declared, so nothing is proved.
        (Say::NotExecuted, "review", 409, "samekey.outcome-unknown"),
        (Say::Pending, "unknown", 409, "samekey.outcome-pending"),
        (Say::CannotTell, "unknown", 409, "samekey.outcome-pending"),
        // No final answer has this status, so it is none.
        (Say::Status(500), "unknown", 409, "samekey.outcome-pending"),
        (Say::Status(429), "unknown", 409, "samekey.outcome-pending"),
    ];
    for (number, (say, state, status, code)) in cases.into_iter().enumerate() {
        let key = format!("k{number}");
        world.provider.plan(Plan::LoseAnswer);
        world.pay(&key).await;
        world.provider.say(say.clone());
        assert_eq!(world.recover().await.asked, 1);
        assert_eq!(world.state(&key).await, state, "{say:?}");
        assert_eq!(world.pay(&key).await.told(), (status, code.to_owned()), "{say:?}");
    }
    assert_eq!(world.provider.effects(), 8);
    let reason = |state: State| match state {
        State::Review(review) => review.reason,
        other @ (State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Done(_)
        | State::Closed(_)) => panic!("{other:?}"),
    };
    assert_eq!(reason(world.record("k2").await.state), Reason::FoundDifferent);
    assert_eq!(reason(world.record("k3").await.state), Reason::NotFound);
}

async fn an_answer_without_a_body_is_a_fact<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    world.provider.plan(Plan::LoseAnswer);
    world.pay("k").await;
    world.provider.say(Say::Fact);
    world.recover().await;
    let told = world.pay("k").await;
    assert_eq!(told.told(), (409, "samekey.response-not-kept".into()));
    assert!(String::from_utf8_lossy(&told.body).contains("\"stored_status\":201"));
}

async fn whoever_lies_hangs_or_panics_when_asked_is_asked_again_and_then_a_person_decides<
    H: Home,
>() {
    let world = World::<H>::new(Choices { questions_max: 1, ..answers(None) }).await;
    for (key, say) in [("error", Say::Error), ("panic", Say::Panic), ("hang", Say::Hang)] {
        world.provider.plan(Plan::LoseAnswer);
        world.pay(key).await;
        world.provider.say(say);
        let pass = world.recover().await;
        assert_eq!((pass.asked, pass.handed_over), (1, 1), "{key}");
        assert!(world.saw(Signal::AskFailed));
        match world.record(key).await.state {
            State::Review(review) => assert_eq!(review.reason, Reason::QuestionsUsedUp),
            other @ (State::Free
            | State::Running(_)
            | State::Unknown(_)
            | State::Done(_)
            | State::Closed(_)) => panic!("{key} is {other:?}"),
        }
        assert_eq!(world.pay(key).await.told(), (409, "samekey.outcome-unknown".into()));
    }
    assert_eq!(world.provider.effects(), 3);
}

/// The owner stands still past its lease, recovery finds the payment, and the owner wakes up.
async fn t62_a_stopped_owner_changes_nothing_and_gets_the_answer<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    let provider = world.provider.clone();
    provider.plan(Plan::LoseAnswer);
    world.pay("k").await;
    let before = world.record("k").await;
    world.recover().await;
    let after = world.record("k").await;
    assert!(after.fence > before.fence);
    assert_eq!(world.state("k").await, "done");
    // What the first owner would write now does not fit the row any more.
    let store = world.store();
    let mut stale = before.clone();
    stale.revision += 1;
    let swapped = store.swap(&scope("alpha", "k"), &before, &stale).await;
    assert!(matches!(swapped.unwrap(), samekey::store::Swap::Changed(_)));
    assert_eq!(world.record("k").await, after);
    assert_eq!(world.provider.effects(), 1);
}

/// The owner's answer arrives while recovery holds the fence: it is kept, and recovery settles from it
/// though the counterparty says nothing.
async fn b16_a_late_answer_is_evidence<H: Home>() {
    let choices = Choices { run_max: Duration::from_secs(60), ..answers(None) };
    let world = World::<H>::new(choices).await;
    world.provider.plan(Plan::Wait);
    world.provider.say(Say::Pending);
    let (late, ()) = tokio::join!(world.pay("k"), async {
        world.provider.reached().await;
        // Somebody takes the key over behind the owner's back, as after a lapse.
        take_over(&world).await;
        world.provider.go();
    });
    assert_eq!(late.told(), (409, "samekey.outcome-pending".into()));
    assert!(world.saw(Signal::EvidenceRecorded), "{:?}", world.signals());
    world.recover_all().await;
    let replay = world.pay("k").await;
    assert_eq!((replay.status, replay.is_replay()), (201, true));
    assert_eq!((world.provider.effects(), world.provider.calls().len()), (1, 1));
}

/// Makes the running key unknown and asks once, so that another holds its fence.
async fn take_over<H: Home>(world: &World<H>) {
    use samekey_core::lease::Owner;
    use samekey_core::step::{Input, step};
    let store = world.store();
    let scope = scope("alpha", "k");
    let policy = world.external.route().policy();
    for input in [Input::Restore, Input::Ask(Owner::from_bytes([9; 16]))] {
        for _ in 0..50 {
            let seen = store.load(&scope).await.unwrap();
            let (next, _) = step(seen.record.clone(), input.clone(), seen.now, policy);
            let swap = store.swap(&scope, &seen.record, &next).await.unwrap();
            if swap == samekey::store::Swap::Written {
                break;
            }
        }
    }
}

fn answers_for_long() -> Choices {
    let counterparty = Counterparty::Answers { not_found_after: None };
    Choices { counterparty, ..Choices::default() }
}

async fn t84_two_workers_share_what_is_due<H: Home>() {
    const KEYS: usize = 120;
    // A turn that lasts, so that a slow machine is no reason to ask again.
    let choices = || Choices { lease: Duration::from_secs(60), ..answers_for_long() };
    let world = World::<H>::new(choices()).await;
    for number in 0..KEYS {
        world.provider.plan(Plan::LoseAnswer);
        world.pay(&format!("k{number}")).await;
    }
    let second = world.another(choices(), Setup::default()).await;
    let workers = [
        world.external.spawn_recovery(plan()),
        second.spawn_recovery(RecoveryPlan { at_once: 4, ..plan() }),
    ];
    for number in 0..KEYS {
        for _ in 0..2_400 {
            if world.state(&format!("k{number}")).await == "done" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert_eq!(world.state(&format!("k{number}")).await, "done");
    }
    drop(workers);
    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    for question in world.provider.questions() {
        *asked.entry(question.outbound_key.to_string()).or_default() += 1;
    }
    assert_eq!(asked.len(), KEYS);
    assert!(asked.values().all(|times| *times == 1), "a key was asked about twice");
    assert_eq!((world.provider.effects(), world.provider.calls().len()), (KEYS, KEYS));
}

/// Somebody declared that nothing ran, and it had: nothing can undo that, but it is not silent.
async fn p30_a_late_answer_on_a_free_key_is_an_alarm<H: Home>() {
    let choices = Choices { run_max: Duration::from_secs(60), ..opaque() };
    let world = World::<H>::new(choices).await;
    world.provider.plan(Plan::Wait);
    let (late, ()) = tokio::join!(world.pay("k"), async {
        world.provider.reached().await;
        let store = world.store();
        let scope = scope("alpha", "k");
        let policy = world.external.route().policy();
        for _ in 0..50 {
            use samekey_core::step::{Decision, Input, step};
            let seen = store.load(&scope).await.unwrap();
            let (review, _) = step(seen.record.clone(), Input::Restore, seen.now, policy);
            let input = Input::Decide(review.hold(), Decision::NotExecuted);
            let (free, _) = step(review, input, seen.now, policy);
            let swap = store.swap(&scope, &seen.record, &free).await.unwrap();
            if swap == samekey::store::Swap::Written {
                break;
            }
        }
        world.provider.go();
    });
    assert_eq!(late.status, 409, "{late:?}");
    assert!(world.saw(Signal::Contradicted), "{:?}", world.signals());
}

/// The answer comes when the lease is over and the key already waits for a person. A call that sees to it that
/// nothing is sent any more is heard, and every other one is dropped with its lease.
async fn p30_a_call_that_watches_its_lease_is_heard_after_its_end<H: Home>() {
    for watches in [true, false] {
        let world = World::<H>::new(Choices { run_max: SHORT, ..opaque() }).await;
        world.provider.plan(Plan::Wait);
        let provider = world.provider.clone();
        let call = async move |call: Call| {
            let lease = watches.then(|| call.lease().unwrap());
            assert!(lease.as_ref().is_none_or(|lease| !lease.is_over()));
            let charged = provider.charge(call).await;
            assert!(lease.is_none_or(|lease| lease.is_over()));
            charged
        };
        let (late, ()) = tokio::join!(world.run("k", call), async {
            world.provider.reached().await;
            while world.pay("k").await.told().1 != "samekey.outcome-unknown" {
                tokio::time::sleep(SHORT / 10).await;
            }
            world.provider.go();
        });
        let next = world.pay("k").await;
        if watches {
            assert_eq!((late.status, late.is_replay(), next.is_replay()), (201, false, true));
            assert_eq!(next.body, late.body);
        } else {
            assert_eq!(late.told(), (409, "samekey.outcome-unknown".into()));
            assert_eq!(next.told(), (409, "samekey.outcome-unknown".into()));
        }
        assert_eq!(world.provider.calls().len(), 1, "nobody called again");
    }
}

async fn a_lapsed_claim_that_nobody_can_be_asked_about_waits_for_a_person<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    abandoned(&world, "k").await;
    // A request that comes after the lease sees it as well as recovery does.
    for _ in 0..600 {
        let told = world.pay("k").await.told();
        if told.1 == "samekey.outcome-unknown" {
            break;
        }
        assert_eq!(told, (409, "samekey.in-progress".into()));
        tokio::time::sleep(SHORT / 10).await;
    }
    assert_eq!(world.state("k").await, "review");
    abandoned(&world, "other").await;
    world.recover_all().await;
    match world.record("other").await.state {
        State::Review(review) => assert_eq!(review.reason, Reason::LeaseLapsed),
        other @ (State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Done(_)
        | State::Closed(_)) => panic!("{other:?}"),
    }
    assert_eq!(world.provider.effects(), 2);
}

async fn one_org_with_many_open_keys_keeps_no_other_waiting<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    for number in 0..100 {
        world.provider.plan(Plan::LoseAnswer);
        world.pay(&format!("k{number}")).await;
    }
    world.provider.plan(Plan::LoseAnswer);
    world.pay_for("beta", "k", r#"{"amount":1}"#).await;
    // One pass has a bounded share for each organisation.
    let pass = world.recover().await;
    assert!(pass.asked < 100, "{pass:?}");
    assert_eq!(world.pay_for("beta", "k", r#"{"amount":1}"#).await.status, 201);
    world.recover_all().await;
    assert_eq!(world.provider.effects(), 101);
}

/// Not found is proof after the declared time and twice; before that it is nothing.
#[tokio::test]
async fn t63_not_found_is_proof_only_after_its_time_and_twice() {
    use super::home::Memory;
    let after = SHORT * 4;
    let counterparty = Counterparty::Answers { not_found_after: Some(after) };
    let choices = Choices { counterparty, ..answers(None) };
    let world = World::<Memory>::new(choices).await;
    world.provider.plan(Plan::Status(500, false));
    world.pay("k").await;
    let began = tokio::time::Instant::now();
    world.recover_all().await;
    assert!(began.elapsed() > after, "it was freed after {:?}", began.elapsed());
    assert_eq!(world.state("k").await, "free");
    let proofs = world.provider.questions().len();
    assert!(proofs >= 2, "{proofs} questions are no proof");
    assert_eq!(world.pay("k").await.status, 201);
    assert_eq!(world.provider.effects(), 1);
}

/// Open records are counted by route and state, for whoever watches.
#[tokio::test]
async fn open_records_are_a_metric() {
    use super::home::Memory;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let world = World::<Memory>::new(opaque()).await;
    for key in ["one", "two"] {
        world.provider.plan(Plan::LoseAnswer);
        world.pay(key).await;
    }
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let recovery = world.external.spawn_recovery(plan());
    let mut found = std::collections::BTreeMap::new();
    for _ in 0..400 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        for (key, _, _, value) in snapshots.snapshot().into_vec() {
            let key = key.key();
            let state = key.labels().find(|label| label.key() == "state");
            if let (DebugValue::Gauge(count), Some(state)) = (value, state)
                && key.name() == "samekey_open_records"
            {
                found.insert(state.value().to_owned(), count.into_inner());
            }
        }
        if found.len() == 3 {
            break;
        }
    }
    drop(recovery);
    let counts: Vec<(&str, f64)> = found.iter().map(|(state, n)| (state.as_str(), *n)).collect();
    assert_eq!(counts, [("review", 2.0), ("running", 0.0), ("unknown", 0.0)]);
}
