//! The same rules as a layer of tower, around any service that sends HTTP requests.
//!
//! The service below must do one thing at a time and nothing by itself: no retries, no redirects, no hedging, and
//! no connection that was used before where its error cannot tell whether a request arrived. What an error of it
//! proves is said by a function; without one, every error may mean that the request was executed.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use samekey_client::retrying::layer::RetryingLayer;
//! use samekey_client::retrying::{End, RetryingOptions};
//! use tower_layer::Layer;
//! use tower_service::Service;
//! # use std::{convert::Infallible, future::{Ready, ready}, task::{Context, Poll}};
//! # #[derive(Clone)]
//! # struct Sends;
//! # impl Service<Request<Full<Bytes>>> for Sends {
//! #     type Response = Response<Full<Bytes>>;
//! #     type Error = Infallible;
//! #     type Future = Ready<Result<Self::Response, Infallible>>;
//! #     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> { Poll::Ready(Ok(())) }
//! #     fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future { ready(Ok(Response::new(Full::default()))) }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = RetryingLayer::new(RetryingOptions::default())?;
//! let mut client = layer.layer(Sends);
//! let request = Request::post("https://pay.example/payments").body(Bytes::from(r#"{"amount":1200}"#))?;
//! let called = client.call(request).await?;
//! assert!(matches!(called.end, End::Succeeded(_)));
//! # Ok(())
//! # }
//! ```

use super::{Called, RetryingOptions, Rules};
use crate::error::Error;
use crate::transport::{Exchange, Incoming, IncomingBody, NotSent, Phase, by};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use samekey_core::delivery::Reason;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// What an error of the service below proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proves {
    /// No byte of the request was sent.
    NotSent,
    /// The other side said that it processed nothing of it.
    NotProcessed,
    /// Nothing: it may have been executed.
    Nothing,
}

/// Makes services that retry. Cheap to clone.
pub struct RetryingLayer<E> {
    rules: Arc<Rules>,
    proves: fn(&E) -> Proves,
}

impl<E> RetryingLayer<E> {
    /// A layer with these options. Of them, those about connections are for the service below to keep:
    /// `connect_time_max`, `protocol`, `trust`, `reach` and `resolver` are not used here.
    ///
    /// # Errors
    /// As [`RetryingClient::new`](super::RetryingClient::new).
    pub fn new(options: RetryingOptions) -> Result<RetryingLayer<E>, Error> {
        Ok(RetryingLayer { rules: Arc::new(Rules::of(&options)?), proves: |_| Proves::Nothing })
    }

    /// With this word on errors. What is called not sent, or not processed, is sent again to everybody.
    #[must_use]
    pub fn errors(mut self, proves: fn(&E) -> Proves) -> RetryingLayer<E> {
        self.proves = proves;
        self
    }
}

impl<E> Clone for RetryingLayer<E> {
    fn clone(&self) -> RetryingLayer<E> {
        RetryingLayer { rules: Arc::clone(&self.rules), proves: self.proves }
    }
}

impl<E> fmt::Debug for RetryingLayer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryingLayer")
    }
}

impl<S, E> Layer<S> for RetryingLayer<E> {
    type Service = Retrying<S, E>;

    fn layer(&self, inner: S) -> Retrying<S, E> {
        Retrying { inner, layer: self.clone() }
    }
}

/// A service that retries: one call of it is one key, and as many calls of the service below as it takes.
#[derive(Debug)]
pub struct Retrying<S, E> {
    inner: S,
    layer: RetryingLayer<E>,
}

impl<S: Clone, E> Clone for Retrying<S, E> {
    fn clone(&self) -> Retrying<S, E> {
        Retrying { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, E, B> Service<Request<Bytes>> for Retrying<S, E>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = E> + Clone + Send + 'static,
    S::Future: Send,
    E: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
{
    type Response = Called;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Called, Error>> + Send>>;

    /// Always: whether the service below is ready is found out within each attempt, as a part of its time.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Bytes>) -> Self::Future {
        let (inner, layer) = (self.inner.clone(), self.layer.clone());
        Box::pin(async move {
            let RetryingLayer { rules, proves } = layer;
            let key = rules.put_key(request.headers_mut())?;
            let profile = rules.profile_within(rules.time_max())?;
            let send = move |time_max| attempt(inner.clone(), request.clone(), proves, time_max);
            Ok(rules.drive(&key, &profile, send).await)
        })
    }
}

async fn attempt<S, E, B>(
    mut inner: S,
    request: Request<Bytes>,
    proves: fn(&E) -> Proves,
    time_max: Duration,
) -> Exchange
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = E>,
    B: http_body::Body,
{
    let ends = Instant::now() + time_max;
    // Nothing is sent before the call.
    match by(ends, poll_fn(|context| inner.poll_ready(context))).await {
        None => return Exchange::NotSent(Phase::Connect, NotSent::ConnectTimedOut),
        Some(Err(_)) => return Exchange::NotSent(Phase::Connect, NotSent::NotConnected),
        Some(Ok(())) => {}
    }
    match by(ends, inner.call(request.map(Full::new))).await {
        None => Exchange::Lost(Reason::TimedOut),
        Some(Err(error)) => match proves(&error) {
            Proves::NotSent => Exchange::NotSent(Phase::Connect, NotSent::NotConnected),
            Proves::NotProcessed => Exchange::NotProcessed,
            Proves::Nothing => Exchange::Lost(Reason::ConnectionLost),
        },
        Some(Ok(answer)) => {
            let (head, body) = answer.into_parts();
            let body = by(ends, IncomingBody::read(body)).await.unwrap_or(IncomingBody::Lost);
            Exchange::Answered(Incoming {
                status: head.status.as_u16(),
                headers: head.headers,
                body,
            })
        }
    }
}
