//! S14: secrets are planted wherever a caller or an operator has some, everything goes wrong that can,
//! and then all that came out is searched for them.
//!
//! One test for both databases, since what collects the logs and the metrics is one a process.

use super::harness::caller::{self, Reply};
use super::harness::service::{Served, reference_of, serve_router};
use super::harness::stores::Backend;
use super::harness::wire::{Line, request};
use super::harness::{Harness, Which, fresh};
use axum::Router;
use axum::extract::{Path, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use metrics_util::debugging::{DebuggingRecorder, Snapshotter};
use samekey::store::postgres::{self, PostgresLedger, Tx};
use samekey::store::sqlite::SqliteLedger;
use samekey::store::{Ledger, StoreError};
use samekey::{Answer, BoxError, Problem, Route, Setup, SweepPlan};
use samekey_core::key::{Key, Org};
use samekey_core::policy::Choices;
use std::fmt::{Debug, Display, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Each planted secret has this in it, but the card's number.
const CANARY: &str = "canary";
const CARD: &str = "4111111111111111";

/// What everything is written into.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

fn collect_logs() -> Buffer {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    // At TRACE, the drivers' records included, which come by the `log` crate.
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    buffer
}

fn collect_metrics() -> Snapshotter {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    snapshotter
}

/// What came out, by where it came out.
#[derive(Default)]
struct Out(String);

impl Out {
    fn error(&mut self, error: &(impl Display + Debug)) {
        writeln!(self.0, "{error} {error:?} {error:#?}").unwrap();
    }

    /// An answer, without the key that is echoed to its own sender.
    fn answer(&mut self, reply: &Reply) {
        let mut headers = reply.headers.clone();
        headers.remove("idempotency-key");
        writeln!(self.0, "{} {headers:?} {}", reply.status, String::from_utf8_lossy(&reply.body))
            .unwrap();
    }
}

fn clean(what: &str, text: &str) {
    let wrong: Vec<&str> =
        text.lines().filter(|line| line.contains(CANARY) || line.contains(CARD)).collect();
    assert!(wrong.is_empty(), "{what} shows planted secrets: {wrong:#?}");
}

/// The log without what the driver writes at DEBUG of the statements that the *handler* gives it: these
/// are the application's own, and the documentation of `Engine::atomic` says so. Of samekey's own
/// statements, through the same driver, nothing may show.
fn without_the_handler_s_statements(logs: &str) -> String {
    let of_handler = |line: &&str| {
        let parameters = line.split("with parameters: ").nth(1).unwrap_or_default();
        line.contains(" DEBUG tokio_postgres::query: executing statement ")
            && ["[\"canary-argument\"", "[\"none\", \"4111"]
                .iter()
                .any(|own| parameters.starts_with(own))
    };
    let (own, rest): (Vec<&str>, Vec<&str>) = logs.lines().partition(of_handler);
    assert!(own.len() >= 10, "the driver's log is not collected any more");
    rest.join("\n")
}

fn body() -> String {
    format!(r#"{{"ref":"canary-argument","card":"{CARD}","name":"canary-body"}}"#)
}

/// Fails as the path says, with secrets in every error.
async fn failing_on_postgres(mode: String, tx: Tx, argument: String) -> Result<Answer, BoxError> {
    let insert = "insert into effects (org, reference, order_number) values ('A', $1, $2)";
    match mode.as_str() {
        "unique" => {
            tx.execute(insert, &[&argument, &CARD]).await?;
            tx.execute(insert, &[&argument, &CARD]).await?;
        }
        "cast" => {
            tx.query("select $1::text::integer", &[&argument]).await?;
        }
        "broken" => {
            let _ = tx.query("select $1::text::integer", &[&argument]).await;
        }
        other => return failing(other),
    }
    failing("well")
}

fn failing_on_sqlite(
    mode: &str,
    connection: &rusqlite::Connection,
    argument: &str,
) -> Result<Answer, BoxError> {
    let insert = "insert into effects (org, reference, order_number) values ('A', ?1, ?2)";
    match mode {
        "unique" => {
            connection.execute(insert, [argument, CARD])?;
            connection.execute(insert, [argument, CARD])?;
        }
        "cast" => {
            connection.execute(&format!("select {argument} from nowhere"), [])?;
        }
        "broken" => {
            connection.execute_batch("rollback")?;
        }
        other => return failing(other),
    }
    failing("well")
}

fn failing(mode: &str) -> Result<Answer, BoxError> {
    let status = match mode {
        "well" | "long" => 201,
        "refused" => 409,
        "unwell" => 503,
        "panic" => panic!("a handler's panic with canary-panic and {CARD}"),
        _ => return Err(format!("a handler's error with canary-error and {CARD}").into()),
    };
    let mut body = b"{}".to_vec();
    body.resize(if mode == "long" { 100_000 } else { body.len() }, b' ');
    Ok(http::Response::builder().status(status).body(bytes::Bytes::from(body).into()).unwrap())
}

/// A service whose handler fails as its path says.
async fn service(harness: &Harness) -> (SocketAddr, Served) {
    let route = Route::new("failing", Choices::default()).unwrap();
    let app = Arc::clone(&harness.app);
    let handler = move |Path(mode): Path<String>, request: Request| {
        let (app, route) = (Arc::clone(&app), route.clone());
        async move { answer(&app, &route, mode, request).await }
    };
    serve_router(Router::new().route("/do/{mode}", post(handler))).await
}

async fn answer(
    app: &super::harness::service::App,
    route: &Route,
    mode: String,
    request: Request,
) -> Response {
    let caller = match app.caller(request.headers()) {
        Ok(caller) => caller,
        Err(status) => return status.into_response(),
    };
    let answer = match &app.backend {
        Backend::Postgres(engine) => {
            let run = move |tx: Tx, request: samekey::Request| {
                let argument = reference_of(request.body());
                failing_on_postgres(mode.clone(), tx, argument)
            };
            engine.atomic(route, &caller, request, run).await
        }
        Backend::Sqlite(engine) => {
            let run = move |connection: &rusqlite::Connection, request: &samekey::Request| {
                failing_on_sqlite(&mode, connection, &reference_of(request.body()))
            };
            engine.atomic(route, &caller, request, run).await
        }
    };
    answer.into_response()
}

/// Everything that can be sent to it, well and ill.
async fn commands(address: SocketAddr, out: &mut Out) {
    let modes = ["well", "refused", "unwell", "long", "panic", "error", "unique", "cast", "broken"];
    for mode in modes {
        let key = fresh("canary-key");
        for body in [body(), body(), "canary-other-content".to_owned()] {
            let headers = [
                ("authorization", "Bearer canary-token"),
                ("proxy-authorization", "Basic canary-basic"),
                ("cookie", "id=canary-cookie"),
                ("user-agent", "canary-agent"),
                ("idempotency-key", key.as_str()),
            ];
            let path = format!("/do/{mode}?canary-query=1");
            let reply = caller::send(address, "POST", &path, &headers, body.into_bytes()).await;
            out.answer(&reply);
        }
    }
    let long = "canary".repeat(50);
    for (token, key) in [
        ("Bearer canary-wrong-token", "canary-key"),
        ("Bearer canary-token", "canary key"),
        ("Bearer canary-token", "\"canary\\key\""),
        ("Bearer canary-token", "\"canary"),
        ("Bearer canary-token", long.as_str()),
    ] {
        let headers = [("authorization", token), ("idempotency-key", key)];
        let reply = caller::send(address, "POST", "/do/well", &headers, body().into()).await;
        assert!((400..=401).contains(&reply.status));
        out.answer(&reply);
    }
}

/// T-102: what would break a terminal, a log line or a page.
async fn hostile_texts(address: SocketAddr, out: &mut Out) {
    for (start, line) in [
        ("POST /do/well\x1b[2J", &b"Idempotency-Key: k"[..]),
        ("POST /do/well</script><script>INJECTED", b"Idempotency-Key: k"),
        ("POST /do/well", b"Idempotency-Key: \"</script>INJECTED\""),
        ("POST /do/well", b"Idempotency-Key: \x1b[2J"),
        ("POST /do/well", b"Idempotency-Key: a\r\nINJECTED 2026-11-30 WARN forged"),
        ("POST /do/well", b"Idempotency-Key: k\r\nUser-Agent: \x1b[2J</script>INJECTED"),
    ] {
        let mut line_open = Line::open(address).await;
        let lines = [line, b"Content-Length: 2"];
        let bytes = request(start, &lines, b"{}");
        let text = String::from_utf8_lossy(&bytes).replace("Bearer a1", "Bearer canary-token");
        line_open.write(text.as_bytes()).await;
        if let Some(mut reply) = line_open.answer().await {
            assert!(!String::from_utf8_lossy(&reply.body).contains("INJECTED"), "{start}");
            reply.headers.remove("idempotency-key");
            out.answer(&reply);
        }
    }
}

async fn store_errors<S: Ledger>(ledger: &S, out: &mut Out) {
    let scope = samekey_core::key::Scope {
        org: Org::new("canary-org").unwrap(),
        key: Key::new("canary-key").unwrap(),
    };
    out.error(&ledger.load(&scope).await.expect_err("the ledger is gone"));
    out.error(&ledger.sweep(10).await.expect_err("the ledger is gone"));
    writeln!(out.0, "{scope:?}").unwrap();
}

/// Addresses that lead nowhere, each with secrets in it.
async fn openings(harness: &Harness, out: &mut Out) {
    let address = harness.database().address();
    for address in [
        "sqlite:/nowhere/canary-directory/x.db",
        "sqlite:/",
        "sqlite:canary?mode=canary",
        "canary://canary",
    ] {
        out.error(&SqliteLedger::open(address).expect_err(address));
    }
    if address.starts_with("sqlite") {
        return;
    }
    let (server, name) = address.rsplit_once('/').unwrap();
    let (credentials, _) = server.rsplit_once('@').unwrap();
    for address in [
        format!("{server}/canary-database"),
        format!("{credentials}@127.0.0.1:1/{name}"),
        format!("{credentials}@canary-host.invalid:5432/{name}"),
        format!("{}/{name}", server.replace("samekey:", "canary-role:")),
        format!("{credentials}@127.0.0.1:canary-port/{name}"),
    ] {
        let opened = async {
            PostgresLedger::open(postgres::connect(&address)?, postgres::Options::default()).await
        };
        let error: StoreError = opened.await.expect_err(&address);
        out.error(&error);
    }
}

/// SQLSTATE 23505, 22P02 and 53300, and whatever else the ledger itself can meet.
async fn the_ledger_fails(harness: &Harness, address: SocketAddr, out: &mut Out) {
    if let Backend::Postgres(engine) = harness.backend() {
        // What the driver says of each of these shows the row.
        for change in [
            "alter table samekey.keys add constraint planted check (key::integer > 0) not valid",
            "alter table samekey.keys drop constraint planted;
             delete from samekey.keys;
             create unique index planted on samekey.keys ((left(key, 6)))",
        ] {
            let client = engine.store().pool().get().await.unwrap();
            client.batch_execute(change).await.unwrap();
            drop(client);
            commands(address, out).await;
        }
    }
    harness.database().destroy().await;
    commands(address, out).await;
    match harness.backend() {
        Backend::Postgres(engine) => {
            store_errors(engine.store(), out).await;
            out.error(&engine.sweep(SweepPlan::default()).await.unwrap_err());
        }
        Backend::Sqlite(engine) => {
            store_errors(engine.store(), out).await;
            out.error(&engine.sweep(SweepPlan::default()).await.unwrap_err());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p33_s14_t101_t102_planted_secrets_come_out_nowhere() {
    let logs = collect_logs();
    let metrics = collect_metrics();
    let mut out = Out::default();
    let heard = Arc::new(Mutex::new(String::new()));
    for which in [Which::Sqlite, Which::Postgres] {
        let told = Arc::clone(&heard);
        let listener: samekey::Listener = Arc::new(move |route, signal| {
            writeln!(told.lock().unwrap(), "{route} {signal:?}").unwrap();
        });
        let harness = Harness::with(which, Setup::default().listener(listener), |_| {}).await;
        let (address, _served) = service(&harness).await;
        commands(address, &mut out).await;
        hostile_texts(address, &mut out).await;
        openings(&harness, &mut out).await;
        the_ledger_fails(&harness, address, &mut out).await;
    }
    for fault in [Key::new("canary\u{7f}"), Key::new(&"canary".repeat(100))] {
        out.error(&fault.unwrap_err());
    }
    out.error(&Org::new("canary\n").unwrap_err());
    let location = Some(bytes::Bytes::from_static(b"/canary"));
    writeln!(out.0, "{:?}", Problem::ResponseNotKept { status: 201, location }).unwrap();

    // Had nothing been collected, nothing would have been found.
    let heard = heard.lock().unwrap().clone();
    for signal in ["Executed", "Replayed", "Mismatched", "Panicked", "RolledBack", "StoreFailed"] {
        assert!(heard.contains(signal), "{signal} was never signalled: {heard}");
    }
    let logs = logs.text();
    assert!(logs.contains("store failed") && logs.contains("TRACE"), "{logs}");
    for code in ["23505", "22P02"] {
        assert!(logs.contains(&format!("(code {code})")), "{code} was never met");
    }
    let metrics: String =
        metrics.snapshot().into_vec().iter().map(|metric| format!("{metric:?}\n")).collect();
    assert!(metrics.contains("samekey_commands_total"), "{metrics}");

    clean("an answer or an error", &out.0);
    clean("a signal", &heard);
    clean("a metric", &metrics);
    clean("the log", &without_the_handler_s_statements(&logs));
    assert!(!logs.contains('\x1b') && !logs.contains("INJECTED"), "a log line can be forged");
}
