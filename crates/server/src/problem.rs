//! The status table: which status, which headers and which document a refused request gets.
//!
//! One table decides all of it, here and nowhere else. Its rows have the numbers that
//! `docs/contract.md` gives them. The documents are problem details (RFC 9457) with three more
//! members: `code`, which programs match, `retryable`, and an `error` object without which some
//! Stripe SDKs take a 409 for a success. The crate `problem_details` was considered: its `type` is an
//! `http::Uri`, which cannot hold `urn:samekey:…`.

use crate::body::{Body, Response, whole};
use crate::header;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use samekey_core::key::{Key, KeyFault};
use samekey_core::policy::MismatchStatus;
use samekey_core::step::RetryAfter;
use serde::Serialize;
use std::fmt;

/// A refusal of the answer table. Its `Debug` is its name: a location is somebody's answer.
#[derive(Clone, PartialEq, Eq)]
pub enum Problem {
    /// Row 3: the route wants a key and there is none.
    KeyMissing,
    /// Row 4: the key cannot be read.
    KeyInvalid(KeyFault),
    /// Row 5: the key belongs to another request.
    KeyReused(MismatchStatus),
    /// Row 6: the first request still runs.
    InProgress(RetryAfter),
    /// Row 7: the outcome is unknown, and recovery asks.
    OutcomePending(RetryAfter),
    /// Row 8: the outcome is unknown, and a person has to decide.
    OutcomeUnknown,
    /// Row 9: it is done, and its answer was not kept.
    ResponseNotKept {
        /// The status that the first request got.
        status: u16,
        /// Where the resource is, if the first answer said so.
        location: Option<Bytes>,
    },
    /// Row 10: a person closed it.
    ClosedByOperator,
    /// Row 11: the upstream was never reached.
    UpstreamUnreached,
    /// Row 12: the store cannot be reached.
    StoreUnavailable,
    /// Row 13: the body is over the limit, in bytes.
    BodyTooLarge(usize),
    /// Row 14: early data may not start a command.
    TooEarly,
    /// No row: the handler failed, and everything that it wrote was rolled back.
    HandlerFailed,
}

/// What the table says of one problem.
struct Row {
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    error_type: &'static str,
    retry_after: Option<RetryAfter>,
    retryable: bool,
    detail: String,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: String,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_location: Option<String>,
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    r#type: &'a str,
    code: String,
    message: &'a str,
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Problem({})", self.name())
    }
}

impl Problem {
    /// The name of the problem, the last part of its `type` and its `code`.
    pub fn name(&self) -> &'static str {
        self.row().name
    }

    /// The status that it is answered with.
    pub fn status(&self) -> StatusCode {
        self.row().status
    }

    fn row(&self) -> Row {
        const API: &str = "api_error";
        const INVALID: &str = "invalid_request_error";
        let row = |status, name, title, error_type, detail: &str| Row {
            status,
            name,
            title,
            error_type,
            retry_after: None,
            retryable: false,
            detail: detail.to_owned(),
        };
        let again = |row: Row, retry_after| Row { retry_after, retryable: true, ..row };
        match self {
            Problem::KeyMissing => row(
                StatusCode::BAD_REQUEST,
                "key-missing",
                "Idempotency-Key is missing",
                INVALID,
                "This command needs an Idempotency-Key header: make one key per business action, keep it, and send it with every retry.",
            ),
            Problem::KeyInvalid(fault) => row(
                StatusCode::BAD_REQUEST,
                "key-invalid",
                "Idempotency-Key cannot be read",
                INVALID,
                &fault.to_string(),
            ),
            Problem::KeyReused(status) => row(
                match status {
                    MismatchStatus::UnprocessableContent => StatusCode::UNPROCESSABLE_ENTITY,
                    MismatchStatus::BadRequest => StatusCode::BAD_REQUEST,
                },
                "key-reused",
                "Idempotency-Key was used for another request",
                "idempotency_error",
                "This key belongs to a request with other content: send that request again unchanged, or make a new key if this is a new action.",
            ),
            Problem::InProgress(wait) => again(
                row(
                    StatusCode::CONFLICT,
                    "in-progress",
                    "The first request with this key is still running",
                    API,
                    "Wait as long as Retry-After says, then send the same request with the same key.",
                ),
                Some(*wait),
            ),
            Problem::OutcomePending(wait) => again(
                row(
                    StatusCode::CONFLICT,
                    "outcome-pending",
                    "The outcome of this command is not known yet",
                    API,
                    "It may have been executed and is being looked up: wait as long as Retry-After says, then send the same request with the same key, never with a new one.",
                ),
                Some(*wait),
            ),
            Problem::OutcomeUnknown => row(
                StatusCode::CONFLICT,
                "outcome-unknown",
                "The outcome of this command is unknown",
                API,
                "It may have been executed and a person has to find out: do not send it under a new key, and contact the operator of this service.",
            ),
            Problem::ResponseNotKept { status: 400..=499, .. } => row(
                StatusCode::CONFLICT,
                "response-not-kept",
                "This command was refused and its answer was not kept",
                API,
                "It was refused for good, with stored_status, and will not run under this key: change what was refused, and send that as a new action with a key of its own.",
            ),
            Problem::ResponseNotKept { .. } => row(
                StatusCode::CONFLICT,
                "response-not-kept",
                "This command is done and its answer was not kept",
                API,
                "It was executed once and will not run again: read the resource itself to see the result.",
            ),
            Problem::ClosedByOperator => row(
                StatusCode::CONFLICT,
                "closed-by-operator",
                "This command was closed by a person",
                API,
                "It will never run under this key: contact the operator of this service.",
            ),
            Problem::UpstreamUnreached => again(
                row(
                    StatusCode::BAD_GATEWAY,
                    "upstream-unreached",
                    "The upstream could not be reached",
                    API,
                    "Nothing ran: send the same request again after Retry-After, with the same key if it had one.",
                ),
                Some(RetryAfter::MIN),
            ),
            Problem::StoreUnavailable => again(
                row(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "store-unavailable",
                    "The ledger of keys cannot be reached",
                    API,
                    "Nothing ran now: send the same request with the same key again after Retry-After.",
                ),
                Some(RetryAfter::MIN),
            ),
            Problem::BodyTooLarge(limit) => row(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body-too-large",
                "The request body is too large",
                INVALID,
                &format!(
                    "Nothing ran: this route takes at most {limit} bytes; send a smaller body."
                ),
            ),
            Problem::TooEarly => again(
                row(
                    StatusCode::TOO_EARLY,
                    "too-early",
                    "Early data may not start a command",
                    API,
                    "Nothing ran: send the same request with the same key again after the TLS handshake.",
                ),
                None,
            ),
            Problem::HandlerFailed => again(
                row(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "handler-failed",
                    "The command failed",
                    API,
                    "Everything that it wrote was rolled back: send the same request with the same key again.",
                ),
                None,
            ),
        }
    }

    /// The answer: status, headers and document. The key is echoed where it could be read.
    pub fn into_response(self, key: Option<&Key>) -> Response {
        let row = self.row();
        let code = format!("samekey.{}", row.name);
        let (stored_status, stored_location) = match &self {
            Problem::ResponseNotKept { status, location } => (
                Some(*status),
                location.as_ref().map(|value| String::from_utf8_lossy(value).into_owned()),
            ),
            Problem::KeyMissing
            | Problem::KeyInvalid(_)
            | Problem::KeyReused(_)
            | Problem::InProgress(_)
            | Problem::OutcomePending(_)
            | Problem::OutcomeUnknown
            | Problem::ClosedByOperator
            | Problem::UpstreamUnreached
            | Problem::StoreUnavailable
            | Problem::BodyTooLarge(_)
            | Problem::TooEarly
            | Problem::HandlerFailed => (None, None),
        };
        let document = Document {
            r#type: format!("urn:samekey:{}", row.name),
            title: row.title,
            status: row.status.as_u16(),
            detail: &row.detail,
            code: code.clone(),
            retryable: row.retryable,
            stored_status,
            stored_location,
            error: ErrorObject { r#type: row.error_type, code, message: &row.detail },
        };
        // A document of strings and numbers always serialises.
        let bytes = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = Response::new(whole(Bytes::from(bytes)));
        *response.status_mut() = row.status;
        let headers = response.headers_mut();
        headers.insert(
            http::header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            header::STRIPE_SHOULD_RETRY,
            HeaderValue::from_static(if row.retryable { "true" } else { "false" }),
        );
        if let Some(wait) = row.retry_after {
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from(u16::from(wait.seconds())));
        }
        if matches!(self, Problem::BodyTooLarge(_)) {
            headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        }
        echo_key(&mut response, key);
        response
    }
}

/// Says the key again, in the form of a structured string, so that a caller can match its logs.
pub(crate) fn echo_key(response: &mut http::Response<Body>, key: Option<&Key>) {
    if let Some(key) = key
        && let Ok(value) = HeaderValue::from_str(&key.to_field())
    {
        response.headers_mut().insert(header::IDEMPOTENCY_KEY, value);
    }
}
