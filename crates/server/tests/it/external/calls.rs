//! One call for a key: what comes of it, by how it ends.

use super::home::Home;
use super::on_every_store;
use super::provider::Plan;
use super::world::{SHORT, World, answers, opaque, scope};
use samekey::store::Ledger;
use samekey::store::memory::MemoryLedger;
use samekey::{Engine, External, Route, Signal};
use samekey_core::policy::{Choices, Counterparty, KeyRule, OnServerError};
use samekey_core::record::{Reason, State};
use std::time::Duration;

on_every_store!(
    t44_t46_who_comes_meanwhile_is_told_so_and_then_gets_the_answer,
    t04_other_content_is_refused_in_every_state,
    t65_b07_what_never_started_frees_the_key,
    t64_a_server_error_is_passed_on_and_asked_about,
    b04_whatever_may_have_run_is_unknown,
    without_anybody_to_ask_a_person_decides,
    a_status_of_the_moment_frees_the_key_and_a_timeout_does_not,
    on_server_error_is_the_operators_word,
    t99_an_answer_over_the_limit_is_done_and_not_kept,
    b52_a_broken_answer_is_unknown,
    b01_a_client_that_hangs_up_changes_nothing,
    b32_a_call_longer_than_its_lease_renews_it,
    a_call_beyond_its_run_is_dropped_and_unknown,
    an_optional_key_that_is_missing_calls_each_time,
);

async fn t44_t46_who_comes_meanwhile_is_told_so_and_then_gets_the_answer<H: Home>() {
    let world =
        World::<H>::new(Choices { lease: Duration::from_secs(60), ..answers_for_long() }).await;
    world.provider.plan(Plan::Wait);
    let (first, ()) = tokio::join!(world.pay("k"), async {
        world.provider.reached().await;
        for _ in 0..3 {
            let busy = world.pay("k").await;
            assert_eq!(busy.told(), (409, "samekey.in-progress".into()));
            let wait: u64 = busy.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait));
        }
        world.provider.go();
    });
    assert_eq!((first.status, first.is_replay()), (201, false));
    let again = world.pay("k").await;
    assert_eq!((again.status, again.is_replay(), &again.body), (201, true, &first.body));
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!((world.provider.calls().len(), world.provider.effects()), (1, 1));
}

fn answers_for_long() -> Choices {
    let counterparty = Counterparty::Answers { not_found_after: None };
    Choices { counterparty, ..Choices::default() }
}

async fn t04_other_content_is_refused_in_every_state<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    let other = |key| world.pay_for("alpha", key, r#"{"amount":9}"#);
    world.pay("done").await;
    world.provider.plan(Plan::LoseAnswer);
    world.pay("unknown").await;
    for key in ["done", "unknown"] {
        let refused = other(key).await;
        assert_eq!(refused.told(), (422, "samekey.key-reused".into()), "{key}");
        assert!(!refused.body.windows(4).any(|part| part == b"paid"));
    }
    assert_eq!(world.provider.calls().len(), 2);
}

async fn t65_b07_what_never_started_frees_the_key<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    world.provider.plan(Plan::NotReached);
    let first = world.pay("k").await;
    assert_eq!(first.status, 502);
    assert_eq!(world.state("k").await, "free");
    assert!(world.store().intent(&scope("alpha", "k")).await.unwrap().is_none());
    let second = world.pay("k").await;
    assert_eq!((second.status, second.is_replay()), (201, false));
    assert_eq!(world.provider.effects(), 1);
    // The second life of the key has a fence of its own.
    assert_eq!(world.record("k").await.fence.number(), 2);
}

async fn t64_a_server_error_is_passed_on_and_asked_about<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    world.provider.plan(Plan::Status(500, true));
    let first = world.pay("k").await;
    assert_eq!((first.status, &first.body[..]), (500, &b"so be it"[..]));
    assert_eq!(first.header("stripe-should-retry"), Some("true"));
    assert_eq!(first.header("idempotency-key"), Some("\"k\""));
    assert_eq!(world.pay("k").await.told(), (409, "samekey.outcome-pending".into()));
    let pass = world.recover().await;
    assert_eq!((pass.asked, pass.settled), (1, 1));
    let replay = world.pay("k").await;
    assert_eq!((replay.status, replay.is_replay()), (201, true));
    assert_eq!((world.provider.calls().len(), world.provider.effects()), (1, 1));
}

async fn b04_whatever_may_have_run_is_unknown<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    let plans = [
        ("lost", Plan::LoseAnswer, Reason::ConnectionLost),
        ("error", Plan::Error, Reason::HandlerFailed),
        ("panic", Plan::Panic, Reason::HandlerPanicked),
    ];
    for (key, plan, reason) in plans {
        world.provider.plan(plan);
        let first = world.pay(key).await;
        assert_eq!(first.told(), (409, "samekey.outcome-pending".into()), "{key}");
        assert_eq!(first.header("stripe-should-retry"), Some("true"));
        match world.record(key).await.state {
            State::Unknown(unknown) => assert_eq!(unknown.reason, reason),
            other @ (State::Free
            | State::Running(_)
            | State::Review(_)
            | State::Done(_)
            | State::Closed(_)) => panic!("{key} is {other:?}"),
        }
    }
    assert_eq!(world.provider.effects(), 3);
    for key in ["lost", "error", "panic"] {
        assert_eq!(world.pay(key).await.status, 409);
    }
    assert_eq!(world.provider.effects(), 3, "nothing ran again");
}

async fn without_anybody_to_ask_a_person_decides<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    world.provider.plan(Plan::LoseAnswer);
    let first = world.pay("k").await;
    assert_eq!(first.told(), (409, "samekey.outcome-unknown".into()));
    assert_eq!(first.header("retry-after"), None);
    assert_eq!(first.header("stripe-should-retry"), Some("false"));
    assert_eq!(world.state("k").await, "review");
    assert!(world.saw(Signal::HandedOver));
    assert_eq!(world.pay("k").await.told(), (409, "samekey.outcome-unknown".into()));
    // A server error is passed on here too. It is not the key's word, which a client has to fetch.
    world.provider.plan(Plan::Status(503, true));
    let passed = world.pay("other").await;
    assert_eq!((passed.status, passed.header("stripe-should-retry")), (503, Some("true")));
    assert_eq!(world.state("other").await, "review");
    let word = world.pay("other").await;
    assert_eq!(word.told(), (409, "samekey.outcome-unknown".into()));
    assert_eq!(word.header("stripe-should-retry"), Some("false"));
    assert_eq!(world.provider.effects(), 2);
}

async fn a_status_of_the_moment_frees_the_key_and_a_timeout_does_not<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    for status in [401, 403, 407, 413, 421, 425, 429] {
        world.provider.plan(Plan::Status(status, false));
        assert_eq!(world.pay("k").await.status, status);
        assert_eq!(world.state("k").await, "free", "after {status}");
    }
    world.provider.plan(Plan::Status(402, false));
    assert_eq!(world.pay("k").await.status, 402);
    let replay = world.pay("k").await;
    assert_eq!((replay.status, replay.is_replay()), (402, true));
    world.provider.plan(Plan::Status(408, true));
    assert_eq!(world.pay("slow").await.status, 408);
    assert_eq!(world.state("slow").await, "unknown");
}

async fn on_server_error_is_the_operators_word<H: Home>() {
    let stores = Choices { on_server_error: OnServerError::Store, ..answers(None) };
    let world = World::<H>::new(stores).await;
    world.provider.plan(Plan::Status(500, false));
    assert_eq!(world.pay("k").await.status, 500);
    let replay = world.pay("k").await;
    assert_eq!((replay.status, replay.is_replay()), (500, true));
    let frees = Choices { on_server_error: OnServerError::Free, ..answers(None) };
    let world = World::<H>::new(frees).await;
    world.provider.plan(Plan::Status(500, false));
    assert_eq!(world.pay("k").await.status, 500);
    assert_eq!(world.pay("k").await.status, 201);
}

async fn t99_an_answer_over_the_limit_is_done_and_not_kept<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    world.provider.plan(Plan::Long(200_000));
    let first = world.pay("k").await;
    assert_eq!((first.status, first.body.len()), (201, 200_000));
    let again = world.pay("k").await;
    assert_eq!(again.told(), (409, "samekey.response-not-kept".into()));
    let document: serde_json::Value = serde_json::from_slice(&again.body).unwrap();
    assert_eq!(document["stored_location"], "/payments/long");
    assert_eq!(world.provider.effects(), 1);
}

async fn b52_a_broken_answer_is_unknown<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    world.provider.plan(Plan::Broken);
    assert_eq!(world.pay("k").await.told(), (409, "samekey.outcome-pending".into()));
    world.recover().await;
    assert_eq!(world.pay("k").await.status, 201);
    assert_eq!(world.provider.effects(), 1);
}

async fn b01_a_client_that_hangs_up_changes_nothing<H: Home>() {
    let world = World::<H>::new(answers_for_long()).await;
    world.provider.plan(Plan::Wait);
    {
        let mut pay = std::pin::pin!(world.pay("k"));
        tokio::select! {
            _ = &mut pay => panic!("it waits"),
            () = world.provider.reached() => {}
        }
        // Here the client's future is dropped.
    }
    world.provider.go();
    world.wait_for(Signal::Executed).await;
    let replay = world.pay("k").await;
    assert_eq!((replay.status, replay.is_replay()), (201, true));
    assert_eq!(world.provider.effects(), 1);
}

async fn b32_a_call_longer_than_its_lease_renews_it<H: Home>() {
    let choices = Choices { run_max: Duration::from_secs(60), ..answers(None) };
    let world = World::<H>::new(choices).await;
    world.provider.plan(Plan::Wait);
    let (first, ()) = tokio::join!(world.pay("k"), async {
        world.provider.reached().await;
        let began = tokio::time::Instant::now();
        while began.elapsed() < SHORT * 3 {
            world.wait_for(Signal::Renewed).await;
            // Recovery looks, and leaves it alone.
            assert_eq!(world.recover().await.asked, 0);
            tokio::time::sleep(SHORT / 6).await;
        }
        assert_eq!(world.state("k").await, "running");
        world.provider.go();
    });
    assert_eq!(first.status, 201);
    assert_eq!(world.provider.effects(), 1);
}

async fn a_call_beyond_its_run_is_dropped_and_unknown<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    world.provider.plan(Plan::Hang);
    let first = world.pay("k").await;
    assert_eq!(first.told(), (409, "samekey.outcome-pending".into()));
    match world.record("k").await.state {
        State::Unknown(unknown) => assert_eq!(unknown.reason, Reason::TimedOut),
        other @ (State::Free
        | State::Running(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_)) => panic!("{other:?}"),
    }
    world.recover().await;
    assert_eq!(world.pay("k").await.status, 201);
    assert_eq!(world.provider.effects(), 1);
}

async fn an_optional_key_that_is_missing_calls_each_time<H: Home>() {
    let world = World::<H>::new(Choices { key: KeyRule::Optional, ..answers(None) }).await;
    for _ in 0..2 {
        let request = http::Request::post("/payments")
            .body(http_body_util::Full::new(bytes::Bytes::from_static(b"{}")))
            .unwrap();
        let caller = samekey::Caller::of(samekey_core::key::Org::new("alpha").unwrap());
        let provider = world.provider.clone();
        let call = async move |call| provider.charge(call).await;
        let answer = world.external.run(&caller, request, call).await;
        assert_eq!(answer.status(), 201);
    }
    assert_eq!(world.provider.effects(), 2);
    let calls = world.provider.calls();
    assert_ne!(calls[0], calls[1], "two actions have two keys");
}

#[tokio::test]
async fn a_route_that_nobody_can_ask_about_does_not_start() {
    let engine = Engine::new(MemoryLedger::new());
    let opaque = Route::new("payments", Choices::default()).unwrap();
    let refused = External::asking(&engine, opaque, super::provider::Provider::default()).await;
    let sentence = refused.err().unwrap().to_string();
    assert!(sentence.contains("payments") && sentence.contains("External::opaque"), "{sentence}");
    let asked = Route::new("payments", answers(None)).unwrap();
    let sentence = External::opaque(&engine, asked).await.err().unwrap().to_string();
    assert!(sentence.contains("External::asking"), "{sentence}");
}
