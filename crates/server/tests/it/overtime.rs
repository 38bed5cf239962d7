//! Handlers that run longer than their route lets them, and what a long run does to retention.

use super::harness::stores::{Backend, Database, Which};
use bytes::Bytes;
use http_body_util::Full;
use samekey::store::postgres::Tx;
use samekey::{Answer, BoxError, Caller, Response, Route, Setup};
use samekey_core::key::Org;
use samekey_core::policy::{Choices, KeyRule};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

const RUN_MAX: Duration = Duration::from_millis(100);

/// More than a handler may run, and less than anybody waits.
const TOO_LONG: Duration = Duration::from_millis(300);

const EFFECT: &str = "insert into effects (org, reference) values ('A', 'late')";

/// A statement that ends by itself after hours.
const ENDLESS: &str =
    "with recursive n(n) as (select 1 union all select n + 1 from n where n < 1e12)
    insert into effects (org, reference) select 'A', max(n) from n";

fn route() -> Route {
    let choices = Choices {
        key: KeyRule::Optional,
        lease: RUN_MAX,
        run_max: RUN_MAX,
        retention: Duration::from_secs(3_600),
        ..Choices::default()
    };
    Route::new("late", choices).unwrap()
}

fn request(key: &str) -> http::Request<Full<Bytes>> {
    let request = http::Request::post("/late");
    let request = if key.is_empty() { request } else { request.header("idempotency-key", key) };
    request.body(Full::new(Bytes::from_static(b"{}"))).unwrap()
}

fn says(status: u16) -> Result<Answer, BoxError> {
    let mut answer = Answer::new(Full::new(Bytes::from_static(b"said")));
    *answer.status_mut() = http::StatusCode::from_u16(status)?;
    Ok(answer)
}

/// What a handler does the first time; from the second time on it does its work at once.
#[derive(Clone, Copy)]
enum First {
    /// It hangs in its own code.
    Hangs,
    /// It hangs in a statement.
    HangsInTheDatabase,
}

async fn run(backend: &Backend, key: &str, first: First, called: &Arc<AtomicBool>) -> Response {
    let caller = Caller::of(Org::new("A").unwrap());
    let called = Arc::clone(called);
    match backend {
        Backend::Postgres(engine) => {
            let handler = move |tx: Tx, _| {
                let hangs = !called.swap(true, Ordering::SeqCst);
                async move {
                    tx.execute(EFFECT, &[]).await?;
                    match first {
                        First::Hangs if hangs => std::future::pending::<()>().await,
                        First::HangsInTheDatabase if hangs => {
                            tx.batch_execute("select pg_sleep(1)").await?;
                        }
                        First::Hangs | First::HangsInTheDatabase => {}
                    }
                    says(201)
                }
            };
            engine.atomic(&route(), &caller, request(key), handler).await
        }
        Backend::Sqlite(engine) => {
            let handler = move |connection: &rusqlite::Connection, _: &samekey::Request| {
                let hangs = !called.swap(true, Ordering::SeqCst);
                connection.execute(EFFECT, [])?;
                match first {
                    First::Hangs if hangs => std::thread::sleep(TOO_LONG),
                    First::HangsInTheDatabase if hangs => {
                        connection.execute(ENDLESS, [])?;
                    }
                    First::Hangs | First::HangsInTheDatabase => {}
                }
                says(201)
            };
            engine.atomic(&route(), &caller, request(key), handler).await
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p10_a_handler_that_runs_too_long_is_rolled_back_and_may_run_again() {
    for which in [Which::Sqlite, Which::Postgres] {
        let database = Database::fresh(which).await;
        let backend = database.backend(Setup::default()).await;
        let cases = [
            ("own-code", First::Hangs),
            ("statement", First::HangsInTheDatabase),
            ("", First::Hangs),
            ("", First::HangsInTheDatabase),
        ];
        for (n, (key, first)) in (0_u64..).zip(cases) {
            let called = Arc::new(AtomicBool::new(false));
            let late = run(&backend, key, first, &called).await;
            assert_eq!(late.status(), 500, "{which:?} {n}");
            assert_eq!(database.effects("late").await, n, "{which:?} {n}: something of it stands");
            let again = run(&backend, key, first, &called).await;
            assert_eq!(again.status(), 201, "{which:?} {n}");
            assert!(!again.headers().contains_key("idempotent-replayed"), "{which:?} {n}");
            assert_eq!(database.effects("late").await, n + 1, "{which:?} {n}");
        }
    }
}

/// The row's times are those of the end, not of the beginning of the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p28_retention_counts_from_the_end_of_a_long_run() {
    let route =
        Route::new("slow", Choices { retention: Duration::from_secs(3_600), ..Choices::default() })
            .unwrap();
    let caller = Caller::of(Org::new("A").unwrap());
    for which in [Which::Sqlite, Which::Postgres] {
        let database = Database::fresh(which).await;
        let ended = Arc::new(AtomicI64::new(0));
        let end = Arc::clone(&ended);
        let response = match database.backend(Setup::default()).await {
            Backend::Postgres(engine) => {
                let handler = move |tx: Tx, _| {
                    let end = Arc::clone(&end);
                    async move {
                        tx.batch_execute("select pg_sleep(0.1)").await?;
                        end.store(micros(), Ordering::SeqCst);
                        says(201)
                    }
                };
                engine.atomic(&route, &caller, request("slow"), handler).await
            }
            Backend::Sqlite(engine) => {
                let handler = move |_: &rusqlite::Connection, _: &samekey::Request| {
                    std::thread::sleep(Duration::from_millis(100));
                    end.store(micros(), Ordering::SeqCst);
                    says(201)
                };
                engine.atomic(&route, &caller, request("slow"), handler).await
            }
        };
        assert_eq!(response.status(), 201);
        let ended = ended.load(Ordering::SeqCst);
        let (since, keep_until) = database.times_of("slow").await;
        assert!(since >= ended, "{which:?}: settled {} microseconds too early", ended - since);
        assert!(keep_until >= ended + 3_600_000_000, "{which:?}: {ended} {keep_until}");
    }
}

/// This machine's clock, which is the databases' as well.
fn micros() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}
