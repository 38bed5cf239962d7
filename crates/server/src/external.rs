//! Commands that call somebody else: the intent is written, the call made outside of any transaction,
//! the result written.
//!
//! Whoever holds a claim may have called: so a claim that ends without an answer is *unknown*, and
//! somebody has to ask ([`Ask`]) or decide. A mode without either does not start: [`External::asking`]
//! wants an [`Ask`], and [`External::opaque`] is the word for "a person decides".
//!
//! Read next: `external/run.rs`, then `recover.rs`.

mod lease;
mod outbound;
mod run;
mod settle;
mod stored;

pub use lease::CallLease;
use lease::Deadline;
#[cfg(debug_assertions)]
pub(crate) use run::injected;
pub use stored::StoredRequest;
pub(crate) use stored::decode as decode_request;

use crate::body::{BoxError, Request, Response};
use crate::capture::{Captured, capture};
use crate::engine::{Engine, Shared};
use crate::recover::{Ask, Asking};
use crate::route::{Caller, Route};
use bytes::Bytes;
use outbound::Secret;
use samekey_core::policy::Counterparty;
use samekey_core::record::Reason;
use samekey_store::Restored;
use samekey_store::{Ledger, OutboundKey, StoreError};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

/// A route whose commands call a counterparty, on one engine. Made once at start-up, cheap to clone.
///
/// The intent is written, the call made outside of any transaction, the result written. Whoever holds a
/// claim may have called: so a claim that ends without an answer is *unknown*. It is never called again by
/// itself; somebody is asked ([`External::asking`]), or a person decides ([`External::opaque`], with the
/// command `samekey keys` or [`keys`](crate::keys)). It is exactly one effect only where the counterparty
/// deduplicates by the outbound key.
///
/// ```
/// # use samekey::core::{key::Org, policy::{Choices, Counterparty}};
/// # use samekey::store::memory::MemoryLedger;
/// use samekey::{Ask, BoxError, Call, Caller, Engine, External, Finding, Outcome, Question, Route};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
///
/// struct Provider; // who can be asked what became of a payment
/// impl Ask for Provider {
///     async fn ask(&self, question: Question) -> Result<Finding, BoxError> {
///         let _ = question.outbound_key; // look the payment up by it
///         Ok(Finding::Pending)
///     }
/// }
///
/// // This ledger ends with the process: a service that moves money takes PostgreSQL or SQLite.
/// let engine = Engine::new(MemoryLedger::new());
/// let counterparty = Counterparty::Answers { not_found_after: None };
/// let route = Route::new("payments", Choices { counterparty, ..Choices::default() })?;
/// let payments = External::asking(&engine, route, Provider).await?;
/// let recovery = payments.spawn_recovery(samekey::RecoveryPlan::default());
///
/// let caller = Caller::of(Org::new("alpha")?);
/// let request = http::Request::post("/payments")
///     .header("idempotency-key", "k1")
///     .body(String::from(r#"{"amount": 1200}"#))?;
/// let answer = payments
///     .run(&caller, request, async |call: Call| {
///         // The provider is called here, with call.outbound_key() as its idempotency key.
///         let _ = call.outbound_key();
///         Ok::<_, BoxError>(Outcome::finished(samekey::json(http::StatusCode::CREATED, &"paid")?))
///     })
///     .await;
/// assert_eq!(answer.status(), http::StatusCode::CREATED);
/// # Ok(())
/// # }
/// ```
pub struct External<S>(pub(crate) Arc<Inner<S>>);

pub(crate) struct Inner<S> {
    pub(crate) engine: Engine<S>,
    pub(crate) route: Route,
    /// Nothing where a person decides.
    pub(crate) asking: Option<Asking>,
    secret: Secret,
    restored: RwLock<Option<Restored>>,
}

impl<S> Clone for External<S> {
    fn clone(&self) -> External<S> {
        External(Arc::clone(&self.0))
    }
}

/// Why an external route cannot be used: what was found and what to do.
#[derive(Debug)]
pub struct ExternalFault(Fault);

#[derive(Debug)]
enum Fault {
    Route(String),
    Store(StoreError),
}

impl fmt::Display for ExternalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Fault::Route(sentence) => f.write_str(sentence),
            Fault::Store(error) => write!(f, "the ledger cannot be used: {error}"),
        }
    }
}

impl std::error::Error for ExternalFault {}

impl ExternalFault {
    /// The store's error, where it was the store.
    pub fn store(&self) -> Option<&StoreError> {
        match &self.0 {
            Fault::Route(_) => None,
            Fault::Store(error) => Some(error),
        }
    }
}

impl From<StoreError> for ExternalFault {
    fn from(error: StoreError) -> ExternalFault {
        ExternalFault(Fault::Store(error))
    }
}

/// How a call ended, as the handler can prove it.
///
/// | what the HTTP client says | outcome |
/// |---|---|
/// | a status, and an answer that can be read | [`Outcome::finished`] with the answer for the caller |
/// | connecting failed (refused, no route, no name): no byte was sent | [`Outcome::not_started`] with [`Problem::UpstreamUnreached`](crate::Problem::UpstreamUnreached), made by its `into_response(None)` |
/// | time ran out after connecting | [`Outcome::Unknown`] with [`Reason::TimedOut`] |
/// | the connection broke, or the answer was cut | [`Outcome::Unknown`] with [`Reason::ConnectionLost`] |
/// | a 2xx that cannot be read or understood | [`Outcome::Unknown`] with [`Reason::ConnectionLost`] |
/// | anything else that you are not sure of | [`Outcome::Unknown`] |
///
/// A counterparty's 401, 403 or 429 speaks of *this service*: answer [`Outcome::not_started`] with a 502 or
/// 503, since passed on it would tell the caller that its own credentials are wrong.
#[must_use]
pub enum Outcome {
    /// The counterparty gave this answer. By its status it is stored (2xx, 3xx, a final 4xx), frees
    /// the key (401, 403, 407, 413, 421, 425, 429), or is unknown (408, 5xx; see the policy
    /// `on_server_error`).
    Finished(Finished),
    /// Nothing was started, which is proved: no byte was sent, or the counterparty says so. The caller
    /// gets this answer, the key is free.
    NotStarted(Finished),
    /// It may have been executed; recovery asks, or a person decides. Give [`Reason::TimedOut`],
    /// [`Reason::ConnectionLost`], [`Reason::ServerError`], [`Reason::HandlerFailed`], or
    /// [`Reason::FoundDifferent`] where something else is under the outbound key. The other reasons are the engine's own words and mislead whoever reads them: with [`Reason::Restored`] a counterparty
    /// that deduplicates is not even asked.
    Unknown(Reason),
}

/// A handler's answer on its way to be read.
pub struct Finished(Reading);

/// The future of an answer, read as far as it is kept.
type Captures = Pin<Box<dyn Future<Output = Result<Captured, BoxError>> + Send>>;
/// Reads an answer up to this many bytes.
type Reading = Box<dyn FnOnce(usize) -> Captures + Send>;

impl Finished {
    /// This answer, whole or streaming.
    pub fn new<B>(answer: http::Response<B>) -> Finished
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Finished(Box::new(|kept_bytes_max| Box::pin(capture(answer, kept_bytes_max))))
    }

    pub(crate) async fn read(self, kept_bytes_max: usize) -> Result<Captured, BoxError> {
        (self.0)(kept_bytes_max).await
    }
}

impl Outcome {
    /// The counterparty gave this answer.
    pub fn finished<B>(answer: http::Response<B>) -> Outcome
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Outcome::Finished(Finished::new(answer))
    }

    /// Nothing was started, and the caller gets this answer.
    pub fn not_started<B>(answer: http::Response<B>) -> Outcome
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Outcome::NotStarted(Finished::new(answer))
    }
}

/// What a handler is given: the request, and the key under which the counterparty is to know it. There
/// is no transaction here, and none is open while it runs.
#[derive(Debug)]
pub struct Call {
    request: Request,
    outbound_key: OutboundKey,
    request_sha: Option<[u8; 32]>,
    deadline: Option<Deadline>,
}

impl Call {
    fn new(
        request: Request,
        outbound_key: OutboundKey,
        request_sha: Option<[u8; 32]>,
        deadline: Option<Deadline>,
    ) -> Call {
        Call { request, outbound_key, request_sha, deadline }
    }

    /// The lease of this call, for a call that itself sees to it that nothing is sent when that is over, and
    /// wants a late answer heard. Nothing for a request without a key.
    pub fn lease(&self) -> Option<CallLease> {
        self.deadline.as_ref().map(Deadline::watch)
    }

    /// The fingerprint that was claimed: equal for equal commands of the route, whatever their keys.
    /// Nothing for a request without a key.
    pub fn request_sha(&self) -> Option<[u8; 32]> {
        self.request_sha
    }

    /// The request, read to its end.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The request itself.
    pub fn into_request(self) -> Request {
        self.request
    }

    /// The key to send to the counterparty. It is the same for every question about this command, and
    /// differs between organisations that use the same key.
    pub fn outbound_key(&self) -> OutboundKey {
        self.outbound_key
    }
}

/// The future of a call.
pub(crate) type Calling = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send>>;

impl<S: Ledger> External<S> {
    /// A route whose unknown outcomes are asked about. Start [`External::spawn_recovery`] as well: it is
    /// what asks.
    ///
    /// # Errors
    /// A route whose policy says that its counterparty is opaque, and what the store fails with.
    pub async fn asking(
        engine: &Engine<S>,
        route: Route,
        ask: impl Ask,
    ) -> Result<External<S>, ExternalFault> {
        match route.policy().counterparty {
            Counterparty::Answers { .. } | Counterparty::Dedups { .. } => {
                External::new(engine, route, Some(Asking::new(ask))).await
            }
            Counterparty::Opaque => Err(ExternalFault(Fault::Route(format!(
                "route {:?}: its policy says that the counterparty is opaque, and then nobody would be asked; set `counterparty` to Answers or Dedups, or open it with External::opaque",
                route.name()
            )))),
        }
    }

    /// A route with a counterparty that cannot be asked: whatever is unknown waits for a person. Start
    /// [`External::spawn_recovery`] here too: it is what hands over the keys whose owner crashed, counts
    /// those that are open, and sees that the database was restored.
    ///
    /// # Errors
    /// A route whose policy says that its counterparty answers or deduplicates, and what the store
    /// fails with.
    pub async fn opaque(engine: &Engine<S>, route: Route) -> Result<External<S>, ExternalFault> {
        match route.policy().counterparty {
            Counterparty::Opaque => External::new(engine, route, None).await,
            Counterparty::Answers { .. } | Counterparty::Dedups { .. } => {
                Err(ExternalFault(Fault::Route(format!(
                    "route {:?}: its policy says that the counterparty can be asked, and nobody is given to ask it; give External::asking an Ask, or set `counterparty` to Opaque",
                    route.name()
                ))))
            }
        }
    }

    async fn new(
        engine: &Engine<S>,
        route: Route,
        asking: Option<Asking>,
    ) -> Result<External<S>, ExternalFault> {
        if route.name().is_empty() {
            return Err(ExternalFault(Fault::Route(
                "an external route has an empty name; its open keys are found by their route's name, so give it one and keep it"
                    .to_owned(),
            )));
        }
        let shared = engine.shared();
        let secret = Secret::of(&*shared.store, shared.outbound_secret.as_deref()).await?;
        let restored = RwLock::new(Restored::load(&*shared.store).await?);
        let engine = engine.clone();
        Ok(External(Arc::new(Inner { engine, route, asking, secret, restored })))
    }

    /// Runs a command: claims its key, makes the call, and stores its answer.
    ///
    /// `call` is made once at the most. An error, a panic, a dropped future, and a call that is not
    /// over when the route's `run_max` is, count as [`Outcome::Unknown`]. While it runs its lease is
    /// renewed; where that fails in time, the call is dropped before the lease ends. Whoever sends the
    /// key again gets what `docs/contract.md` says; the caller's identity must have been verified
    /// before.
    ///
    /// What `call` must not do, since each of it sends what nobody knows of:
    /// - retry, or let its HTTP client retry: one request a call;
    /// - follow redirects: a redirect is an answer;
    /// - hand the sending to `tokio::spawn` or a queue: a call that has lost its lease is dropped, and what
    ///   was spawned would go on;
    /// - take longer than its lease: give the request a timeout well below the route's `lease`.
    ///
    /// A call that is dropped with its lease loses an answer that has come meanwhile, and a person has to look it
    /// up. One that looks at [`Call::lease`] before each write does not.
    ///
    /// On a route with `KeyRule::Optional` a request without a key is called too, unprotected: its
    /// outbound key is a new one each time, nothing is written, and where it ends without an answer the
    /// caller gets 409 `outcome-unknown` and nobody asks. For payments take `Required`, the default.
    pub async fn run<B, F, Fut, E>(
        &self,
        caller: &Caller,
        request: http::Request<B>,
        call: F,
    ) -> Response
    where
        B: http_body::Body<Data = Bytes>,
        F: FnOnce(Call) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        // Called in the future, so that a panic before its first await is caught as well.
        let call = move |given: Call| -> Calling {
            Box::pin(async move { call(given).await.map_err(Into::into) })
        };
        let mode = run::Calls { external: self.clone(), call };
        self.0.engine.front(&self.0.route, caller, request, mode).await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<S>> {
        self.0.engine.shared()
    }

    /// The store itself.
    pub fn store(&self) -> &S {
        self.0.engine.store()
    }

    /// The route.
    pub fn route(&self) -> &Route {
        &self.0.route
    }

    pub(crate) fn restored(&self) -> Option<Restored> {
        *self.0.restored.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether the store was restored since.
    pub(crate) async fn look_for_restore(&self) -> Result<(), StoreError> {
        let found = Restored::load(&*self.shared().store).await?;
        *self.0.restored.write().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }
}
