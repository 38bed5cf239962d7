//! The caller's answer, made from what an upstream tells about a command whose own answer is lost.

use super::PLAIN;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use percent_encoding::utf8_percent_encode;
use samekey::Found;
use samekey_core::receipt::Receipt;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// How answers are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// The status of a command that was executed, a 2xx.
    pub(crate) status: StatusCode,
    /// The status of one that was refused, a final 4xx.
    pub(crate) refused_status: StatusCode,
    /// Where the body stands in the document: a JSON pointer, empty for all of it. Without one the caller is
    /// told that its answer was not kept.
    pub(crate) body: Option<String>,
    /// Its `Location`.
    pub(crate) location: Option<Location>,
}

impl Default for Recovered {
    /// The fact alone.
    fn default() -> Recovered {
        Recovered {
            status: StatusCode::OK,
            refused_status: StatusCode::UNPROCESSABLE_ENTITY,
            body: None,
            location: None,
        }
    }
}

/// Where a resource is: a text with JSON pointers in it, such as `/payments/{/payment_id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Pointer(String),
}

impl Location {
    /// Reads a location, or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Location, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            pieces.push(Piece::Text(before.to_owned()));
            match after.split_once('}') {
                Some((pointer, after)) if pointer.starts_with('/') => {
                    pieces.push(Piece::Pointer(pointer.to_owned()));
                    rest = after;
                }
                Some(_) | None => {
                    return Err(format!(
                        "{text:?} has a blank that is no JSON pointer; expected one such as \"/payments/{{/payment_id}}\""
                    ));
                }
            }
        }
        pieces.push(Piece::Text(rest.to_owned()));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        if HeaderValue::from_str(text).is_err() || pieces.is_empty() {
            return Err(format!("{text:?} is no URL; expected one such as \"{{/url}}\""));
        }
        Ok(Location { pieces })
    }

    /// The location of what a document tells of; nothing where it does not tell enough.
    fn of(&self, document: &Value) -> Option<String> {
        let word = |pointer: &str| match document.pointer(pointer)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let location = match self.pieces.as_slice() {
            // Alone it is a URL already.
            [Piece::Pointer(pointer)] => word(pointer)?,
            pieces => {
                let mut filled = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => filled.push_str(text),
                        Piece::Pointer(pointer) => {
                            filled.extend(utf8_percent_encode(&word(pointer)?, PLAIN));
                        }
                    }
                }
                filled
            }
        };
        HeaderValue::from_str(&location).is_ok().then_some(location)
    }
}

impl Recovered {
    /// What a caller gets for a command that was executed, of which this is told.
    pub(crate) fn executed(&self, told: &Receipt) -> Found {
        self.answer(self.status, told, self.location.as_ref())
    }

    /// What a caller gets for a command that was refused.
    pub(crate) fn refused(&self, told: &Receipt) -> Found {
        self.answer(self.refused_status, told, None)
    }

    fn answer(&self, status: StatusCode, told: &Receipt, location: Option<&Location>) -> Found {
        let bytes = match told {
            Receipt::Kept(answer) => answer.body.clone(),
            Receipt::Fact { .. } => Bytes::new(),
        };
        let document: Option<Value> = serde_json::from_slice(&bytes).ok();
        let location = location.zip(document).and_then(|(location, told)| location.of(&told));
        let body = self.body.as_ref().and_then(|pointer| at(&bytes, pointer));
        let Some(body) = body else { return Found::Fact { status, location } };
        let mut answer = http::Response::new(body);
        *answer.status_mut() = status;
        let mut put = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                answer.headers_mut().insert(name, value);
            }
        };
        put(header::CONTENT_TYPE, "application/json");
        if let Some(location) = &location {
            put(header::LOCATION, location);
        }
        Found::Answer(answer)
    }
}

/// The bytes at this pointer, as they came: a number that was read and written again might be another one.
fn at(document: &Bytes, pointer: &str) -> Option<Bytes> {
    if pointer.is_empty() {
        return Some(document.clone());
    }
    let mut here: &RawValue = serde_json::from_slice(document).ok()?;
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        here = if here.get().starts_with('[') {
            let entries: Vec<&RawValue> = serde_json::from_str(here.get()).ok()?;
            *entries.get(name.parse::<usize>().ok()?)?
        } else {
            let members: HashMap<String, &RawValue> = serde_json::from_str(here.get()).ok()?;
            *members.get(&name)?
        };
    }
    (here.get() != "null").then(|| Bytes::copy_from_slice(here.get().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use samekey_core::receipt::Keep;

    fn told(body: &str) -> Receipt {
        Keep::default().receipt(200, std::iter::empty(), Bytes::copy_from_slice(body.as_bytes()))
    }

    fn shown(found: Found) -> (u16, Option<String>, Option<String>) {
        match found {
            Found::Fact { status, location } => (status.as_u16(), location, None),
            Found::Answer(answer) => {
                let location = answer.headers().get("location");
                let location = location.map(|value| value.to_str().unwrap().to_owned());
                let body = String::from_utf8(answer.body().to_vec()).unwrap();
                (answer.status().as_u16(), location, Some(body))
            }
        }
    }

    fn recovered(body: Option<&str>, location: &str) -> Recovered {
        Recovered {
            status: StatusCode::CREATED,
            refused_status: StatusCode::PAYMENT_REQUIRED,
            body: body.map(str::to_owned),
            location: Some(Location::parse(location).unwrap()),
        }
    }

    #[test]
    fn an_answer_is_made_from_what_is_told_byte_by_byte() {
        let told = told(r#"{"a/b": [0, {"id": "p/1", "amount": 100.00, "big": 1e2}], "n": null}"#);
        let of = |body, location| shown(recovered(body, location).executed(&told));
        let (status, location, body) = of(Some("/a~1b/1"), "/payments/{/a~1b/1/id}?x=1");
        assert_eq!((status, location.as_deref()), (201, Some("/payments/p%2F1?x=1")));
        assert_eq!(body.unwrap(), r#"{"id": "p/1", "amount": 100.00, "big": 1e2}"#);
        assert!(of(Some(""), "{/a~1b/1/id}").2.unwrap().starts_with("{\"a/b\""));
        // What is not told leaves the fact.
        for missing in [None, Some("/x"), Some("/a~1b/7"), Some("/n"), Some("/a~1b/1/id/x")] {
            assert_eq!(of(missing, "{/n}"), (201, None, None), "{missing:?}");
        }
    }

    #[test]
    fn a_refusal_has_its_own_status_and_no_place() {
        let (status, location, body) =
            shown(recovered(Some(""), "/p/{/id}").refused(&told(r#"{"id":1}"#)));
        assert_eq!((status, location, body.as_deref()), (402, None, Some(r#"{"id":1}"#)));
        let too_large = Receipt::Fact { status: 200, location: None };
        assert_eq!(shown(Recovered::default().refused(&too_large)), (422, None, None));
        assert_eq!(shown(Recovered::default().executed(&told("{}"))), (200, None, None));
    }

    #[test]
    fn a_location_that_means_nothing_is_refused() {
        for bad in ["", "/a/{id}", "/a/{/id", "/a\n"] {
            assert!(Location::parse(bad).unwrap_err().contains("expected"), "{bad:?}");
        }
        let line = told("{\"id\": \"a\\r\\nb: c\"}");
        assert_eq!(shown(recovered(None, "{/id}").executed(&line)), (201, None, None));
    }
}
