//! What a person decides.

use super::home::Home;
use super::on_every_store;
use super::provider::Plan;
use super::world::{World, opaque, scope};
use samekey::keys::{Keys, Person, Undecided, executed_fact};
use samekey::store::Ledger;
use samekey_core::step::Decision;

on_every_store!(
    a_person_settles_frees_or_closes,
    a_stale_view_is_refused,
    p42_a_view_of_an_earlier_state_decides_nothing,
    without_grounds_nothing_is_decided,
    forget_removes_the_answer_and_keeps_the_fact,
);

fn person() -> Person {
    Person {
        name: "Mira".into(),
        note: "seen on the statement of account".into(),
        evidence: "statement 2026-11, line 40".into(),
    }
}

async fn in_review<H: Home>(world: &World<H>, key: &str) -> String {
    world.provider.plan(Plan::LoseAnswer);
    world.pay(key).await;
    assert_eq!(world.state(key).await, "review");
    world.record(key).await.view().to_string()
}

async fn a_person_settles_frees_or_closes<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    let keys = Keys::of(world.store());
    let view = in_review(&world, "executed").await;
    let location = Some("/payments/7".to_owned());
    let executed = Decision::Executed(executed_fact(201, location));
    keys.resolve(&scope("alpha", "executed"), &view, executed, &person()).await.unwrap();
    let told = world.pay("executed").await;
    assert_eq!(told.told(), (409, "samekey.response-not-kept".into()));
    assert!(String::from_utf8_lossy(&told.body).contains("/payments/7"));

    let view = in_review(&world, "not-executed").await;
    let scope_of = scope("alpha", "not-executed");
    keys.resolve(&scope_of, &view, Decision::NotExecuted, &person()).await.unwrap();
    assert_eq!(world.pay("not-executed").await.status, 201);

    let view = in_review(&world, "closed").await;
    keys.resolve(&scope("alpha", "closed"), &view, Decision::Close, &person()).await.unwrap();
    assert_eq!(world.pay("closed").await.told(), (409, "samekey.closed-by-operator".into()));

    let shown = keys.show(&scope("alpha", "closed")).await.unwrap().unwrap();
    assert_eq!(shown.decisions.len(), 1);
    let account = &shown.decisions[0];
    assert_eq!((account.decision.as_str(), account.person.as_str()), ("close", "Mira"));
    assert_eq!(account.evidence, person().evidence);
    assert!(account.at.micros() > 1_700_000_000_000_000, "by the store's clock");
}

async fn a_stale_view_is_refused<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    let keys = Keys::of(world.store());
    let view = in_review(&world, "k").await;
    keys.resolve(&scope("alpha", "k"), &view, Decision::NotExecuted, &person()).await.unwrap();
    world.provider.plan(Plan::LoseAnswer);
    world.pay("k").await;
    // The key is in review again, in another life; the old screen decides nothing about it.
    let refused = keys.resolve(&scope("alpha", "k"), &view, Decision::Close, &person()).await;
    assert!(matches!(refused, Err(Undecided::StaleView)), "{refused:?}");
    assert_eq!(world.state("k").await, "review");
    let accounts = world.store().decisions(&scope("alpha", "k")).await.unwrap();
    assert_eq!(accounts.len(), 1);
    world.pay("done").await;
    let view = world.record("done").await.view().to_string();
    let refused = keys.resolve(&scope("alpha", "done"), &view, Decision::Close, &person()).await;
    assert!(matches!(refused, Err(Undecided::NotInState("done"))), "{refused:?}");
    let none = keys.resolve(&scope("beta", "k"), &view, Decision::Close, &person()).await;
    assert!(matches!(none, Err(Undecided::NoSuchKey)));
}

/// What a person saw is the whole record: a view of the key while it still ran decides nothing later.
async fn p42_a_view_of_an_earlier_state_decides_nothing<H: Home>() {
    let choices =
        samekey_core::policy::Choices { run_max: std::time::Duration::from_secs(60), ..opaque() };
    let world = World::<H>::new(choices).await;
    world.provider.plan(Plan::Wait);
    let (_, view) = tokio::join!(world.pay("k"), async {
        world.provider.reached().await;
        let view = world.record("k").await.view().to_string();
        world.provider.go();
        view
    });
    let keys = Keys::of(world.store());
    let refused = keys.forget(&scope("alpha", "k"), &view, &person()).await;
    assert!(matches!(refused, Err(Undecided::StaleView)), "{refused:?}");
    let now = world.record("k").await.view().to_string();
    assert_ne!(now, view);
    keys.forget(&scope("alpha", "k"), &now, &person()).await.unwrap();
    let again = keys.forget(&scope("alpha", "k"), &now, &person()).await;
    assert!(matches!(again, Err(Undecided::StaleView)), "{again:?}");
}

async fn without_grounds_nothing_is_decided<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    let keys = Keys::of(world.store());
    let view = in_review(&world, "k").await;
    let long = "x".repeat(5_000);
    let incomplete = [
        Person { note: " ".into(), ..person() },
        Person { evidence: String::new(), ..person() },
        Person { name: String::new(), ..person() },
        Person { note: long, ..person() },
        Person { note: "a\0b".into(), ..person() },
    ];
    for person in incomplete {
        let refused = keys.resolve(&scope("alpha", "k"), &view, Decision::Close, &person).await;
        assert!(matches!(refused, Err(Undecided::Incomplete(_))), "{refused:?}");
    }
    assert_eq!(world.state("k").await, "review");
}

async fn forget_removes_the_answer_and_keeps_the_fact<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    let keys = Keys::of(world.store());
    world.pay("k").await;
    let view = world.record("k").await.view().to_string();
    keys.forget(&scope("alpha", "k"), &view, &person()).await.unwrap();
    let told = world.pay("k").await;
    assert_eq!(told.told(), (409, "samekey.response-not-kept".into()));
    assert!(!String::from_utf8_lossy(&told.body).contains("\"paid\""));
    assert_eq!(world.provider.effects(), 1);
    let accounts = world.store().decisions(&scope("alpha", "k")).await.unwrap();
    assert_eq!(accounts[0].decision, "forget");
    // Once more changes nothing, and leaves no second account.
    let view = world.record("k").await.view().to_string();
    keys.forget(&scope("alpha", "k"), &view, &person()).await.unwrap();
    assert_eq!(world.store().decisions(&scope("alpha", "k")).await.unwrap().len(), 1);
}
