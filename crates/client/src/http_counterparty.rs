//! A counterparty over HTTP that is described by a configuration, without code of its own.
//!
//! What it does not do: it interprets no amounts beyond comparing them (whoever sends cents and is told euros
//! needs code), and it knows one document for answers and one for questions. A counterparty that needs more
//! implements [`Counterparty`] itself, with [`Transport`] below it.

mod compare;
mod config;
mod credential;
mod found;
mod pointer;
mod reading;

pub use config::{
    AnswerConfig, AskConfig, CredentialConfig, HttpConfig, InProgressConfig, KeyForm, KeyHeader,
    MarkConfig, PairConfig, ProtocolName,
};
pub use credential::Credential;
pub(crate) use reading::Reading;

use crate::address::Template;
use crate::counterparty::{Counterparty, Order, Question, Reply};
use crate::error::Error;
use crate::request::HttpRequest;
use crate::transport::{
    Exchange, Incoming, Outgoing, Resolver, Transport, TransportOptions, retry_after,
};
use bytes::Bytes;
use compare::Ours;
use config::Checked;
use found::{Asked, Finding};
use http::{HeaderMap, HeaderValue, Method, header};
use samekey_core::delivery::{AskedBy, Reason};
use samekey_core::key::Key;
use samekey_core::outcome::{Heard, NotRun, Outcome, Told};
use samekey_core::profile::Declared;
use samekey_store::outbox::Command;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("samekey/", env!("CARGO_PKG_VERSION")));

/// A counterparty over HTTP. It is cheap to clone.
#[derive(Clone)]
pub struct HttpCounterparty(Arc<Inner>);

/// A question about a request that was sent under a key.
#[derive(Clone)]
pub struct Inquiry<'a> {
    /// Path and query below the counterparty's address.
    pub target: &'a str,
    /// Headers besides the ones that every question has.
    pub headers: HeaderMap,
    /// The body of the request that is asked about: what is found is compared with it.
    pub body: &'a [u8],
    /// Its key.
    pub key: &'a str,
    /// How long the question may take, the connection included.
    pub time_max: Duration,
}

impl fmt::Debug for Inquiry<'_> {
    /// Requests and keys are other people's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inquiry").field("time_max", &self.time_max).finish_non_exhaustive()
    }
}

struct Inner {
    base: crate::address::Base,
    credential: Option<Credential>,
    declared: Declared,
    key_header: (http::HeaderName, KeyForm),
    by_key: Option<Template>,
    by_reference: Option<Template>,
    finding: Finding,
    reading: Reading,
    transport: Transport,
}

impl HttpCounterparty {
    /// The counterparty of this configuration.
    ///
    /// # Errors
    /// The first thing in it that cannot be used, with what to do.
    pub fn new(config: HttpConfig) -> Result<HttpCounterparty, Error> {
        HttpCounterparty::with(config, None, Resolver::system())
    }

    /// As [`HttpCounterparty::new`], with a credential or a name look-up that no file can describe.
    ///
    /// # Errors
    /// As there; and a credential that is configured as well.
    pub fn with(
        config: HttpConfig,
        credential: Option<Credential>,
        resolver: Resolver,
    ) -> Result<HttpCounterparty, Error> {
        if credential.is_some() && config.credential.is_some() {
            return Err(Error::config(
                "there are two credentials, one of them in the configuration",
            ));
        }
        let Checked {
            base,
            credential: configured,
            key_header,
            declared,
            by_key,
            by_reference,
            finding,
            reading,
            connect_time_max,
            protocol,
            reach,
            trust,
        } = config.check()?;
        let defaults = TransportOptions::default();
        let transport = Transport::new(TransportOptions {
            connect_time_max: connect_time_max.unwrap_or(defaults.connect_time_max),
            protocol,
            reach,
            trust,
            resolver,
        })?;
        Ok(HttpCounterparty(Arc::new(Inner {
            credential: credential.or(configured),
            base,
            declared,
            key_header,
            by_key,
            by_reference,
            finding,
            reading,
            transport,
        })))
    }

    async fn attempt(&self, order: Order) -> Reply<Outcome> {
        let Inner { base, reading, .. } = &*self.0;
        let began = Instant::now();
        let not_sendable = || plain(Outcome::NotAccepted(Reason::NotSendable));
        let key = order.command.key.to_string();
        let Some(request) = HttpRequest::decode(&order.command.request) else {
            return not_sendable();
        };
        // Found out before it is sent: afterwards nobody could tell whether an answer is about it.
        let Some(ours) = reading.compare.ours(&request.body) else { return not_sendable() };
        let Some(mut outgoing) = request.outgoing(base) else { return not_sendable() };
        let (name, form) = &self.0.key_header;
        let Some(value) = key_value(&key, *form) else { return not_sendable() };
        outgoing.headers.insert(name.clone(), value);
        let Some(outgoing) = self.signed(outgoing).await else { return not_sendable() };
        let time_max = order.time_max.saturating_sub(began.elapsed());
        let exchange = self.0.transport.exchange(base, outgoing, time_max).await;
        proof(exchange, reading, &ours, &key)
    }

    async fn question(&self, question: Question) -> Reply<Heard> {
        let command = &question.command;
        let Some((target, by)) = self.where_to_ask(command, question.by) else {
            return plain(Heard::CannotTell);
        };
        let Some(request) = HttpRequest::decode(&command.request) else {
            return plain(Heard::CannotTell);
        };
        let inquiry = Inquiry {
            target: &target,
            headers: HeaderMap::new(),
            body: &request.body,
            key: &command.key.to_string(),
            time_max: question.time_max,
        };
        let mut reply = self.put(inquiry, by).await;
        // It may be an earlier command of the same action that was refused.
        if by == AskedBy::Reference
            && command.generation > 1
            && matches!(reply.told.what, Heard::Refused(_))
        {
            reply.told.what = Heard::CannotTell;
        }
        reply
    }

    /// Asks at a place that the asker has worked out itself, by the key, for whoever keeps its commands
    /// elsewhere than in an outbox. How the answer is read is the configuration's.
    pub async fn inquire(&self, inquiry: Inquiry<'_>) -> Reply<Heard> {
        self.put(inquiry, AskedBy::Key).await
    }

    async fn put(&self, inquiry: Inquiry<'_>, by: AskedBy) -> Reply<Heard> {
        let Inner { base, reading, finding, .. } = &*self.0;
        let began = Instant::now();
        let Inquiry { target, headers, body, key, time_max } = inquiry;
        let cannot_tell = || plain(Heard::CannotTell);
        let (Some(ours), Ok(target)) = (reading.compare.ours(body), base.target(target)) else {
            return cannot_tell();
        };
        let outgoing = Outgoing { method: Method::GET, target, headers, body: Bytes::new() };
        let Some(outgoing) = self.signed(outgoing).await else { return cannot_tell() };
        let time_max = time_max.saturating_sub(began.elapsed());
        let exchange = self.0.transport.exchange(base, outgoing, time_max).await;
        let Exchange::Answered(incoming) = exchange else { return cannot_tell() };
        answered(incoming, |incoming| {
            finding.heard(reading, incoming, &Asked { ours: &ours, key, by })
        })
    }

    /// The path to ask at, and by what that asks. Who has no path for keys is asked by reference.
    fn where_to_ask(&self, command: &Command, by: AskedBy) -> Option<(String, AskedBy)> {
        let Inner { by_key, by_reference, .. } = &*self.0;
        match (by, by_key, by_reference) {
            (AskedBy::Key, Some(by_key), _) => {
                Some((by_key.fill(&command.key.to_string())?, AskedBy::Key))
            }
            (AskedBy::Key, None, Some(template)) | (AskedBy::Reference, _, Some(template)) => {
                Some((template.fill(&command.action.business_ref)?, AskedBy::Reference))
            }
            (AskedBy::Key | AskedBy::Reference, _, None) => None,
        }
    }

    /// With the headers that are ours; nothing where our credential is not to be had.
    async fn signed(&self, mut outgoing: Outgoing) -> Option<Outgoing> {
        let headers = &mut outgoing.headers;
        let json = HeaderValue::from_static("application/json, application/problem+json");
        headers.entry(header::ACCEPT).or_insert(json);
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::USER_AGENT, USER_AGENT);
        if let Some(credential) = &self.0.credential {
            let (name, value) = credential.header().await?;
            headers.insert(name, value);
        }
        Some(outgoing)
    }
}

impl Counterparty for HttpCounterparty {
    fn declared(&self) -> Declared {
        self.0.declared
    }

    async fn send(&self, order: Order) -> Reply<Outcome> {
        self.attempt(order).await
    }

    async fn ask(&self, question: Question) -> Reply<Heard> {
        self.question(question).await
    }
}

fn plain<T>(what: T) -> Reply<T> {
    Reply { told: Told::plain(what), status: None }
}

/// What an exchange proves about a command of which nothing is compared.
pub(crate) fn proof_of(exchange: Exchange, reading: &Reading, key: &str) -> Reply<Outcome> {
    proof(exchange, reading, &Ours::default(), key)
}

fn proof(exchange: Exchange, reading: &Reading, ours: &Ours, key: &str) -> Reply<Outcome> {
    match exchange {
        Exchange::NotSent(_, why) => plain(why.outcome()),
        Exchange::NotProcessed => plain(Outcome::NotRun(NotRun::NotProcessed)),
        Exchange::Lost(reason) => plain(Outcome::Unknown(reason)),
        Exchange::Answered(incoming) => {
            answered(incoming, |incoming| reading.outcome(incoming, ours, key))
        }
    }
}

fn answered<T>(incoming: Incoming, read: impl FnOnce(Incoming) -> T) -> Reply<T> {
    let retry_after: Option<Duration> = retry_after(&incoming.headers);
    let status = Some(incoming.status);
    Reply { told: Told { what: read(incoming), retry_after }, status }
}

/// The value of the header that carries a key.
pub(crate) fn key_value(key: &str, form: KeyForm) -> Option<HeaderValue> {
    match form {
        KeyForm::Bare => HeaderValue::from_str(key).ok(),
        KeyForm::Quoted => HeaderValue::from_str(&Key::new(key).ok()?.to_field()).ok(),
    }
}
