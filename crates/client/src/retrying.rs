//! A client that retries without a database: for calls whose end somebody waits for.
//!
//! One call has one key and one sequence of bytes, through all its attempts. What is done after each of them
//! is decided by `samekey_core::plan`, which decides about durable commands too; here it is kept in memory.
//!
//! What it cannot promise: a process that ends in the middle of a call forgets key and attempts, and whoever
//! then calls again does so under another key. A command that must not be lost belongs into the outbox. What
//! it never does: send again what may have run, unless the counterparty is declared to deduplicate by key.
//!
//! ```no_run
//! use samekey_client::retrying::{End, RetryingClient, RetryingOptions};
//! use std::time::Duration;
//!
//! # async fn pay() -> Result<(), Box<dyn std::error::Error>> {
//! // It remembers a key for a day: after a lost answer the same request may be sent again.
//! let key_life = Some(Duration::from_secs(24 * 3600));
//! let client = RetryingClient::new(RetryingOptions { key_life, ..RetryingOptions::default() })?;
//! let request = client.post("https://pay.example/payments").header("content-type", "application/json");
//! let request = request.body(r#"{"amount":1200}"#).build()?;
//! let called = client.execute(request).await?;
//! match &called.end {
//!     End::Succeeded(receipt) => println!("paid, status {}", receipt.status()),
//!     End::Refused(receipt) => println!("refused, status {}", receipt.status()),
//!     End::Failed(_) => println!("nothing was paid: {called}"),
//!     End::Unknown(_) => println!("it may have been paid, never use a new key: {called}"),
//! }
//! # Ok(())
//! # }
//! ```

mod called;
#[cfg(feature = "tower")]
pub mod layer;
mod rules;
mod wire;

pub use called::{AttemptSeen, Called, End};

use crate::address::Reach;
use crate::error::{Error, Kind};
use crate::http_counterparty::{AnswerConfig, KeyHeader};
use crate::transport::{CONNECT_TIME_MAX_DEFAULT, Protocol, Resolver, Trust};
use http::Method;
use reqwest::RequestBuilder;
use rules::Rules;
use samekey_core::profile::Limits;
use std::sync::Arc;
use std::time::Duration;

/// How a [`RetryingClient`] is made.
#[derive(Clone, Debug)]
pub struct RetryingOptions {
    /// The limits of a call; [`Limits::INLINE`] by default.
    pub limits: Limits,
    /// For how long the counterparty remembers a key and answers the same request under it as it did the first
    /// time. Without it, nothing is sent again that may have run.
    pub key_life: Option<Duration>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// How answers are read. Amount, currency and reference are not compared here.
    pub answer: AnswerConfig,
    /// How long a connection may take.
    pub connect_time_max: Duration,
    /// Which HTTP is spoken.
    pub protocol: Protocol,
    /// Whose certificates are trusted.
    pub trust: Trust,
    /// Which addresses may be connected to. A name is looked up for every attempt, and what it means then is
    /// what counts.
    pub reach: Reach,
    /// How names are resolved.
    pub resolver: Resolver,
}

impl Default for RetryingOptions {
    fn default() -> RetryingOptions {
        RetryingOptions {
            limits: Limits::INLINE,
            key_life: None,
            key_header: KeyHeader::default(),
            answer: AnswerConfig::default(),
            connect_time_max: CONNECT_TIME_MAX_DEFAULT,
            protocol: Protocol::Negotiated,
            trust: Trust::System,
            reach: Reach::PUBLIC,
            resolver: Resolver::system(),
        }
    }
}

/// A client that retries. It is cheap to clone, and clones share nothing that a key could stick to.
#[derive(Clone)]
pub struct RetryingClient(Arc<Inner>);

struct Inner {
    wire: wire::Wire,
    rules: Rules,
}

impl RetryingClient {
    /// A client with these options. `reqwest` below it retries nothing, follows no redirect, keeps no
    /// connection, takes no proxy from the environment, and connects to what [`RetryingOptions::reach`] allows.
    ///
    /// # Errors
    /// An option that cannot be used, above all a time for retries that outlives the counterparty's memory.
    pub fn new(options: RetryingOptions) -> Result<RetryingClient, Error> {
        let (rules, wire) = (Rules::of(&options)?, wire::Wire::new(&options)?);
        Ok(RetryingClient(Arc::new(Inner { wire, rules })))
    }

    /// A POST to this URL, to be filled, built, and given to [`RetryingClient::execute`].
    pub fn post(&self, url: &str) -> RequestBuilder {
        self.request(Method::POST, url)
    }

    /// A request to this URL, to be filled, built, and given to [`RetryingClient::execute`].
    pub fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.0.wire.request(method, url)
    }

    /// Makes a call: as many attempts as its limits and its counterparty allow, under one key. That is the
    /// key in the request's header, or else a new one from the randomness of the operating system.
    ///
    /// # Errors
    /// Nothing was sent: the key in the header is none, the body is a stream, which could not be sent a
    /// second time, or the address is none that may be connected to. (That a *name* means such an address is how
    /// a call ends: [`End::Failed`] with [`Reason::NotSendable`](samekey_core::delivery::Reason).)
    pub async fn execute(&self, request: reqwest::Request) -> Result<Called, Error> {
        self.execute_within(request, self.0.rules.time_max()).await
    }

    /// As [`RetryingClient::execute`], in this time at the most, waits and attempts included.
    ///
    /// # Errors
    /// As there; and a time that is too short for one attempt.
    pub async fn execute_within(
        &self,
        request: reqwest::Request,
        time_max: Duration,
    ) -> Result<Called, Error> {
        let Inner { wire, rules } = &*self.0;
        let profile = rules.profile_within(time_max)?;
        wire.check(&request)?;
        let mut request = request;
        if request.body().is_some_and(|body| body.as_bytes().is_none()) {
            return Err(Error::new(
                Kind::NotReplayable,
                "the body of the request is a stream and could not be sent a second time; read it into memory first",
            ));
        }
        let key = rules.put_key(request.headers_mut())?;
        let send = |time_max| wire.exchange(&request, time_max);
        Ok(rules.drive(&key, &profile, send).await)
    }
}
