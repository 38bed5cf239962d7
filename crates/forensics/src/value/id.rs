//! Ids: what makes two of them equal, and the ones that a spreadsheet has ruined.

use super::{is_missing, trimmed};

/// An id as it can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Id<'a> {
    /// Nothing is written in the field.
    Missing,
    /// The text of the id, byte for byte, without the marks a spreadsheet puts around it.
    Whole(&'a [u8]),
    /// A number in scientific notation: the last digits are gone, so two equal texts may have been
    /// two ids. Good to show, never proof that two records are one.
    Lossy(&'a [u8]),
}

impl<'a> Id<'a> {
    /// Reads a field. Leading zeros stay; `'00123` and `="00123"` are the id `00123`.
    pub(crate) fn read(field: &'a [u8]) -> Self {
        let text = unmarked(trimmed(field));
        if is_missing(text) {
            Self::Missing
        } else if is_scientific(text) {
            Self::Lossy(text)
        } else {
            Self::Whole(text)
        }
    }

    /// The bytes by which ids may be compared.
    pub(crate) fn proof(self) -> Option<&'a [u8]> {
        match self {
            Self::Whole(text) => Some(text),
            Self::Missing | Self::Lossy(_) => None,
        }
    }

    /// The bytes to show to a person.
    pub(crate) fn shown(self) -> Option<&'a [u8]> {
        match self {
            Self::Whole(text) | Self::Lossy(text) => Some(text),
            Self::Missing => None,
        }
    }
}

/// Without the mark for "this is text" that spreadsheets and their users put before digits.
fn unmarked(text: &[u8]) -> &[u8] {
    if let Some(inner) = text.strip_prefix(b"=\"").and_then(|rest| rest.strip_suffix(b"\"")) {
        return inner;
    }
    match text.strip_prefix(b"'") {
        Some(rest) if rest.first().is_some_and(u8::is_ascii_digit) => rest,
        Some(_) | None => text,
    }
}

/// `9.91214E+15` or `9,91214E+15`: digits, at most one point, an exponent.
fn is_scientific(text: &[u8]) -> bool {
    if !text.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    // A spreadsheet writes a sign after the E; `1E5` without one is a plausible id and stays one.
    let Some(at) = text.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')) else {
        return false;
    };
    let (mantissa, exponent) = text.split_at(at);
    let Some([sign, digits @ ..]) = exponent.get(1..) else { return false };
    let mut points = 0;
    let plain = mantissa.iter().all(|byte| {
        points += usize::from(matches!(byte, b'.' | b','));
        byte.is_ascii_digit() || matches!(byte, b'.' | b',')
    });
    plain
        && points <= 1
        && matches!(sign, b'+' | b'-')
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scientific_notation_is_lossy_and_proves_nothing() {
        for text in ["9.91214E+15", "9,91214E+15", "1e+16", " 9.9E+15 "] {
            let id = Id::read(text.as_bytes());
            assert!(matches!(id, Id::Lossy(_)), "{text}");
            assert_eq!(id.proof(), None);
        }
    }

    #[test]
    fn long_numbers_hex_and_leading_zeros_stay_whole() {
        for text in ["9912140633506420", "00123", "5e3a9", "1E5", "e+5", "ORD-2E+1x"] {
            assert_eq!(Id::read(text.as_bytes()), Id::Whole(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn the_text_mark_of_a_spreadsheet_is_not_part_of_the_id() {
        assert_eq!(Id::read(b"'00123"), Id::Whole(b"00123"));
        assert_eq!(Id::read(b"=\"00123\""), Id::Whole(b"00123"));
        assert_ne!(Id::read(b"'00123"), Id::read(b"123"));
        assert_eq!(Id::read(b"'tis"), Id::Whole(b"'tis"));
    }
}
