//! What an answer to an attempt says, read into the words of `samekey_core::answer`.

use super::compare::{Compare, Ours, Sameness};
use super::pointer::Pointer;
use crate::transport::{Incoming, IncomingBody};
use bytes::Bytes;
use http::{HeaderMap, header};
use samekey_core::answer::{Accepted, Answered, BodyCame, Word, proves};
use samekey_core::fingerprint::json::Canonical;
use samekey_core::outcome::{Outcome, Speaks};
use samekey_core::receipt::{Keep, Receipt};
use serde_json::Value;

/// How the answers of one counterparty are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) accepted: Accepted,
    pub(crate) compare: Compare,
    /// A member that all of its error documents have, if they can be known by one.
    pub(crate) own_errors: Option<Pointer>,
    pub(crate) in_progress: Option<Mark>,
    pub(crate) keep: Keep,
    pub(crate) status: Option<StatusWords>,
    pub(crate) stored_refusals: Vec<u16>,
}

/// A document that is known by its HTTP status and one of its members.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) statuses: Vec<u16>,
    pub(crate) pointer: Pointer,
    pub(crate) value: String,
}

/// The words of a business status.
#[derive(Clone, Debug)]
pub(crate) struct StatusWords {
    pub(crate) pointer: Pointer,
    pub(crate) succeeded: Vec<String>,
    pub(crate) refused: Vec<String>,
    pub(crate) pending: Vec<String>,
}

/// A business status that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Succeeded,
    Refused,
    Pending,
}

impl Mark {
    pub(crate) fn fits(&self, status: u16, document: Option<&Value>) -> bool {
        let told = document.and_then(|document| self.pointer.text(document));
        self.statuses.contains(&status) && told == Some(self.value.as_str())
    }
}

impl StatusWords {
    /// The standing that a document tells; nothing where it is no word of this counterparty's.
    pub(crate) fn of(&self, document: &Value) -> Option<Standing> {
        let told = self.pointer.text(document)?;
        let has = |words: &[String]| words.iter().any(|word| word == told);
        if has(&self.succeeded) {
            Some(Standing::Succeeded)
        } else if has(&self.refused) {
            Some(Standing::Refused)
        } else if has(&self.pending) {
            Some(Standing::Pending)
        } else {
            None
        }
    }
}

impl Reading {
    /// What an answer proves about a command with this content and key.
    pub(crate) fn outcome(&self, incoming: Incoming, ours: &Ours, key: &str) -> Outcome {
        let document = document(&incoming);
        let word = self.word(&incoming, document.as_ref(), ours, key);
        let replayed = incoming.headers.get("idempotent-replayed");
        let is_stored = replayed.is_some_and(|value| value == "true")
            || self.stored_refusals.contains(&incoming.status);
        let speaks = if is_stored { Speaks::ForTheKey } else { Speaks::ForItself };
        let body = match incoming.body {
            IncomingBody::Whole(_) | IncomingBody::TooLarge => BodyCame::Whole,
            IncomingBody::Lost => BodyCame::Lost,
        };
        let status = incoming.status;
        let receipt = self.receipt(incoming);
        proves(Answered { status, receipt, body, word, speaks }, self.accepted)
    }

    /// What is kept of an answer.
    pub(crate) fn receipt(&self, incoming: Incoming) -> Receipt {
        let Incoming { status, headers, body } = incoming;
        let lines = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        match body {
            IncomingBody::Whole(bytes) => self.keep.receipt(status, lines, bytes),
            IncomingBody::TooLarge | IncomingBody::Lost => self.keep.fact(status, lines),
        }
    }

    fn word(&self, incoming: &Incoming, document: Option<&Value>, ours: &Ours, key: &str) -> Word {
        let status = incoming.status;
        if let Some(word) = document.and_then(|document| samekey_word(incoming, document)) {
            return word;
        }
        if self.in_progress.as_ref().is_some_and(|mark| mark.fits(status, document)) {
            return Word::InFlight;
        }
        match status {
            200..=299 => self.word_of_success(incoming, document, ours, key),
            400..=499 if self.is_foreign(document) => Word::Foreign,
            _ => Word::Nothing,
        }
    }

    /// Whoever is on the way writes errors too, and none of them has the member by which the counterparty's
    /// own are known.
    fn is_foreign(&self, document: Option<&Value>) -> bool {
        let Some(own) = &self.own_errors else { return false };
        document.is_none_or(|document| own.of(document).is_none())
    }

    fn word_of_success(
        &self,
        incoming: &Incoming,
        document: Option<&Value>,
        ours: &Ours,
        key: &str,
    ) -> Word {
        let declares = self.status.is_some() || self.compare != Compare::default();
        match incoming.body {
            IncomingBody::Lost => return Word::Nothing,
            IncomingBody::Whole(_) | IncomingBody::TooLarge => {}
        }
        if !declares {
            return Word::Nothing;
        }
        let Some(document) = document else { return Word::Unclear };
        let standing = match &self.status {
            None => Standing::Succeeded,
            Some(words) => match words.of(document) {
                Some(standing) => standing,
                None => return Word::Unclear,
            },
        };
        // Without a word for it, only the status tells whether it is final.
        let succeeded = if self.status.is_some() { Word::Succeeded } else { Word::Nothing };
        match (standing, self.compare.sameness(ours, Some(key), document)) {
            (Standing::Pending, Sameness::Same | Sameness::Missing) => Word::Pending,
            (Standing::Succeeded | Standing::Refused | Standing::Pending, Sameness::Different) => {
                Word::Different
            }
            (Standing::Succeeded | Standing::Refused, Sameness::Missing) => Word::Unclear,
            (Standing::Succeeded, Sameness::Same) => succeeded,
            (Standing::Refused, Sameness::Same) => Word::Refused,
        }
    }
}

/// The JSON document of an answer that came whole; nothing where a member stands twice in it, since readers
/// disagree on which one counts.
pub(crate) fn document(incoming: &Incoming) -> Option<Value> {
    match &incoming.body {
        IncomingBody::Whole(bytes) => {
            Canonical::read(bytes)?;
            serde_json::from_slice(bytes).ok()
        }
        IncomingBody::TooLarge | IncomingBody::Lost => None,
    }
}

/// What one of samekey's own problem documents says, of a server or of a gateway on the way. Its media type and
/// its status must be those of such a document: an answer that only quotes one says nothing by it.
fn samekey_word(incoming: &Incoming, document: &Value) -> Option<Word> {
    if !is_problem(&incoming.headers) {
        return None;
    }
    let code = document.get("code")?.as_str()?.strip_prefix("samekey.")?;
    Some(match (incoming.status, code) {
        (409, "in-progress" | "outcome-pending") => Word::InFlight,
        (409, "outcome-unknown") => Word::UnknownThere,
        (409, "closed-by-operator") => Word::ClosedThere,
        (409, "response-not-kept") => Word::NotKept {
            status: document
                .get("stored_status")
                .and_then(Value::as_u64)
                .map_or(0, |status| u16::try_from(status).unwrap_or(0)),
            location: document
                .get("stored_location")
                .and_then(Value::as_str)
                .map(|location| Bytes::copy_from_slice(location.as_bytes())),
        },
        (400 | 422, "key-reused") => Word::KeyReused,
        (502, "upstream-unreached") | (503, "store-unavailable") => Word::NotProcessed,
        _ => return None,
    })
}

fn is_problem(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = media_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/problem+json")
}
