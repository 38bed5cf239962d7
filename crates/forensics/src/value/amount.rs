//! Amounts of money, read exactly into minor units; no floating point touches them.

use super::trimmed;

/// Which sign stands before the fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimal {
    /// `1,234.50`
    Point,
    /// `1.234,50`
    Comma,
}

/// In which unit a column counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmountUnit {
    /// `12.50` is twelve and a half.
    Major,
    /// `1250` is twelve and a half in a currency with two decimals.
    Minor,
}

/// How the amounts of one file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AmountStyle {
    pub(crate) decimal: Decimal,
    pub(crate) unit: AmountUnit,
}

/// A currency by its three letters, upper case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency([u8; 3]);

impl Currency {
    /// Reads three letters in any case; anything else is no currency.
    pub fn read(text: &[u8]) -> Option<Self> {
        match trimmed(text) {
            [a, b, c] if [a, b, c].into_iter().all(|byte| byte.is_ascii_alphabetic()) => {
                Some(Self([a, b, c].map(u8::to_ascii_uppercase)))
            }
            _ => None,
        }
    }

    /// The three letters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("???")
    }

    /// How many digits the minor unit has (ISO 4217).
    pub fn decimals(self) -> u32 {
        match &self.0 {
            b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG"
            | b"RWF" | b"UGX" | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
            b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
            b"CLF" | b"UYW" => 4,
            _ => DECIMALS_USUAL,
        }
    }
}

/// Most currencies, and what is taken where an export names none.
pub(crate) const DECIMALS_USUAL: u32 = 2;

/// An amount as written: a sign, digits, and how many of them are decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) digits: i64,
    pub(crate) decimals: u32,
    pub(crate) currency: Option<Currency>,
}

impl Amount {
    /// In minor units of a currency with `decimals` digits; `None` if the text is finer than that.
    pub(crate) fn minor(self, decimals: u32, unit: AmountUnit) -> Option<i64> {
        let wanted = match unit {
            AmountUnit::Major => decimals,
            AmountUnit::Minor => 0,
        };
        if self.decimals <= wanted {
            return self.digits.checked_mul(10_i64.checked_pow(wanted - self.decimals)?);
        }
        let divisor = 10_i64.checked_pow(self.decimals - wanted)?;
        (self.digits % divisor == 0).then(|| self.digits / divisor)
    }
}

/// The longest number read; an i64 holds eighteen digits whatever they are.
const DIGITS_MAX: u32 = 18;

/// Reads an amount: sign before or after, brackets for negative, any grouping, a currency sign or
/// code on either side.
pub(crate) fn read(field: &[u8], decimal: Decimal) -> Option<Amount> {
    let mut text = trimmed(field);
    // Bare digits are what most exports hold.
    if let [first, .., last] = text
        && first.is_ascii_digit()
        && last.is_ascii_digit()
    {
        let (digits, decimals) = number(text, decimal)?;
        return Some(Amount { digits, decimals, currency: None });
    }
    let mut negative = false;
    let mut currency = None;
    if let Some(inner) = text.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")")) {
        negative = true;
        text = inner;
    }
    // Peel signs, currency signs and codes from both ends; each turn takes something or stops.
    loop {
        text = trimmed(text);
        if let Some(rest) = strip_minus(text) {
            if negative {
                return None;
            }
            negative = true;
            text = rest;
        } else if let Some(rest) = text.strip_prefix(b"+").or_else(|| strip_currency_sign(text)) {
            text = rest;
        } else if let Some((code, rest)) = split_code(text) {
            if currency.is_some() {
                return None;
            }
            currency = Some(code);
            text = rest;
        } else {
            break;
        }
    }
    let (digits, decimals) = number(text, decimal)?;
    Some(Amount { digits: if negative { -digits } else { digits }, decimals, currency })
}

fn strip_minus(text: &[u8]) -> Option<&[u8]> {
    const MINUS: [&[u8]; 3] = [b"-", "\u{2212}".as_bytes(), "\u{2013}".as_bytes()];
    MINUS.iter().find_map(|sign| text.strip_prefix(*sign).or_else(|| text.strip_suffix(*sign)))
}

fn strip_currency_sign(text: &[u8]) -> Option<&[u8]> {
    const SIGNS: [&str; 9] = ["$", "€", "£", "¥", "₩", "₹", "₽", "₺", "円"];
    SIGNS.iter().find_map(|sign| {
        text.strip_prefix(sign.as_bytes()).or_else(|| text.strip_suffix(sign.as_bytes()))
    })
}

fn split_code(text: &[u8]) -> Option<(Currency, &[u8])> {
    if let Some((head, rest)) = text.split_at_checked(3)
        && let Some(code) = Currency::read(head)
    {
        return Some((code, rest));
    }
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(3)?)?;
    Some((Currency::read(tail)?, rest))
}

/// Digits with grouping and at most one decimal sign.
fn number(text: &[u8], decimal: Decimal) -> Option<(i64, u32)> {
    let (point, group) = match decimal {
        Decimal::Point => (b'.', b','),
        Decimal::Comma => (b',', b'.'),
    };
    let (mut value, mut seen, mut decimals) = (0_i64, 0, None::<u32>);
    let mut since_group = None::<u32>;
    for byte in text {
        if byte.is_ascii_digit() {
            seen += 1;
            value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
            decimals = decimals.map(|count| count + 1);
            since_group = since_group.map(|count| count + 1);
        } else if *byte == point && decimals.is_none() {
            if since_group.is_some_and(|count| count != 3) {
                return None;
            }
            (decimals, since_group) = (Some(0), None);
        } else if is_grouping(*byte, group) && decimals.is_none() && seen > 0 {
            // `1,2,3` is a list, not a number: a group has three digits, or two as in 1,00,000.
            // A no-break space is one sign of two or three bytes, with nothing between them.
            let inside_sign = !byte.is_ascii() && since_group == Some(0);
            if !inside_sign && since_group.is_some_and(|count| count != 3 && count != 2) {
                return None;
            }
            since_group = Some(0);
        } else {
            return None;
        }
    }
    let grouped_well = since_group.is_none_or(|count| count == 3);
    (seen > 0 && seen <= DIGITS_MAX && grouped_well).then(|| (value, decimals.unwrap_or(0)))
}

fn is_grouping(byte: u8, group: u8) -> bool {
    // The bytes of U+00A0 and U+202F stand for themselves: no digit shares them.
    byte == group || matches!(byte, b'\'' | b' ' | b'_' | 0xc2 | 0xa0 | 0xe2 | 0x80 | 0xaf | 0x99)
}

/// What the amounts of a sample say about the decimal sign.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DecimalEvidence {
    point: u32,
    comma: u32,
    unclear: bool,
}

impl DecimalEvidence {
    /// Looks at one field.
    pub(crate) fn see(&mut self, field: &[u8]) {
        let last = |wanted: u8| field.iter().rposition(|byte| *byte == wanted);
        let (points, commas) = (last(b'.'), last(b','));
        match (points, commas) {
            (Some(point), Some(comma)) if point > comma => self.point += 1,
            (Some(_), Some(_)) => self.comma += 1,
            (Some(at), None) => self.single(field, at, b'.'),
            (None, Some(at)) => self.single(field, at, b','),
            (None, None) => {}
        }
    }

    fn single(&mut self, field: &[u8], at: usize, sign: u8) {
        let count = field.iter().filter(|byte| **byte == sign).count();
        let after = field.iter().skip(at + 1).take_while(|byte| byte.is_ascii_digit()).count();
        let decimal = if count > 1 {
            false
        } else if after == 3 {
            self.unclear = true;
            return;
        } else {
            true
        };
        if decimal == (sign == b'.') {
            self.point += 1;
        } else {
            self.comma += 1;
        }
    }

    /// The decimal sign, and whether it had to be guessed.
    pub(crate) fn verdict(self) -> (Decimal, bool) {
        let decimal = if self.comma > self.point { Decimal::Comma } else { Decimal::Point };
        let guessed = self.unclear && self.comma == 0 && self.point == 0;
        (decimal, guessed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minor(text: &str, decimal: Decimal) -> Option<i64> {
        read(text.as_bytes(), decimal)?.minor(2, AmountUnit::Major)
    }

    #[test]
    fn every_way_to_write_an_amount() {
        for (text, expected) in [
            ("12.50", 1250),
            ("1,234.5", 123_450),
            ("1'234.50", 123_450),
            ("1 234.50", 123_450),
            ("1\u{a0}234.50", 123_450),
            ("1\u{a0}234\u{a0}567.50", 123_456_750),
            ("1\u{202f}234.50", 123_450),
            ("(12.50)", -1250),
            ("-12.50", -1250),
            ("12.50-", -1250),
            ("\u{2212}12.50", -1250),
            ("-$12.50", -1250),
            ("$-12.50", -1250),
            ("($1,200.00)", -120_000),
            ("€ 12.50", 1250),
            ("EUR 12.50", 1250),
            ("12.50 eur", 1250),
            ("+7", 700),
            ("1,00,000.00", 10_000_000),
            ("12.5000", 1250),
        ] {
            assert_eq!(minor(text, Decimal::Point), Some(expected), "{text}");
        }
        assert_eq!(minor("1.234,50", Decimal::Comma), Some(123_450));
        assert_eq!(minor("12,5", Decimal::Comma), Some(1250));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in
            ["", "abc", "12.5.0", "1,2", "12,34.5", "--5", "(-5)", "1.005", "9".repeat(20).as_str()]
        {
            assert_eq!(minor(text, Decimal::Point), None, "{text}");
        }
    }

    #[test]
    fn minor_units_follow_the_currency() {
        let yen = Currency::read(b"jpy").unwrap();
        let amount = read(b"1,000", Decimal::Point).unwrap();
        assert_eq!(amount.minor(yen.decimals(), AmountUnit::Major), Some(1000));
        assert_eq!(amount.minor(2, AmountUnit::Minor), Some(1000));
        let dinar = Currency::read(b"KWD").unwrap();
        let fils = read(b"1.005", Decimal::Point).unwrap();
        assert_eq!(fils.minor(dinar.decimals(), AmountUnit::Major), Some(1005));
    }

    #[test]
    fn the_decimal_sign_is_found_from_a_sample() {
        let verdict = |fields: &[&str]| {
            let mut evidence = DecimalEvidence::default();
            fields.iter().for_each(|field| evidence.see(field.as_bytes()));
            evidence.verdict()
        };
        assert_eq!(verdict(&["1.234", "5,50"]), (Decimal::Comma, false));
        assert_eq!(verdict(&["1,234", "5.50"]), (Decimal::Point, false));
        assert_eq!(verdict(&["1.234.567"]), (Decimal::Comma, false));
        assert_eq!(verdict(&["1.234,56"]), (Decimal::Comma, false));
        assert_eq!(verdict(&["1,234"]), (Decimal::Point, true));
        assert_eq!(verdict(&["12"]), (Decimal::Point, false));
    }
}
