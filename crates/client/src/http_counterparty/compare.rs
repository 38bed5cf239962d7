//! Whether what the counterparty tells is what was ordered: amount, currency, reference.

use super::pointer::Pointer;
use serde_json::Value;

/// The longest amount that is compared, in characters: more digits than any currency needs.
const AMOUNT_CHARACTERS_MAX: usize = 40;
/// The largest exponent of an amount, for the same reason.
const EXPONENT_MAX: i32 = 40;
/// From here on a fraction does not survive being read as a binary number.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// Where one thing stands, in our request and in the counterparty's document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) ours: Pointer,
    pub(crate) theirs: Pointer,
}

/// What is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compare {
    pub(crate) amount: Option<Pair>,
    pub(crate) currency: Option<Pair>,
    pub(crate) reference: Option<Pair>,
    pub(crate) key: Option<Pointer>,
}

/// What was ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ours {
    amount: Option<Value>,
    currency: Option<Value>,
    reference: Option<Value>,
}

/// What a comparison came to; the worst of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sameness {
    Same,
    /// Something that has to be compared is missing from the document.
    Missing,
    Different,
}

impl Compare {
    /// What was ordered; nothing where the request lacks something that has to be compared.
    pub(crate) fn ours(&self, body: &[u8]) -> Option<Ours> {
        let pairs = [&self.amount, &self.currency, &self.reference];
        if pairs.iter().all(|pair| pair.is_none()) {
            return Some(Ours::default());
        }
        let document: Value = serde_json::from_slice(body).ok()?;
        let [amount, currency, reference] = pairs;
        let member = |pair: &Option<Pair>| match pair {
            None => Some(None),
            Some(pair) => pair.ours.of(&document).cloned().map(Some),
        };
        Some(Ours {
            amount: member(amount)?,
            currency: member(currency)?,
            reference: member(reference)?,
        })
    }

    /// Whether a document tells of what was ordered, under this key if one is given.
    pub(crate) fn sameness(&self, ours: &Ours, key: Option<&str>, theirs: &Value) -> Sameness {
        let mut worst = Sameness::Same;
        let mut note =
            |pair: &Option<Pair>, ours: &Option<Value>, same: fn(&Value, &Value) -> bool| {
                let (Some(pair), Some(ours)) = (pair, ours) else { return };
                worst = worst.max(match pair.theirs.of(theirs) {
                    None => Sameness::Missing,
                    Some(theirs) if same(ours, theirs) => Sameness::Same,
                    Some(_) => Sameness::Different,
                });
            };
        note(&self.amount, &ours.amount, same_amount);
        note(&self.currency, &ours.currency, same_currency);
        note(&self.reference, &ours.reference, same_text);
        if let (Some(pointer), Some(key)) = (&self.key, key)
            && pointer.of(theirs).is_some_and(|told| told != key)
        {
            return Sameness::Different;
        }
        worst
    }

    /// Whether a document names our reference; where none is compared, every document does.
    pub(crate) fn names_ours(&self, ours: &Ours, theirs: &Value) -> bool {
        let (Some(pair), Some(reference)) = (&self.reference, &ours.reference) else { return true };
        pair.theirs.of(theirs).is_some_and(|theirs| same_text(reference, theirs))
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn same_text(ours: &Value, theirs: &Value) -> bool {
    text(ours).is_some() && text(ours) == text(theirs)
}

fn same_currency(ours: &Value, theirs: &Value) -> bool {
    let (Some(ours), Some(theirs)) = (text(ours), text(theirs)) else { return false };
    ours.eq_ignore_ascii_case(&theirs)
}

/// 1200, 1200.00, "1200" and 1.2e3 are one amount. What cannot be read exactly equals nothing.
fn same_amount(ours: &Value, theirs: &Value) -> bool {
    let (Some(ours), Some(theirs)) = (amount(ours), amount(theirs)) else { return false };
    ours == theirs
}

/// A decimal number: digits without zeros at their ends, and the power of ten of the last one.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i32,
}

fn amount(value: &Value) -> Option<Decimal> {
    if let Value::Number(number) = value
        && number.is_f64()
        && number.as_f64().is_none_or(|number| number.abs() >= EXACT_BELOW)
    {
        return None;
    }
    decimal(&text(value)?)
}

fn decimal(text: &str) -> Option<Decimal> {
    if text.len() > AMOUNT_CHARACTERS_MAX {
        return None;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
        None => (text, 0),
    };
    if !(-EXPONENT_MAX..=EXPONENT_MAX).contains(&exponent) {
        return None;
    }
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    if whole.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = all.trim_end_matches('0');
    let zeros = i32::try_from(all.len() - significant.len()).ok()?;
    let digits = significant.trim_start_matches('0');
    if digits.is_empty() {
        return Some(Decimal { negative: false, digits: String::new(), exponent: 0 });
    }
    let exponent = exponent - i32::try_from(fraction.len()).ok()? + zeros;
    Some(Decimal { negative, digits: digits.to_owned(), exponent })
}

#[cfg(test)]
mod tests {
    use super::{same_amount, same_currency, same_text};
    use serde_json::{Value, from_str};

    fn value(text: &str) -> Value {
        from_str(text).unwrap()
    }

    #[test]
    fn one_amount_is_written_in_many_ways_and_never_taken_for_another() {
        for (one, other) in [
            ("1200", "1200.00"),
            ("1200", "\"1200\""),
            ("\"12.50\"", "12.5"),
            ("1.2e3", "1200"),
            ("0", "\"0.00\""),
            ("-0", "0"),
            ("\"0012\"", "12"),
            ("9007199254740993", "\"9007199254740993\""),
        ] {
            assert!(same_amount(&value(one), &value(other)), "{one} {other}");
        }
        for (one, other) in [
            ("1200", "12.00"),
            ("1200", "1201"),
            ("1200", "-1200"),
            ("1200", "120000"),
            ("9007199254740992", "9007199254740993"),
            ("9007199254740993.5", "9007199254740993.5"),
            ("\"\"", "0"),
            ("\".5\"", "0.5"),
            ("\"1,200\"", "1200"),
            ("\"12 00\"", "1200"),
            ("\"1e999999999\"", "\"1e999999999\""),
            ("null", "null"),
            ("true", "true"),
        ] {
            assert!(!same_amount(&value(one), &value(other)), "{one} {other}");
        }
    }

    #[test]
    fn currencies_ignore_case_and_references_do_not() {
        assert!(same_currency(&value("\"EUR\""), &value("\"eur\"")));
        assert!(!same_currency(&value("\"EUR\""), &value("\"USD\"")));
        assert!(same_text(&value("\"17\""), &value("17")));
        assert!(!same_text(&value("\"ORD-1\""), &value("\"ord-1\"")));
        assert!(!same_text(&value("null"), &value("null")));
    }
}
