//! The routes of the service.

use crate::payments::{NewPayment, Payments};
use crate::provider::is_id;
use crate::shop::{NewOrder, Shop};
use crate::tokens::Tokens;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode, header};
use std::sync::Arc;
use std::time::Duration;

struct App {
    shop: Shop,
    payments: Payments,
    tokens: Tokens,
    body_time_max: Duration,
}

/// The service's routes on this shop. A body has to be here within `body_time_max`.
pub fn router(shop: Shop, payments: Payments, tokens: Tokens, body_time_max: Duration) -> Router {
    Router::new()
        .route("/health", get(|| async { "ok\n" }))
        .route("/orders", post(create))
        .route("/orders/{id}", get(read))
        .route("/payments", post(pay))
        .route("/payments/{id}", get(read_payment))
        .fallback(|| async {
            plain(StatusCode::NOT_FOUND, "there is no such page; try POST /orders or POST /payments")
        })
        .method_not_allowed_fallback(|| async {
            plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "that is not how this page is used; try POST /orders, GET /orders/ID, POST /payments or GET /payments/ID",
            )
        })
        .with_state(Arc::new(App { shop, payments, tokens, body_time_max }))
}

/// Creates an order, once a key.
async fn create(State(app): State<Arc<App>>, request: Request) -> Response {
    // Who calls is found out first, on every request, retries included.
    let Some(caller) = app.tokens.caller(request.headers()) else { return unauthorised() };
    let read = app.shop.route().read(request);
    let request = match tokio::time::timeout(app.body_time_max, read).await {
        Ok(Ok(request)) => request,
        Ok(Err(answer)) => return answer.into_response(),
        Err(_) => return too_slow(),
    };
    // A body that makes no sense is refused before the key is claimed: it may be mended and sent again
    // under the same key.
    let order = match NewOrder::parse(request.headers(), request.body()) {
        Ok(order) => order,
        Err(refusal) => return plain(refusal.status, &refusal.sentence),
    };
    app.shop.create(&caller, request, order).await.into_response()
}

/// Pays, once a key.
async fn pay(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(caller) = app.tokens.caller(request.headers()) else { return unauthorised() };
    let read = app.payments.route().read(request);
    let request = match tokio::time::timeout(app.body_time_max, read).await {
        Ok(Ok(request)) => request,
        Ok(Err(answer)) => return answer.into_response(),
        Err(_) => return too_slow(),
    };
    let payment = match NewPayment::parse(request.headers(), request.body()) {
        Ok(payment) => payment,
        Err(refusal) => return plain(refusal.status, &refusal.sentence),
    };
    app.payments.pay(&caller, request, payment).await.into_response()
}

async fn read_payment(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    let Some(caller) = app.tokens.caller(&headers) else { return unauthorised() };
    // What is no id names no payment, and no database is asked about it.
    let found = match is_id(&id) {
        true => app.payments.read(&caller.org, &id).await,
        false => Ok(None),
    };
    match found {
        Ok(Some(payment)) => axum::Json(payment).into_response(),
        Ok(None) => plain(StatusCode::NOT_FOUND, "this organisation has no payment with that id"),
        Err(_) => try_later(),
    }
}

async fn read(State(app): State<Arc<App>>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    let Some(caller) = app.tokens.caller(&headers) else { return unauthorised() };
    // What is no id names no order, and no database is asked about it.
    let found = match uuid::Uuid::try_parse(&id) {
        Ok(id) => app.shop.read(&caller.org, &id.to_string()).await,
        Err(_) => Ok(None),
    };
    match found {
        Ok(Some(order)) => axum::Json(order).into_response(),
        Ok(None) => plain(StatusCode::NOT_FOUND, "this organisation has no order with that id"),
        Err(_) => try_later(),
    }
}

fn try_later() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], "try again later\n")
        .into_response()
}

fn too_slow() -> Response {
    let sentence =
        "the body took too long and nothing ran; send the same request again with its key";
    let mut response = plain(StatusCode::REQUEST_TIMEOUT, sentence);
    response.headers_mut().insert(header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

fn unauthorised() -> Response {
    (
        StatusCode::UNAUTHORIZED,
        [(header::WWW_AUTHENTICATE, "Bearer")],
        axum::Json(serde_json::json!({
            "detail": "no valid bearer token; send Authorization: Bearer TOKEN"
        })),
    )
        .into_response()
}

fn plain(status: StatusCode, sentence: &str) -> Response {
    (status, axum::Json(serde_json::json!({ "detail": sentence }))).into_response()
}
