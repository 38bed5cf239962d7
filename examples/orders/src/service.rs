//! The routes of the service.

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
    tokens: Tokens,
    body_time_max: Duration,
}

/// The service's routes on this shop. A body has to be here within `body_time_max`.
pub fn router(shop: Shop, tokens: Tokens, body_time_max: Duration) -> Router {
    Router::new()
        .route("/health", get(|| async { "ok\n" }))
        .route("/orders", post(create))
        .route("/orders/{id}", get(read))
        .fallback(|| async {
            plain(StatusCode::NOT_FOUND, "there is no such page; try POST /orders")
        })
        .method_not_allowed_fallback(|| async {
            plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "that is not how this page is used; try POST /orders or GET /orders/ID",
            )
        })
        .with_state(Arc::new(App { shop, tokens, body_time_max }))
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
        Err(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], "try again later\n")
                .into_response()
        }
    }
}

fn too_slow() -> Response {
    let sentence = "the body took too long and nothing ran; send the order again with its key";
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
