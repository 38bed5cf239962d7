//! One request as it passed, and what became of it.

use super::Cut;
use super::message::Message;
use crate::history::{Call, CallKind, Moment};
use sha2::Digest;
use std::time::Duration;

/// A request and its answer, as the proxy saw them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The value of the noted header, as it was sent.
    pub key: Option<String>,
    /// Length of the body in bytes, without its framing.
    pub body_bytes: u64,
    /// SHA-256 of the body, without its framing.
    pub body_sha: [u8; 32],
    /// The first 4096 bytes of the body.
    pub body: Vec<u8>,
    /// The place of the request on its connection, from 1.
    pub on_connection: u64,
    /// When the service was about to get its first byte; nothing where it never was.
    pub sent: Option<Moment>,
    /// When the service's answer was complete, and its last bytes were about to be handed on: after a
    /// delay, and not while everything is frozen.
    pub answered: Option<Moment>,
    /// The answer's status.
    pub status: Option<u16>,
    /// How long the answer asked to wait, where it did so in seconds.
    pub retry_after: Option<Duration>,
    /// The fault that met it.
    pub cut: Option<Cut>,
}

impl Exchange {
    /// The order that its body pays, as the lab's API reads it.
    pub fn order(&self) -> Option<String> {
        let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        body.get("order_id")?.as_str().map(str::to_owned)
    }

    /// One of which the first line alone is known.
    pub(super) fn begun(method: &str, path: &str, on_connection: u64) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            key: None,
            body_bytes: 0,
            body_sha: sha2::Sha256::digest([]).into(),
            body: Vec::new(),
            on_connection,
            sent: None,
            answered: None,
            status: None,
            retry_after: None,
            cut: None,
        }
    }

    pub(super) fn of(message: &Message, noted: &str, on_connection: u64) -> Self {
        let head = message.head().cloned().unwrap_or_default();
        let body = message.body();
        Self {
            key: head.header(noted),
            body_bytes: body.bytes,
            body_sha: body.sha.clone().finalize().into(),
            body: body.kept.clone(),
            ..Self::begun(&head.method, &head.path, on_connection)
        }
    }

    /// This as a call to the counterparty for the history: nothing where the service never got it.
    /// `reference` is the effect that it asks for or about, and `life` tells apart the claims of one
    /// key, counted from 0, where a freed key was claimed anew.
    pub fn call(&self, org: &str, reference: &str, life: u64, kind: CallKind) -> Option<Call> {
        Some(Call {
            org: org.to_owned(),
            reference: reference.to_owned(),
            kind,
            life,
            outbound_key: self.key.clone(),
            body_sha: self.body_sha,
            began: self.sent?,
            ended: self.answered,
            retry_after: self.retry_after,
            by_person: false,
        })
    }
}
