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
mod wire;

pub use called::{AttemptSeen, Called, End};

use crate::error::{Error, Kind};
use crate::http_counterparty::{AnswerConfig, KeyForm, KeyHeader, Reading, key_value, proof_of};
use crate::transport::{CONNECT_TIME_MAX_DEFAULT, Protocol, Trust};
use http::{HeaderName, Method};
use reqwest::RequestBuilder;
use samekey_core::backoff::Chance;
use samekey_core::key::Key;
use samekey_core::lease::Owner;
use samekey_core::outcome::Outcome;
use samekey_core::plan::{Attempt, Input, Verdict, enqueued, plan};
use samekey_core::profile::{Declared, Limits, Profile};
use samekey_core::time::Time;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

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
        }
    }
}

/// A client that retries. It is cheap to clone, and clones share nothing that a key could stick to.
#[derive(Clone)]
pub struct RetryingClient(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    limits: Limits,
    declared: Declared,
    key_header: (HeaderName, KeyForm),
    reading: Reading,
}

impl RetryingClient {
    /// A client with these options. `reqwest` below it retries nothing, follows no redirect, keeps no
    /// connection, and takes no proxy from the environment.
    ///
    /// # Errors
    /// An option that cannot be used, above all a time for retries that outlives the counterparty's memory.
    pub fn new(options: RetryingOptions) -> Result<RetryingClient, Error> {
        let RetryingOptions { limits, key_life, key_header, answer, .. } = &options;
        let declared = Declared { dedups: *key_life, answers: None };
        profile(*limits, declared)?;
        let compared = [&answer.amount, &answer.currency, &answer.reference];
        if compared.iter().any(|pair| pair.is_some()) {
            return Err(Error::config(
                "answer.amount, answer.currency and answer.reference are compared by HttpCounterparty only; leave them out",
            ));
        }
        Ok(RetryingClient(Arc::new(Inner {
            limits: *limits,
            declared,
            key_header: key_header.clone().check()?,
            reading: answer.clone().check()?,
            http: wire::client(&options)?,
        })))
    }

    /// A POST to this URL, to be filled, built, and given to [`RetryingClient::execute`].
    pub fn post(&self, url: &str) -> RequestBuilder {
        self.request(Method::POST, url)
    }

    /// A request to this URL, to be filled, built, and given to [`RetryingClient::execute`].
    pub fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.0.http.request(method, url)
    }

    /// Makes a call: as many attempts as its limits and its counterparty allow, under one key. That is the
    /// key in the request's header, or else a new one from the randomness of the operating system.
    ///
    /// # Errors
    /// Nothing was sent: the key in the header is none, or the body is a stream, which could not be sent a
    /// second time.
    pub async fn execute(&self, request: reqwest::Request) -> Result<Called, Error> {
        self.execute_within(request, self.0.limits.time_max).await
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
        let limits = self.0.limits;
        let limits = Limits {
            time_max: limits.time_max.min(time_max),
            attempt_time_max: limits.attempt_time_max.min(time_max),
            ..limits
        };
        let profile = profile(limits, self.0.declared)?;
        let (key, request) = self.keyed(request)?;
        Ok(self.drive(&key, &request, &profile).await)
    }

    /// The key of a call, and its request with the key in it.
    fn keyed(&self, mut request: reqwest::Request) -> Result<(Key, reqwest::Request), Error> {
        if request.body().is_some_and(|body| body.as_bytes().is_none()) {
            return Err(Error::new(
                Kind::NotReplayable,
                "the body of the request is a stream and could not be sent a second time; read it into memory first",
            ));
        }
        let (name, form) = &self.0.key_header;
        let lines = request.headers().get_all(name).iter().map(|value| value.as_bytes());
        let given = Key::from_header_lines(lines)
            .map_err(|fault| Error::request(format!("the request's {name}: {fault}")))?;
        let key = match given {
            Some(key) => key,
            None => new_key()?,
        };
        let value = key_value(key.as_str(), *form)
            .ok_or_else(|| Error::request(format!("the request's {name} cannot be sent")))?;
        request.headers_mut().insert(name.clone(), value);
        Ok((key, request))
    }

    /// The same loop as the courier's, with one command and its row in memory.
    async fn drive(&self, key: &Key, request: &reqwest::Request, profile: &Profile) -> Called {
        let began = Instant::now();
        let now = || Time::EPOCH.plus(began.elapsed());
        let mut attempts = Vec::new();
        let mut delivery = enqueued(now(), Duration::ZERO, profile);
        while delivery.is_open() {
            if let Some(due) = delivery.due() {
                sleep_until(began + due.since(Time::EPOCH)).await;
            }
            let (taken, verdict) = plan(delivery, Input::Take(OWNER), now(), profile);
            delivery = taken;
            // A question is never due: nobody is declared to answer any.
            let Verdict::Send(attempt) = verdict else { continue };
            let seen = self.attempt(key, request, &attempt, began).await;
            let input = Input::Report(attempt.hold, seen.told.clone(), chance());
            let accepts_nothing = matches!(seen.told.what, Outcome::NotAccepted(_));
            attempts.push(seen);
            (delivery, _) = plan(delivery, input, now(), profile);
            // A durable command waits here until a person has seen to the credential. Nobody does that while
            // somebody waits for an answer.
            if accepts_nothing {
                break;
            }
        }
        Called::of(key.clone(), delivery, attempts)
    }

    async fn attempt(
        &self,
        key: &Key,
        request: &reqwest::Request,
        attempt: &Attempt,
        call_began: Instant,
    ) -> AttemptSeen {
        let began = Instant::now();
        let exchange = wire::exchange(&self.0.http, request, attempt.time_max).await;
        let phase = exchange.failed_in();
        let reply = proof_of(exchange, &self.0.reading, key.as_str());
        AttemptSeen {
            number: attempt.number,
            began: began - call_began,
            took: began.elapsed(),
            time_max: attempt.time_max,
            phase,
            status: reply.status,
            told: reply.told,
        }
    }
}

/// There is one owner of a row in memory.
const OWNER: Owner = Owner::from_bytes([1; 16]);

fn profile(limits: Limits, declared: Declared) -> Result<Profile, Error> {
    limits.check(declared).map_err(|fault| Error::config(fault.to_string()))
}

/// A UUID of version 4. All its bits come from the operating system each time: nothing is kept that a fork or
/// a restored snapshot could repeat.
fn new_key() -> Result<Key, Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)
        .map_err(|_| Error::request("the operating system gave no random bits for a key"))?;
    bits[6] = (bits[6] & 0x0f) | 0x40;
    bits[8] = (bits[8] & 0x3f) | 0x80;
    let text = samekey_store::OutboundKey::from_bytes(bits).to_string();
    Key::new(&text).map_err(|fault| Error::request(fault.to_string()))
}

/// Without random bits the least wait is taken; it still grows.
fn chance() -> Chance {
    let mut bits = [0; 2];
    match getrandom::fill(&mut bits) {
        Ok(()) => Chance::new(u16::from_be_bytes(bits)),
        Err(_) => Chance::LEAST,
    }
}

#[cfg(test)]
mod tests {
    use super::new_key;
    use std::collections::HashSet;

    #[test]
    fn b97_keys_do_not_repeat_and_are_uuids_of_version_4() {
        let threads: Vec<_> = (0..10)
            .map(|_| std::thread::spawn(|| (0..10_000).map(|_| new_key().unwrap()).collect()))
            .collect();
        let keys: Vec<Vec<_>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let all: HashSet<&str> = keys.iter().flatten().map(|key| key.as_str()).collect();
        assert_eq!(all.len(), 100_000);
        for key in all {
            let bytes = key.as_bytes();
            assert_eq!((bytes.len(), bytes[14]), (36, b'4'), "{key}");
            assert!(b"89ab".contains(&bytes[19]), "{key}");
        }
    }
}
