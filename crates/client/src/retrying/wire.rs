//! One attempt through `reqwest`, and what its errors prove.

use super::RetryingOptions;
use crate::error::Error;
use crate::transport::{
    ANSWER_BYTES_MAX, Exchange, Incoming, IncomingBody, NotSent, Phase, Protocol, by,
    is_certificate, is_not_processed, log, tls_config,
};
use bytes::BytesMut;
use reqwest::{Client, Request, Response};
use samekey_core::delivery::Reason;
use std::error::Error as StdError;
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// A `reqwest` that does one thing at a time and nothing by itself.
pub(super) fn client(options: &RetryingOptions) -> Result<Client, Error> {
    let tls = tls_config(&options.trust, options.protocol)?;
    let builder = Client::builder()
        .tls_backend_preconfigured(rustls::ClientConfig::clone(&tls))
        .retry(reqwest::retry::never())
        // A kept connection that the other side closes cannot tell whether a request arrived.
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(options.connect_time_max)
        .user_agent(concat!("samekey/", env!("CARGO_PKG_VERSION")));
    let builder = match options.protocol {
        Protocol::Negotiated => builder,
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_prior_knowledge(),
    };
    builder.build().map_err(|_| Error::config("an HTTP client cannot be made with these options"))
}

/// Sends a copy of the request, and reads its answer.
pub(super) async fn exchange(http: &Client, request: &Request, time_max: Duration) -> Exchange {
    let began = Instant::now();
    let ends = began + time_max;
    let exchange = run(http, request, ends).await;
    log(request.url().host_str().unwrap_or_default(), &exchange, began);
    exchange
}

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
