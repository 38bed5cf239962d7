//! The routes of the service.

use crate::shop::{NewOrder, Shop};
use crate::tokens::Tokens;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode, header};
use std::sync::Arc;

struct App {
    shop: Shop,
    tokens: Tokens,
}

/// The service's routes on this shop.
pub fn router(shop: Shop, tokens: Tokens) -> Router {
    Router::new()
        .route("/health", get(|| async { "ok\n" }))
        .route("/orders", post(create))
        .route("/orders/{id}", get(read))
        .fallback(|| async {
            plain(StatusCode::NOT_FOUND, "there is no such page; try POST /orders")
        })
        .with_state(Arc::new(App { shop, tokens }))
}

/// Creates an order, once a key.
async fn create(State(app): State<Arc<App>>, request: Request) -> Response {
    // Who calls is found out first, on every request, retries included.
    let Some(caller) = app.tokens.caller(request.headers()) else { return unauthorised() };
    let request = match app.shop.route().read(request).await {
        Ok(request) => request,
        Err(answer) => return answer.into_response(),
    };
    // A body that makes no sense is refused before the key is claimed: it may be mended and sent again
    // under the same key.
    let order = match NewOrder::parse(request.headers(), request.body()) {
        Ok(order) => order,
        Err(sentence) => return plain(StatusCode::BAD_REQUEST, &sentence),
    };
    app.shop.create(&caller, request, order).await.into_response()
}

async fn read(State(app): State<Arc<App>>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    let Some(caller) = app.tokens.caller(&headers) else { return unauthorised() };
    match app.shop.read(&caller.org, &id).await {
        Ok(Some(order)) => axum::Json(order).into_response(),
        Ok(None) => plain(StatusCode::NOT_FOUND, "this organisation has no order with that id"),
        Err(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], "try again later\n")
                .into_response()
        }
    }
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
