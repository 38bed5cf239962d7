//! What is known of a run beside what its clients saw.

use super::Moment;
use std::time::Duration;

/// What a call to the counterparty is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// It may have the effect.
    Command,
    /// It asks what became of one.
    Question,
}

/// One call to the counterparty that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// For whom.
    pub org: String,
    /// The effect that it asks for or about, in the terms of [`Effect::reference`](super::Effect).
    pub reference: String,
    /// What it is for.
    pub kind: CallKind,
    /// Tells apart the claims of one key, from 0: a key that was freed begins anew.
    pub life: u64,
    /// The key that the counterparty got.
    pub outbound_key: Option<String>,
    /// SHA-256 of the bytes that it got.
    pub body_sha: [u8; 32],
    /// When it was begun.
    pub began: Moment,
    /// When its answer was complete, where there was one.
    pub ended: Option<Moment>,
    /// How long the answer asked to wait.
    pub retry_after: Option<Duration>,
    /// Whether a person ordered it.
    pub by_person: bool,
}
