//! The client of the payment provider: one request a call, and what its outcome proves.
//!
//! Every call has a connection of its own. Nothing is kept open, so that no request is written into a
//! connection that the other side is just closing; nothing is sent a second time by anybody but the
//! caller; a redirect is an answer like any other, and the credential goes nowhere else.

mod wire;

pub use wire::{Address, Limits};

use crate::payments::NewPayment;
use bytes::Bytes;
use http::{Method, StatusCode};
use samekey::core::record::Reason;
use samekey::store::OutboundKey;
use serde::Deserialize;
use wire::{Heard, Wire};

/// What every payment here is made in.
const CURRENCY: &str = "EUR";
/// The longest id of a payment: an id is part of a path and of a primary key.
const ID_CHARACTERS_MAX: usize = 64;

/// A payment provider at one address.
#[derive(Clone)]
pub struct Provider(Wire);

/// What became of a payment that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was executed, under this id.
    Paid(String),
    /// The provider refused it for good: its status.
    Refused(StatusCode),
    /// Nothing was sent: the provider could not be reached.
    NotReached,
    /// The provider accepted nothing for now (credentials, rate): its status.
    NotNow(StatusCode),
    /// The provider still works on an earlier request with this key.
    Pending,
    /// It may have been executed.
    Unclear(Reason),
}

/// What the provider says about a payment when it is asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Known {
    /// It was executed, under this id.
    Paid(String),
    /// It was refused for good.
    Refused(StatusCode),
    /// There is nothing under this key.
    Nothing,
    /// It is still at work.
    Pending,
    /// There is something else under this key.
    Different,
    /// It could not be asked, or its answer not be understood.
    Unclear,
}

/// What of the provider's answers is read. Everything else of them stays here.
#[derive(Deserialize)]
struct Told {
    error: Option<String>,
    status: Option<String>,
    payment_id: Option<String>,
    order_id: Option<String>,
    amount: Option<serde_json::Value>,
    currency: Option<String>,
    idempotency_key: Option<String>,
}

impl Provider {
    /// The provider at this address. The credential is this service's own, and goes to this address
    /// only.
    pub fn new(
        address: Address,
        credential: Option<http::HeaderValue>,
        limits: Limits,
    ) -> Provider {
        Provider(Wire::new(address, credential, limits))
    }

    /// Sends a payment, once.
    pub async fn pay(&self, payment: &NewPayment, key: OutboundKey) -> Sent {
        let body = body_of(payment);
        match self.0.call(Method::POST, "/payments", Some(key), body).await {
            Heard::NotSent => Sent::NotReached,
            Heard::Lost(reason) => Sent::Unclear(reason),
            Heard::Answer(status, body) => sent(status, told(&body).as_ref(), payment, key),
        }
    }

    /// Asks what is recorded under the key of a payment.
    pub async fn look_up(&self, payment: &NewPayment, key: OutboundKey) -> Known {
        let path = format!("/payments/by-key/{key}");
        match self.0.call(Method::GET, &path, None, Bytes::new()).await {
            Heard::NotSent | Heard::Lost(_) => Known::Unclear,
            Heard::Answer(status, body) => known(status, told(&body).as_ref(), payment, key),
        }
    }

    /// Sends the same bytes under the same key again. To a provider that deduplicates this is the
    /// question what became of them; never use it with another one.
    pub async fn send_again(&self, payment: &NewPayment, key: OutboundKey) -> Known {
        match self.pay(payment, key).await {
            Sent::Paid(id) => Known::Paid(id),
            // A declined payment is stored under its key. Any other refusal speaks for this attempt
            // only, and an earlier one may have been executed.
            Sent::Refused(StatusCode::PAYMENT_REQUIRED) => {
                Known::Refused(StatusCode::PAYMENT_REQUIRED)
            }
            Sent::Pending => Known::Pending,
            Sent::Unclear(Reason::FoundDifferent) => Known::Different,
            Sent::Refused(_) | Sent::NotReached | Sent::NotNow(_) | Sent::Unclear(_) => {
                Known::Unclear
            }
        }
    }
}

/// The bytes of a payment: the same for every attempt, on every version of this program that knew it.
fn body_of(payment: &NewPayment) -> Bytes {
    let value = serde_json::json!({
        "order_id": payment.order_id,
        "amount": payment.amount,
        "currency": CURRENCY,
    });
    Bytes::from(value.to_string())
}

/// The members of an answer; nothing where it is not one of the provider's documents.
fn told(body: &[u8]) -> Option<Told> {
    serde_json::from_slice(body).ok()
}

impl Told {
    /// The id, if what is told is this payment: amount, currency, reference and key.
    fn id_if(&self, payment: &NewPayment, key: OutboundKey) -> Option<String> {
        let same = self.amount.as_ref().and_then(serde_json::Value::as_i64) == Some(payment.amount)
            && self.currency.as_deref() == Some(CURRENCY)
            && self.order_id.as_deref() == Some(payment.order_id.as_str())
            && self.idempotency_key.as_ref().is_none_or(|told| *told == key.to_string());
        self.payment_id.clone().filter(|id| same && is_id(id))
    }
}

/// Whether this can be the id of a payment: it is part of a path and of a primary key.
pub fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !id.is_empty() && id.len() <= ID_CHARACTERS_MAX && id.bytes().all(plain)
}

/// What the answer to a payment proves.
fn sent(status: StatusCode, told: Option<&Told>, payment: &NewPayment, key: OutboundKey) -> Sent {
    let error = told.and_then(|told| told.error.as_deref());
    match status.as_u16() {
        200 | 201 => match told {
            Some(told) => match (told.status.as_deref(), told.id_if(payment, key)) {
                (Some("succeeded"), Some(id)) => Sent::Paid(id),
                (Some("declined"), Some(_)) => Sent::Refused(StatusCode::PAYMENT_REQUIRED),
                (Some("pending"), _) => Sent::Pending,
                (Some("succeeded" | "declined"), None) => Sent::Unclear(Reason::FoundDifferent),
                // A word that is not in the provider's protocol is no word.
                (Some(_) | None, _) => Sent::Unclear(Reason::ServerError),
            },
            // It was executed, and which payment it is has to be asked.
            None => Sent::Unclear(Reason::ConnectionLost),
        },
        // A proxy on the way, or a wrong address, answers with such a status as well, and knows nothing
        // of what the provider has done: only the provider's own document is its word.
        401 | 403 | 407 | 413 | 421 | 425 | 429 if error.is_some() => Sent::NotNow(status),
        409 if error == Some("in_progress") => Sent::Pending,
        // Another command under our key: no attempt of ours may be sent again.
        422 if error == Some("key_reused") => Sent::Unclear(Reason::FoundDifferent),
        402 if told.is_some() => Sent::Refused(status),
        408 => Sent::Unclear(Reason::ServerError),
        400..=499 if error.is_some() => Sent::Refused(status),
        // Server errors, redirects, "accepted" and whatever else is no final word.
        _ => Sent::Unclear(Reason::ServerError),
    }
}

/// What the answer to a question says.
fn known(status: StatusCode, told: Option<&Told>, payment: &NewPayment, key: OutboundKey) -> Known {
    let Some(told) = told else { return Known::Unclear };
    match (status.as_u16(), told.status.as_deref()) {
        (200, Some("pending")) => Known::Pending,
        (200, Some(word @ ("succeeded" | "declined"))) => match told.id_if(payment, key) {
            Some(_) if word == "declined" => Known::Refused(StatusCode::PAYMENT_REQUIRED),
            Some(id) => Known::Paid(id),
            None => Known::Different,
        },
        (404, _) if told.error.as_deref() == Some("not_found") => Known::Nothing,
        _ => Known::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, NewPayment, OutboundKey, Reason, Sent, StatusCode, known, sent, told};

    const KEY: OutboundKey = OutboundKey::from_bytes([7; 16]);

    fn payment() -> NewPayment {
        NewPayment { order_id: "ORD-1".to_owned(), amount: 1_200 }
    }

    fn body(amount: i64, order_id: &str, currency: &str, status: &str) -> String {
        format!(
            r#"{{"payment_id":"PAY-1","order_id":"{order_id}","amount":{amount},"currency":"{currency}","status":"{status}","idempotency_key":"{KEY}"}}"#
        )
    }

    #[test]
    fn what_each_answer_proves() {
        let ours = body(1_200, "ORD-1", "EUR", "succeeded");
        let pending = body(1_200, "ORD-1", "EUR", "pending");
        let declined = body(1_200, "ORD-1", "EUR", "declined");
        let failed = body(1_200, "ORD-1", "EUR", "failed");
        let unclear = Sent::Unclear(Reason::ServerError);
        for (status, body, expected) in [
            (201, ours.as_str(), Sent::Paid("PAY-1".to_owned())),
            (201, "", Sent::Unclear(Reason::ConnectionLost)),
            (201, "<html>", Sent::Unclear(Reason::ConnectionLost)),
            (202, ours.as_str(), Sent::Unclear(Reason::ServerError)),
            (307, "", Sent::Unclear(Reason::ServerError)),
            (401, r#"{"error":"unauthorised"}"#, Sent::NotNow(StatusCode::UNAUTHORIZED)),
            (401, "", unclear.clone()),
            (404, "<html>", unclear.clone()),
            (404, r#"{"error":"no_such_route"}"#, Sent::Refused(StatusCode::NOT_FOUND)),
            (201, pending.as_str(), Sent::Pending),
            (201, declined.as_str(), Sent::Refused(StatusCode::PAYMENT_REQUIRED)),
            (201, failed.as_str(), unclear.clone()),
            (402, ours.as_str(), Sent::Refused(StatusCode::PAYMENT_REQUIRED)),
            (408, "", Sent::Unclear(Reason::ServerError)),
            (409, r#"{"error":"in_progress"}"#, Sent::Pending),
            (409, r#"{"error":"duplicate"}"#, Sent::Refused(StatusCode::CONFLICT)),
            (422, r#"{"error":"key_reused"}"#, Sent::Unclear(Reason::FoundDifferent)),
            (422, r#"{"error":"bad_amount"}"#, Sent::Refused(StatusCode::UNPROCESSABLE_ENTITY)),
            (422, "", unclear.clone()),
            (429, r#"{"error":"rate_limited"}"#, Sent::NotNow(StatusCode::TOO_MANY_REQUESTS)),
            (500, ours.as_str(), unclear),
            (599, "", Sent::Unclear(Reason::ServerError)),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let found = sent(status, told(body.as_bytes()).as_ref(), &payment(), KEY);
            assert_eq!(found, expected, "{status} {body}");
        }
    }

    #[test]
    fn only_the_same_payment_is_taken_for_it() {
        let ask = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            known(status, told(body.as_bytes()).as_ref(), &payment(), KEY)
        };
        let paid = body(1_200, "ORD-1", "EUR", "succeeded");
        assert_eq!(ask(200, &paid), Known::Paid("PAY-1".to_owned()));
        assert_eq!(
            ask(200, &body(1_200, "ORD-1", "EUR", "declined")),
            Known::Refused(StatusCode::PAYMENT_REQUIRED)
        );
        for other in [
            body(1_201, "ORD-1", "EUR", "succeeded"),
            body(1_200, "ORD-2", "EUR", "succeeded"),
            body(1_200, "ORD-1", "USD", "succeeded"),
            paid.replace("07070707", "08080808"),
            paid.replace("1200", "1200.5"),
            paid.replace("PAY-1", "../PAY"),
        ] {
            assert_eq!(ask(200, &other), Known::Different, "{other}");
        }
        assert_eq!(ask(200, &body(1_200, "ORD-1", "EUR", "pending")), Known::Pending);
        assert_eq!(ask(404, r#"{"error":"not_found"}"#), Known::Nothing);
        for (status, body) in [(404, ""), (404, "{}"), (200, "{}"), (500, paid.as_str()), (302, "")]
        {
            assert_eq!(ask(status, body), Known::Unclear, "{status} {body}");
        }
    }
}
