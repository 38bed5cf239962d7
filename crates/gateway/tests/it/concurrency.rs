//! Many at once: one key and one effect, many keys and nobody in another's way.

use crate::backend::{Backend, Reply, created};
use crate::client::Ask;
use crate::world::{Kind, World, on_both};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

async fn t43_b71_one_key_at_two_gateways_is_one_effect(kind: Kind) {
    let world = World::plain(kind, Backend::creating().await).await;
    let other = world.another().await;
    let mut sending = JoinSet::new();
    for number in 0..100 {
        let address = if number % 2 == 0 { world.gateway.address } else { other.address };
        sending
            .spawn(async move { Ask::post("/orders", "k", r#"{"ref":"r1"}"#).send(address).await });
    }
    let answers = sending.join_all().await;
    let (busy, last): (Vec<_>, Vec<_>) = answers.iter().partition(|it| it.status == 409);
    assert!(
        busy.iter()
            .all(|it| it.code() == "samekey.in-progress" && it.one("retry-after") == Some("1"))
    );
    assert!(!last.is_empty());
    assert!(last.iter().all(|it| it.kept() == last[0].kept()));
    assert_eq!(last.iter().filter(|it| !it.is_replay()).count(), 1);
    assert_eq!(world.backend.effects(), 1);
}

async fn t44_t46_while_the_first_runs_others_are_told_to_wait(kind: Kind) {
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend =
        Backend::playing(move |_, number| Reply::When(Arc::clone(&script), created(number)));
    let world = World::plain(kind, backend.await).await;
    let other = world.another().await;
    let ask = Ask::post("/charges", "k", "{}");
    let (address, first) = (world.gateway.address, ask.clone());
    let first = tokio::spawn(async move { first.send(address).await });
    world.backend.wait_for(1).await;
    for address in [world.gateway.address, other.address] {
        let busy = ask.send(address).await;
        assert_eq!((busy.status, busy.code().as_str()), (409, "samekey.in-progress"));
        assert_eq!(
            (busy.one("retry-after"), busy.one("stripe-should-retry")),
            (Some("1"), Some("true"))
        );
    }
    gate.add_permits(1);
    let first = first.await.unwrap();
    assert_eq!(first.status, 201);
    assert_eq!(world.send(&ask).await.kept(), first.kept());
    assert_eq!(world.backend.effects(), 1);
}

async fn t47_calls_that_take_long_hold_nothing_that_others_need(kind: Kind) {
    let gate = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&gate);
    let backend = Backend::playing(move |seen, number| match seen.target.as_str() {
        "/charges" => Reply::When(Arc::clone(&script), created(number)),
        _ => Reply::Bytes(created(number)),
    });
    let world = World::plain(kind, backend.await).await;
    let mut slow = JoinSet::new();
    for number in 0..200 {
        let address = world.gateway.address;
        let body = format!("{{\"ref\":{number}}}");
        slow.spawn(async move {
            Ask::post("/charges", &format!("slow-{number}"), &body).send(address).await
        });
    }
    world.backend.wait_for(200).await;
    let quick = Ask::post("/orders", "quick", "{}");
    let quick =
        tokio::time::timeout(Duration::from_secs(5), world.send(&quick)).await.expect("it waited");
    assert_eq!(quick.status, 201);
    gate.add_permits(200);
    assert!(slow.join_all().await.iter().all(|it| it.status == 201));
    assert!(world.backend.by_body().values().all(|effects| *effects == 1));
}

async fn a_new_key_for_the_same_command_is_told(kind: Kind) {
    let world = World::with(kind, Backend::creating().await, "repeats = \"header\"\n").await;
    let send = async |key: &str, body: &str| {
        let answer = world.send(&Ask::post("/orders", key, body)).await;
        assert_eq!(answer.status, 201);
        answer.one("samekey-notice").map(str::to_owned)
    };
    assert_eq!(send("k1", "{\"a\":1,\"b\":2}").await, None);
    assert_eq!(send("k1", "{\"a\":1,\"b\":2}").await, None, "a retry");
    assert_eq!(send("k2", "{\"a\":2}").await, None, "another command");
    let notice = send("k3", "{ \"b\": 2, \"a\": 1 }").await;
    assert_eq!(notice.as_deref(), Some("same-command-other-key"));
    assert_eq!(send("k3", "{\"a\":1,\"b\":2}").await, None, "a replay says nothing");
}

on_both!(
    t43_b71_one_key_at_two_gateways_is_one_effect,
    t44_t46_while_the_first_runs_others_are_told_to_wait,
    t47_calls_that_take_long_hold_nothing_that_others_need,
    a_new_key_for_the_same_command_is_told,
);
