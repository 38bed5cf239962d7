//! Kept headers as bytes, since that is what a store keeps. Loses nothing and checks nothing but its own
//! form: a value may hold any byte.
//!
//! ```text
//! 0x01                                        the version
//! then, for each header, until the end:
//!   0x00 length name | 0x01..=0x08            a name, or a frequent one by its number
//!   length value
//! ```
//!
//! A length is an unsigned LEB128: seven bits a byte, the lowest first, the high bit on all but the last.

use bytes::Bytes;

const VERSION: u8 = 1;
const NAME_FOLLOWS: u8 = 0;

/// The numbers are stored, so this list is frozen: another list is another version.
const FREQUENT: [(u8, &str); 8] = [
    (1, "content-type"),
    (2, "content-language"),
    (3, "content-encoding"),
    (4, "location"),
    (5, "content-location"),
    (6, "etag"),
    (7, "last-modified"),
    (8, "link"),
];

/// Writes headers as bytes, in their order.
///
/// ```
/// use samekey_core::receipt::{decode_headers, encode_headers};
///
/// let headers = vec![("location".into(), "/orders/1".into())];
/// assert_eq!(decode_headers(&encode_headers(&headers))?, headers);
/// # Ok::<(), samekey_core::receipt::ReceiptFault>(())
/// ```
#[must_use]
pub fn encode_headers(headers: &[(Box<str>, Bytes)]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for (name, value) in headers {
        match FREQUENT.iter().find(|(_, frequent)| **frequent == **name) {
            Some((number, _)) => bytes.push(*number),
            None => {
                bytes.push(NAME_FOLLOWS);
                push_sized(&mut bytes, name.as_bytes());
            }
        }
        push_sized(&mut bytes, value);
    }
    bytes
}

/// Reads what [`encode_headers`] wrote. Its memory is bounded by what it reads.
///
/// # Errors
/// The bytes were written by a later release, or are damaged.
pub fn decode_headers(bytes: &[u8]) -> Result<Vec<(Box<str>, Bytes)>, ReceiptFault> {
    let (version, mut rest) = bytes.split_first().ok_or(ReceiptFault::CutShort)?;
    if *version != VERSION {
        return Err(ReceiptFault::OtherVersion(*version));
    }
    let mut headers = Vec::new();
    while let Some((number, after)) = rest.split_first() {
        rest = after;
        let name: Box<str> = if *number == NAME_FOLLOWS {
            let name = take_sized(&mut rest)?;
            std::str::from_utf8(name).map_err(|_| ReceiptFault::NoName)?.into()
        } else {
            let mut frequent = FREQUENT.iter();
            let (_, name) =
                frequent.find(|(known, _)| known == number).ok_or(ReceiptFault::NoName)?;
            (*name).into()
        };
        headers.push((name, Bytes::copy_from_slice(take_sized(&mut rest)?)));
    }
    Ok(headers)
}

/// Why stored headers could not be read. The text never shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptFault {
    /// A version that this release does not know.
    #[error("the stored headers have version {0}, and this release reads {VERSION}; upgrade it")]
    OtherVersion(u8),
    /// The bytes end too soon, or a length reaches past them.
    #[error("the stored headers are cut short; expected as many bytes as their lengths say")]
    CutShort,
    /// A name that is no text, or a number without a name.
    #[error("the stored headers have a name that cannot be read; expected text or a known number")]
    NoName,
}

fn push_sized(bytes: &mut Vec<u8>, piece: &[u8]) {
    let mut length = piece.len();
    loop {
        let [low, ..] = length.to_le_bytes();
        length >>= 7;
        if length == 0 {
            bytes.push(low & 0x7F);
            break;
        }
        bytes.push(low | 0x80);
    }
    bytes.extend_from_slice(piece);
}

fn take_sized<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ReceiptFault> {
    let mut length: usize = 0;
    for place in 0_u32.. {
        let (byte, after) = rest.split_first().ok_or(ReceiptFault::CutShort)?;
        *rest = after;
        let scale = 1_usize.checked_shl(place * 7).ok_or(ReceiptFault::CutShort)?;
        length = usize::from(byte & 0x7F)
            .checked_mul(scale)
            .and_then(|part| length.checked_add(part))
            .ok_or(ReceiptFault::CutShort)?;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (piece, after) = rest.split_at_checked(length).ok_or(ReceiptFault::CutShort)?;
    *rest = after;
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &'static [u8])]) -> Vec<(Box<str>, Bytes)> {
        lines.iter().map(|(name, value)| ((*name).into(), Bytes::from_static(value))).collect()
    }

    #[test]
    fn the_bytes_of_version_1_are_pinned() {
        let lines = headers(&[("link", b"</1>"), ("x-a", b"\x00\xFF"), ("link", b"")]);
        let bytes = b"\x01\x08\x04</1>\x00\x03x-a\x02\x00\xFF\x08\x00";
        assert_eq!(encode_headers(&lines), bytes);
        assert_eq!(decode_headers(bytes), Ok(lines));
        assert_eq!(encode_headers(&[]), b"\x01");
        assert_eq!(decode_headers(b"\x01"), Ok(vec![]));
    }

    #[test]
    fn every_kept_header_has_a_number() {
        for (n, name) in super::super::KEPT_HEADERS.iter().enumerate() {
            let bytes = encode_headers(&headers(&[(name, b"v")]));
            assert_eq!(bytes, [1, u8::try_from(n).unwrap() + 1, 1, b'v'], "{name}");
        }
    }

    #[test]
    fn a_long_value_comes_back() {
        static LONG: [u8; 70_000] = [b'l'; 70_000];
        for length in [127, 128, 16_383, 16_384, 70_000] {
            let lines = headers(&[("etag", &LONG[..length]), ("x", b"y")]);
            assert_eq!(decode_headers(&encode_headers(&lines)).unwrap(), lines);
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for (bytes, fault) in [
            (&b""[..], ReceiptFault::CutShort),
            (b"\x02", ReceiptFault::OtherVersion(2)),
            (b"\x00\x01", ReceiptFault::OtherVersion(0)),
            (b"\x01\x01", ReceiptFault::CutShort),
            (b"\x01\x01\x02a", ReceiptFault::CutShort),
            (b"\x01\x00\x02a", ReceiptFault::CutShort),
            (b"\x01\x01\x80", ReceiptFault::CutShort),
            (b"\x01\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", ReceiptFault::CutShort),
            (b"\x01\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", ReceiptFault::CutShort),
            (b"\x01\x09\x00", ReceiptFault::NoName),
            (b"\x01\x00\x01\xFF\x00", ReceiptFault::NoName),
        ] {
            assert_eq!(decode_headers(bytes), Err(fault), "{bytes:?}");
        }
    }
}
