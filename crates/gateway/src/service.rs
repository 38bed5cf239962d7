//! What every request passes: its target, whose it is, which route it belongs to, and then one of two
//! ways, as a keyed command or through.

use crate::config::{Limits, OnRepeat, RouteSettings, Settings};
use crate::identity::Identity;
use crate::refusal::Refusal;
use crate::repeats::Repeats;
use crate::routes::{Place, find};
use crate::upstream::Upstream;
use crate::{command, document, forward, headers};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Version, header};
use hyper::body::Incoming;
use samekey::{BoxError, Caller, External, Response, header as keys};
use samekey_core::policy::KeyRule;
use samekey_store::Ledger;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How often the log says that commands come without a key, at the most, for each process.
const HINT_EVERY: Duration = Duration::from_secs(60);
/// The name of what is no command, in metrics and logs.
const THROUGH: &str = "through";

/// What does not depend on the ledger's kind.
pub(crate) struct Front {
    pub(crate) upstream: Upstream,
    pub(crate) limits: Limits,
    pub(crate) on_repeat: OnRepeat,
    pub(crate) repeats: Repeats,
    pub(crate) identity: Identity,
    /// How clients come here.
    scheme: &'static str,
    document: Bytes,
    started: Instant,
    /// When the log was told last of commands without a key, in milliseconds since the start, plus one.
    hinted: AtomicU64,
}

impl Front {
    pub(crate) fn new(settings: &Settings) -> Result<Front, BoxError> {
        Ok(Front {
            upstream: Upstream::new(settings)?,
            limits: settings.limits,
            on_repeat: settings.on_repeat,
            repeats: Repeats::new(settings.repeats_window),
            identity: settings.identity.clone(),
            scheme: settings.scheme(),
            document: document::bytes(&settings.routes),
            started: Instant::now(),
            hinted: AtomicU64::new(0),
        })
    }

    /// Counts a command that came without a key, and says so in the log from time to time.
    fn keyless(&self, route: &str) {
        metrics::counter!("samekey_gateway_keyless_total", "route" => route.to_owned())
            .increment(1);
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.hinted.load(Ordering::Relaxed);
        let every = u64::try_from(HINT_EVERY.as_millis()).unwrap_or(u64::MAX);
        let due = last == 0 || now.saturating_sub(last) >= every;
        let swapped =
            self.hinted.compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
        if due && swapped.is_ok() {
            tracing::info!(
                route,
                "commands come without an Idempotency-Key: each one runs, retries too; clients should make one key per business action"
            );
        }
    }
}

/// A gateway at work on a ledger.
pub(crate) struct Service<S> {
    pub(crate) front: Arc<Front>,
    pub(crate) routes: Vec<RouteSettings>,
    /// One for each route, in the same order.
    pub(crate) externals: Vec<External<S>>,
}

impl<S: Ledger> Service<S> {
    /// Answers a request.
    pub(crate) async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Response {
        let began = Instant::now();
        let method = request.method().clone();
        let mut route = THROUGH;
        let response = match self.admitted(peer, request, &mut route).await {
            Ok(response) => response,
            Err(refusal) => {
                tracing::info!(refusal = refusal.name(), "refused");
                refusal.into_response()
            }
        };
        let status = response.status().as_u16();
        metrics::counter!(
            "samekey_gateway_requests_total",
            "route" => route.to_owned(),
            "status" => status.to_string()
        )
        .increment(1);
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::info!(method = known(&method), route, status, micros, "request");
        response
    }

    async fn admitted<'a>(
        &'a self,
        peer: SocketAddr,
        mut request: Request<Incoming>,
        name: &mut &'a str,
    ) -> Result<Response, Refusal> {
        let front = &self.front;
        let host = one_target(&request)?;
        one_coding(&request)?;
        if request.uri().path() == document::PATH && request.method() == Method::GET {
            return Ok(document::response(&front.document));
        }
        let caller = front.identity.caller(request.headers(), peer.ip())?;
        // Before anything of ours is added: a client that names it in `Connection` would take it away.
        headers::strip_named(request.headers_mut());
        if !front.identity.trusts(peer.ip()) {
            headers::strip_way(request.headers_mut());
        }
        front.identity.mark(request.headers_mut(), &caller.org);
        headers::add_way(request.headers_mut(), peer.ip(), host.as_ref(), front.scheme);
        let found = find(&self.routes, request.method(), request.uri().path());
        let number = match found {
            Place::Ambiguous => return Err(Refusal::AmbiguousPath),
            Place::Through => return Ok(forward::pass(front, request, THROUGH).await),
            Place::Command(number) => number,
        };
        let (Some(route), Some(external)) = (self.routes.get(number), self.externals.get(number))
        else {
            return Err(Refusal::BadTarget);
        };
        *name = route.route.name();
        Ok(self.command(route, external, caller, request).await)
    }

    async fn command(
        &self,
        route: &RouteSettings,
        external: &External<S>,
        caller: Caller,
        request: Request<Incoming>,
    ) -> Response {
        let name = route.route.name();
        let has_key = request.headers().contains_key(keys::IDEMPOTENCY_KEY);
        match route.route.policy().key {
            KeyRule::Off => forward::pass(&self.front, request, name).await,
            KeyRule::Optional if !has_key => {
                self.front.keyless(name);
                forward::pass(&self.front, request, name).await
            }
            KeyRule::Optional | KeyRule::Required => {
                command::run(&self.front, route, external, caller, request).await
            }
        }
    }
}

/// The host that a request names, where it names one path on one host.
fn one_target(request: &Request<Incoming>) -> Result<Option<HeaderValue>, Refusal> {
    if !request.uri().path().starts_with('/') || request.method() == Method::CONNECT {
        return Err(Refusal::BadTarget);
    }
    let mut lines = request.headers().get_all(header::HOST).iter();
    let (line, second) = (lines.next(), lines.next());
    if second.is_some() || (line.is_none() && request.version() == Version::HTTP_11) {
        return Err(Refusal::BadTarget);
    }
    // The target itself says more than the header (RFC 9112, section 3.2.2), and may carry a password.
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let host = authority.and_then(|authority| authority.rsplit('@').next());
    Ok(host.and_then(|host| HeaderValue::from_str(host).ok()).or_else(|| line.cloned()))
}

/// The library takes `chunked` off and leaves what lies below it. A body in `gzip` would then be sent on as
/// something that it is not.
fn one_coding(request: &Request<Incoming>) -> Result<(), Refusal> {
    let mut lines = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |line: &HeaderValue| line.as_bytes().eq_ignore_ascii_case(b"chunked");
    if lines.next().is_none_or(is_chunked) && lines.next().is_none() {
        return Ok(());
    }
    Err(Refusal::UnknownCoding)
}

/// A method for the log: clients may invent any.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
