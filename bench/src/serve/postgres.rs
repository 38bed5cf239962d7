//! The forms on PostgreSQL. All share one pool of 8 connections and prepared statements.

use super::{NewOrder, answer, new_id};
use crate::load::Failure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use deadpool_postgres::Pool;
use futures_util::future::join;
use samekey::core::key::Org;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::{BoxError, Caller, Engine, Route, SweepPlan, Sweeper};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_postgres::types::ToSql;

const INSERT: &str = "insert into orders (id, org_id, amount) values ($1, $2, $3)";
/// The barest table of keys that an application writes for itself.
const HAND_KEYS: &str = "create table if not exists hand_keys (
    org_id text not null,
    key text not null,
    request_sha bytea not null,
    keep_until timestamptz not null,
    answer_status smallint,
    answer_body bytea,
    constraint hand_keys_pkey primary key (org_id, key)
) with (fillfactor = 90)";
const HAND_CLAIM: &str = "insert into hand_keys (org_id, key, request_sha, keep_until)
    values ($1, $2, $3, now() + interval '30 days') on conflict (org_id, key) do nothing";
const HAND_SETTLE: &str = "update hand_keys set answer_status = $3, answer_body = $4
    where org_id = $1 and key = $2";
const HAND_ONCE: &str =
    "insert into hand_keys (org_id, key, request_sha, keep_until, answer_status, answer_body)
    values ($1, $2, $3, now() + interval '30 days', $4, $5)";
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
    pool.get().await?.batch_execute(HAND_KEYS).await?;
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
        .route("/by-hand", post(by_hand))
        .route("/by-hand-once", post(by_hand_once))
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

/// What the row of a key costs at the least, in our three round trips: begin and claim, the insert, settle and commit.
/// Nothing is looked up, compared, bounded or undone.
async fn by_hand(State(app): State<Arc<App>>, request: Request) -> Response {
    respond(
        async {
            let (key, sha, order) = told(request).await?;
            let id = new_id()?;
            let client = app.pool.get().await?;
            let claim = client.prepare_cached(HAND_CLAIM).await?;
            let insert = client.prepare_cached(INSERT).await?;
            let settle = client.prepare_cached(HAND_SETTLE).await?;
            let parameters: [&(dyn ToSql + Sync); 3] = [&"bench", &key, &sha];
            // First polled in this order, they are sent in this order.
            let sent = join(client.batch_execute("begin"), client.execute(&claim, &parameters));
            let (begun, claimed) = sent.await;
            begun?;
            claimed?;
            client.execute(&insert, &[&id, &"bench", &order.amount]).await?;
            let (status, body) = (201i16, kept(&id, order.amount).await?);
            let parameters: [&(dyn ToSql + Sync); 4] = [&"bench", &key, &status, &body];
            let sent = join(client.execute(&settle, &parameters), client.batch_execute("commit"));
            let (settled, committed) = sent.await;
            settled?;
            committed?;
            answer(&id, order.amount)
        }
        .await,
    )
}

/// The same with a row that is written once, behind the work: who is not the first learns it too late.
async fn by_hand_once(State(app): State<Arc<App>>, request: Request) -> Response {
    respond(
        async {
            let (key, sha, order) = told(request).await?;
            let id = new_id()?;
            let client = app.pool.get().await?;
            let insert = client.prepare_cached(INSERT).await?;
            let once = client.prepare_cached(HAND_ONCE).await?;
            client.batch_execute("begin").await?;
            client.execute(&insert, &[&id, &"bench", &order.amount]).await?;
            let (status, body) = (201i16, kept(&id, order.amount).await?);
            let parameters: [&(dyn ToSql + Sync); 5] = [&"bench", &key, &sha, &status, &body];
            let sent = join(client.execute(&once, &parameters), client.batch_execute("commit"));
            let (written, committed) = sent.await;
            written?;
            committed?;
            answer(&id, order.amount)
        }
        .await,
    )
}

/// Key, something in the place of the hash, and order of a request.
async fn told(request: Request) -> Result<(String, Vec<u8>, NewOrder), BoxError> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await?;
    let order = serde_json::from_slice(&body)?;
    let key = head.headers.get("idempotency-key").and_then(|value| value.to_str().ok());
    // As long as a hash; what hashing costs is not asked here.
    let mut sha = vec![0u8; 32];
    getrandom::fill(&mut sha)?;
    Ok((key.ok_or("no key")?.to_owned(), sha, order))
}

/// The body of an answer, as it is kept.
async fn kept(id: &str, amount: i64) -> Result<Vec<u8>, BoxError> {
    let body = axum::body::Body::new(answer(id, amount)?.into_body());
    Ok(axum::body::to_bytes(body, 1 << 20).await?.to_vec())
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
