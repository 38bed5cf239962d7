//! One transaction for key and effect, and what may go wrong inside it.

use super::harness::proxied::Pooled;
use super::harness::reach::Order;
use super::harness::{Harness, fresh};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use samekey::store::postgres::Tx;
use samekey::{Answer, BoxError, Caller, Response, Route, SweepPlan};
use samekey_core::key::Org;
use samekey_core::policy::Choices;
use samekey_store::Ledger;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Barrier;

fn route() -> Route {
    Route::new("own", Choices::default()).unwrap()
}

fn caller() -> Caller {
    Caller::of(Org::new("A").unwrap())
}

fn request(key: &str) -> http::Request<Full<Bytes>> {
    http::Request::post("/own")
        .header("idempotency-key", key)
        .body(Full::new(Bytes::from_static(b"{}")))
        .unwrap()
}

fn says(status: u16) -> Result<Answer, BoxError> {
    let mut answer = Answer::new(Full::new(Bytes::from_static(b"said")));
    *answer.status_mut() = http::StatusCode::from_u16(status)?;
    Ok(answer)
}

/// Status, code and whether it is a replay.
async fn told(response: Response) -> (u16, Option<String>, bool) {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let json: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let code = json.and_then(|json| Some(json.get("code")?.as_str()?.to_owned()));
    (head.status.as_u16(), code, head.headers.contains_key("idempotent-replayed"))
}

/// The database itself says which transaction wrote a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p02_key_and_effect_are_written_by_one_transaction() {
    let harness = Harness::pooled(Pooled::of(2)).await;
    let (key, reference) = (fresh("key"), fresh("ref"));
    assert_eq!(Order::of(&key, &reference).send(harness.address).await.unwrap().status, 201);
    let written = "select keys.xmin::text, effects.xmin::text from samekey.keys, effects
        where keys.key = $1 and effects.reference = $2";
    let row = harness.direct().query_one(written, &[&key, &reference]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), row.get::<_, String>(1));
}

/// T-48. Both take the first of their rows before either asks for its second, so that a deadlock is
/// certain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p14_t48_a_deadlock_is_tried_again_inside() {
    let harness = Harness::pooled(Pooled::of(4)).await;
    harness
        .direct()
        .batch_execute("create table stock (id integer primary key, n integer not null); insert into stock values (1, 0), (2, 0)")
        .await
        .unwrap();
    let meet = Arc::new(Barrier::new(2));
    let calls = Arc::new(AtomicU32::new(0));
    let run = |first: i32, second: i32| {
        let (engine, meet, calls) =
            (harness.engine().clone(), Arc::clone(&meet), Arc::clone(&calls));
        let tried = Arc::new(AtomicU32::new(0));
        tokio::spawn(async move {
            let handler = move |tx: Tx, _| {
                let (meet, calls, tried) =
                    (Arc::clone(&meet), Arc::clone(&calls), Arc::clone(&tried));
                async move {
                    calls.fetch_add(1, Ordering::SeqCst);
                    let take = "update stock set n = n + 1 where id = $1";
                    tx.execute(take, &[&first]).await?;
                    if tried.fetch_add(1, Ordering::SeqCst) == 0 {
                        meet.wait().await;
                    }
                    tx.execute(take, &[&second]).await?;
                    says(201)
                }
            };
            told(engine.atomic(&route(), &caller(), request(&fresh("key")), handler).await).await
        })
    };
    let (one, other) = (run(1, 2), run(2, 1));
    assert_eq!(one.await.unwrap(), (201, None, false));
    assert_eq!(other.await.unwrap(), (201, None, false));
    assert_eq!(calls.load(Ordering::SeqCst), 3, "the deadlock's victim runs once more");
    let total = "select sum(n)::bigint from stock where n = 2";
    let total: Option<i64> = harness.direct().query_one(total, &[]).await.unwrap().get(0);
    assert_eq!(total, Some(4), "each took each row once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p14_a_conflict_without_end_is_given_up_after_three_more_tries() {
    let harness = Harness::pooled(Pooled::of(2)).await;
    let (key, calls) = (fresh("key"), Arc::new(AtomicU32::new(0)));
    let run = |fails: bool| {
        let (engine, calls) = (harness.engine().clone(), Arc::clone(&calls));
        let request = request(&key);
        async move {
            let handler = move |tx: Tx, _| {
                let calls = Arc::clone(&calls);
                async move {
                    calls.fetch_add(1, Ordering::SeqCst);
                    tx.execute(
                        "insert into effects (org, reference) values ('A', 'conflict')",
                        &[],
                    )
                    .await?;
                    if fails {
                        tx.batch_execute(
                            "do $$ begin raise exception using errcode = '40001'; end $$",
                        )
                        .await?;
                    }
                    says(201)
                }
            };
            told(engine.atomic(&route(), &caller(), request, handler).await).await
        }
    };
    let (status, code, _) = run(true).await;
    assert_eq!((status, code.as_deref()), (503, Some("samekey.store-unavailable")));
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    assert_eq!((harness.effects("conflict").await, harness.rows().await), (0, 0));
    assert_eq!(run(false).await, (201, None, false));
    assert_eq!(harness.effects("conflict").await, 1);
}

/// T-50 and B41: the shop's own unique number decides between two keys, and an error that the
/// handler catches costs nobody the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t50_b41_a_caught_violation_is_a_stored_refusal() {
    let harness = Harness::pooled(Pooled::of(4)).await;
    let insert = "insert into effects (org, reference, order_number) values ('A', $1, $2)";
    let run = |key: &str, reference: &str, number: &str| {
        let (engine, request) = (harness.engine().clone(), request(key));
        let (reference, number) = (reference.to_owned(), number.to_owned());
        async move {
            let handler = move |tx: Tx, _| {
                let (reference, number) = (reference.clone(), number.clone());
                async move {
                    match tx.execute(insert, &[&reference, &number]).await {
                        Ok(_) => says(201),
                        // Caught, with the transaction left aborted.
                        Err(_) => says(409),
                    }
                }
            };
            told(engine.atomic(&route(), &caller(), request, handler).await).await
        }
    };
    let (first, second, number) = (fresh("key"), fresh("key"), fresh("number"));
    assert_eq!(run(&first, "one", &number).await, (201, None, false));
    assert_eq!(run(&second, "two", &number).await, (409, None, false));
    assert_eq!(run(&second, "two", &number).await, (409, None, true), "it was stored");
    assert_eq!(run(&first, "one", &number).await, (201, None, true));
    assert_eq!((harness.effects("one").await, harness.effects("two").await), (1, 0));
    // Two keys at the same moment: one waits for the other's row, then the same holds.
    let number = fresh("number");
    let (a, b) = (fresh("key"), fresh("key"));
    let (one, two) = tokio::join!(run(&a, "a", &number), run(&b, "b", &number));
    let mut statuses = [one.0, two.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
    assert_eq!(harness.effects("a").await + harness.effects("b").await, 1);
}

/// Two requests with one key whose handler meets and heals its own violation: the loser is not told
/// 500, and the record is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b41_a_violation_healed_by_a_savepoint_leaves_the_record() {
    let harness = Harness::pooled(Pooled::of(4)).await;
    let insert = "insert into effects (org, reference, order_number) values ('A', $1, $2)";
    harness.direct().execute(insert, &[&"taken", &"number-1"]).await.unwrap();
    let key = fresh("key");
    let run = || {
        let (engine, request) = (harness.engine().clone(), request(&key));
        async move {
            let handler = move |tx: Tx, _| async move {
                tx.batch_execute("savepoint mine").await?;
                if tx.execute(insert, &[&"healed", &"number-1"]).await.is_err() {
                    tx.batch_execute("rollback to savepoint mine").await?;
                    tx.execute(insert, &[&"healed", &"number-2"]).await?;
                }
                says(201)
            };
            told(engine.atomic(&route(), &caller(), request, handler).await).await
        }
    };
    let (one, other) = tokio::join!(run(), run());
    for (status, code, _) in [one, other] {
        assert!(status == 201 || code.as_deref() == Some("samekey.in-progress"), "{status}");
    }
    assert_eq!(run().await, (201, None, true));
    assert_eq!(harness.effects("healed").await, 1);
}

/// A handler that swallows an error and answers success has no transaction left to commit. Nothing
/// may be acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p11_a_success_on_an_aborted_transaction_is_not_acknowledged() {
    let harness = Harness::pooled(Pooled::of(2)).await;
    let handler = |tx: Tx, _| async move {
        tx.execute("insert into effects (org, reference) values ('A', 'swallowed')", &[]).await?;
        let _ = tx.execute("select 1 / 0", &[]).await;
        says(201)
    };
    let key = fresh("key");
    let answer = harness.engine().atomic(&route(), &caller(), request(&key), handler).await;
    let (status, code, _) = told(answer).await;
    assert_eq!((status, code.as_deref()), (503, Some("samekey.store-unavailable")));
    assert_eq!((harness.effects("swallowed").await, harness.rows().await), (0, 0));
    assert_eq!(harness.backends("state like 'idle in transaction%'").await, 0);
}

/// A handler that commits by itself has let go of its key. Whatever it answers is no acknowledgement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p26_a_handler_that_ends_its_transaction_is_not_acknowledged() {
    let harness = Harness::pooled(Pooled::of(2)).await;
    let handler = |tx: Tx, _| async move {
        tx.batch_execute("commit; begin").await?;
        says(201)
    };
    let key = fresh("key");
    let answer = harness.engine().atomic(&route(), &caller(), request(&key), handler).await;
    let (status, code, _) = told(answer).await;
    assert_eq!((status, code.as_deref()), (409, Some("samekey.outcome-unknown")));
    assert_eq!(harness.rows_in_state("done").await, 0);
    // What it did is nobody's to guess: a person has to look.
    let handler = |_: Tx, _| async move { says(201) };
    let answer = harness.engine().atomic(&route(), &caller(), request(&key), handler).await;
    assert_eq!(told(answer).await.1.as_deref(), Some("samekey.outcome-unknown"));
    let listed = harness.engine().store().list_open(None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|open| open.route.as_str()).collect::<Vec<_>>(), [route().name()]);

    // Also where it then fails, refuses or panics.
    for end in ["an error", "500", "422", "a panic"] {
        let handler = move |tx: Tx, _| async move {
            tx.batch_execute("insert into effects (org, reference) values ('A', 'kept'); commit")
                .await?;
            match end {
                "500" => says(500),
                "422" => says(422),
                "a panic" => panic!("of the test's own"),
                _ => Err("of the test's own".into()),
            }
        };
        let key = fresh("key");
        for _ in 0..2 {
            let answer = harness.engine().atomic(&route(), &caller(), request(&key), handler).await;
            assert_eq!(told(answer).await.1.as_deref(), Some("samekey.outcome-unknown"), "{end}");
        }
    }
    assert_eq!(harness.effects("kept").await, 4);
}

/// The short wait is for the claim alone: a handler may wait for rows of its own for longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_timeout_of_the_claim_does_not_reach_the_handler() {
    let pooled = Pooled { wait: std::time::Duration::from_millis(20), ..Pooled::of(2) };
    let harness = Harness::pooled(pooled).await;
    let direct = harness.direct();
    direct
        .batch_execute("create table stock (n integer); insert into stock values (0)")
        .await
        .unwrap();
    direct.batch_execute("begin; update stock set n = n + 1").await.unwrap();
    let engine = harness.engine().clone();
    let command = tokio::spawn(async move {
        let handler = |tx: Tx, _| async move {
            tx.execute("update stock set n = n + 1", &[]).await?;
            says(201)
        };
        told(engine.atomic(&route(), &caller(), request(&fresh("key")), handler).await).await
    });
    super::harness::reach::until("the handler waits for the row", || async {
        let waiting = "select count(*) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'";
        direct.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    // Ten times the wait of the claim.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    direct.batch_execute("commit").await.unwrap();
    assert_eq!(command.await.unwrap(), (201, None, false));
}

/// B37: a statement runs into its limit. The command failed and left nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b37_a_statement_over_its_limit_leaves_nothing() {
    let harness = Harness::pooled(Pooled::of(2)).await;
    let key = fresh("key");
    let run = |seconds: f64| {
        let (engine, request) = (harness.engine().clone(), request(&key));
        async move {
            let handler = move |tx: Tx, _| async move {
                tx.batch_execute("set local statement_timeout = 100").await?;
                tx.execute("insert into effects (org, reference) values ('A', 'late')", &[])
                    .await?;
                tx.execute("select pg_sleep($1)", &[&seconds]).await?;
                says(201)
            };
            told(engine.atomic(&route(), &caller(), request, handler).await).await
        }
    };
    let (status, code, _) = run(30.0).await;
    assert_eq!((status, code.as_deref()), (500, Some("samekey.handler-failed")));
    assert_eq!((harness.effects("late").await, harness.rows().await), (0, 0));
    assert_eq!(run(0.0).await, (201, None, false));
    assert_eq!(harness.effects("late").await, 1);
}

/// An operator ends the connection under a handler. The row tells that nothing was committed, and the
/// command runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p15_a_terminated_backend_is_no_lost_command() {
    let harness = Harness::pooled(Pooled::of(2)).await;
    let calls = Arc::new(AtomicU32::new(0));
    let handler = {
        let calls = Arc::clone(&calls);
        move |tx: Tx, _| {
            let calls = Arc::clone(&calls);
            async move {
                tx.execute("insert into effects (org, reference) values ('A', 'ended')", &[])
                    .await?;
                if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                    // The statement that is cut off by this is the last one of the handler.
                    let _ = tx.execute("select pg_terminate_backend(pg_backend_pid())", &[]).await;
                }
                says(201)
            }
        }
    };
    let answer =
        harness.engine().atomic(&route(), &caller(), request(&fresh("key")), handler).await;
    assert_eq!(told(answer).await, (201, None, false));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(harness.effects("ended").await, 1);
}

/// Open is who has a claim and no end: here a command whose handler committed by itself. Its retention
/// is over, and it stays, because nobody knows what became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p28_an_open_record_is_never_swept() {
    let harness = Harness::pooled(Pooled::of(2)).await;
    let key = fresh("key");
    let handler = |tx: Tx, _| async move {
        tx.batch_execute("commit; begin").await?;
        says(201)
    };
    let answer = harness.engine().atomic(&route(), &caller(), request(&key), handler).await;
    assert_eq!(told(answer).await.0, 409);
    let done = Order::of(&fresh("key"), &fresh("ref"));
    assert_eq!(done.send(harness.address).await.unwrap().status, 201);
    let aged = "update samekey.keys
        set since = now() - interval '2 days', keep_until = now() - interval '1 day'";
    assert_eq!(harness.direct().execute(aged, &[]).await.unwrap(), 2);
    assert_eq!(harness.engine().sweep(SweepPlan::default()).await.unwrap(), 1);
    let left = (harness.rows_in_state("review").await, harness.rows_in_state("done").await);
    assert_eq!(left, (1, 0));
    let handler = |_: Tx, _| async move { says(201) };
    let answer = harness.engine().atomic(&route(), &caller(), request(&key), handler).await;
    assert_eq!(told(answer).await.1.as_deref(), Some("samekey.outcome-unknown"));
}
