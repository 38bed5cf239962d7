//! Times that cannot be waited for: a clock by hand.

use super::home::Together;
use super::provider::{Plan, Provider, Say};
use super::world::{pay, scope};
use samekey::store::Ledger;
use samekey::store::memory::{HandClock, MemoryLedger};
use samekey::{Engine, External, RecoveryPlan, Route};
use samekey_core::policy::{Choices, Counterparty};
use samekey_core::record::{Reason, State};
use samekey_core::time::Time;
use std::sync::Arc;
use std::time::Duration;

const BODY: &str = r#"{"amount":1200}"#;

async fn at_hand(counterparty: Counterparty) -> (HandClock, External<Together>, Provider) {
    let clock = HandClock::at(Time::from_micros(1_700_000_000_000_000));
    let engine = Engine::new(Together(Arc::new(MemoryLedger::with_clock(&clock))));
    let route = Route::new("payments", Choices { counterparty, ..Choices::default() }).unwrap();
    let provider = Provider::default();
    let external = External::asking(&engine, route, provider.clone()).await.unwrap();
    (clock, external, provider)
}

async fn state(external: &External<Together>) -> State {
    external.store().load(&scope("alpha", "k")).await.unwrap().record.state
}

/// The pauses between questions grow, and after the last one a person decides.
#[tokio::test]
async fn questions_are_spaced_and_bounded() {
    let (clock, external, provider) =
        at_hand(Counterparty::Answers { not_found_after: None }).await;
    provider.plan(Plan::LoseAnswer);
    pay(&external, &provider, "alpha", "k", BODY).await;
    let mut pauses = Vec::new();
    let mut last = clock.now();
    while let State::Unknown(unknown) = state(&external).await {
        let pause = unknown.ask_after.since(clock.now());
        clock.advance(pause);
        provider.say(Say::Pending);
        external.recover(RecoveryPlan::default()).await.unwrap();
        pauses.push(clock.now().since(last));
        last = clock.now();
    }
    let asked = provider.questions().len();
    assert_eq!(asked, 20);
    let growing = pauses.windows(2).all(|pair| pair[0] <= pair[1]);
    assert!(growing && *pauses.last().unwrap() <= Duration::from_secs(300), "{pauses:?}");
    match state(&external).await {
        State::Review(review) => assert_eq!(review.reason, Reason::QuestionsUsedUp),
        other @ (State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Done(_)
        | State::Closed(_)) => panic!("{other:?}"),
    }
}

/// T-79: a counterparty that may have forgotten the key is not asked by sending it again.
#[tokio::test]
async fn t79_after_the_key_s_life_nothing_is_sent_again() {
    let life = Duration::from_secs(24 * 3600);
    let (clock, external, provider) = at_hand(Counterparty::Dedups { key_life: life }).await;
    provider.plan(Plan::LoseAnswer);
    pay(&external, &provider, "alpha", "k", BODY).await;
    clock.advance(life);
    let pass = external.recover(RecoveryPlan::default()).await.unwrap();
    assert_eq!((pass.asked, pass.handed_over), (0, 1));
    assert!(provider.questions().is_empty());
    match state(&external).await {
        State::Review(review) => assert_eq!(review.reason, Reason::NobodyToAsk),
        other @ (State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Done(_)
        | State::Closed(_)) => panic!("{other:?}"),
    }
}

/// A clock that jumps ahead ends leases early, and nothing runs twice for it.
#[tokio::test]
async fn b40_a_clock_that_jumps_runs_nothing_twice() {
    let (clock, external, provider) =
        at_hand(Counterparty::Answers { not_found_after: None }).await;
    provider.plan(Plan::Wait);
    let (late, ()) = tokio::join!(pay(&external, &provider, "alpha", "k", BODY), async {
        provider.reached().await;
        clock.advance(Duration::from_secs(3600));
        provider.say(Say::Pending);
        external.recover(RecoveryPlan::default()).await.unwrap();
        assert_eq!(pay(&external, &provider, "alpha", "k", BODY).await.status, 409);
        provider.go();
    });
    assert_eq!(late.status, 409);
    clock.advance(Duration::from_secs(3600));
    external.recover(RecoveryPlan::default()).await.unwrap();
    let replay = pay(&external, &provider, "alpha", "k", BODY).await;
    assert_eq!((replay.status, replay.is_replay()), (201, true));
    assert_eq!((provider.calls().len(), provider.effects()), (1, 1));
}

/// B-40. This process's clock is years ahead of the store's: a lease is counted by the store's alone.
#[tokio::test]
async fn p32_b40_a_process_whose_clock_is_wrong_ends_no_lease() {
    let (clock, external, provider) =
        at_hand(Counterparty::Answers { not_found_after: None }).await;
    provider.plan(Plan::Wait);
    let (paid, ()) = tokio::join!(pay(&external, &provider, "alpha", "k", BODY), async {
        provider.reached().await;
        // The lease lasts a minute.
        for later in [0, 59] {
            clock.advance(Duration::from_secs(later));
            let second = pay(&external, &provider, "alpha", "k", BODY).await;
            assert_eq!(second.told(), (409, "samekey.in-progress".into()));
            assert_eq!(external.recover(RecoveryPlan::default()).await.unwrap().looked_at, 0);
        }
        provider.go();
    });
    assert_eq!((paid.status, paid.is_replay()), (201, false));
    assert_eq!((provider.calls().len(), provider.questions().len()), (1, 0));
}
