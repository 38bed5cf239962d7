//! What of `Content-Type` and `Content-Encoding` counts. Part of version 1, and frozen with it.

/// A media type without what does not count.
pub(super) struct MediaType {
    /// The lower-cased essence, then every parameter that counts as it was written, each after a `;`.
    pub(super) text: Vec<u8>,
    /// Whether a body of this type may be read as JSON in UTF-8.
    pub(super) is_json: bool,
}

/// Reads a `Content-Type`. It refuses nothing: what it does not understand stays as it was written,
/// so it only ever equals itself.
pub(super) fn media_type(value: &[u8]) -> MediaType {
    let mut parts = Parts { rest: Some(value) };
    let mut text = parts.next().unwrap_or_default().to_ascii_lowercase();
    let parameters: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();

    // Two charsets in one field contradict each other: then all of it counts.
    let mut charsets = parameters.iter().filter(|parameter| charset(parameter).is_some());
    let (only, more) = (charsets.next(), charsets.next());
    let is_utf8 = only.and_then(|only| charset(only)).is_some_and(is_utf8) && more.is_none();

    let is_json = is_json_essence(&text) && (only.is_none() || is_utf8);
    for parameter in parameters {
        if !(is_utf8 && charset(parameter).is_some()) {
            text.push(b';');
            text.extend_from_slice(parameter);
        }
    }
    MediaType { text, is_json }
}

/// Reads a `Content-Encoding`: lower-cased, and `None` where the body is as it is.
pub(super) fn content_encoding(value: Option<&[u8]>) -> Option<Vec<u8>> {
    let coding = value?.trim_ascii().to_ascii_lowercase();
    (!coding.is_empty() && coding != b"identity").then_some(coding)
}

fn is_json_essence(essence: &[u8]) -> bool {
    let mut halves = essence.splitn(2, |byte| *byte == b'/');
    let (Some(kind), Some(subtype)) = (halves.next(), halves.next()) else { return false };
    let is_json = (kind == b"application" && subtype == b"json") || subtype.ends_with(b"+json");
    is_json && is_token(kind) && is_token(subtype)
}

fn is_token(bytes: &[u8]) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || is_mark(*byte))
}

/// The value of a parameter that is called `charset`, even with blanks around its `=`: no grammar
/// allows them, but a lenient upstream may.
fn charset(parameter: &[u8]) -> Option<&[u8]> {
    let at = parameter.iter().position(|byte| *byte == b'=')?;
    let (name, value) = parameter.split_at_checked(at)?;
    name.trim_ascii().eq_ignore_ascii_case(b"charset").then_some(value.get(1..)?.trim_ascii())
}

fn is_utf8(charset: &[u8]) -> bool {
    let charset = match charset {
        [b'"', inner @ .., b'"'] => inner,
        bare => bare,
    };
    charset.eq_ignore_ascii_case(b"utf-8")
}

/// The parts between semicolons, trimmed; a semicolon inside quotes does not part.
struct Parts<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let (mut quoted, mut escaped) = (false, false);
        let end = rest.iter().position(|byte| {
            let ends = *byte == b';' && !quoted;
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ => {}
            }
            ends
        });
        let part = match end.and_then(|end| rest.split_at_checked(end)) {
            Some((part, after)) => {
                self.rest = after.get(1..);
                part
            }
            None => rest,
        };
        Some(part.trim_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> String {
        String::from_utf8(media_type(value.as_bytes()).text).unwrap()
    }

    #[test]
    fn b68_case_and_charset_utf8_do_not_count() {
        for value in [
            "application/json",
            "Application/JSON",
            "application/json;charset=utf-8",
            "application/json; charset=UTF-8",
            "application/json ; Charset=\"Utf-8\" ;",
            " application/json;; ",
        ] {
            assert_eq!(text(value), "application/json", "{value:?}");
        }
    }

    #[test]
    fn b68_other_parameters_count_as_written() {
        assert_eq!(text("Text/Plain; charset=latin1"), "text/plain;charset=latin1");
        assert_eq!(text("a/b; v=1;charset=utf-8; W=\"x;Y\""), "a/b;v=1;W=\"x;Y\"");
        for quoted in [r#"a/b;v="; charset=utf-8; w=""#, r#"a/b;v="\"; charset=utf-8; w=""#] {
            assert_eq!(text(quoted), quoted, "what stands inside quotes is no parameter");
        }
        assert_eq!(text("a/b; charset=utf-8; charset=latin1"), "a/b;charset=utf-8;charset=latin1");
        assert_eq!(text("a/b; charset=utf8"), "a/b;charset=utf8");
    }

    #[test]
    fn only_json_in_utf8_is_read_as_json() {
        for (value, is_json) in [
            ("application/json", true),
            ("application/problem+JSON; charset=utf-8", true),
            ("application/merge-patch+json;v=1", true),
            ("application/json; charset=iso-8859-1", false),
            ("application/json; charset = iso-8859-1", false),
            ("application/json; charset=utf-8; charset=latin1", false),
            ("text/json", false),
            ("application/jsonl", false),
            ("application/x-www-form-urlencoded", false),
            ("text/plain, application/x+json", false),
            ("a/b/c+json", false),
            ("+json", false),
            ("/+json", false),
            ("", false),
        ] {
            assert_eq!(media_type(value.as_bytes()).is_json, is_json, "{value:?}");
        }
    }

    #[test]
    fn identity_is_no_encoding() {
        assert_eq!(content_encoding(None), None);
        assert_eq!(content_encoding(Some(b" Identity ")), None);
        assert_eq!(content_encoding(Some(b"")), None);
        assert_eq!(content_encoding(Some(b"GZIP")), Some(b"gzip".to_vec()));
    }
}
