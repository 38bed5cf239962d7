//! Duplicates that arrive while the first one works, and handlers that meet an error of their own.

use super::harness::script::gate;
use super::harness::stores::Backend;
use super::harness::{Harness, Script, Which, fresh, on_both, order};
use axum::body::Body;
use samekey::store::postgres::Tx;
use samekey::{Answer, BoxError, Caller, Request, Route, Setup};
use samekey_core::key::Org;
use samekey_core::policy::Choices;
use std::time::Duration;

on_both!(
    b26_every_waiter_gets_the_first_answer,
    b41_two_at_once_are_one_and_its_replay,
    p07_whoever_has_waited_long_enough_is_told_to_come_back,
);

/// How long waiters may wait in these tests: the longest that a policy allows.
fn patient(choices: &mut Choices) {
    choices.wait = Duration::from_secs(1);
}

async fn b26_every_waiter_gets_the_first_answer(which: Which) {
    let harness = Harness::with(which, Setup::default(), patient).await;
    for _ in 0..3 {
        let (key, r) = (fresh("key"), fresh("ref"));
        let (gate, mut keeper) = gate();
        harness.app.scripts.set(&r, Script { gate: Some(gate), ..Script::default() });
        let body = order(&r);
        let all =
            futures_util::future::join_all((0..20).map(|_| harness.post("/orders", &key, &body)));
        let opened = async {
            keeper.reached.recv().await.unwrap();
            // The handler works a while; the waiters come meanwhile.
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(keeper);
        };
        let (replies, ()) = tokio::join!(all, opened);
        let first = replies.iter().find(|reply| !reply.is_replay()).unwrap();
        assert_eq!(replies.iter().filter(|reply| reply.is_replay()).count(), 19);
        for reply in &replies {
            reply.assert_same(first);
        }
        assert_eq!(harness.effects(&r).await, 1);
    }
    assert_eq!(harness.rows_in_state("running").await, 0);
}

async fn b41_two_at_once_are_one_and_its_replay(which: Which) {
    // Two engines, so that they meet in the database and not in memory.
    let one = Harness::with(which, Setup::default(), patient).await;
    let other = one.another_with(Setup::default(), patient).await;
    for round in 0..20 {
        let (key, r) = (fresh("key"), fresh("ref"));
        let body = order(&r);
        let (a, b) =
            tokio::join!(one.post("/orders", &key, &body), other.post("/orders", &key, &body));
        // The loser gets the replay, or, on a very busy machine, the truth that it has to wait.
        let (ran, other) = if a.is_replay() || a.status == 409 { (b, a) } else { (a, b) };
        assert_eq!((ran.status, ran.is_replay()), (201, false), "round {round}: {other:?}");
        let other = match other.status {
            409 => {
                other.assert_busy();
                one.post("/orders", &key, &body).await
            }
            _ => other,
        };
        assert!(other.is_replay(), "round {round}");
        other.assert_same(&ran);
        assert_eq!(one.effects(&r).await, 1);
    }
}

async fn p07_whoever_has_waited_long_enough_is_told_to_come_back(which: Which) {
    let harness = Harness::with(which, Setup::default(), |choices| {
        choices.wait = Duration::from_millis(20);
    })
    .await;
    let (key, r) = (fresh("key"), fresh("ref"));
    let (gate, mut keeper) = gate();
    harness.app.scripts.set(&r, Script { gate: Some(gate), ..Script::default() });
    let body = order(&r);
    let later = async {
        keeper.reached.recv().await.unwrap();
        let busy = harness.post("/orders", &key, &body).await;
        busy.assert_busy();
        assert_eq!(busy.header("stripe-should-retry"), Some("true"));
        // Other content is told so, and not to wait.
        assert_eq!(harness.post("/orders", &key, "{}").await.status, 422);
        keeper.go.send(()).unwrap();
    };
    let (first, ()) = tokio::join!(harness.post("/orders", &key, &body), later);
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert!(harness.post("/orders", &key, &body).await.is_replay());
    assert_eq!(harness.effects(&r).await, 1);
}

fn keyed(key: &str, body: &str) -> http::Request<Body> {
    http::Request::post("/orders")
        .header("idempotency-key", key)
        .body(Body::from(body.to_owned()))
        .unwrap()
}

fn status_of(code: u16) -> Answer {
    http::Response::builder().status(code).body(bytes::Bytes::new().into()).unwrap()
}

/// What a handler does that meets a duplicate of its own.
#[derive(Clone, Copy)]
enum Caught {
    /// It tries inside a savepoint and goes on.
    InSavepoint,
    /// It gives up with a refusal.
    Refused,
    /// It goes on as if nothing were, in a transaction that is broken now.
    Ignored,
}

const ORDER: &str = "insert into effects (org, reference, order_number) values ('A', $1, $2)";

/// An order whose number is taken already, by a handler that catches the error.
async fn order_twice(tx: Tx, number: String, caught: Caught) -> Result<Answer, BoxError> {
    tx.execute("insert into effects (org, reference) values ('A', $1)", &[&number]).await?;
    if matches!(caught, Caught::InSavepoint) {
        tx.batch_execute("savepoint own").await?;
    }
    let taken = tx.execute(ORDER, &[&number, &"taken"]).await;
    assert_eq!(taken.unwrap_err().code().unwrap().code(), "23505");
    match caught {
        Caught::InSavepoint => tx.batch_execute("rollback to savepoint own").await?,
        Caught::Refused => return Ok(status_of(409)),
        Caught::Ignored => {}
    }
    Ok(status_of(201))
}

/// An application that catches its own error loses neither its record nor, in silence, its effect.
#[tokio::test(flavor = "multi_thread")]
async fn b41_an_error_that_the_handler_catches_is_its_own() {
    let harness = Harness::start(Which::Postgres).await;
    let Backend::Postgres(engine) = harness.backend() else { panic!("PostgreSQL was asked for") };
    let route = Route::new("numbers", Choices::default()).unwrap();
    let caller = Caller::of(Org::new("A").unwrap());
    let first = |tx: Tx, _: Request| async move {
        tx.execute(ORDER, &[&"first", &"taken"]).await?;
        Ok::<_, BoxError>(status_of(201))
    };
    assert_eq!(
        engine.atomic(&route, &caller, keyed(&fresh("key"), "{}"), first).await.status(),
        201
    );
    for (caught, status, effects, stored) in [
        (Caught::InSavepoint, 201, 1, true),
        (Caught::Refused, 409, 0, true),
        // Nothing of it can be committed, and nobody is told that it was.
        (Caught::Ignored, 503, 0, false),
    ] {
        let (key, number) = (fresh("key"), fresh("number"));
        for replayed in [false, stored] {
            let number = number.clone();
            let handler = move |tx: Tx, _: Request| order_twice(tx, number.clone(), caught);
            let answer = engine.atomic(&route, &caller, keyed(&key, "{}"), handler).await;
            let marked = answer.headers().contains_key("idempotent-replayed");
            assert_eq!((answer.status().as_u16(), marked), (status, replayed));
        }
        assert_eq!(harness.effects(&number).await, effects);
    }
}

/// On SQLite a failed statement leaves its transaction whole, so the handler just goes on.
#[tokio::test(flavor = "multi_thread")]
async fn b41_on_sqlite_a_caught_error_leaves_the_transaction_whole() {
    let harness = Harness::start(Which::Sqlite).await;
    let Backend::Sqlite(engine) = harness.backend() else { panic!("SQLite was asked for") };
    let route = Route::new("numbers", Choices::default()).unwrap();
    let caller = Caller::of(Org::new("A").unwrap());
    let (key, r) = (fresh("key"), fresh("ref"));
    for replayed in [false, true] {
        let r = r.clone();
        let handler = move |connection: &rusqlite::Connection, _: &Request| {
            let insert = "insert into effects (org, reference, order_number) values ('A', ?1, 'n')";
            connection.execute(insert, [&r])?;
            connection.execute(insert, [&r]).unwrap_err();
            Ok::<_, BoxError>(status_of(201))
        };
        let answer = engine.atomic(&route, &caller, keyed(&key, "{}"), handler).await;
        let marked = answer.headers().contains_key("idempotent-replayed");
        assert_eq!((answer.status().as_u16(), marked), (201, replayed));
    }
    assert_eq!(harness.effects(&r).await, 1);
}
