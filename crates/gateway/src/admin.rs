//! What operators and their machines ask, on a listener of its own: is it alive, is it ready, what does it count.

use crate::serve::Handler;
use http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use samekey::{Engine, Response, whole};
use samekey_store::Ledger;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Gives the metrics as text, for whoever set up a recorder.
pub(crate) type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// How long the ledger may take to say a word. A probe that waits longer is counted as failed anyway.
const LEDGER_TIME_MAX: Duration = Duration::from_secs(2);
/// Something small that every ledger can look up.
const PROBE: &str = "outbound-secret";

/// The pages of operators.
pub(crate) struct Admin<S> {
    pub(crate) engine: Engine<S>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl<S: Ledger> Handler for Admin<S> {
    async fn handle(&self, _: SocketAddr, request: Request<Incoming>) -> Response {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
        }
        match request.uri().path() {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.ready().await,
            "/metrics" => match &self.metrics {
                Some(metrics) => {
                    let mut answer = text(StatusCode::OK, metrics());
                    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
                    answer
                }
                None => text(StatusCode::NOT_FOUND, "nothing is counted\n"),
            },
            _ => text(StatusCode::NOT_FOUND, "try /healthz, /readyz or /metrics\n"),
        }
    }
}

impl<S: Ledger> Admin<S> {
    async fn ready(&self) -> Response {
        if *self.stopping.borrow() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
        }
        match tokio::time::timeout(LEDGER_TIME_MAX, self.engine.store().shared(PROBE)).await {
            Ok(Ok(_)) => text(StatusCode::OK, "ready\n"),
            Ok(Err(_)) | Err(_) => {
                text(StatusCode::SERVICE_UNAVAILABLE, "the ledger cannot be reached\n")
            }
        }
    }
}

fn text(status: StatusCode, body: impl Into<bytes::Bytes>) -> Response {
    let mut response = Response::new(whole(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
