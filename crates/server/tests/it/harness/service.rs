//! The service: authentication, routes with policies of every kind, and one handler.

use super::script::{Scripts, Turn};
use super::stores::Backend;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::{HeaderMap, StatusCode};
use samekey::{Caller, Route};
use samekey_core::fingerprint::BodyForm;
use samekey_core::key::Org;
use samekey_core::policy::{Choices, KeyRule, MismatchStatus, OnMismatch, ReplayStatus};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The routes, one a policy.
pub struct Routes {
    pub orders: Route,
    pub cancel: Route,
    pub optional: Route,
    pub raw: Route,
    pub bound: Route,
    pub semantic: Route,
    pub first_wins: Route,
    pub stripe: Route,
}

pub struct App {
    pub scripts: Scripts,
    pub routes: Routes,
    pub backend: Backend,
    /// Tokens that are no longer good.
    pub revoked: Mutex<HashSet<String>>,
    /// Tokens that are good, but may not order any more.
    pub forbidden: Mutex<HashSet<String>>,
    /// How often a handler was called.
    pub calls: AtomicU64,
    /// What GET /orders says; every call has another number.
    pub reads: AtomicU64,
}

impl App {
    pub fn new(backend: Backend, change: impl Fn(&mut Choices)) -> App {
        let route = |name: &str, adjust: &dyn Fn(&mut Choices)| {
            let mut choices = Choices::default();
            change(&mut choices);
            adjust(&mut choices);
            Route::new(name, choices).unwrap()
        };
        App {
            scripts: Scripts::default(),
            routes: Routes {
                orders: route("orders", &|_| {}),
                cancel: route("cancel", &|_| {}),
                optional: route("optional", &|choices| choices.key = KeyRule::Optional),
                raw: route("raw", &|choices| choices.fingerprint = BodyForm::Raw),
                bound: route("bound", &|choices| choices.bind_principal = true),
                semantic: route("semantic", &|choices| {
                    choices.semantic_headers = vec!["on-behalf-of".to_owned()];
                }),
                first_wins: route("first-wins", &|choices| {
                    choices.on_mismatch = OnMismatch::Replay;
                    choices.replay_status = ReplayStatus::Fixed(200);
                }),
                stripe: route("stripe", &|choices| {
                    choices.mismatch_status = MismatchStatus::BadRequest;
                }),
            },
            backend,
            revoked: Mutex::default(),
            forbidden: Mutex::default(),
            calls: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }

    /// The principals A1, A2 (organisation A) and B1 (organisation B), each by its token; A1 has two.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, StatusCode> {
        let token = headers
            .get("authorization")
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or(StatusCode::UNAUTHORIZED)?;
        if self.revoked.lock().unwrap().contains(token) {
            return Err(StatusCode::UNAUTHORIZED);
        }
        if self.forbidden.lock().unwrap().contains(token) {
            return Err(StatusCode::FORBIDDEN);
        }
        let (org, principal) = match token {
            "a1" | "a1-rotated" => ("A", "A1"),
            "a2" => ("A", "A2"),
            "canary-token" => ("canary-org", "canary-principal"),
            "b1" => ("B", "B1"),
            _ => return Err(StatusCode::UNAUTHORIZED),
        };
        Ok(Caller { org: Org::new(org).unwrap(), principal: Some(principal.to_owned()) })
    }

    /// The handler's answer, once its effect is written.
    pub fn answer(&self, turn: &Turn, reference: &str) -> samekey::Answer {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let body = turn
            .body
            .clone()
            .unwrap_or_else(|| format!(r#"{{"ref":"{reference}","call":{call}}}"#).into_bytes());
        let mut answer = http::Response::builder().status(turn.status);
        if turn.body.is_none() {
            answer = answer.header("content-type", "application/json");
        }
        for (name, value) in &turn.headers {
            answer = answer.header(*name, value.as_slice());
        }
        answer.body(http_body_util::Full::new(bytes::Bytes::from(body))).unwrap()
    }
}

/// The reference in a command's body: whatever stands behind `"ref":"`, so that no body has to be JSON.
pub fn reference_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let Some(at) = text.find("ref") else { return "none".to_owned() };
    text[at + 3..]
        .trim_start_matches(['"', ':', ' ', '='])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '_')
        .collect()
}

async fn command(app: Arc<App>, route: Route, request: Request) -> Response {
    match app.caller(request.headers()) {
        Ok(caller) => app.backend.run(Arc::clone(&app), &route, &caller, request).await,
        Err(status) => status.into_response(),
    }
}

/// Refuses a body without an amount by itself, before anything is claimed.
async fn validated(State(app): State<Arc<App>>, request: Request) -> Response {
    let caller = match app.caller(request.headers()) {
        Ok(caller) => caller,
        Err(status) => return status.into_response(),
    };
    let route = app.routes.orders.clone();
    let request = match route.read(request).await {
        Ok(request) => request,
        Err(answer) => return answer.into_response(),
    };
    if !String::from_utf8_lossy(request.body()).contains("amount") {
        return (StatusCode::BAD_REQUEST, "the order has no amount").into_response();
    }
    let request = request.map(axum::body::Body::from);
    app.backend.run(Arc::clone(&app), &route, &caller, request).await
}

fn router(app: Arc<App>) -> Router {
    macro_rules! command {
        ($route:ident) => {
            |State(app): State<Arc<App>>, request: Request| {
                let route = app.routes.$route.clone();
                command(app, route, request)
            }
        };
    }
    Router::new()
        .route("/orders", get(read).fallback(any(command!(orders))))
        .route("/orders/", any(command!(orders)))
        .route("/orders/{id}", any(command!(orders)))
        .route("/orders/{id}/cancel", post(command!(cancel)))
        .route("/transfer", post(command!(orders)))
        .route("/optional", post(command!(optional)))
        .route("/raw", post(command!(raw)))
        .route("/bound", post(command!(bound)))
        .route("/semantic", post(command!(semantic)))
        .route("/first-wins", post(command!(first_wins)))
        .route("/stripe", post(command!(stripe)))
        .route("/validated", post(validated))
        .with_state(app)
}

async fn read(State(app): State<Arc<App>>) -> String {
    format!("read {}", app.reads.fetch_add(1, Ordering::SeqCst))
}

/// Stops the server when it is dropped.
pub struct Served(JoinHandle<()>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves on a free port of the loopback.
pub async fn serve(app: Arc<App>) -> (SocketAddr, Served) {
    serve_router(router(app)).await
}

/// Serves a router of a test's own.
pub async fn serve_router(router: Router) -> (SocketAddr, Served) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        axum::serve(listener, router).await.unwrap();
    });
    (address, Served(server))
}
