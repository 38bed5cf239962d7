//! The name of one business action: the key that a caller sends, and the org it belongs to.
//!
//! A key arrives in the header field `Idempotency-Key`, as a structured string (`"abc"`, RFC 9651) or
//! as a bare run of visible ASCII (`abc`). Both are **the same key**. Everything else is refused with
//! a reason: a key that is half understood would protect nothing, and the caller would not know.
//!
//! A key is compared byte by byte. It is never cut, folded, trimmed inside its quotes or normalised.
//!
//! Keys and orgs are other people's data: `Debug` and the texts of the faults never show them.

use std::fmt;
use std::sync::Arc;

/// The longest key, in characters after unquoting. It is the longest that the published APIs with
/// this header take, and it keeps the primary key of every store small.
pub const KEY_CHARACTERS_MAX: usize = 255;

/// The longest org, in bytes of UTF-8. An org is an id, and it is the first column of every index.
pub const ORG_BYTES_MAX: usize = 255;

/// One business action, as its caller named it: 1 to [`KEY_CHARACTERS_MAX`] characters of printable
/// ASCII, unquoted, not only blanks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Takes a key that is already unquoted, for example from a store or a command line.
    ///
    /// # Errors
    /// [`KeyFault::Empty`], [`KeyFault::NotAscii`], [`KeyFault::Control`] or [`KeyFault::TooLong`].
    pub fn new(text: &str) -> Result<Self, KeyFault> {
        printable(text.as_bytes())?;
        if text.bytes().all(|byte| byte == b' ') {
            return Err(KeyFault::Empty);
        }
        if text.len() > KEY_CHARACTERS_MAX {
            return Err(KeyFault::TooLong { characters: text.len() });
        }
        Ok(Self(text.into()))
    }

    /// Reads the key from the values of all `Idempotency-Key` lines of one request, in any order.
    /// No line at all is `None`: whether a key is required is the route's business.
    ///
    /// # Errors
    /// Says what is wrong with the header field. Nothing may run under such a key.
    ///
    /// ```
    /// use samekey_core::key::{Key, KeyFault};
    ///
    /// let quoted = Key::from_header_lines([&b"\"order-7\""[..]])?;
    /// let bare = Key::from_header_lines([&b"order-7"[..]])?;
    /// assert_eq!(quoted, bare);
    ///
    /// let twice = Key::from_header_lines([&b"order-7"[..], &b"order-7"[..]]);
    /// assert_eq!(twice, Err(KeyFault::Repeated));
    /// # Ok::<(), KeyFault>(())
    /// ```
    pub fn from_header_lines<'a>(
        lines: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<Self>, KeyFault> {
        let mut lines = lines.into_iter();
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(KeyFault::Repeated);
        }
        Self::from_field(line).map(Some)
    }

    fn from_field(line: &[u8]) -> Result<Self, KeyFault> {
        let field = trim(line);
        let text = printable(field)?;
        if text.is_empty() {
            return Err(KeyFault::Empty);
        }
        if text.starts_with('"') { Self::from_quoted(text) } else { Self::from_bare(text) }
    }

    /// The library decides what a structured string is; our own walk only finds words for a refusal.
    fn from_quoted(text: &str) -> Result<Self, KeyFault> {
        let Ok(item) = sfv::Parser::new(text).parse::<sfv::Item>() else {
            return Err(why_not_a_string(text));
        };
        if !item.params.is_empty() {
            return Err(KeyFault::Parameters);
        }
        match item.bare_item.as_string() {
            Some(string) => Self::new(string.as_str()),
            None => Err(KeyFault::AfterQuote),
        }
    }

    fn from_bare(text: &str) -> Result<Self, KeyFault> {
        let fault = text.bytes().find_map(|byte| match byte {
            b',' => Some(KeyFault::List),
            b';' => Some(KeyFault::Parameters),
            b'"' => Some(KeyFault::StrayQuote),
            b' ' => Some(KeyFault::Blank),
            _ => None,
        });
        match fault {
            Some(fault) => Err(fault),
            None => Self::new(text),
        }
    }

    /// The key as unquoted text. It names other people's business: keep it out of logs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key as a structured string with its quotes, ready to be sent as a header value. Quotes
    /// are always right; a bare run is not, since a key may hold blanks, commas and quotes.
    #[must_use]
    pub fn to_field(&self) -> String {
        let escapes = self.0.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        let mut field = String::with_capacity(self.0.len() + escapes + 2);
        field.push('"');
        for character in self.0.chars() {
            if matches!(character, '"' | '\\') {
                field.push('\\');
            }
            field.push(character);
        }
        field.push('"');
        field
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Why a key was refused. The text says what was found and what is expected, never the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Nothing, an empty string, or only blanks.
    #[error("the Idempotency-Key is empty; send 1 to {KEY_CHARACTERS_MAX} characters")]
    Empty,
    /// Two header lines or more, even when they are equal.
    #[error("the request has more than one Idempotency-Key line; send exactly one")]
    Repeated,
    /// A comma outside quotes.
    #[error(
        "the Idempotency-Key is a list; send exactly one key, and quote it if it holds a comma"
    )]
    List,
    /// A quoted string without its closing quote.
    #[error("the Idempotency-Key starts with a quote that is never closed; add the closing quote")]
    Unterminated,
    /// A backslash in a quoted string before something else than a quote or a backslash.
    #[error(
        "the Idempotency-Key has a backslash before another character; inside quotes, a backslash \
         may only stand before a quote or a backslash"
    )]
    BadEscape,
    /// A semicolon outside quotes.
    #[error(
        "the Idempotency-Key has parameters; send the key alone, and quote it if it holds a \
         semicolon"
    )]
    Parameters,
    /// More text after the closing quote.
    #[error("the Idempotency-Key has text after its closing quote; end it with that quote")]
    AfterQuote,
    /// A quote inside a key that does not start with one.
    #[error(
        "the Idempotency-Key has a quote inside a bare key; quote the whole key and put a backslash \
         before the inner quote"
    )]
    StrayQuote,
    /// A blank inside a key without quotes.
    #[error("the Idempotency-Key has a blank inside a bare key; quote the whole key")]
    Blank,
    /// A byte over 0x7F.
    #[error("the Idempotency-Key has a character outside ASCII; send printable ASCII only")]
    NotAscii,
    /// A control character, a tab or a line break included.
    #[error("the Idempotency-Key has a control character; send printable ASCII only")]
    Control,
    /// More than [`KEY_CHARACTERS_MAX`] characters after unquoting. Such a key is never cut.
    #[error("the Idempotency-Key has {characters} characters; send {KEY_CHARACTERS_MAX} at most")]
    TooLong {
        /// How many characters there were, after unquoting.
        characters: usize,
    },
}

/// The tenant that a key belongs to. It comes from the verified identity of the caller, never from a
/// header that the caller can set. 1 to [`ORG_BYTES_MAX`] bytes of text without control characters,
/// and without blanks at its ends, which nobody sees and header values lose; compared byte by byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Org(Arc<str>);

impl Org {
    /// Takes the id of a tenant.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn new(text: &str) -> Result<Self, OrgFault> {
        let org = Self::stored(text)?;
        if text.trim() != text {
            return Err(OrgFault::Blank);
        }
        Ok(org)
    }

    /// Takes the id of a tenant that has records already. Blanks at its ends were allowed once, and one record with
    /// such an org must not keep recovery, the sweep or a person from all the others.
    ///
    /// # Errors
    /// As [`Org::new`], but never [`OrgFault::Blank`].
    pub fn stored(text: &str) -> Result<Self, OrgFault> {
        if text.chars().any(char::is_control) {
            return Err(OrgFault::Control);
        }
        if text.trim().is_empty() {
            return Err(OrgFault::Empty);
        }
        if text.len() > ORG_BYTES_MAX {
            return Err(OrgFault::TooLong { bytes: text.len() });
        }
        Ok(Self(text.into()))
    }

    /// The org as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Org {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Org(..)")
    }
}

/// Why an org was refused. The text never shows the org.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrgFault {
    /// Nothing, or only blanks.
    #[error("the org is empty; give 1 to {ORG_BYTES_MAX} bytes of text")]
    Empty,
    /// A blank at one of its ends.
    #[error("the org begins or ends with a blank; give it without blanks at its ends")]
    Blank,
    /// A control character, a tab or a line break included.
    #[error("the org has a control character; give text without control characters")]
    Control,
    /// More than [`ORG_BYTES_MAX`] bytes of UTF-8.
    #[error("the org has {bytes} bytes; give {ORG_BYTES_MAX} at most")]
    TooLong {
        /// How many bytes there were.
        bytes: usize,
    },
}

/// What identifies a record: two orgs use the same key independently.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The tenant, from the verified identity of the caller.
    pub org: Org,
    /// The key, as the caller sent it.
    pub key: Key,
}

/// Blanks and tabs around a field value are not part of it (RFC 9110, section 5.5).
fn trim(mut field: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = field {
        field = rest;
    }
    field
}

fn printable(bytes: &[u8]) -> Result<&str, KeyFault> {
    for byte in bytes {
        match byte {
            0x20..=0x7E => {}
            0x80..=0xFF => return Err(KeyFault::NotAscii),
            0x00..=0x1F | 0x7F => return Err(KeyFault::Control),
        }
    }
    std::str::from_utf8(bytes).map_err(|_| KeyFault::NotAscii)
}

/// Finds the reason for a field that starts with a quote and is not one structured string.
fn why_not_a_string(text: &str) -> KeyFault {
    let mut bytes = text.bytes().skip(1);
    loop {
        match bytes.next() {
            None => return KeyFault::Unterminated,
            Some(b'"') => break,
            Some(b'\\') => match bytes.next() {
                None => return KeyFault::Unterminated,
                Some(b'"' | b'\\') => {}
                Some(_) => return KeyFault::BadEscape,
            },
            Some(_) => {}
        }
    }
    match bytes.find(|byte| *byte != b' ') {
        Some(b',') => KeyFault::List,
        Some(b';') => KeyFault::Parameters,
        Some(_) | None => KeyFault::AfterQuote,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: &[u8]) -> Result<String, KeyFault> {
        Key::from_header_lines([field]).map(|key| key.unwrap().as_str().to_owned())
    }

    #[test]
    fn no_line_is_no_key() {
        assert_eq!(Key::from_header_lines([]), Ok(None));
    }

    #[test]
    fn t17_quoted_and_bare_are_the_same_key() {
        assert_eq!(read(b"\"abc-0123456789abcdef\""), read(b"abc-0123456789abcdef"));
        assert_eq!(read(br#""a\\b""#), read(br"a\b"));
    }

    #[test]
    fn t18_an_empty_key_is_refused() {
        for field in ["", "\"\"", "   ", "\t", "\" \"", "\"    \""] {
            assert_eq!(read(field.as_bytes()), Err(KeyFault::Empty), "{field:?}");
        }
    }

    #[test]
    fn t19_two_lines_are_refused_even_when_equal() {
        for lines in [[&b"abc"[..], &b"abc"[..]], [b"abc", b"xyz"], [b"", b"abc"]] {
            assert_eq!(Key::from_header_lines(lines), Err(KeyFault::Repeated));
        }
    }

    #[test]
    fn t20_a_list_is_refused() {
        for field in ["a, b", "\"a\", \"b\"", "a,b", ",", "\"a\" ,", "a,"] {
            assert_eq!(read(field.as_bytes()), Err(KeyFault::List), "{field:?}");
        }
    }

    #[test]
    fn t22_parameters_are_refused() {
        for field in ["\"abc\";v=1", "abc;v=1", "\"abc\";v", "\"abc\" ;", "abc;"] {
            assert_eq!(read(field.as_bytes()), Err(KeyFault::Parameters), "{field:?}");
        }
    }

    #[test]
    fn t23_b92_255_characters_are_taken_and_256_are_refused_not_cut() {
        let most = "k".repeat(KEY_CHARACTERS_MAX);
        assert_eq!(read(most.as_bytes()).as_deref(), Ok(&*most));
        assert_eq!(read(format!("\"{most}\"").as_bytes()).as_deref(), Ok(&*most));
        let more = format!("{most}k");
        let fault = Err(KeyFault::TooLong { characters: 256 });
        assert_eq!(read(more.as_bytes()), fault);
        assert_eq!(read(format!("\"{more}\"").as_bytes()), fault);
        let escaped = r#"\""#.repeat(KEY_CHARACTERS_MAX);
        assert_eq!(
            read(format!("\"{escaped}\"").as_bytes()).as_deref(),
            Ok(&*"\"".repeat(KEY_CHARACTERS_MAX)),
            "the limit counts the characters after unquoting"
        );
    }

    #[test]
    fn t24_characters_outside_ascii_are_refused() {
        for field in ["schlüssel", "\"schlüssel\"", "🔑"] {
            assert_eq!(read(field.as_bytes()), Err(KeyFault::NotAscii), "{field:?}");
        }
        assert_eq!(read(b"a\xFFb"), Err(KeyFault::NotAscii));
    }

    #[test]
    fn t25_control_characters_are_refused() {
        for field in ["a\tb", "\"a\tb\"", "a\0b", "a\r\nX-Injected: 1", "a\x7Fb", "a\n"] {
            assert_eq!(read(field.as_bytes()), Err(KeyFault::Control), "{field:?}");
        }
    }

    #[test]
    fn t26_broken_quoting_is_refused() {
        for (field, fault) in [
            (r#""unterminated"#, KeyFault::Unterminated),
            (r#"""#, KeyFault::Unterminated),
            (r#""abc\"#, KeyFault::Unterminated),
            (r#""abc\""#, KeyFault::Unterminated),
            (r#""bad\escape""#, KeyFault::BadEscape),
            (r#""abc"def"#, KeyFault::AfterQuote),
            (r#""abc" "def""#, KeyFault::AfterQuote),
            (r#"ab"c"#, KeyFault::StrayQuote),
            (r#"abc""#, KeyFault::StrayQuote),
            ("a b", KeyFault::Blank),
        ] {
            assert_eq!(read(field.as_bytes()), Err(fault), "{field:?}");
        }
    }

    #[test]
    fn t27_b92_case_and_blanks_inside_quotes_make_other_keys() {
        assert_ne!(read(b"ABC"), read(b"abc"));
        assert_ne!(read(b"\"k1 \""), read(b"\"k1\""));
        assert_eq!(read(b"\" k1 \"").as_deref(), Ok(" k1 "));
    }

    #[test]
    fn t28_a_quoted_string_is_opaque() {
        for text in ["'; DROP TABLE x;--", "%00", "../../etc", "<script>"] {
            assert_eq!(read(format!("\"{text}\"").as_bytes()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn b23_an_escaped_quote_is_a_quote_and_blanks_around_do_not_count() {
        assert_eq!(read(br#""a\"b""#).as_deref(), Ok(r#"a"b"#));
        assert_eq!(read(b" \t abc\t ").as_deref(), Ok("abc"));
        assert_eq!(read(b" \"abc\" ").as_deref(), Ok("abc"));
    }

    #[test]
    fn a_key_is_written_with_quotes() {
        assert_eq!(Key::new(r#"a"b\c d"#).unwrap().to_field(), r#""a\"b\\c d""#);
    }

    #[test]
    fn nothing_printed_shows_a_key_or_an_org() {
        let scope = Scope { org: Org::new("acme").unwrap(), key: Key::new("secret").unwrap() };
        let printed = format!("{scope:?} {:?} {:?}", scope.org, scope.key);
        assert!(!printed.contains("secret") && !printed.contains("acme"), "{printed}");
    }

    #[test]
    fn every_fault_is_one_sentence_with_advice() {
        for fault in [
            KeyFault::Empty,
            KeyFault::Repeated,
            KeyFault::List,
            KeyFault::Unterminated,
            KeyFault::BadEscape,
            KeyFault::Parameters,
            KeyFault::AfterQuote,
            KeyFault::StrayQuote,
            KeyFault::Blank,
            KeyFault::NotAscii,
            KeyFault::Control,
            KeyFault::TooLong { characters: 300 },
        ] {
            let text = fault.to_string();
            assert!(text.contains("; ") && !text.contains("  ") && !text.contains('\n'), "{text}");
        }
        assert!(KeyFault::TooLong { characters: 300 }.to_string().contains("300"));
        assert!(KeyFault::Empty.to_string().contains("255"));
    }

    #[test]
    fn an_org_is_text_of_1_to_255_bytes_without_control_characters() {
        assert_eq!(Org::new("Bäckerei 7").unwrap().as_str(), "Bäckerei 7");
        assert_eq!(Org::new(""), Err(OrgFault::Empty));
        assert_eq!(Org::new("  "), Err(OrgFault::Empty));
        for text in ["a\0", "a\nb", "a\u{85}b"] {
            assert_eq!(Org::new(text), Err(OrgFault::Control), "{text:?}");
        }
        for text in [" alpha", "alpha ", "alpha\u{a0}", "\u{3000}alpha"] {
            assert_eq!(Org::new(text), Err(OrgFault::Blank), "{text:?}");
            assert_eq!(Org::stored(text).unwrap().as_str(), text);
        }
        assert!(OrgFault::Blank.to_string().contains("begins or ends with a blank; "));
        assert!(Org::new(&"o".repeat(ORG_BYTES_MAX)).is_ok());
        assert_eq!(Org::new(&"ö".repeat(128)), Err(OrgFault::TooLong { bytes: 256 }));
    }
}
