//! One attempt through `reqwest`, and what its errors prove.

use super::RetryingOptions;
use crate::address::{Base, Reach, Scheme};
use crate::error::Error;
use crate::transport::{
    ANSWER_BYTES_MAX, Exchange, Incoming, IncomingBody, NotSent, Phase, Protocol, Resolver, by,
    is_certificate, is_not_processed, log, tls_config,
};
use bytes::BytesMut;
use http::Method;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Request, RequestBuilder, Response};
use samekey_core::delivery::Reason;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::Instant;

/// A `reqwest` that does one thing at a time and nothing by itself. There are two of it, since who looks a name
/// up is not told by which scheme it is connected to.
pub(super) struct Wire {
    plain: Client,
    secure: Client,
    reach: Reach,
}

impl Wire {
    pub(super) fn new(options: &RetryingOptions) -> Result<Wire, Error> {
        let reach = options.reach.clone();
        Ok(Wire {
            plain: client(options, Scheme::Http)?,
            secure: client(options, Scheme::Https)?,
            reach,
        })
    }

    pub(super) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        // It is only built here; how it is sent is decided when it is.
        self.secure.request(method, url)
    }

    /// Refuses what no connection may ever be made to.
    pub(super) fn check(&self, request: &Request) -> Result<(), Error> {
        let url = request.url();
        let base = Base::parse(&url.origin().ascii_serialization()).map_err(|_| {
            Error::request(
                "the address of the request is none of HTTP; expected https://HOST[:PORT]/PATH",
            )
        })?;
        if !self.reach.takes(&base) {
            return Err(Error::request(
                "the address of the request is not public, or is plain http:// to another host; use a public one over https://, or say in RetryingOptions::reach what else may be connected to",
            ));
        }
        Ok(())
    }

    /// Sends a copy of the request, and reads its answer.
    pub(super) async fn exchange(&self, request: &Request, time_max: Duration) -> Exchange {
        let began = Instant::now();
        let ends = began + time_max;
        let http = if request.url().scheme() == "http" { &self.plain } else { &self.secure };
        let exchange = run(http, request, ends).await;
        log(request.url().host_str().unwrap_or_default(), &exchange, began);
        exchange
    }
}

fn client(options: &RetryingOptions, scheme: Scheme) -> Result<Client, Error> {
    let tls = tls_config(&options.trust, options.protocol)?;
    let guard = Guard { reach: options.reach.clone(), resolver: options.resolver.clone(), scheme };
    let builder = Client::builder()
        .tls_backend_preconfigured(rustls::ClientConfig::clone(&tls))
        .retry(reqwest::retry::never())
        // A kept connection that the other side closes cannot tell whether a request arrived.
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .dns_resolver(guard)
        .connect_timeout(options.connect_time_max)
        .user_agent(concat!("samekey/", env!("CARGO_PKG_VERSION")));
    let builder = match options.protocol {
        Protocol::Negotiated => builder,
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_prior_knowledge(),
    };
    builder.build().map_err(|_| Error::config("an HTTP client cannot be made with these options"))
}

/// Looks names up, and gives of what it finds only what may be connected to. The connection goes to the very
/// address that was checked here.
#[derive(Clone)]
struct Guard {
    reach: Reach,
    resolver: Resolver,
    scheme: Scheme,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let Guard { reach, resolver, scheme } = self.clone();
        Box::pin(async move {
            let found = resolver.look_up(name.as_str()).await?;
            let is_known = !found.is_empty();
            let allowed = found.into_iter().filter(|ip| reach.allows(*ip, scheme));
            // The port is that of the request.
            let allowed: Vec<SocketAddr> = allowed.map(|ip| SocketAddr::new(ip, 0)).collect();
            if is_known && allowed.is_empty() {
                return Err(Refused.into());
            }
            Ok::<Addrs, _>(Box::new(allowed.into_iter()))
        })
    }
}

/// No address of the name may be connected to.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no address of this host may be connected to")
    }
}

impl StdError for Refused {}

async fn run(http: &Client, request: &Request, ends: Instant) -> Exchange {
    // A body in memory can always be copied.
    let Some(copy) = request.try_clone() else {
        return Exchange::NotSent(Phase::Connect, NotSent::NotConnected);
    };
    match by(ends, http.execute(copy)).await {
        None => Exchange::Lost(Reason::TimedOut),
        Some(Err(error)) => failure(&error),
        Some(Ok(mut answer)) => {
            let body = by(ends, read(&mut answer)).await.unwrap_or(IncomingBody::Lost);
            let status = answer.status().as_u16();
            Exchange::Answered(Incoming { status, headers: answer.headers().clone(), body })
        }
    }
}

async fn read(answer: &mut Response) -> IncomingBody {
    let mut bytes = BytesMut::new();
    loop {
        match answer.chunk().await {
            Err(_) => return IncomingBody::Lost,
            Ok(None) => return IncomingBody::Whole(bytes.freeze()),
            Ok(Some(data)) if bytes.len().saturating_add(data.len()) > ANSWER_BYTES_MAX => {
                return IncomingBody::TooLarge;
            }
            Ok(Some(data)) => bytes.extend_from_slice(&data),
        }
    }
}

/// What an error of `reqwest` proves. Everything that is not known to prove more is a lost connection.
fn failure(error: &reqwest::Error) -> Exchange {
    if error.is_builder() {
        return Exchange::NotSent(Phase::Resolve, NotSent::UnknownHost);
    }
    if error.is_connect() {
        let (phase, why) = not_connected(error);
        return Exchange::NotSent(phase, why);
    }
    if find(error, |cause| cause.downcast_ref::<h2::Error>()).is_some_and(is_not_processed) {
        return Exchange::NotProcessed;
    }
    let unclear = find(error, |cause| cause.downcast_ref::<hyper::Error>())
        .is_some_and(hyper::Error::is_parse);
    Exchange::Lost(if unclear { Reason::AnswerUnclear } else { Reason::ConnectionLost })
}

fn not_connected(error: &reqwest::Error) -> (Phase, NotSent) {
    if let Some(tls) = find(error, |cause| cause.downcast_ref::<rustls::Error>()) {
        let why = if is_certificate(tls) { NotSent::CertificateInvalid } else { NotSent::Tls };
        return (Phase::Handshake, why);
    }
    if find(error, |cause| cause.downcast_ref::<Refused>()).is_some() {
        return (Phase::Resolve, NotSent::AddressRefused);
    }
    if error.is_dns() {
        return (Phase::Resolve, NotSent::UnknownHost);
    }
    let why = if error.is_timeout() { NotSent::ConnectTimedOut } else { NotSent::NotConnected };
    (Phase::Connect, why)
}

/// The first of a kind among the causes of an error. What an `io::Error` carries is not among its own causes.
fn find<'a, T>(
    error: &'a (dyn StdError + 'static),
    kind: impl Fn(&'a (dyn StdError + 'static)) -> Option<&'a T>,
) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = kind(cause) {
            return Some(found);
        }
        let carried: Option<&'a (dyn StdError + 'static)> = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .map(|carried| carried as &(dyn StdError + 'static));
        next = carried.or_else(|| cause.source());
    }
    None
}
