//! Which headers, and how large a body, a receipt keeps.

use bytes::Bytes;

use super::{Answer, Receipt};

/// The largest body that is kept, in bytes, where a route says nothing else: 64 KiB holds nearly every
/// answer to a command, and a million of them still fit on one disk.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// How many bytes the names and values of all kept headers may have together. Servers and proxies refuse
/// larger heads, so an answer with more could not be replayed through them.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// The longest `Location` that a fact keeps, in bytes. Longer URLs do not survive most proxies.
pub const LOCATION_BYTES_MAX: usize = 8 * 1024;

/// How many headers a route may add: more is a sign of wishing for all of them.
pub const EXTRA_HEADERS_MAX: usize = 32;

/// The headers that every route keeps: those that describe the body and the resource.
pub const KEPT_HEADERS: [&str; 8] = [
    "content-type",
    "content-language",
    "content-encoding",
    "location",
    "content-location",
    "etag",
    "last-modified",
    "link",
];

/// What of an answer is kept on a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    body_bytes_max: usize,
    extra: Vec<Box<str>>,
}

impl Default for Keep {
    /// Bodies up to [`BODY_BYTES_MAX`], and [`KEPT_HEADERS`].
    fn default() -> Self {
        Self { body_bytes_max: BODY_BYTES_MAX, extra: Vec::new() }
    }
}

impl Keep {
    /// Keeps bodies up to `body_bytes_max`, and the headers of `extra` besides [`KEPT_HEADERS`]. The
    /// case of names does not count, and a name may be given twice.
    ///
    /// # Errors
    /// A name in `extra` is no header name, must never be replayed, or is one too many.
    pub fn new<S: AsRef<str>>(
        body_bytes_max: usize,
        extra: impl IntoIterator<Item = S>,
    ) -> Result<Self, KeepFault> {
        let mut keep = Self { body_bytes_max, extra: Vec::new() };
        for name in extra {
            let name = name.as_ref().to_ascii_lowercase();
            if !is_name(&name) {
                return Err(KeepFault::NoName);
            }
            if let Some(why) = Never::of(&name) {
                return Err(KeepFault::Never { name: name.into(), why });
            }
            if keep.keeps(&name) {
                continue;
            }
            if keep.extra.len() == EXTRA_HEADERS_MAX {
                return Err(KeepFault::TooMany);
            }
            keep.extra.push(name.into());
        }
        Ok(keep)
    }

    /// The largest body that is kept, in bytes. Over it, an answer leaves a fact.
    #[must_use]
    pub fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// What is kept of an answer whose whole body is at hand: all of it, or a fact where body or
    /// headers are over their limit.
    pub fn receipt<'a>(
        &self,
        status: u16,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
        body: Bytes,
    ) -> Receipt {
        let headers = self.kept(headers);
        let header_bytes: usize =
            headers.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum();
        if body.len() > self.body_bytes_max || header_bytes > HEADER_BYTES_MAX {
            return Receipt::Fact { status, location: location(headers) };
        }
        let headers =
            headers.into_iter().map(|(name, value)| (name, Bytes::copy_from_slice(value)));
        Receipt::Kept(Answer { status, headers: headers.collect(), body })
    }

    /// What is kept of an answer whose body is not at hand, because it is streamed past the limit.
    pub fn fact<'a>(
        &self,
        status: u16,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Receipt {
        Receipt::Fact { status, location: location(self.kept(headers)) }
    }

    /// The headers that may be replayed, in the order in which they came. `Connection` may come after
    /// a header that it names, so that rule is applied last.
    fn kept<'a>(
        &self,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Vec<(Box<str>, &'a [u8])> {
        let mut kept: Vec<(Box<str>, &[u8])> = Vec::new();
        let mut named: Vec<&[u8]> = Vec::new();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            if name == "connection" {
                named.extend(value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
            } else if self.keeps(&name) && is_value(value) {
                kept.push((name.into(), value));
            }
        }
        kept.retain(|(name, _)| !named.iter().any(|one| one.eq_ignore_ascii_case(name.as_bytes())));
        kept
    }

    fn keeps(&self, name: &str) -> bool {
        KEPT_HEADERS.contains(&name) || self.extra.iter().any(|extra| **extra == *name)
    }
}

fn location(kept: Vec<(Box<str>, &[u8])>) -> Option<Bytes> {
    let (_, value) = kept.into_iter().find(|(name, _)| **name == *"location")?;
    (value.len() <= LOCATION_BYTES_MAX).then(|| Bytes::copy_from_slice(value))
}

/// Why a route may not keep a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepFault {
    /// Not a header name.
    #[error(
        "a header to keep has a name that HTTP does not allow; give letters, digits and hyphens"
    )]
    NoName,
    /// A header that must never be replayed.
    #[error("the header {name} must never be replayed, because {why}; take it off the list")]
    Never {
        /// Its name, in lower case.
        name: Box<str>,
        /// The reason.
        why: Never,
    },
    /// More names than a route may add.
    #[error("the route keeps more than {EXTRA_HEADERS_MAX} headers of its own; name fewer")]
    TooMany,
}

/// Why a header must never be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Never {
    /// Cookies, challenges and credentials.
    #[error("it gives or asks for credentials")]
    Credentials,
    /// Headers of one connection, framing included.
    #[error("it belongs to one connection, not to the answer")]
    Connection,
    /// Headers that are true at one moment only.
    #[error("it is true only at the moment of the first answer")]
    Moment,
    /// Headers that name one request in logs and traces.
    #[error("it names one request in logs and traces")]
    Trace,
    /// Caching: a replay always says `no-store`.
    #[error("every replay says Cache-Control: no-store")]
    Caching,
    /// Headers that samekey itself writes.
    #[error("samekey writes it itself")]
    Ours,
}

impl Never {
    /// `None` if a route may keep the header. The name is in lower case.
    fn of(name: &str) -> Option<Self> {
        match name {
            "set-cookie"
            | "set-cookie2"
            | "cookie"
            | "authorization"
            | "www-authenticate"
            | "authentication-info"
            | "authentication-control"
            | "optional-www-authenticate"
            | "proxy-authorization"
            | "proxy-authenticate"
            | "proxy-authentication-info" => Some(Self::Credentials),

            "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "upgrade"
            | "transfer-encoding" | "content-length" | "http2-settings" | "alt-svc" => {
                Some(Self::Connection)
            }

            "date" | "age" | "retry-after" | "ratelimit" => Some(Self::Moment),
            _ if starts_with_any(name, &["ratelimit-", "x-ratelimit-", "x-rate-limit-"]) => {
                Some(Self::Moment)
            }

            "traceparent"
            | "tracestate"
            | "traceresponse"
            | "baggage"
            | "b3"
            | "request-id"
            | "x-request-id"
            | "correlation-id"
            | "x-correlation-id"
            | "x-trace-id"
            | "x-amzn-trace-id"
            | "x-amzn-requestid"
            | "x-cloud-trace-context"
            | "uber-trace-id"
            | "sentry-trace"
            | "server-timing" => Some(Self::Trace),
            _ if starts_with_any(name, &["x-b3-", "x-datadog-"]) => Some(Self::Trace),

            "cache-control" | "cdn-cache-control" | "expires" | "pragma" => Some(Self::Caching),

            "idempotency-key" | "idempotent-replayed" | "stripe-should-retry" => Some(Self::Ours),

            _ => None,
        }
    }
}

fn starts_with_any(name: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| name.starts_with(beginning))
}

/// A token of RFC 9110, in lower case.
fn is_name(name: &str) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || is_mark(byte);
    !name.is_empty() && name.bytes().all(is_part)
}

/// Whether a value can stand in a head at all. One that cannot is not kept: it would split the answer.
fn is_value(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7E | 0x80..=0xFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Lines<'a> = &'a [(&'a str, &'a str)];

    fn answer(keep: &Keep, lines: Lines<'_>, body: &str) -> Receipt {
        let lines = lines.iter().map(|(name, value)| (*name, value.as_bytes()));
        keep.receipt(201, lines, Bytes::copy_from_slice(body.as_bytes()))
    }

    fn kept(keep: &Keep, lines: Lines<'_>) -> Vec<(String, String)> {
        let Receipt::Kept(answer) = answer(keep, lines, "{}") else { panic!("not kept") };
        assert_eq!((answer.status, &*answer.body), (201, &b"{}"[..]));
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        answer.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    fn owned(lines: Lines<'_>) -> Vec<(String, String)> {
        lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn b85_the_chosen_headers_are_kept_in_order_repeated_ones_too() {
        assert_eq!(
            kept(
                &Keep::default(),
                &[
                    ("Link", "</1>; rel=a"),
                    ("Location", "/orders/1"),
                    ("X-Other", "1"),
                    ("ETag", "\"e\""),
                    ("link", "</2>; rel=b"),
                ]
            ),
            owned(&[
                ("link", "</1>; rel=a"),
                ("location", "/orders/1"),
                ("etag", "\"e\""),
                ("link", "</2>; rel=b"),
            ])
        );
    }

    #[test]
    fn b50_t89_what_must_never_be_replayed_is_not_kept() {
        let lines = [
            ("Set-Cookie", "s=1"),
            ("WWW-Authenticate", "Basic"),
            ("Date", "Mon, 30 Nov 2026 00:00:00 GMT"),
            ("RateLimit-Remaining", "1"),
            ("traceparent", "00-1-1-01"),
            ("Content-Length", "2"),
            ("Cache-Control", "max-age=60"),
            ("X-Receipt", "r"),
        ];
        assert_eq!(kept(&Keep::default(), &lines), owned(&[]));
        let keep = Keep::new(BODY_BYTES_MAX, ["X-Receipt"]).unwrap();
        assert_eq!(kept(&keep, &lines), owned(&[("x-receipt", "r")]));
    }

    #[test]
    fn b67_t89_what_connection_names_is_not_kept() {
        let keep = Keep::new(BODY_BYTES_MAX, ["x-secret", "x-foo", "x-open"]).unwrap();
        let lines = [
            ("X-Secret", "s"),
            ("X-Open", "o"),
            ("Connection", "close, x-SECRET"),
            ("X-Foo", "f"),
            ("connection", "X-Foo"),
        ];
        assert_eq!(kept(&keep, &lines), owned(&[("x-open", "o")]));
    }

    #[test]
    fn b50_a_body_over_the_limit_leaves_a_fact_with_its_location() {
        let keep = Keep::new(4, [""; 0]).unwrap();
        let lines = [("location", "/orders/1")];
        assert!(matches!(answer(&keep, &lines, "1234"), Receipt::Kept(_)));
        let fact = Receipt::Fact { status: 201, location: Some(Bytes::from_static(b"/orders/1")) };
        assert_eq!(answer(&keep, &lines, "12345"), fact);
        assert_eq!(keep.fact(201, [("Location", &b"/orders/1"[..])].into_iter()), fact);
        assert_eq!(Keep::default().body_bytes_max(), 64 * 1024);
    }

    #[test]
    fn headers_over_the_limit_leave_a_fact() {
        let fits = "a".repeat(HEADER_BYTES_MAX - "link".len());
        assert!(matches!(answer(&Keep::default(), &[("link", &fits)], ""), Receipt::Kept(_)));
        let over = fits + "a";
        let fact = Receipt::Fact { status: 201, location: None };
        assert_eq!(answer(&Keep::default(), &[("link", &over)], ""), fact);
        assert_eq!(answer(&Keep::default(), &[("location", &over)], ""), fact);
    }

    #[test]
    fn a_value_that_would_split_the_answer_is_not_kept() {
        for value in ["a\r\nset-cookie: s=1", "a\nb", "a\0", "a\x7F"] {
            assert_eq!(kept(&Keep::default(), &[("etag", value)]), owned(&[]), "{value:?}");
        }
        assert_eq!(kept(&Keep::default(), &[("etag", "\tä ")]), owned(&[("etag", "\tä ")]));
    }

    #[test]
    fn a_route_may_not_add_what_must_never_be_replayed() {
        for (name, why) in [
            ("Set-Cookie", Never::Credentials),
            ("Proxy-Authenticate", Never::Credentials),
            ("Transfer-Encoding", Never::Connection),
            ("content-length", Never::Connection),
            ("Date", Never::Moment),
            ("Age", Never::Moment),
            ("RateLimit", Never::Moment),
            ("X-RateLimit-Reset", Never::Moment),
            ("Retry-After", Never::Moment),
            ("TraceParent", Never::Trace),
            ("X-B3-TraceId", Never::Trace),
            ("Cache-Control", Never::Caching),
            ("Idempotency-Key", Never::Ours),
            ("Idempotent-Replayed", Never::Ours),
        ] {
            let fault = Keep::new(1, ["x-fine", name]).unwrap_err();
            let lower: Box<str> = name.to_ascii_lowercase().into();
            assert!(fault.to_string().contains(&*lower), "{fault}");
            assert_eq!(fault, KeepFault::Never { name: lower, why });
        }
    }

    #[test]
    fn a_route_may_add_few_and_valid_names() {
        for name in ["", "x y", "x:y", "x\r\n", "schlüssel"] {
            assert_eq!(Keep::new(1, [name]), Err(KeepFault::NoName), "{name:?}");
        }
        let names = |count: usize| (0..count).map(|n| format!("x-{n}"));
        assert!(Keep::new(1, names(EXTRA_HEADERS_MAX)).is_ok());
        assert_eq!(Keep::new(1, names(EXTRA_HEADERS_MAX + 1)), Err(KeepFault::TooMany));
        let twice = Keep::new(2, ["X-A", "x-a", "Link"]).unwrap();
        assert_eq!(twice, Keep::new(2, ["x-a"]).unwrap());
        assert_eq!(kept(&twice, &[("x-a", "1")]), owned(&[("x-a", "1")]));
    }

    #[test]
    fn nothing_printed_shows_an_answer() {
        let lines = [("location", "/secret")];
        let whole = answer(&Keep::default(), &lines, "secret");
        let fact = answer(&Keep::new(0, [""; 0]).unwrap(), &lines, "secret");
        let printed = format!("{whole:?} {fact:?}");
        assert!(printed.contains("201") && !printed.contains("secret"), "{printed}");
    }
}
