//! What operators and their machines ask, on a listener of its own: is it alive, is it ready, what does it count.
//!
//! A gateway has these pages by its settings; a program that is none, such as a worker, has the same ones by
//! [`AdminPages`].

use crate::config::Limits;
use crate::error::Error;
use crate::open::bound;
use crate::serve::{Door, Handler, serve};
use http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use samekey::{Engine, Response, whole};
use samekey_store::Ledger;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Gives the metrics as text, for whoever set up a recorder.
pub(crate) type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// How long the ledger may take to say a word. A probe that waits longer is counted as failed anyway.
const LEDGER_TIME_MAX: Duration = Duration::from_secs(2);
/// Something small that every ledger can look up.
const PROBE: &str = "outbound-secret";

/// Says whether the ledger answers.
type Probe = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// The pages of operators.
pub(crate) struct Admin {
    probe: Probe,
    metrics: Option<Metrics>,
    stopping: watch::Receiver<bool>,
}

impl Admin {
    /// The pages of a gateway on this engine.
    pub(crate) fn of<S: Ledger>(
        engine: Engine<S>,
        metrics: Option<Metrics>,
        stopping: watch::Receiver<bool>,
    ) -> Admin {
        let probe: Probe = Arc::new(move || {
            let engine = engine.clone();
            Box::pin(async move { engine.store().shared(PROBE).await.is_ok() })
        });
        Admin { probe, metrics, stopping }
    }
}

/// The admin pages of a program that is no gateway: `/healthz`, `/readyz` and `/metrics` on an address of
/// their own. They are gone when this is dropped.
#[derive(Debug)]
#[must_use = "the pages are gone when this is dropped"]
pub struct AdminPages {
    address: Option<SocketAddr>,
    serving: JoinHandle<bool>,
    stopping: watch::Sender<bool>,
    /// The listener goes on while a program ends, so that whoever looks reads "stopping".
    _serves_until: watch::Sender<bool>,
}

impl AdminPages {
    /// Serves the pages on the current tokio runtime. `/readyz` asks this ledger, and `/metrics` shows what the
    /// program's recorder has counted.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub fn serve<S: Ledger>(
        address: SocketAddr,
        ledger: Arc<S>,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<AdminPages, Error> {
        let listener = bound(address, "admin")?;
        let address = listener.local_addr().ok();
        let probe: Probe = Arc::new(move || {
            let ledger = Arc::clone(&ledger);
            Box::pin(async move { ledger.shared(PROBE).await.is_ok() })
        });
        let (stopping, stops) = watch::channel(false);
        let (serves_until, ends) = watch::channel(false);
        let pages = Arc::new(Admin { probe, metrics: Some(Arc::new(metrics)), stopping: stops });
        let serving =
            tokio::spawn(serve(Door { listener, tls: None }, pages, Limits::default(), ends));
        Ok(AdminPages { address, serving, stopping, _serves_until: serves_until })
    }

    /// Where they are; of port 0 the port that it was given.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// From now on `/readyz` says that the program stops.
    pub fn stopping(&self) {
        self.stopping.send_replace(true);
    }
}

impl Drop for AdminPages {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Handler for Admin {
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

impl Admin {
    async fn ready(&self) -> Response {
        if *self.stopping.borrow() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
        }
        match tokio::time::timeout(LEDGER_TIME_MAX, (self.probe)()).await {
            Ok(true) => text(StatusCode::OK, "ready\n"),
            Ok(false) | Err(_) => {
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
