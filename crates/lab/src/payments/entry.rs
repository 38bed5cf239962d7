//! What the lab writes down: effects (the ledger) and requests with their answers (the request log).
//!
//! An entry is one line of the ledger file. Entries are only ever appended; a reset is an entry too.

use super::amount::Amount;
use super::digest::BodyHash;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One line of what is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// A request came in, whole.
    Arrived(Box<Arrived>),
    /// Something was recorded: money moved, or was refused for a reason of the payer.
    Effect(Box<Effect>),
    /// The answer of a request was handed to the connection, or kept from it.
    Answered(Answered),
    /// Everything before this line no longer counts.
    Reset {
        /// Milliseconds since 1970.
        at_ms: i64,
    },
}

/// A request as it came in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arrived {
    /// Identity of the request within the ledger; grows, never reused.
    pub request: u64,
    /// Position among the requests of its kind since the last reset, from 1. The fault plan counts with it.
    pub number: u64,
    /// What was asked for.
    pub op: Op,
    /// The HTTP method.
    pub method: Cow<'static, str>,
    /// Path and query as sent.
    pub path: Cow<'static, str>,
    /// The value of `Idempotency-Key`, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The order that the request named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_id: Option<String>,
    /// Length of the body in bytes.
    pub body_bytes: u64,
    /// SHA-256 of the body; two attempts with equal bytes have equal values.
    pub body_sha256: BodyHash,
    /// Header lines as sent, one `name: value` a line. Credentials are replaced by a hash.
    pub headers: String,
    /// The connection, counted since the start of the process.
    pub connection: u64,
    /// Position of the request on its connection, from 1.
    pub on_connection: u64,
    /// False where the caller went away before the body was whole; such a request is never processed.
    pub whole: bool,
    /// The rule of the fault plan that was applied, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// The kinds of request. Each kind is counted on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// `POST /payments`, also under its other names `/charges` and `/charge`.
    Pay,
    /// `POST /payments/{id}/capture`.
    Capture,
    /// `POST /payments/{id}/refund`.
    Refund,
    /// `POST /payments/{id}/void`.
    Void,
    /// A status query: `GET /payments/by-key/…`, `/payments/by-reference/…` or `/payments/{id}`.
    Query,
    /// Anything else that is not management.
    Other,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// What happened to the money.
    pub effect: EffectKind,
    /// Identity of this effect, for example `PAY-3`.
    pub id: String,
    /// The payment that a capture, refund or void belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// The order.
    pub order_id: String,
    /// The amount, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
    /// The currency, as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The key under which it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The request that caused it.
    pub request: u64,
    /// Path of that request: the same key for another path is never a replay.
    pub path: Cow<'static, str>,
    /// SHA-256 of that request's body.
    pub body_sha256: BodyHash,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// Position of the effect recorded before it for the same order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_of_order: Option<u64>,
    /// Position of the effect recorded before it on the same payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_of_payment: Option<u64>,
}

/// What an effect did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Money was taken.
    Payment,
    /// Money was reserved.
    Authorisation,
    /// Reserved money was taken.
    Capture,
    /// Money was given back.
    Refund,
    /// A reservation was given up.
    Void,
    /// The payer's side refused; no money moved. Kept because the same key gets the same refusal.
    Declined,
}

impl EffectKind {
    /// The word in JSON and CSV.
    pub fn word(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Authorisation => "authorisation",
            Self::Capture => "capture",
            Self::Refund => "refund",
            Self::Void => "void",
            Self::Declined => "declined",
        }
    }

    /// True for what `GET /payments` lists: each is one more time that a payer was charged or reserved.
    pub fn is_payment(self) -> bool {
        match self {
            Self::Payment | Self::Authorisation => true,
            Self::Capture | Self::Refund | Self::Void | Self::Declined => false,
        }
    }
}

impl Effect {
    /// The payment that this effect belongs to: itself, or its parent.
    pub fn payment_id(&self) -> &str {
        self.parent_id.as_deref().unwrap_or(&self.id)
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The request.
    pub request: u64,
    /// The status that was sent, or would have been.
    pub status: u16,
    /// True where the stored answer was given again.
    pub replayed: bool,
    /// What became of the answer.
    pub answer: Fate,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Handed to the connection, whole.
    Sent,
    /// Kept back or cut by the fault plan.
    Lost,
    /// The caller hung up before the answer was due.
    CallerGone,
}

impl Fate {
    /// The word in JSON and CSV.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Lost => "lost",
            Self::CallerGone => "caller_gone",
        }
    }
}

impl Op {
    /// The word in JSON and CSV.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Capture => "capture",
            Self::Refund => "refund",
            Self::Void => "void",
            Self::Query => "query",
            Self::Other => "other",
        }
    }
}

/// A moment as RFC 3339 text in UTC with milliseconds.
pub fn moment(at_ms: i64) -> String {
    match Timestamp::from_millisecond(at_ms) {
        Ok(moment) => format!("{moment:.3}"),
        // Only a broken clock gets here; a made-up date would be worse than an empty one.
        Err(_) => String::new(),
    }
}
