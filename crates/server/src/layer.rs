//! Middleware: keys in front of a handler that knows nothing of them.
//!
//! What it cannot promise is said at [`Protect`].

use crate::body::{BoxError, Response};
use crate::external::{Call, External, Outcome};
use crate::route::Caller;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use samekey_store::Ledger;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Finds out who calls, from what the service has verified before; or refuses with an answer.
pub type Identify = Arc<dyn Fn(&http::request::Parts) -> Result<Caller, Response> + Send + Sync>;

/// A tower layer that runs POST and PATCH at most once a key. Other methods pass through, their key
/// with them.
///
/// # What it cannot promise
/// The key's row and what the handler does are not one transaction: a crash between the two leaves a
/// command of which nobody knows whether it happened. It is not run again by itself then; it is *unknown*,
/// and a person decides (or an [`Ask`](crate::Ask), where the route has one). Whoever needs more takes
/// `Engine::atomic` or [`External`]. With the policy `rerun = safe` the operator vouches that the handler's
/// effects are unique by key, and an interrupted command runs again.
///
/// A handler that answers 5xx (or 408) leaves its key unknown, and on an opaque route in review, unless the
/// policy `on_server_error` says otherwise. One that answers 401, 403, 407, 413, 421, 425 or 429 frees the
/// key, so it must answer so *before* any effect.
///
/// ```
/// # use samekey::core::{key::Org, policy::Choices};
/// # use samekey::store::memory::MemoryLedger;
/// use axum::{Router, body::Body, routing::post};
/// use samekey::{Caller, Engine, External, Protect, RecoveryPlan, Route};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), samekey::BoxError> {
///
/// // This ledger ends with the process: a service takes PostgreSQL or SQLite.
/// let engine = Engine::new(MemoryLedger::new());
/// let external = External::opaque(&engine, Route::new("things", Choices::default())?).await?;
/// let recovery = external.spawn_recovery(RecoveryPlan::default());
/// // Whom the layer outside of this one has authenticated.
/// let identify = |_: &http::request::Parts| Ok(Caller::of(Org::new("alpha").unwrap()));
/// let service = Router::new()
///     .route("/things", post(|| async { (http::StatusCode::CREATED, "made") }))
///     .layer(Protect::new(external, identify));
///
/// // The same command twice: the handler runs once.
/// # use tower::ServiceExt;
/// let send = || http::Request::post("/things").header("idempotency-key", "k1").body(Body::from("{}"));
/// let first = service.clone().oneshot(send()?).await?;
/// let retry = service.oneshot(send()?).await?;
/// assert_eq!((first.status(), retry.status()), (http::StatusCode::CREATED, http::StatusCode::CREATED));
/// assert_eq!(retry.headers()["idempotent-replayed"], "true");
/// # Ok(())
/// # }
/// ```
pub struct Protect<S> {
    external: External<S>,
    identify: Identify,
    methods: Arc<[Method]>,
}

impl<S> Clone for Protect<S> {
    fn clone(&self) -> Protect<S> {
        Protect {
            external: self.external.clone(),
            identify: Arc::clone(&self.identify),
            methods: Arc::clone(&self.methods),
        }
    }
}

impl<S: Ledger> Protect<S> {
    /// Protects what is inside by the route of `external`. `identify` gives the verified caller; put the
    /// layer that authenticates outside of this one.
    pub fn new(
        external: External<S>,
        identify: impl Fn(&http::request::Parts) -> Result<Caller, Response> + Send + Sync + 'static,
    ) -> Protect<S> {
        Protect {
            external,
            identify: Arc::new(identify),
            methods: Arc::from([Method::POST, Method::PATCH]),
        }
    }

    /// Takes these methods for commands instead.
    #[must_use]
    pub fn methods(mut self, methods: &[Method]) -> Protect<S> {
        self.methods = Arc::from(methods);
        self
    }
}

impl<S: Ledger, I> Layer<I> for Protect<S> {
    type Service = Protected<S, I>;

    fn layer(&self, inner: I) -> Protected<S, I> {
        Protected { protect: self.clone(), inner }
    }
}

/// A service behind [`Protect`].
pub struct Protected<S, I> {
    protect: Protect<S>,
    inner: I,
}

impl<S, I: Clone> Clone for Protected<S, I> {
    fn clone(&self) -> Protected<S, I> {
        Protected { protect: self.protect.clone(), inner: self.inner.clone() }
    }
}

impl<S, I, ReqBody, ResBody> Service<http::Request<ReqBody>> for Protected<S, I>
where
    S: Ledger,
    I: Service<http::Request<ReqBody>, Response = http::Response<ResBody>> + Clone + Send + 'static,
    I::Future: Send,
    I::Error: Into<BoxError>,
    ReqBody: http_body::Body<Data = Bytes> + From<Bytes> + Send + 'static,
    ReqBody::Error: Send,
    ResBody: http_body::Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = I::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, I::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<ReqBody>) -> Self::Future {
        // The service that was found ready is the one that is called.
        let spare = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, spare);
        let protect = self.protect.clone();
        Box::pin(async move {
            if !protect.methods.contains(request.method()) {
                let passed = inner.call(request).await?;
                return Ok(passed.map(|body| body.map_err(Into::into).boxed_unsync()));
            }
            let (head, body) = request.into_parts();
            let caller = match (protect.identify)(&head) {
                Ok(caller) => caller,
                Err(refusal) => return Ok(refusal),
            };
            let request = http::Request::from_parts(head, body);
            let call = async move |call: Call| {
                let answer = inner.call(call.into_request().map(ReqBody::from)).await;
                answer.map(Outcome::finished)
            };
            Ok(protect.external.run(&caller, request, call).await)
        })
    }
}
