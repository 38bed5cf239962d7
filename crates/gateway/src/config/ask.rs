//! The settings that say who is asked what became of a command, and how.

use super::route::{Mark, Named};
use super::source::Section;
use crate::ask::again::SameRequest;
use crate::ask::{Asking, Location, Place, Recovered, StatusUrl};
use crate::error::Error;
use crate::headers;
use crate::path::Pattern;
use http::{HeaderName, StatusCode};
use ipnet::IpNet;
use samekey_client::http_counterparty::{
    AnswerConfig, AskConfig, Credential, HttpConfig, MarkConfig, PairConfig,
};
use samekey_client::transport::Resolver;
use samekey_client::{Error as ClientError, HttpCounterparty};
use samekey_core::outcome::Ending;
use samekey_core::policy::Counterparty;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

const ASK_KEYS: [&str; 5] =
    ["by_key", "base_url", "not_found", "not_found_statuses", "not_found_after_s"];
const NOT_FOUND_KEYS: [&str; 2] = ["pointer", "value"];
const ANSWER_KEYS: [&str; 8] =
    ["status", "succeeded", "refused", "pending", "amount", "currency", "reference", "key"];
const PAIR_KEYS: [&str; 2] = ["ours", "theirs"];
const RECOVERED_KEYS: [&str; 4] = ["status", "refused_status", "body", "location"];
const CREDENTIAL_KEYS: [&str; 4] = ["environment", "file", "header", "prefix"];
/// The longest time that an operator may declare: ten years, as for everything that is kept.
const DECLARED_S_MAX: u64 = 10 * 366 * 24 * 3_600;

/// Which counterparty a route has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Opaque,
    Answers,
    Dedups,
}

fn kind(section: &Section<'_>) -> Result<Kind, Error> {
    let words = [("opaque", Kind::Opaque), ("answers", Kind::Answers), ("dedups", Kind::Dedups)];
    Ok(section.choice("counterparty", &words)?.unwrap_or(Kind::Opaque))
}

/// What the policy of a route says about its counterparty.
pub(super) fn counterparty(section: &Section<'_>) -> Result<Counterparty, Error> {
    Ok(match kind(section)? {
        Kind::Opaque => Counterparty::Opaque,
        Kind::Answers => {
            let ask = section.section("ask", &ASK_KEYS)?;
            let after = match &ask {
                Some(ask) => ask.number("not_found_after_s", 1..=DECLARED_S_MAX)?,
                None => None,
            };
            Counterparty::Answers { not_found_after: after.map(Duration::from_secs) }
        }
        Kind::Dedups => {
            let life = section.number("key_life_s", 1..=DECLARED_S_MAX)?.ok_or_else(|| {
                section.fault(
                    "key_life_s",
                    "is missing; a question to an upstream that deduplicates is the command itself, so write for how many seconds it remembers a key",
                )
            })?;
            Counterparty::Dedups { key_life: Duration::from_secs(life) }
        }
    })
}

/// Where a fault of the policy about the counterparty stands.
pub(super) fn fault(section: &Section<'_>, choice: &str, sentence: &str) -> Option<Error> {
    let remedy = "make it longer, or run_max_ms shorter";
    match choice {
        "not_found_after" => {
            let ask = section.section("ask", &ASK_KEYS).ok().flatten()?;
            Some(ask.fault("not_found_after_s", format!("{sentence}; {remedy}")))
        }
        "key_life" => Some(section.fault("key_life_s", format!("{sentence}; {remedy}"))),
        _ => None,
    }
}

/// What a route is besides what concerns its questions.
pub(super) struct Around<'a> {
    pub(super) pattern: Option<&'a Pattern>,
    pub(super) in_progress: Option<&'a Mark>,
    pub(super) upstream: &'a Named<'a>,
}

/// Who is asked on a route.
pub(super) fn asking(section: &Section<'_>, around: &Around<'_>) -> Result<Asking, Error> {
    let kind = kind(section)?;
    for (key, of) in [
        ("ask", Kind::Answers),
        ("answer", Kind::Answers),
        ("recovered", Kind::Answers),
        ("key_life_s", Kind::Dedups),
        ("stored_refusals", Kind::Dedups),
    ] {
        if section.has(key) && kind != of {
            let word = if of == Kind::Answers { "answers" } else { "dedups" };
            let sentence = format!(
                "means something with counterparty = {word:?} alone; write that, or leave it out"
            );
            return Err(section.fault(key, sentence));
        }
    }
    if kind != Kind::Opaque && section.text("outbound_key")? == Some("same") {
        return Err(section.fault(
            "outbound_key",
            "\"same\" cannot be asked about: a question is put under the key that is stored with the claim; leave outbound_key out",
        ));
    }
    let credential = credential(section, around.upstream)?;
    match kind {
        Kind::Opaque if credential.is_some() => Err(section.fault(
            "credential",
            "is for questions, and an opaque upstream is asked none; declare its counterparty, or leave the credential out",
        )),
        Kind::Opaque => Ok(Asking::Nobody),
        Kind::Answers => status_url(section, around, credential),
        Kind::Dedups => again(section, around, credential),
    }
}

fn again(
    section: &Section<'_>,
    around: &Around<'_>,
    credential: Option<Credential>,
) -> Result<Asking, Error> {
    let Some(credential) = credential else {
        return Err(section.fault(
            "credential",
            "is missing; a question to an upstream that deduplicates is the command sent again, and never with what a caller sent: write credential = { environment = \"NAME\" } of the gateway's own",
        ));
    };
    if around.in_progress.is_none() {
        return Err(section.fault(
            "in_progress",
            "is missing; write how this upstream says that it is still at work on a key, such as { status = 409, pointer = \"/error/code\", value = \"busy\" }: without it that would be taken for a refusal",
        ));
    }
    let stored_refusals = section.numbers("stored_refusals", 400..=499)?.unwrap_or_default();
    if let Some(status) = stored_refusals.iter().find(|status| !is_refusal(**status)) {
        return Err(section.fault(
            "stored_refusals",
            format!("{status} speaks of the moment and not of the command; leave it out"),
        ));
    }
    Ok(Asking::Again(SameRequest { credential, stored_refusals }))
}

fn is_refusal(status: u16) -> bool {
    match Ending::of_status(status) {
        Ending::Refused => true,
        Ending::Success | Ending::NotNow | Ending::Failed => false,
    }
}

fn status_url(
    section: &Section<'_>,
    around: &Around<'_>,
    credential: Option<Credential>,
) -> Result<Asking, Error> {
    let Some(ask) = section.section("ask", &ASK_KEYS)? else {
        return Err(section.fault(
            "ask",
            "is missing; write where the upstream can be asked, such as ask = { by_key = \"/payments/by-key/{key}\" }",
        ));
    };
    let names = around.pattern.map(Pattern::names).unwrap_or_default();
    let place = Place::parse(ask.required("by_key")?, &names)
        .map_err(|sentence| ask.fault("by_key", sentence))?;
    let answer = section.section("answer", &ANSWER_KEYS)?;
    let elsewhere = ask.text("base_url")?;
    let config = HttpConfig {
        base_url: elsewhere.unwrap_or(around.upstream.url).to_owned(),
        trust_file: match elsewhere {
            None => around.upstream.authorities.map(PathBuf::from),
            Some(_) => None,
        },
        // The operator has named this very address, as that of the upstream.
        allow_plain_http: true,
        allow_networks: anywhere(),
        ask: Some(AskConfig {
            by_key: Some(place.with_key_alone()),
            not_found_statuses: ask.numbers("not_found_statuses", 400..=499)?,
            not_found: match ask.section("not_found", &NOT_FOUND_KEYS)? {
                None => None,
                Some(mark) => Some(MarkConfig {
                    pointer: mark.required("pointer")?.to_owned(),
                    value: mark.required("value")?.to_owned(),
                }),
            },
            not_found_after_s: ask.number("not_found_after_s", 1..=DECLARED_S_MAX)?,
            ..AskConfig::default()
        }),
        answer: answer.as_ref().map(answers).transpose()?.unwrap_or_default(),
        ..HttpConfig::default()
    };
    let counterparty = HttpCounterparty::with(config, credential.clone(), Resolver::system())
        .map_err(|error| placed(section, &ask, answer.as_ref(), &error))?;
    let recovered = recovered(section)?;
    Ok(Asking::Status(Box::new(StatusUrl { counterparty, credential, place, recovered })))
}

/// Its words begin with the setting that they are about, which has the same name here.
fn placed(
    section: &Section<'_>,
    ask: &Section<'_>,
    answer: Option<&Section<'_>>,
    error: &ClientError,
) -> Error {
    let sentence = error.to_string();
    let name = sentence.split([' ', ':']).next().unwrap_or_default();
    let about = sentence.strip_prefix(&format!("{name}: ")).unwrap_or(&sentence).to_owned();
    match (name.split_once('.'), answer) {
        (Some(("ask", key)), _) => ask.fault(key, about),
        (Some(("answer", key)), Some(answer)) => {
            answer.fault(key.split('.').next().unwrap_or(key), about)
        }
        (None, _) if name == "base_url" => ask.fault("base_url", about),
        (Some(_) | None, _) => section.fault("answer", sentence),
    }
}

fn answers(section: &Section<'_>) -> Result<AnswerConfig, Error> {
    let words = |key: &str| -> Result<Vec<String>, Error> {
        let words = section.texts(key)?.unwrap_or_default();
        Ok(words.into_iter().map(str::to_owned).collect())
    };
    let pair = |key: &str| -> Result<Option<PairConfig>, Error> {
        let Some(pair) = section.section(key, &PAIR_KEYS)? else { return Ok(None) };
        let (ours, theirs) = (pair.required("ours")?, pair.required("theirs")?);
        Ok(Some(PairConfig { ours: ours.to_owned(), theirs: theirs.to_owned() }))
    };
    Ok(AnswerConfig {
        status: section.text("status")?.map(str::to_owned),
        succeeded: words("succeeded")?,
        refused: words("refused")?,
        pending: words("pending")?,
        amount: pair("amount")?,
        currency: pair("currency")?,
        reference: pair("reference")?,
        key: section.text("key")?.map(str::to_owned),
        ..AnswerConfig::default()
    })
}

fn recovered(section: &Section<'_>) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    let Some(section) = section.section("recovered", &RECOVERED_KEYS)? else {
        return Ok(recovered);
    };
    let status = |key, bounds| -> Result<Option<StatusCode>, Error> {
        let number = section.number(key, bounds)?.and_then(|number| u16::try_from(number).ok());
        Ok(number.and_then(|number| StatusCode::from_u16(number).ok()))
    };
    if let Some(status) = status("status", 200..=299)? {
        recovered.status = status;
    }
    if let Some(status) = status("refused_status", 400..=499)? {
        if !is_refusal(status.as_u16()) {
            let sentence =
                format!("{status} speaks of the moment and not of the command; write 402 or 422");
            return Err(section.fault("refused_status", sentence));
        }
        recovered.refused_status = status;
    }
    if let Some(pointer) = section.text("body")? {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(section.fault(
                "body",
                format!(
                    "found {pointer:?}; expected a JSON pointer such as \"/payment\", or \"\" for the whole document"
                ),
            ));
        }
        recovered.body = Some(pointer.to_owned());
    }
    if let Some(text) = section.text("location")? {
        recovered.location =
            Some(Location::parse(text).map_err(|sentence| section.fault("location", sentence))?);
    }
    Ok(recovered)
}

fn credential(section: &Section<'_>, upstream: &Named<'_>) -> Result<Option<Credential>, Error> {
    let Some(credential) = section.section("credential", &CREDENTIAL_KEYS)? else {
        return Ok(None);
    };
    let found = match (credential.text("environment")?, credential.text("file")?) {
        (Some(name), None) if !name.is_empty() => Credential::environment(name),
        (None, Some(path)) if !path.is_empty() => Credential::file(path),
        (Some(_) | None, Some(_) | None) => {
            return Err(section.fault(
                "credential",
                "expected one of environment and file; the credential itself does not stand in a settings file",
            ));
        }
    };
    let header = credential.text("header")?.unwrap_or("authorization");
    let name = HeaderName::from_bytes(header.as_bytes());
    if name.is_ok_and(|name| headers::is_ours(&name) || name == *upstream.org_header) {
        let sentence = format!("found {header:?}, which says something else; name another header");
        return Err(credential.fault("header", sentence));
    }
    let prefix = credential.text("prefix")?.unwrap_or("Bearer ");
    let found = found.in_header(header, prefix);
    found.map(Some).map_err(|_| {
        credential.fault("header", format!("found {header:?}; expected the name of a header"))
    })
}

fn anywhere() -> Vec<IpNet> {
    let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    all.into_iter().map(|address| IpNet::new_assert(address, 0)).collect()
}
