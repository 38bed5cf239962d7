//! Spans, instants and money as people read them.

use jiff::Timestamp;

use crate::value::amount::{Currency, DECIMALS_USUAL};
use crate::value::time::{DAY_NS, Grain, SECOND_NS};

/// A span in seconds: `250 ms`, `4 s`, `1 min 30 s`, `2 d 3 h`; at most two units.
pub(crate) fn seconds(span: f64) -> String {
    if !span.is_finite() {
        return "for ever".to_owned();
    }
    if span < 1.0 {
        let ms = (span * 1000.0).round();
        return if ms >= 1000.0 { "1 s".to_owned() } else { format!("{ms} ms") };
    }
    if span < 60.0 {
        let tenths = (span * 10.0).round() / 10.0;
        return format!("{tenths} s");
    }
    let whole = span.round() as u64;
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut rest = whole;
    let mut words = Vec::new();
    for (length, unit) in units {
        let count = rest / length;
        rest %= length;
        if count > 0 {
            words.push(format!("{count} {unit}"));
        }
        // A second unit right below the first says enough.
        if words.len() == 2 || (!words.is_empty() && count == 0) {
            break;
        }
    }
    words.join(" ")
}

/// Gaps in seconds for a sentence: `1 s, 2 s, 4 s`, cut where nobody would read on.
pub(crate) fn gaps(gaps: &[f64]) -> String {
    const SHOWN: usize = 6;
    let mut words: Vec<String> = gaps.iter().take(SHOWN).map(|gap| seconds(*gap)).collect();
    if gaps.len() > SHOWN {
        words.push(format!("… {} more", gaps.len() - SHOWN));
    }
    words.join(", ")
}

/// An instant in UTC with as many digits as its clock had.
pub(crate) fn instant(ns: i64, grain_ns: i64) -> String {
    let Ok(at) = Timestamp::from_nanosecond(i128::from(ns)) else { return ns.to_string() };
    if grain_ns >= DAY_NS {
        at.strftime("%Y-%m-%d").to_string()
    } else if grain_ns >= 60 * SECOND_NS {
        at.strftime("%Y-%m-%dT%H:%MZ").to_string()
    } else if grain_ns >= SECOND_NS {
        at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    } else if grain_ns >= 1_000_000 {
        at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
    } else {
        at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
    }
}

/// The step of a clock in a word.
pub(crate) fn grain(grain: Grain) -> &'static str {
    match grain {
        Grain::Nano => "nanoseconds",
        Grain::Micro => "microseconds",
        Grain::Milli => "milliseconds",
        Grain::Second => "whole seconds",
        Grain::Minute => "whole minutes",
        Grain::Day => "whole days",
    }
}

/// Money in major units: `1,234.50 EUR`; without a currency, digits alone.
pub(crate) fn money(minor: i64, currency: Option<Currency>) -> String {
    let decimals = currency.map_or(DECIMALS_USUAL, Currency::decimals);
    let unit = 10_u64.pow(decimals);
    let size = minor.unsigned_abs();
    let sign = if minor < 0 { "-" } else { "" };
    let whole = thousands(size / unit);
    let fraction = match decimals {
        0 => String::new(),
        digits => format!(".{:0width$}", size % unit, width = digits as usize),
    };
    match currency {
        Some(currency) => format!("{sign}{whole}{fraction} {}", currency.as_str()),
        None => format!("{sign}{whole}{fraction}"),
    }
}

/// A count with its thousands parted.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 payment`, `2 payments`.
pub(crate) fn count(count: u64, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{} {word}", thousands(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_in_the_units_people_use() {
        for (span, words) in [
            (0.0, "0 ms"),
            (0.25, "250 ms"),
            (0.9999, "1 s"),
            (1.0, "1 s"),
            (2.04, "2 s"),
            (31.5, "31.5 s"),
            (90.0, "1 min 30 s"),
            (120.0, "2 min"),
            (3_600.0, "1 h"),
            (90_061.0, "1 d 1 h"),
        ] {
            assert_eq!(seconds(span), words);
        }
    }

    #[test]
    fn money_in_each_kind_of_currency() {
        let code = |text: &str| Currency::read(text.as_bytes());
        assert_eq!(money(123_450, code("EUR")), "1,234.50 EUR");
        assert_eq!(money(1_000, code("JPY")), "1,000 JPY");
        assert_eq!(money(-1_005, code("KWD")), "-1.005 KWD");
        assert_eq!(money(5, None), "0.05");
    }
}
