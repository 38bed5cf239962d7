//! Members of JSON documents, by JSON pointer (RFC 6901).

use crate::error::Error;
use serde_json::Value;

/// A checked JSON pointer, such as `/data/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(Box<str>);

impl Pointer {
    pub(crate) fn parse(name: &str, text: &str) -> Result<Pointer, Error> {
        let bad_escape = text.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']));
        if !text.starts_with('/') || bad_escape {
            return Err(Error::config(format!(
                "{name}: {text:?} is no JSON pointer; expected one such as /data/status"
            )));
        }
        Ok(Pointer(text.into()))
    }

    pub(crate) fn optional(name: &str, text: Option<&str>) -> Result<Option<Pointer>, Error> {
        text.map(|text| Pointer::parse(name, text)).transpose()
    }

    /// The member, unless it is missing or null.
    pub(crate) fn of<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        document.pointer(&self.0).filter(|value| !value.is_null())
    }

    /// The member, if it is text.
    pub(crate) fn text<'a>(&self, document: &'a Value) -> Option<&'a str> {
        self.of(document)?.as_str()
    }
}
