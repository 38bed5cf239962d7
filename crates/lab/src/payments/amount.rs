//! Amounts: shown exactly as the caller wrote them, compared and added as integers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};
use std::fmt;

/// Digits allowed before the point: with four after it everything fits a `u64` without loss.
const WHOLE_DIGITS_MAX: usize = 14;
/// The first whole number with more digits than that.
const WHOLE_END: u64 = 10u64.pow(WHOLE_DIGITS_MAX as u32);
/// Digits allowed after the point; no currency in use has more.
const FRACTION_DIGITS_MAX: usize = 4;

/// An amount of money, not negative. The unit is whatever the caller uses; the lab only adds and compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    shown: Shown,
    ten_thousandths: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    Number(Number),
    Text(String),
}

impl Amount {
    /// Reads `1500`, `"1500"`, `10.5` or `"10.50"`. The refusal is a sentence for the caller.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        let (shown, text) = match value {
            Value::Number(number) => {
                let whole = number.as_u64().filter(|whole| *whole < WHOLE_END);
                let shown = Shown::Number(number.clone());
                if let Some(ten_thousandths) = whole.map(|whole| whole * 10_000) {
                    return Ok(Self { shown, ten_thousandths });
                }
                (shown, number.to_string())
            }
            Value::String(text) => (Shown::Text(text.clone()), text.clone()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                return Err(EXPECTED.to_owned());
            }
        };
        let ten_thousandths = parse(&text).ok_or_else(|| EXPECTED.to_owned())?;
        Ok(Self { shown, ten_thousandths })
    }

    /// The amount in ten-thousandths of the caller's unit, for adding and comparing.
    pub fn ten_thousandths(&self) -> u64 {
        self.ten_thousandths
    }

    /// An amount that no caller wrote (what is left to refund, for one), shown as a plain number or text.
    pub fn from_ten_thousandths(units: u64) -> Self {
        let (whole, fraction) = (units / 10_000, units % 10_000);
        let shown = if fraction == 0 {
            Shown::Number(Number::from(whole))
        } else {
            Shown::Text(format!("{whole}.{fraction:04}").trim_end_matches('0').to_owned())
        };
        Self { shown, ten_thousandths: units }
    }
}

const EXPECTED: &str = "amount must be a number that is not negative, with at most 14 digits before the point and 4 \
                        after it, as a JSON number or as text";

fn parse(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let dangling_point = text.ends_with('.');
    if whole.is_empty() || dangling_point || !digits(whole) || !digits(fraction) {
        return None;
    }
    if whole.len() > WHOLE_DIGITS_MAX || fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = format!("{fraction:0<4}").parse().ok()?;
    whole.checked_mul(10_000)?.checked_add(fraction)
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Shown::Number(number) => number.fmt(f),
            Shown::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.shown {
            Shown::Number(number) => number.serialize(serializer),
            Shown::Text(text) => text.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_amount_is_shown_as_written_and_compared_as_a_number() {
        let pairs = [(json!(1500), 15_000_000), (json!("10.50"), 105_000), (json!(10.5), 105_000)];
        for (value, units) in pairs {
            let amount = Amount::from_value(&value).unwrap();
            assert_eq!(amount.ten_thousandths(), units);
            assert_eq!(serde_json::to_value(&amount).unwrap(), value);
        }
        assert_eq!(Amount::from_ten_thousandths(105_000).to_string(), "10.5");
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        let wrong = [
            json!(-1),
            json!("1e3"),
            json!(""),
            json!("."),
            json!("1."),
            json!("1,5"),
            json!(null),
            json!(true),
            json!("123456789012345"),
            json!("0.00001"),
        ];
        for value in wrong {
            assert!(Amount::from_value(&value).is_err(), "{value} was taken");
        }
    }
}
