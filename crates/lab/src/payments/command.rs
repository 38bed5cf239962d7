//! From a request's path and body to the command it means. Pure: bytes in, command or refusal out.

use super::amount::Amount;
use super::entry::Op;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The longest order id or currency that is taken, in characters.
const TEXT_CHARACTERS_MAX: usize = 255;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Make a payment.
    Pay,
    /// Capture, refund or void the payment with this id.
    Payment(Op, String),
    /// Ask by idempotency key.
    ByKey(String),
    /// Ask by order id.
    ByReference(String),
    /// Ask by payment id.
    ById(String),
    /// Nothing that the lab knows.
    Unknown,
}

impl Target {
    /// The kind under which the request is counted.
    pub fn op(&self) -> Op {
        match self {
            Self::Pay => Op::Pay,
            Self::Payment(op, _) => *op,
            Self::ByKey(_) | Self::ByReference(_) | Self::ById(_) => Op::Query,
            Self::Unknown => Op::Other,
        }
    }

    /// Reads method and path (without the query).
    pub fn of(method: &str, path: &str) -> Self {
        // By far the most frequent one needs no list of segments.
        if (method, path) == ("POST", "/payments") {
            return Self::Pay;
        }
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (method, segments.as_slice()) {
            ("POST", ["payments" | "charges" | "charge"]) => Self::Pay,
            ("POST", ["payments" | "charges", id, "capture"]) => {
                Self::Payment(Op::Capture, decoded(id))
            }
            ("POST", ["payments" | "charges", id, "refund"]) => {
                Self::Payment(Op::Refund, decoded(id))
            }
            ("POST", ["payments" | "charges", id, "void"]) => Self::Payment(Op::Void, decoded(id)),
            ("GET", ["payments" | "charges", "by-key", key]) => Self::ByKey(decoded(key)),
            ("GET", ["payments" | "charges", "by-reference", order]) => {
                Self::ByReference(decoded(order))
            }
            ("GET", ["payments" | "charges", id]) if !id.is_empty() => Self::ById(decoded(id)),
            _ => Self::Unknown,
        }
    }
}

fn decoded(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

/// The fields of a body that the lab understands, and all plain ones for the fault plan to look at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields {
    /// `order_id`, or `ref` where that is missing.
    pub order_id: Option<String>,
    /// The amount.
    pub amount: Option<Amount>,
    /// The currency.
    pub currency: Option<String>,
    /// False asks for an authorisation instead of a payment.
    pub capture: bool,
    /// Every top-level member.
    pub all: Map<String, Value>,
}

/// Reads a JSON or form body. `curl -d '{…}'` calls its JSON a form, so a brace decides before the media type.
pub fn fields(content_type: Option<&str>, body: &[u8]) -> Result<Fields, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8 text".to_owned())?;
    let says_json = content_type.is_some_and(|value| value.to_ascii_lowercase().contains("json"));
    let all = if text.trim().is_empty() {
        Map::new()
    } else if says_json || text.trim_start().starts_with('{') {
        object(text)?
    } else {
        form_urlencoded::parse(body)
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect()
    };
    let amount = match all.get("amount") {
        None | Some(Value::Null) => None,
        Some(value) => Some(Amount::from_value(value)?),
    };
    let order_id = match text_of(&all, "order_id")? {
        Some(order) => Some(order),
        None => text_of(&all, "ref")?,
    };
    let capture = match all.get("capture") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(capture)) => *capture,
        Some(Value::String(word)) if word == "true" || word == "false" => word == "true",
        Some(_) => return Err("capture must be true or false".to_owned()),
    };
    Ok(Fields { order_id, amount, currency: text_of(&all, "currency")?, capture, all })
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => {
            Err("the body is JSON, but not an object like {\"order_id\":\"ORD-1\"}".to_owned())
        }
        Err(error) => Err(format!("the body is not JSON: {error}")),
    }
}

fn text_of(all: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    let text = match all.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(format!("{name} must be text"));
        }
    };
    if text.is_empty() {
        return Ok(None);
    }
    if text.chars().count() > TEXT_CHARACTERS_MAX {
        return Err(format!("{name} is longer than {TEXT_CHARACTERS_MAX} characters"));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_form_mean_the_same_whatever_curl_calls_it() {
        let form = Some("application/x-www-form-urlencoded");
        let bodies = [
            (Some("application/json"), r#"{"order_id":"ORD-1","amount":1500}"#),
            (form, r#" {"order_id":"ORD-1","amount":1500}"#),
            (form, "order_id=ORD-1&amount=1500"),
            (None, "order_id=ORD%2D1&amount=1500"),
        ];
        for (content_type, body) in bodies {
            let fields = fields(content_type, body.as_bytes()).unwrap();
            assert_eq!(fields.order_id.as_deref(), Some("ORD-1"), "{body}");
            assert_eq!(fields.amount.unwrap().ten_thousandths(), 15_000_000, "{body}");
            assert!(fields.capture);
        }
    }

    #[test]
    fn rubbish_gets_one_sentence() {
        let json = Some("application/json");
        let wrong: [(&[u8], &str); 6] = [
            (b"{", "not JSON"),
            (b"[1]", "not an object"),
            (b"\xff", "UTF-8"),
            (br#"{"order_id":{}}"#, "order_id must be text"),
            (br#"{"amount":-5}"#, "amount must be"),
            (br#"{"capture":"perhaps"}"#, "capture must be"),
        ];
        for (body, part) in wrong {
            let refusal = fields(json, body).unwrap_err();
            assert!(refusal.contains(part), "{refusal}");
        }
    }

    #[test]
    fn paths_are_understood_and_decoded() {
        assert_eq!(Target::of("POST", "/payments"), Target::Pay);
        assert_eq!(Target::of("POST", "/charge"), Target::Pay);
        assert_eq!(
            Target::of("POST", "/payments/PAY-1/refund"),
            Target::Payment(Op::Refund, "PAY-1".into())
        );
        let odd = Target::of("GET", "/payments/by-key/..%2F..%2Fadmin");
        assert_eq!(odd, Target::ByKey("../../admin".into()));
        assert_eq!(Target::of("GET", "/payments/"), Target::Unknown);
        assert_eq!(Target::of("PUT", "/payments"), Target::Unknown);
    }
}
