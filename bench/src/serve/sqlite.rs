//! The forms on SQLite. Both go through the one writer and its grouped commits.

use super::{NewOrder, answer, new_id};
use crate::load::Failure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use rusqlite::{Connection, params};
use samekey::core::key::Org;
use samekey::store::sqlite::{AtomicEnd, SqliteLedger};
use samekey::{Answer, BoxError, Caller, Engine, Route};
use std::sync::Arc;

const INSERT: &str = "insert into orders (id, org_id, amount) values (?1, ?2, ?3)";

struct App {
    engine: Engine<SqliteLedger>,
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
    let app = App { engine: Engine::new(ledger), route, caller: Caller::of(Org::new("bench")?) };
    Ok(Router::new()
        .route("/keyed", post(keyed))
        .route("/plain", post(plain))
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
