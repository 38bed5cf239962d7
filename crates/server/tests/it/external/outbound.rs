//! The key under which the counterparty knows a command.

use super::home::Home;
use super::on_every_store;
use super::provider::{Plan, Provider};
use super::world::{World, answers, pay};
use samekey::Setup;

on_every_store!(
    t108_two_organisations_never_meet_at_one_counterparty,
    t108_another_secret_changes_nothing_for_a_command_on_its_way,
    all_processes_share_the_secret_of_the_store,
);

async fn t108_two_organisations_never_meet_at_one_counterparty<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    let alpha = world.pay("k").await;
    let beta = world.pay_for("beta", "k", r#"{"amount":1200}"#).await;
    let calls = world.provider.calls();
    assert_ne!(calls[0], calls[1]);
    assert_eq!(world.provider.effects(), 2);
    assert!(!String::from_utf8_lossy(&beta.body).contains(&calls[0]), "nothing of alpha's");
    assert_ne!(alpha.body, beta.body);
    for key in calls {
        assert!(!key.contains('k') && key.len() == 36, "a UUID that shows nothing: {key}");
    }
}

async fn t108_another_secret_changes_nothing_for_a_command_on_its_way<H: Home>() {
    let old = Setup::default().outbound_secret(b"the old secret");
    let world = World::<H>::on(H::fresh().await, Provider::default(), answers(None), old).await;
    world.provider.plan(Plan::LoseAnswer);
    world.pay("k").await;
    let rotated = Setup::default().outbound_secret(b"the new secret");
    let after = world.another(answers(None), rotated).await;
    after.recover(super::world::plan()).await.unwrap();
    let asked = world.provider.questions().remove(0).outbound_key.to_string();
    assert_eq!(asked, world.provider.calls()[0]);
    let replay = pay(&after, &world.provider, "alpha", "k", r#"{"amount":1200}"#).await;
    assert_eq!(replay.status, 201);
    assert_eq!(world.provider.effects(), 1);
}

async fn all_processes_share_the_secret_of_the_store<H: Home>() {
    let world = World::<H>::new(answers(None)).await;
    let other = world.another(answers(None), Setup::default()).await;
    world.provider.plan(Plan::NotReached);
    world.pay("k").await;
    // The key is free again, and another process gives it the same outbound key.
    pay(&other, &world.provider, "alpha", "k", r#"{"amount":1200}"#).await;
    let calls = world.provider.calls();
    assert_eq!(calls[0], calls[1]);
}
