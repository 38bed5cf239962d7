//! What a fault plan may say. A plan is data: JSON in, these types out; `read.rs` reads and checks it.
//!
//! A rule answers three questions about a request: is it processed, what is answered, and what happens on the wire.

use crate::payments::Op;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A fault plan. The default one has no faults at all; `Plan::article` is the one of the exercise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Seeds every choice by chance: the same plan and the same requests give the same faults.
    pub seed: u64,
    /// Every so many-th payment is answered late.
    pub late: Option<Late>,
    /// How the API treats idempotency keys.
    pub keys: Keys,
    /// Refuse a payment of the same order and amount within this time, whatever its key, in milliseconds.
    pub duplicate_window_ms: Option<u64>,
    /// What happens to new connections.
    pub connections: Connections,
    /// The first rule that fits a request is applied to it.
    pub rules: Vec<Rule>,
}

impl Plan {
    /// The plan of the article: every second payment is processed at once and answered 6 s late.
    pub fn article() -> Self {
        Self { late: Some(Late { every: 2, ms: 6_000 }), ..Self::default() }
    }
}

impl Connections {
    /// True where nothing but a new plan opens the door again, which then cannot be sent through it.
    pub fn shuts_for_good(&self) -> bool {
        let is_shut = match self.mode {
            Door::Open => false,
            Door::Refuse | Door::BlackHole | Door::Silent => true,
        };
        is_shut && self.for_ms.is_none()
    }
}

/// Late answers by counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// Payments whose number is a multiple of this are late.
    pub every: u64,
    /// By how much, in milliseconds.
    pub ms: u64,
}

/// How idempotency keys are treated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// False: keys are logged and otherwise ignored, every request is processed.
    pub dedup: bool,
    /// A key is forgotten after this time, in milliseconds; never, where it is missing.
    pub life_ms: Option<u64>,
    /// What a known key with another body gets.
    pub on_mismatch: OnMismatch,
}

impl Default for Keys {
    fn default() -> Self {
        Self { dedup: true, life_ms: None, on_mismatch: OnMismatch::Replay }
    }
}

/// What a known key with another body gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMismatch {
    /// The stored answer, as the API of the article does it.
    Replay,
    /// 422.
    Reject,
}

/// What happens to connections, before any request is seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connections {
    /// The treatment.
    pub mode: Door,
    /// After this time the door opens again by itself, in milliseconds.
    pub for_ms: Option<u64>,
}

/// The treatment of new connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// They are served.
    #[default]
    Open,
    /// They are refused at once, and open ones end.
    Refuse,
    /// They hang while connecting, as if packets were thrown away; open ones end.
    BlackHole,
    /// They are accepted and never read; open ones go on.
    Silent,
}

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Shown in the request log; `rule N` where it is missing.
    pub name: Option<String>,
    /// Which requests it fits.
    pub when: When,
    /// How often it is applied at most.
    pub times: Option<u64>,
    /// Whether the request is processed. Missing: once, unless the wire says that it never arrived.
    pub process: Option<Process>,
    /// What is answered.
    pub answer: AnswerPlan,
    /// What happens on the wire.
    pub wire: Wire,
}

/// Which requests a rule fits: all that is given must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Kinds of request.
    pub op: Vec<Op>,
    /// Positions among the requests of their kind since the reset, from 1.
    pub number: Vec<u64>,
    /// Every so many-th of its kind.
    pub every: Option<u64>,
    /// From this number on.
    pub from: Option<u64>,
    /// Up to this number.
    pub to: Option<u64>,
    /// The how-manieth request with this key (or, without a key, for this order), from 1.
    pub attempt: Vec<u64>,
    /// The order.
    pub order_id: Option<String>,
    /// The idempotency key.
    pub key: Option<String>,
    /// True: only requests with a key; false: only those without.
    pub keyed: Option<bool>,
    /// Top-level members of the body and their values.
    pub fields: Map<String, Value>,
    /// The share of the requests that fit otherwise, from 0 to 1, chosen by seed and number.
    pub share: Option<f64>,
}

impl Default for When {
    fn default() -> Self {
        Self {
            op: vec![Op::Pay],
            number: Vec::new(),
            every: None,
            from: None,
            to: None,
            attempt: Vec::new(),
            order_id: None,
            key: None,
            keyed: None,
            fields: Map::new(),
            share: None,
        }
    }
}

/// Whether and when the request is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// At once.
    Once,
    /// Not at all.
    Never,
    /// Twice in a row, as if the network had delivered it twice. The caller gets the second answer.
    Twice,
    /// It is refused for a reason of the payer, until the order is repaired.
    Declined,
    /// It is delivered late: until then nobody can see it.
    Late(Delay),
    /// It is begun at once and takes this long: until then its key is busy and a query says pending.
    Slow(Delay),
}

/// How long something takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delay {
    /// In milliseconds; until it is released (`POST /release`), where it is missing.
    pub ms: Option<u64>,
}

/// What is answered. Without any of this it is the true answer, at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerPlan {
    /// The answer waits this long, in milliseconds.
    pub late_ms: Option<u64>,
    /// The answer waits until it is released.
    pub held: bool,
    /// Answer before a late or slow request is processed; 504 where no status is given.
    pub early: bool,
    /// Another status. An error status without a body gets a small JSON body.
    pub status: Option<u16>,
    /// The text of `Retry-After`, sensible or not.
    pub retry_after: Option<String>,
    /// The text of `Location`.
    pub location: Option<String>,
    /// More header lines; a name may come several times.
    pub headers: Vec<(String, String)>,
    /// Another body.
    pub body: Option<Body>,
    /// Compress the body.
    pub gzip: bool,
    /// Send the body in chunks, without a length.
    pub chunked: bool,
    /// What a status query says instead of the truth.
    pub query: Option<QueryAnswer>,
    /// Members that replace those of the true JSON answer.
    pub set: Map<String, Value>,
}

/// A made-up body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// This text.
    Text(String),
    /// These bytes, in base64.
    Base64(String),
    /// So many bytes made from the seed.
    Seeded(u64),
    /// Bytes without end.
    Endless,
}

/// What a status query says instead of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryAnswer {
    /// Not found.
    Missing,
    /// Not final yet.
    Pending,
}

/// What happens to the answer on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// It arrives.
    #[default]
    Whole,
    /// The connection is closed without a byte.
    Close,
    /// The connection is reset without a byte.
    Reset,
    /// Nothing comes, the connection stays open.
    Hang,
    /// It ends after some bytes, head included.
    Cut(Cut),
    /// The head trickles.
    SlowHead(Trickle),
    /// The body trickles.
    SlowBody(Trickle),
    /// Other bytes come in its place.
    Raw(Raw),
    /// A connection that carried an answer before is reset as the next request arrives on it; first requests pass.
    KillIdle,
    /// HTTP/2 only: the stream is refused (REFUSED_STREAM), not processed.
    RefuseStream,
    /// HTTP/2 only: the stream is cancelled (CANCEL).
    CancelStream,
    /// HTTP/2 only: GOAWAY, then the connection ends.
    Goaway(Goaway),
}

/// Where an answer is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Bytes that still arrive, head included.
    pub after_bytes: u64,
    /// How the connection ends.
    #[serde(default)]
    pub then: End,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// In order (FIN).
    #[default]
    Close,
    /// With a reset (RST).
    Reset,
}

/// How something trickles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trickle {
    /// Bytes at a time.
    pub bytes: u64,
    /// Pause between them, in milliseconds.
    pub every_ms: u64,
}

/// Bytes in place of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// The bytes, as text.
    pub text: String,
    /// How the connection ends.
    #[serde(default)]
    pub then: End,
}

/// Which stream a GOAWAY names as the last one that may have been processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goaway {
    /// The one before this request: it was not processed.
    Below,
    /// A later one: it may have been processed, and it was.
    Above,
}

impl Wire {
    /// True where the fault means that the request never came through, so that it cannot have been processed.
    pub fn means_unprocessed(&self) -> bool {
        match self {
            Self::KillIdle | Self::RefuseStream | Self::Goaway(Goaway::Below) => true,
            Self::Whole
            | Self::Close
            | Self::Reset
            | Self::Hang
            | Self::Cut(_)
            | Self::SlowHead(_)
            | Self::SlowBody(_)
            | Self::Raw(_)
            | Self::CancelStream
            | Self::Goaway(Goaway::Above) => false,
        }
    }

    /// True where the answer does not arrive whole.
    pub fn loses_answer(&self) -> bool {
        match self {
            Self::Whole | Self::SlowHead(_) | Self::SlowBody(_) => false,
            Self::Close
            | Self::Reset
            | Self::Hang
            | Self::Cut(_)
            | Self::Raw(_)
            | Self::KillIdle
            | Self::RefuseStream
            | Self::CancelStream
            | Self::Goaway(_) => true,
        }
    }

    /// True where the fault exists on HTTP/2 connections only.
    pub fn is_http2_only(&self) -> bool {
        match self {
            Self::RefuseStream | Self::CancelStream | Self::Goaway(_) => true,
            Self::Whole
            | Self::Close
            | Self::Reset
            | Self::Hang
            | Self::Cut(_)
            | Self::SlowHead(_)
            | Self::SlowBody(_)
            | Self::Raw(_)
            | Self::KillIdle => false,
        }
    }
}
