//! The forms on SQLite: keyed, the same insert through the same writer without a key, and by hand.

use super::{NewOrder, answer, new_id};
use crate::load::Failure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use rusqlite::{Connection, TransactionBehavior, params};
use samekey::core::key::Org;
use samekey::store::sqlite::{AtomicEnd, SqliteLedger};
use samekey::{Answer, BoxError, Caller, Engine, Route};
use std::sync::{Arc, Mutex};

const INSERT: &str = "insert into orders (id, org_id, amount) values (?1, ?2, ?3)";

/// As long as another writer may hold the file.
const BUSY_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

struct App {
    engine: Engine<SqliteLedger>,
    by_hand: Arc<Mutex<Connection>>,
    route: Route,
    caller: Caller,
}

pub async fn router(address: &str, route: Route) -> Result<Router, Failure> {
    SqliteLedger::migrate(address)?;
    let ledger = SqliteLedger::open(address)?;
    ledger
        .write(|connection| {
            AtomicEnd::Commit(connection.execute_batch(
                "create table if not exists orders (
                    id text not null primary key,
                    org_id text not null,
                    amount integer not null
                ) strict",
            ))
        })
        .await??;
    let connection = Connection::open(address.trim_start_matches("sqlite:"))?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.execute_batch("pragma journal_mode = wal; pragma synchronous = full")?;
    let app = App {
        engine: Engine::new(ledger),
        by_hand: Arc::new(Mutex::new(connection)),
        route,
        caller: Caller::of(Org::new("bench")?),
    };
    Ok(Router::new()
        .route("/keyed", post(keyed))
        .route("/plain", post(plain))
        .route("/by-hand", post(by_hand))
        .with_state(Arc::new(app)))
}

fn insert(connection: &Connection, body: &[u8]) -> Result<Answer, BoxError> {
    let order: NewOrder = serde_json::from_slice(body)?;
    let id = new_id()?;
    connection.prepare_cached(INSERT)?.execute(params![id, "bench", order.amount])?;
    answer(&id, order.amount)
}

async fn keyed(State(app): State<Arc<App>>, request: Request) -> Response {
    let handler =
        |connection: &Connection, request: &samekey::Request| insert(connection, request.body());
    app.engine.atomic(&app.route, &app.caller, request, handler).await.into_response()
}

async fn plain(State(app): State<Arc<App>>, body: Bytes) -> Response {
    let written = app
        .engine
        .store()
        .write(move |connection| match insert(connection, &body) {
            Ok(answer) => AtomicEnd::Commit(Some(answer)),
            Err(_) => AtomicEnd::RollBack(None),
        })
        .await;
    match written {
        Ok(Some(answer)) => answer.into_response(),
        Ok(None) | Err(_) => http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The same handler as people write it without a key: one connection, begin, insert, commit.
async fn by_hand(State(app): State<Arc<App>>, body: Bytes) -> Response {
    let connection = Arc::clone(&app.by_hand);
    let written = tokio::task::spawn_blocking(move || {
        let mut connection = connection.lock().map_err(|_| "another request panicked")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let answer = insert(&transaction, &body)?;
        transaction.commit()?;
        Ok::<Answer, BoxError>(answer)
    })
    .await;
    match written {
        Ok(Ok(answer)) => answer.into_response(),
        Ok(Err(_)) | Err(_) => http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
