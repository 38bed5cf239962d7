//! A store that was restored to an earlier state.

use super::home::Home;
use super::on_every_store;
use super::provider::{Plan, Provider};
use super::world::{World, answers, opaque, scope};
use samekey::store::Ledger;
use samekey::{Setup, mark_restored};
use samekey_core::record::{Reason, State};
use samekey_core::time::Time;

on_every_store!(
    t83_after_a_restore_everything_is_asked_about_first,
    t83_where_nobody_can_be_asked_a_person_decides,
    a_restore_from_the_future_is_refused,
);

/// The provider remembers what the lost part of the store had done.
async fn t83_after_a_restore_everything_is_asked_about_first<H: Home>() {
    let before = World::<H>::new(answers(None)).await;
    before.pay("lost").await;
    before.provider.plan(Plan::NotReached);
    before.pay("freed").await;
    let provider: Provider = before.provider.clone();
    assert_eq!(provider.effects(), 1);

    // The backup is older than that payment: another, empty store, with the secret of the first.
    let secret = before.store().shared("outbound-secret").await.unwrap().unwrap();
    let setup = Setup::default().outbound_secret(&secret);
    let home = H::fresh().await;
    let store = home.open().await;
    mark_restored(&store, Time::EPOCH).await.unwrap();
    drop(store);
    let after = World::<H>::on(home, provider.clone(), answers(None), setup).await;
    let first = after.pay("lost").await;
    assert_eq!(first.told(), (409, "samekey.outcome-pending".into()));
    match after.record("lost").await.state {
        State::Unknown(unknown) => assert_eq!(unknown.reason, Reason::Restored),
        other @ (State::Free
        | State::Running(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_)) => panic!("{other:?}"),
    }
    assert_eq!(provider.calls().len(), 2, "nothing was sent");
    after.recover().await;
    let replay = after.pay("lost").await;
    assert_eq!((replay.status, replay.is_replay()), (201, true));
    assert_eq!(provider.effects(), 1);
}

async fn t83_where_nobody_can_be_asked_a_person_decides<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    world.pay("done").await;
    world.provider.plan(Plan::NotReached);
    world.pay("freed").await;
    let report = mark_restored(world.store(), Time::EPOCH).await.unwrap();
    assert_eq!(report.free_removed, 1);
    // A service that is running sees the mark with its next pass.
    world.recover().await;
    assert_eq!(world.pay("done").await.status, 201, "what the store knows stays");
    for key in ["freed", "new"] {
        assert_eq!(world.pay(key).await.told(), (409, "samekey.outcome-unknown".into()), "{key}");
    }
    assert_eq!(world.provider.effects(), 1);
    assert!(world.store().intent(&scope("alpha", "new")).await.unwrap().is_some());
}

async fn a_restore_from_the_future_is_refused<H: Home>() {
    let world = World::<H>::new(opaque()).await;
    let future = Time::from_micros(i64::MAX / 2);
    let refused = mark_restored(world.store(), future).await.unwrap_err();
    assert!(refused.to_string().contains("future"), "{refused}");
    world.recover().await;
    assert_eq!(world.pay("k").await.status, 201);
}
