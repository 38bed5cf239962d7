//! `/.well-known/idempotency`: what the routes promise, for whoever writes a client.

use crate::config::RouteSettings;
use bytes::Bytes;
use http::{HeaderValue, Method};
use samekey::{Response, whole};
use samekey_core::fingerprint::BodyForm;
use samekey_core::policy::{KeyRule, MismatchStatus, OnMismatch, OnServerError, ReplayStatus};
use serde::Serialize;

/// Where the document is.
pub(crate) const PATH: &str = "/.well-known/idempotency";
/// The longest key that is accepted, in characters, as the contract says.
const KEY_CHARACTERS_MAX: usize = 255;

#[derive(Serialize)]
struct Document<'a> {
    header: &'static str,
    replay_header: &'static str,
    key_characters_max: usize,
    routes: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    /// Absent for the route of all other paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    methods: Vec<&'a str>,
    key: &'static str,
    on_mismatch: &'static str,
    mismatch_status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_status: Option<u16>,
    retention_seconds: u64,
    fingerprint: &'static str,
    semantic_headers: &'a [String],
    on_5xx: &'static str,
    body_bytes_max: usize,
    kept_bytes_max: usize,
}

/// The document's bytes, made once.
pub(crate) fn bytes(routes: &[RouteSettings]) -> Bytes {
    let document = Document {
        header: "Idempotency-Key",
        replay_header: "Idempotent-Replayed",
        key_characters_max: KEY_CHARACTERS_MAX,
        routes: routes.iter().map(entry).collect(),
    };
    // A document of strings and numbers always serialises.
    Bytes::from(serde_json::to_vec_pretty(&document).unwrap_or_default())
}

fn entry(settings: &RouteSettings) -> Entry<'_> {
    let policy = settings.route.policy();
    Entry {
        name: settings.route.name(),
        path: settings.pattern.as_ref().map(ToString::to_string),
        methods: settings.methods.iter().map(Method::as_str).collect(),
        key: match policy.key {
            KeyRule::Required => "required",
            KeyRule::Optional => "optional",
            KeyRule::Off => "off",
        },
        on_mismatch: match policy.on_mismatch {
            OnMismatch::Reject => "reject",
            OnMismatch::Replay => "replay",
        },
        mismatch_status: match policy.mismatch_status {
            MismatchStatus::UnprocessableContent => 422,
            MismatchStatus::BadRequest => 400,
        },
        replay_status: match policy.replay_status {
            ReplayStatus::Stored => None,
            ReplayStatus::Fixed(status) => Some(status),
        },
        retention_seconds: policy.retention.as_secs(),
        fingerprint: match policy.fingerprint {
            BodyForm::Json => "json",
            BodyForm::Raw => "raw",
        },
        semantic_headers: &policy.semantic_headers,
        on_5xx: match policy.on_server_error {
            OnServerError::Unknown => "unknown",
            OnServerError::Store => "store",
            OnServerError::Free => "free",
        },
        body_bytes_max: policy.body_bytes_max,
        kept_bytes_max: settings.route.keep().body_bytes_max(),
    }
}

/// The answer that carries it.
pub(crate) fn response(bytes: &Bytes) -> Response {
    let mut response = Response::new(whole(bytes.clone()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
