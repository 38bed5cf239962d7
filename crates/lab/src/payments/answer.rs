//! What the API says about what it recorded. An answer is made from the effect alone, so that a replay, also one
//! after a restart, has the same status and the same bytes as the first answer.

use super::amount::Amount;
use super::book::{Outcome, Refusal};
use super::entry::{Effect, EffectKind, moment};
use super::standing::Standing;
use serde::Serialize;
use serde_json::{Value, json};

/// Room made for a body at first; most are shorter.
const BODY_BYTES_USUAL: usize = 320;

/// Status and JSON body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// True where it is a stored answer.
    pub replayed: bool,
    content: Content,
}

/// The body, or what it is made from. It is made as late as possible: not while everybody waits for the lock.
#[derive(Debug, Clone, PartialEq)]
enum Content {
    Bytes(Vec<u8>),
    About(Box<Effect>),
}

impl Reply {
    /// The answer to a command.
    pub fn to(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Recorded(effect) => Self::about(effect, false),
            Outcome::Replayed(effect) => Self::about(effect, true),
            Outcome::Refused(refusal) => Self::refused(&refusal),
        }
    }

    /// The body.
    pub fn into_body(self) -> Vec<u8> {
        match self.content {
            Content::Bytes(bytes) => bytes,
            Content::About(effect) => {
                let error = (effect.effect == EffectKind::Declined).then_some("declined");
                written(&View { error, ..View::of(&effect) })
            }
        }
    }

    /// The answer of a refusal.
    pub fn refused(refusal: &Refusal) -> Self {
        let mut body = json!({ "error": refusal.error, "detail": refusal.detail });
        if let (Some(id), Some(members)) = (&refusal.payment_id, body.as_object_mut()) {
            members.insert("payment_id".to_owned(), Value::String(id.clone()));
        }
        Self::json(refusal.status, &body)
    }

    /// Any JSON.
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        Self { status, replayed: false, content: Content::Bytes(written(body)) }
    }

    fn about(effect: Effect, replayed: bool) -> Self {
        let status = match effect.effect {
            EffectKind::Declined => 402,
            EffectKind::Payment
            | EffectKind::Authorisation
            | EffectKind::Capture
            | EffectKind::Refund
            | EffectKind::Void => 201,
        };
        Self { status, replayed, content: Content::About(Box::new(effect)) }
    }
}

fn written(body: &impl Serialize) -> Vec<u8> {
    // Serialising our own plain structs cannot fail; an empty body would be seen at once.
    let mut bytes = Vec::with_capacity(BODY_BYTES_USUAL);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

/// An effect as it is shown: in answers, in `GET /payments` and in the ledger.
#[derive(Debug, Clone, Serialize)]
pub struct View<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    payment_id: &'a str,
    order_id: &'a str,
    created_at: String,
    effect: EffectKind,
    id: &'a str,
    amount: Option<&'a Amount>,
    currency: Option<&'a str>,
    status: &'static str,
    idempotency_key: Option<&'a str>,
}

impl<'a> View<'a> {
    /// Shows an effect.
    pub fn of(effect: &'a Effect) -> Self {
        Self {
            error: None,
            payment_id: effect.payment_id(),
            order_id: &effect.order_id,
            created_at: moment(effect.at_ms),
            effect: effect.effect,
            id: &effect.id,
            amount: effect.amount.as_ref(),
            currency: effect.currency.as_deref(),
            status: status_word(effect.effect),
            idempotency_key: effect.key.as_deref(),
        }
    }
}

fn status_word(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::Declined => "declined",
        EffectKind::Payment
        | EffectKind::Authorisation
        | EffectKind::Capture
        | EffectKind::Refund
        | EffectKind::Void => "succeeded",
    }
}

/// What a query by key says.
pub fn key_status(effect: &Effect) -> Value {
    serde_json::to_value(View::of(effect)).unwrap_or_default()
}

/// What a query by order says: the first payment that succeeded, else the last refusal; how many payments there
/// are; and all effects, oldest first. `effects` come newest first.
pub fn order_status(effects: &[Effect]) -> Option<Value> {
    let payments = || effects.iter().filter(|effect| effect.effect.is_payment());
    let chosen = payments().next_back().or(effects.first())?;
    let mut status = key_status(chosen);
    if let Some(members) = status.as_object_mut() {
        members.insert("count".to_owned(), json!(payments().count()));
        let views: Vec<View<'_>> = effects.iter().rev().map(View::of).collect();
        members.insert("effects".to_owned(), json!(views));
    }
    Some(status)
}

/// What a query by payment says.
pub fn payment_status(standing: &Standing) -> Value {
    let status = match (standing.is_voided, standing.is_refunded, standing.is_captured) {
        (true, _, _) => "voided",
        (false, true, _) if standing.refunded >= standing.captured => "refunded",
        (false, true, _) => "partly_refunded",
        (false, false, true) => "captured",
        (false, false, false) => "authorised",
    };
    json!({
        "payment_id": standing.id,
        "order_id": standing.order_id,
        "status": status,
        "amount": standing.amount,
        "currency": standing.currency,
        "captured": Amount::from_ten_thousandths(standing.captured),
        "refunded": Amount::from_ten_thousandths(standing.refunded),
    })
}
