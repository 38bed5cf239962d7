//! Paths with blanks: `/payments/by-key/{key}`, `/payments?order_id={reference}`.

use super::check_target;
use crate::error::Error;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stays as it is in a filled blank: the unreserved characters of RFC 3986.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What is put into a blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Blank {
    /// The idempotency key: `{key}`.
    Key,
    /// The business reference: `{reference}`.
    Reference,
}

impl Blank {
    fn mark(self) -> &'static str {
        match self {
            Blank::Key => "{key}",
            Blank::Reference => "{reference}",
        }
    }
}

/// A path with one kind of blank in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: Box<str>,
    blank: Blank,
}

impl Template {
    /// Reads a template that has to have this blank.
    ///
    /// # Errors
    /// The blank is missing, there is another one, or what stands around it is no path.
    pub fn parse(text: &str, blank: Blank) -> Result<Template, Error> {
        let mark = blank.mark();
        let refuse =
            |why: String| Err(Error::config(format!("the address to ask at, {text:?}: {why}")));
        if !text.contains(mark) {
            return refuse(format!(
                "it has no {mark}; without it every question would be the same"
            ));
        }
        let filled = text.replace(mark, "x");
        if filled.contains(['{', '}']) {
            return refuse(format!("{mark} is the only blank that it may have"));
        }
        match check_target(&filled) {
            Ok(()) => Ok(Template { text: text.into(), blank }),
            Err(why) => refuse(why.to_string()),
        }
    }

    /// The path with `value` in its blank, encoded so that it can change nothing around it; nothing where it
    /// cannot be encoded so: what is empty names nothing, and `.` and `..` are steps in a path.
    pub fn fill(&self, value: &str) -> Option<String> {
        if value.is_empty() {
            return None;
        }
        let encoded = utf8_percent_encode(value, PLAIN).to_string();
        let filled = self.text.replace(self.blank.mark(), &encoded);
        check_target(&filled).is_ok().then_some(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::{Blank, Template};

    #[test]
    fn t104_a_filled_blank_changes_neither_host_nor_path() {
        let path = Template::parse("/payments/{reference}", Blank::Reference).unwrap();
        let query = Template::parse("/payments?order_id={reference}", Blank::Reference).unwrap();
        for (value, encoded) in [
            ("ORD-1", "ORD-1"),
            ("../../admin", "..%2F..%2Fadmin"),
            ("@evil.test", "%40evil.test"),
            ("a?b#c&d=e;f", "a%3Fb%23c%26d%3De%3Bf"),
            ("a b\r\nX: 1", "a%20b%0D%0AX%3A%201"),
            ("%2e%2e", "%252e%252e"),
            ("\\..\\", "%5C..%5C"),
            ("ü", "%C3%BC"),
            ("{key}", "%7Bkey%7D"),
        ] {
            assert_eq!(path.fill(value), Some(format!("/payments/{encoded}")), "{value:?}");
            assert_eq!(query.fill(value), Some(format!("/payments?order_id={encoded}")));
        }
        for value in ["", ".", ".."] {
            assert_eq!(path.fill(value), None, "{value:?}");
        }
        assert_eq!(query.fill(""), None);
        assert_eq!(query.fill("..").unwrap(), "/payments?order_id=..", "no step in a query");
        // A blank that is a part of a segment cannot become a step either.
        let part = Template::parse("/payments/.{reference}", Blank::Reference).unwrap();
        assert_eq!(part.fill("."), None);
    }

    #[test]
    fn a_template_is_read_or_refused_with_a_sentence() {
        for (text, part) in [
            ("/payments/by-key", "has no {key}"),
            ("/payments/{key}/{order}", "only blank"),
            ("payments/{key}", "must begin with one `/`"),
            ("//evil.test/{key}", "must begin with one `/`"),
            ("/../{key}", "leads elsewhere"),
            ("/a b/{key}", "%-encoding"),
        ] {
            let sentence = Template::parse(text, Blank::Key).unwrap_err().to_string();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }
}
