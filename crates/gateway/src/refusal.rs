//! Answers of the gateway itself that stand outside the contract's table: what never came to be a
//! command, and requests without a key whose upstream failed.
//!
//! Everything about a key is answered by `samekey`'s own table.

use http::{HeaderName, HeaderValue, StatusCode, header};
use samekey::{Response, whole};
use serde_json::json;

/// Why the gateway does not pass a request on, or has no answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No token, or none that is known.
    Unauthenticated,
    /// A token that proves nothing.
    TokenInvalid,
    /// A trusted proxy named no organisation, or somebody else than a trusted proxy called.
    Unidentified,
    /// A path that an upstream might read as one of another route.
    AmbiguousPath,
    /// No path, such as `*` or the target of CONNECT, or an HTTP/1.1 request without its one Host.
    BadTarget,
    /// The upstream does not accept the gateway's own credential.
    CredentialRefused,
    /// A body in a transfer coding besides `chunked`, which would be taken for the body itself.
    UnknownCoding,
    /// The upstream took too long; for a method that may be sent again.
    UpstreamSlow,
    /// The upstream broke off; for a method that may be sent again.
    UpstreamBroke,
}

struct Text {
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    detail: &'static str,
    again: bool,
}

impl Refusal {
    fn text(self) -> Text {
        let (status, name, title, detail, again) = match self {
            Refusal::Unauthenticated => (
                StatusCode::UNAUTHORIZED,
                "unauthenticated",
                "The bearer token is missing or unknown",
                "Nothing was looked up and nothing ran: send Authorization: Bearer with a token of this gateway.",
                false,
            ),
            Refusal::TokenInvalid => (
                StatusCode::UNAUTHORIZED,
                "unauthenticated",
                "The bearer token is not valid",
                "Nothing was looked up and nothing ran: get a new token from its issuer; it may be over, or for somebody else.",
                false,
            ),
            Refusal::Unidentified => (
                StatusCode::UNAUTHORIZED,
                "unidentified",
                "The organisation of this request is not known",
                "Nothing was looked up and nothing ran: requests come here through the proxy that says whose they are.",
                false,
            ),
            Refusal::AmbiguousPath => (
                StatusCode::BAD_REQUEST,
                "path-ambiguous",
                "The path can be read as another one",
                "Nothing ran: write the path without needless escapes, dot segments and doubled or trailing slashes.",
                false,
            ),
            Refusal::BadTarget => (
                StatusCode::BAD_REQUEST,
                "target-invalid",
                "The target of this request is not a path on one host",
                "Nothing ran: send a path that begins with '/' and exactly one Host.",
                false,
            ),
            Refusal::CredentialRefused => (
                StatusCode::BAD_GATEWAY,
                "credential-refused",
                "The upstream does not accept this gateway",
                "Nothing ran, and your own credentials are not meant: contact the operator of this service, then send the same request with the same key again.",
                true,
            ),
            Refusal::UnknownCoding => (
                StatusCode::NOT_IMPLEMENTED,
                "coding-unknown",
                "The transfer coding of this request is not known here",
                "Nothing ran: send the body with Content-Length, or with Transfer-Encoding: chunked and nothing else.",
                false,
            ),
            Refusal::UpstreamSlow => (
                StatusCode::GATEWAY_TIMEOUT,
                "upstream-slow",
                "The upstream did not answer in time",
                "The method of this request may be sent again: a second time does what the first does.",
                true,
            ),
            Refusal::UpstreamBroke => (
                StatusCode::BAD_GATEWAY,
                "upstream-broke",
                "The upstream broke off without an answer",
                "The method of this request may be sent again: a second time does what the first does.",
                true,
            ),
        };
        Text { status, name, title, detail, again }
    }

    /// The name, for metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        self.text().name
    }

    /// The answer. The body of the request may be unread, so its connection ends.
    pub(crate) fn into_response(self) -> Response {
        let Text { status, name, title, detail, again } = self.text();
        let code = format!("samekey.{name}");
        let document = json!({
            "type": format!("urn:samekey:{name}"),
            "title": title,
            "status": status.as_u16(),
            "detail": detail,
            "code": code,
            "retryable": again,
            "error": { "type": "invalid_request_error", "code": code, "message": detail },
        });
        let mut response = Response::new(whole(document.to_string()));
        *response.status_mut() = status;
        let mut put = |name: HeaderName, value: &'static str| {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        };
        put(header::CONTENT_TYPE, "application/problem+json");
        put(header::CACHE_CONTROL, "no-store");
        put(samekey::header::STRIPE_SHOULD_RETRY, if again { "true" } else { "false" });
        match self {
            Refusal::Unauthenticated => put(header::WWW_AUTHENTICATE, "Bearer"),
            // RFC 6750, section 3.1.
            Refusal::TokenInvalid => {
                put(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"");
            }
            Refusal::Unidentified
            | Refusal::AmbiguousPath
            | Refusal::BadTarget
            | Refusal::CredentialRefused
            | Refusal::UnknownCoding
            | Refusal::UpstreamSlow
            | Refusal::UpstreamBroke => {}
        }
        put(header::CONNECTION, "close");
        response
    }
}
