//! The configuration of a counterparty over HTTP, as it stands in a file, and what of it is refused.

use super::Credential;
use super::compare::{Compare, Pair};
use super::found::Finding;
use super::pointer::Pointer;
use super::reading::{Mark, Reading, StatusWords};
use crate::address::{Base, Blank, Reach, Template};
use crate::error::Error;
use crate::transport::{Protocol, Trust};
use http::HeaderName;
use ipnet::IpNet;
use samekey_core::answer::Accepted;
use samekey_core::profile::{Answers, Declared};
use samekey_core::receipt::{BODY_BYTES_MAX, Keep};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A counterparty over HTTP.
///
/// ```
/// use samekey_client::http_counterparty::{HttpConfig, HttpCounterparty};
///
/// let config: HttpConfig = toml::from_str(
///     r#"
///     base_url = "https://pay.example/v1"
///     key_life_s = 86400
///     credential = { environment = "PAY_TOKEN" }
///
///     [ask]
///     by_key = "/payments/by-key/{key}"
///     by_reference = "/payments?order_id={reference}"
///
///     [answer]
///     status = "/status"
///     succeeded = ["succeeded"]
///     refused = ["declined"]
///     amount = { ours = "/amount", theirs = "/amount" }
///     reference = { ours = "/order_id", theirs = "/order_id" }
///     in_progress = { status = 409, pointer = "/error", value = "in_progress" }
///     stored_refusals = [402]
///     "#,
/// )?;
/// let counterparty = HttpCounterparty::new(config)?;
/// # let _ = counterparty;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Where it is, such as `https://pay.example/v1`.
    pub base_url: String,
    /// Who we are there. Nothing is sent while it cannot be looked up.
    pub credential: Option<CredentialConfig>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// For how many seconds it remembers a key and answers the same request under it as it did the first
    /// time. Missing: it does not deduplicate by key, and nothing is sent again that may have run.
    pub key_life_s: Option<u64>,
    /// How long a connection may take, in milliseconds. Five seconds where it is missing.
    pub connect_time_max_ms: Option<u64>,
    /// Which HTTP is spoken: `negotiated`, `http1` or `http2`.
    pub protocol: ProtocolName,
    /// Whether `http://` may be used to other hosts. Everybody on the way can then read and change what is
    /// sent.
    pub allow_plain_http: bool,
    /// Networks that may be connected to although they are private: `127.0.0.0/8`, `10.1.0.0/16`.
    pub allow_networks: Vec<IpNet>,
    /// A PEM file with the authorities that are trusted in place of the system's.
    pub trust_file: Option<PathBuf>,
    /// Where it can be asked.
    pub ask: Option<AskConfig>,
    /// How its answers are read.
    pub answer: AnswerConfig,
}

/// Where a credential is found: one of `environment` and `file`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CredentialConfig {
    /// The name of an environment variable.
    pub environment: Option<String>,
    /// The path of a file.
    pub file: Option<PathBuf>,
    /// The header that carries it; `authorization` where it is missing.
    pub header: Option<String>,
    /// What stands before it; `Bearer ` where it is missing.
    pub prefix: Option<String>,
}

/// How the key is sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeyHeader {
    /// The header.
    pub name: String,
    /// Its form.
    pub form: KeyForm,
}

impl Default for KeyHeader {
    fn default() -> KeyHeader {
        KeyHeader { name: "idempotency-key".to_owned(), form: KeyForm::Bare }
    }
}

/// The form of a key in its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyForm {
    /// `abc`: what most APIs take.
    #[default]
    Bare,
    /// `"abc"`: a structured string, as the IETF draft has it.
    Quoted,
}

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    /// What the two sides agree on.
    #[default]
    Negotiated,
    /// HTTP/1.1 always.
    Http1,
    /// HTTP/2 always.
    Http2,
}

/// Where a counterparty can be asked what became of a command. At least one of the two.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AskConfig {
    /// By the key: `/payments/by-key/{key}`.
    pub by_key: Option<String>,
    /// By the business reference: `/payments?order_id={reference}`.
    pub by_reference: Option<String>,
    /// Where the list stands, if a question is answered with one.
    pub list: Option<String>,
    /// Statuses that mean that there is nothing; 404 where it is missing.
    pub not_found_statuses: Option<Vec<u16>>,
    /// By which member, and which value of it, the counterparty's own *not found* is known: a wrong path and a
    /// proxy answer 404 as well.
    pub not_found: Option<MarkConfig>,
    /// After how many seconds since the last send *not found* proves that nothing ran: the longest time for
    /// which a request may still arrive. Without it, *not found* leads to a person.
    pub not_found_after_s: Option<u64>,
}

/// A member of a document and the value by which it is known.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkConfig {
    /// Where it stands.
    pub pointer: String,
    /// Its value.
    pub value: String,
}

/// How a counterparty says that it is still at work on a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InProgressConfig {
    /// The HTTP status.
    pub status: u16,
    /// The member.
    pub pointer: String,
    /// Its value.
    pub value: String,
}

/// Where one thing stands in our request and in the counterparty's documents.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairConfig {
    /// In our request.
    pub ours: String,
    /// In its documents.
    pub theirs: String,
}

/// How answers are read. Everything is optional where nothing is asked; what is declared has to be there in
/// every answer that succeeds, also in those to attempts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerConfig {
    /// Where the business status stands.
    pub status: Option<String>,
    /// Its words for: executed.
    pub succeeded: Vec<String>,
    /// Its words for: refused for good.
    pub refused: Vec<String>,
    /// Its words for: not final yet.
    pub pending: Vec<String>,
    /// The amount, which must be equal.
    pub amount: Option<PairConfig>,
    /// The currency, which must be equal.
    pub currency: Option<PairConfig>,
    /// The business reference, which must be equal.
    pub reference: Option<PairConfig>,
    /// The key in its documents, which must be ours where it is told.
    pub key: Option<String>,
    /// How it says that it is still at work on a key.
    pub in_progress: Option<InProgressConfig>,
    /// Statuses of refusals that it stores under the key and gives to every attempt.
    pub stored_refusals: Vec<u16>,
    /// Whether 202 is its final answer.
    pub accepted_is_final: bool,
    /// A member that each of its error documents has. Errors without it are then somebody else's on the way,
    /// and prove nothing.
    pub own_errors: Option<String>,
    /// Headers of answers to keep beside the usual ones.
    pub keep_headers: Vec<String>,
}

/// A configuration that was checked.
pub(super) struct Checked {
    pub(super) base: Base,
    pub(super) credential: Option<Credential>,
    pub(super) key_header: (HeaderName, KeyForm),
    pub(super) declared: Declared,
    pub(super) by_key: Option<Template>,
    pub(super) by_reference: Option<Template>,
    pub(super) finding: Finding,
    pub(super) reading: Reading,
    pub(super) connect_time_max: Option<Duration>,
    pub(super) protocol: Protocol,
    pub(super) reach: Reach,
    pub(super) trust: Trust,
}

impl HttpConfig {
    pub(super) fn check(self) -> Result<Checked, Error> {
        let base = Base::parse(&self.base_url)?;
        let mut reach = Reach::PUBLIC.and(self.allow_networks);
        if self.allow_plain_http {
            reach = reach.and_plain_http();
        }
        reach.check(&base)?;
        let ask = self.ask.unwrap_or_default();
        let by = |name, text: &Option<String>, blank| -> Result<Option<Template>, Error> {
            let read = |text: &String| Template::parse(text, blank);
            text.as_ref()
                .map(read)
                .transpose()
                .map_err(|why| Error::config(format!("{name}: {why}")))
        };
        let by_key = by("ask.by_key", &ask.by_key, Blank::Key)?;
        let by_reference = by("ask.by_reference", &ask.by_reference, Blank::Reference)?;
        let finding = finding(&ask)?;
        let reading = self.answer.check()?;
        let answers = (by_key.is_some() || by_reference.is_some()).then_some(Answers {
            not_found_after: ask.not_found_after_s.map(Duration::from_secs),
            by_reference: by_reference.is_some(),
        });
        if let Some(answers) = &answers {
            can_tell(answers, &finding, &reading)?;
        } else if ask.not_found_after_s.is_some() {
            return Err(Error::config(
                "ask.not_found_after_s without ask.by_key or ask.by_reference: there is nowhere to ask",
            ));
        }
        Ok(Checked {
            credential: self.credential.map(CredentialConfig::check).transpose()?,
            key_header: self.key_header.check()?,
            declared: Declared { dedups: self.key_life_s.map(Duration::from_secs), answers },
            connect_time_max: self.connect_time_max_ms.map(Duration::from_millis),
            protocol: match self.protocol {
                ProtocolName::Negotiated => Protocol::Negotiated,
                ProtocolName::Http1 => Protocol::Http1,
                ProtocolName::Http2 => Protocol::Http2,
            },
            trust: match self.trust_file {
                None => Trust::System,
                Some(path) => Trust::Only(std::fs::read(&path).map_err(|error| {
                    Error::config(format!("trust_file: {} cannot be read: {error}", path.display()))
                })?),
            },
            base,
            by_key,
            by_reference,
            finding,
            reading,
            reach,
        })
    }
}

/// A question has to be able to tell an executed command from another one.
fn can_tell(answers: &Answers, finding: &Finding, reading: &Reading) -> Result<(), Error> {
    if reading.status.is_none() {
        return Err(Error::config(
            "answer.status is missing; without it no answer to a question can be understood",
        ));
    }
    if reading.compare.amount.is_none() || reading.compare.reference.is_none() {
        return Err(Error::config(
            "answer.amount and answer.reference are missing; without them what is found may be another payment",
        ));
    }
    if answers.not_found_after.is_some() && finding.not_found.is_none() {
        return Err(Error::config(
            "ask.not_found_after_s without ask.not_found: a wrong path or a proxy answers 404 as well, and the command would be sent again; name the member by which the counterparty's own answer is known",
        ));
    }
    Ok(())
}

fn finding(ask: &AskConfig) -> Result<Finding, Error> {
    let statuses = ask.not_found_statuses.clone().unwrap_or_else(|| vec![404]);
    check_statuses("ask.not_found_statuses", &statuses, 400..=499)?;
    let not_found = ask.not_found.as_ref().map(|mark| {
        let pointer = Pointer::parse("ask.not_found.pointer", &mark.pointer)?;
        Ok::<_, Error>(Mark { statuses: statuses.clone(), pointer, value: mark.value.clone() })
    });
    Ok(Finding {
        not_found: not_found.transpose()?,
        not_found_statuses: statuses,
        list: Pointer::optional("ask.list", ask.list.as_deref())?,
    })
}

impl AnswerConfig {
    pub(crate) fn check(self) -> Result<Reading, Error> {
        check_statuses("answer.stored_refusals", &self.stored_refusals, 200..=499)?;
        let pair = |name: &str, pair: Option<PairConfig>| -> Result<Option<Pair>, Error> {
            let Some(pair) = pair else { return Ok(None) };
            Ok(Some(Pair {
                ours: Pointer::parse(&format!("answer.{name}.ours"), &pair.ours)?,
                theirs: Pointer::parse(&format!("answer.{name}.theirs"), &pair.theirs)?,
            }))
        };
        let in_progress = self.in_progress.map(|mark| {
            check_statuses("answer.in_progress.status", &[mark.status], 200..=599)?;
            let pointer = Pointer::parse("answer.in_progress.pointer", &mark.pointer)?;
            Ok::<_, Error>(Mark { statuses: vec![mark.status], pointer, value: mark.value })
        });
        let keep = Keep::new(BODY_BYTES_MAX, &self.keep_headers)
            .map_err(|fault| Error::config(format!("answer.keep_headers: {fault}")))?;
        let words = [&self.succeeded, &self.refused, &self.pending];
        let mut all: Vec<&String> = words.into_iter().flatten().collect();
        all.sort_unstable();
        if let Some([twice, _]) = all.windows(2).find(|pair| pair.first() == pair.last()) {
            return Err(Error::config(format!(
                "answer: the word {twice:?} stands twice among succeeded, refused and pending; one word means one thing"
            )));
        }
        let has_words = !all.is_empty();
        let status = match Pointer::optional("answer.status", self.status.as_deref())? {
            Some(_) if self.succeeded.is_empty() => {
                return Err(Error::config(
                    "answer.status without answer.succeeded: no answer could ever be a success",
                ));
            }
            None if has_words => {
                return Err(Error::config(
                    "answer has words for a status, and answer.status is missing; name where it stands",
                ));
            }
            None => None,
            Some(pointer) => Some(StatusWords {
                pointer,
                succeeded: self.succeeded,
                refused: self.refused,
                pending: self.pending,
            }),
        };
        Ok(Reading {
            accepted: if self.accepted_is_final { Accepted::IsFinal } else { Accepted::IsPending },
            compare: Compare {
                amount: pair("amount", self.amount)?,
                currency: pair("currency", self.currency)?,
                reference: pair("reference", self.reference)?,
                key: Pointer::optional("answer.key", self.key.as_deref())?,
            },
            own_errors: Pointer::optional("answer.own_errors", self.own_errors.as_deref())?,
            in_progress: in_progress.transpose()?,
            keep,
            status,
            stored_refusals: self.stored_refusals,
        })
    }
}

impl KeyHeader {
    pub(crate) fn check(self) -> Result<(HeaderName, KeyForm), Error> {
        let name: HeaderName = self.name.parse().map_err(|_| {
            Error::config(format!("key_header.name: {:?} is no name of a header", self.name))
        })?;
        Ok((name, self.form))
    }
}

impl CredentialConfig {
    /// The credential that is described.
    pub(crate) fn check(self) -> Result<Credential, Error> {
        let credential = match (self.environment, self.file) {
            (Some(name), None) if !name.is_empty() => Credential::environment(name),
            (None, Some(path)) => Credential::file(path),
            (Some(_) | None, Some(_) | None) => {
                return Err(Error::config(
                    "credential: expected one of environment and file; the credential itself does not stand in a configuration",
                ));
            }
        };
        let header = self.header.as_deref().unwrap_or("authorization");
        credential.in_header(header, self.prefix.as_deref().unwrap_or("Bearer "))
    }
}

fn check_statuses(
    name: &str,
    statuses: &[u16],
    range: std::ops::RangeInclusive<u16>,
) -> Result<(), Error> {
    match statuses.iter().find(|status| !range.contains(status)) {
        None => Ok(()),
        Some(status) => Err(Error::config(format!(
            "{name}: {status} is outside {}..={}",
            range.start(),
            range.end()
        ))),
    }
}
