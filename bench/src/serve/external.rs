//! External commands on PostgreSQL, and the same handler without samekey. Both call one provider over
//! kept connections, and share one pool of 8 connections and prepared statements.

use super::{NewOrder, answer};
use crate::load::Failure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use deadpool_postgres::Pool;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use samekey::core::key::Org;
use samekey::core::policy::{Choices, Counterparty};
use samekey::store::postgres::{self, PostgresLedger};
use samekey::{
    Ask, BoxError, Call, Caller, Engine, External, Finding, Outcome, Question, Recovery,
    RecoveryPlan, Route,
};
use std::sync::Arc;

const INTENT: &str = "insert into intents (id, body) values ($1, $2)";
const RESULT: &str = "insert into results (id, body) values ($1, $2)";

struct App {
    external: External<PostgresLedger>,
    pool: Pool,
    caller: Caller,
    provider: Provider,
    _recovery: Recovery,
}

#[derive(Clone)]
struct Provider {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

/// Unknown records wait: whoever is asked about them does not know yet.
struct NotYet;

impl Ask for NotYet {
    async fn ask(&self, _: Question) -> Result<Finding, BoxError> {
        Ok(Finding::Pending)
    }
}

impl Provider {
    async fn charge(&self, key: &str, body: Bytes) -> Result<Bytes, BoxError> {
        let request = http::Request::post(&self.url)
            .header("idempotency-key", key)
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        Ok(self.client.request(request).await?.into_body().collect().await?.to_bytes())
    }
}

pub async fn router(url: &str, provider: &str) -> Result<Router, Failure> {
    let pool = postgres::connect(url)?;
    postgres::migrate(&pool).await?;
    let tables = "create table if not exists intents (id text not null primary key, body bytea not null);
                  create table if not exists results (id text not null primary key, body bytea not null)";
    pool.get().await?.batch_execute(tables).await?;
    let ledger = PostgresLedger::open(pool.clone(), postgres::Options::default()).await?;
    let engine = Engine::new(ledger);
    let counterparty = Counterparty::Answers { not_found_after: None };
    let route = Route::new("payments", Choices { counterparty, ..Choices::default() })?;
    let external = External::asking(&engine, route, NotYet).await?;
    let recovery = external.spawn_recovery(RecoveryPlan::default());
    let client = Client::builder(TokioExecutor::new()).build_http();
    let app = App {
        external,
        pool,
        caller: Caller::of(Org::new("bench")?),
        provider: Provider { client, url: format!("{provider}/charges") },
        _recovery: recovery,
    };
    Ok(Router::new()
        .route("/external", post(external_command))
        .route("/by-hand", post(by_hand))
        .with_state(Arc::new(app)))
}

async fn external_command(State(app): State<Arc<App>>, request: Request) -> Response {
    let provider = app.provider.clone();
    let call = async move |call: Call| {
        let order: NewOrder = serde_json::from_slice(call.request().body())?;
        let key = call.outbound_key().to_string();
        provider.charge(&key, call.into_request().into_body()).await?;
        Ok::<_, BoxError>(Outcome::finished(answer(&key, order.amount)?))
    };
    app.external.run(&app.caller, request, call).await.into_response()
}

/// The same as people write it: the intent is noted, the call made, the result noted.
async fn by_hand(State(app): State<Arc<App>>, request: Request) -> Response {
    let answered = async {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await?;
        let order: NewOrder = serde_json::from_slice(&body)?;
        let key = head.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let key = key.ok_or("no key")?.to_owned();
        insert(&app.pool, INTENT, &key, &body).await?;
        let charged = app.provider.charge(&key, body).await?;
        insert(&app.pool, RESULT, &key, &charged).await?;
        answer(&key, order.amount)
    };
    match answered.await {
        Ok(answer) => answer.into_response(),
        Err(error) => {
            let error: BoxError = error;
            (http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
        }
    }
}

async fn insert(pool: &Pool, sql: &str, key: &str, body: &Bytes) -> Result<(), BoxError> {
    let client = pool.get().await?;
    let insert = client.prepare_cached(sql).await?;
    client.execute(&insert, &[&key, &body.as_ref()]).await?;
    Ok(())
}
