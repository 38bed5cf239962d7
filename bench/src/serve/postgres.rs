//! The forms on PostgreSQL. All share one pool of 8 connections and prepared statements.

use super::{NewOrder, answer, new_id};
use crate::load::Failure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use deadpool_postgres::Pool;
use samekey::core::key::Org;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::{BoxError, Caller, Engine, Route, SweepPlan, Sweeper};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const INSERT: &str = "insert into orders (id, org_id, amount) values ($1, $2, $3)";
const SELECT: &str = "select id, amount from orders where id = $1";

struct App {
    engine: Engine<PostgresLedger>,
    pool: Pool,
    route: Route,
    caller: Caller,
    sweeper: Mutex<Option<Sweeper>>,
}

pub async fn router(url: &str, route: Route) -> Result<Router, Failure> {
    let pool = postgres::connect(url)?;
    postgres::migrate(&pool).await?;
    pool.get()
        .await?
        .batch_execute(
            "create table if not exists orders (
                id text not null constraint orders_pkey primary key,
                org_id text not null,
                amount bigint not null
            )",
        )
        .await?;
    let ledger = PostgresLedger::open(pool.clone(), postgres::Options::default()).await?;
    let app = App {
        engine: Engine::new(ledger),
        pool,
        route,
        caller: Caller::of(Org::new("bench")?),
        sweeper: Mutex::new(None),
    };
    Ok(Router::new()
        .route("/keyed", post(keyed))
        .route("/plain", post(plain))
        .route("/autocommit", post(autocommit))
        .route("/select", post(select))
        .route("/sweep", post(sweep))
        .with_state(Arc::new(app)))
}

async fn keyed(State(app): State<Arc<App>>, request: Request) -> Response {
    let handler = |tx: postgres::Tx, request: samekey::Request| async move {
        let order: NewOrder = serde_json::from_slice(request.body())?;
        let id = new_id()?;
        let insert = tx.prepare_cached(INSERT).await?;
        tx.execute(&insert, &[&id, &"bench", &order.amount]).await?;
        answer(&id, order.amount)
    };
    app.engine.atomic(&app.route, &app.caller, request, handler).await.into_response()
}

/// The same handler as people write it without a key: begin, insert, commit.
async fn plain(State(app): State<Arc<App>>, body: Bytes) -> Response {
    respond(
        async {
            let order: NewOrder = serde_json::from_slice(&body)?;
            let id = new_id()?;
            let mut client = app.pool.get().await?;
            let insert = client.prepare_cached(INSERT).await?;
            let tx = client.transaction().await?;
            tx.execute(&insert, &[&id, &"bench", &order.amount]).await?;
            tx.commit().await?;
            answer(&id, order.amount)
        }
        .await,
    )
}

async fn autocommit(State(app): State<Arc<App>>, body: Bytes) -> Response {
    respond(
        async {
            let order: NewOrder = serde_json::from_slice(&body)?;
            let id = new_id()?;
            let client = app.pool.get().await?;
            let insert = client.prepare_cached(INSERT).await?;
            client.execute(&insert, &[&id, &"bench", &order.amount]).await?;
            answer(&id, order.amount)
        }
        .await,
    )
}

/// One select by primary key. The id is the request's key, so that both sides are told one.
async fn select(State(app): State<Arc<App>>, request: Request) -> Response {
    respond(
        async {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await?;
            let order: NewOrder = serde_json::from_slice(&body)?;
            let id = head
                .headers
                .get("idempotency-key")
                .and_then(|value| value.to_str().ok())
                .ok_or("no key")?;
            let client = app.pool.get().await?;
            let select = client.prepare_cached(SELECT).await?;
            let row = client.query_opt(&select, &[&id]).await?;
            let found: String = match row {
                Some(row) => row.try_get(0)?,
                None => return Err("the bench's own row is missing".into()),
            };
            answer(&found, order.amount)
        }
        .await,
    )
}

/// Starts a sweeper that removes about as fast as orders come, or stops it.
async fn sweep(State(app): State<Arc<App>>, body: Bytes) -> Response {
    let started = (body.as_ref() == b"start").then(|| {
        app.engine.spawn_sweeper(SweepPlan {
            every: Duration::from_millis(200),
            between: Duration::from_millis(200),
            batch: 1_000,
        })
    });
    if let Ok(mut sweeper) = app.sweeper.lock() {
        *sweeper = started;
    }
    "ok".into_response()
}

fn respond(result: Result<samekey::Answer, BoxError>) -> Response {
    match result {
        Ok(answer) => answer.into_response(),
        Err(error) => (http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
