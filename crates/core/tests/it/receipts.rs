//! Properties of receipts.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use samekey_core::receipt::{Keep, Receipt, decode_headers, encode_headers};

fn headers() -> impl Strategy<Value = Vec<(Box<str>, Bytes)>> {
    let name = prop_oneof![
        Just("location".to_owned()),
        Just("link".to_owned()),
        Just("Link".to_owned()),
        "[a-z-]{1,20}",
        "\\PC{0,20}",
    ];
    let value = prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), 120..140)];
    vec((name.prop_map(String::into_boxed_str), value.prop_map(Bytes::from)), 0..8)
}

proptest! {
    #[test]
    fn stored_headers_come_back_as_they_were(headers in headers()) {
        prop_assert_eq!(decode_headers(&encode_headers(&headers)), Ok(headers));
    }

    #[test]
    fn rubbish_is_read_or_refused_without_a_panic(
        bytes in vec(any::<u8>(), 0..64),
        version in prop_oneof![Just(None), Just(Some(1_u8))],
    ) {
        let bytes: Vec<u8> = version.into_iter().chain(bytes).collect();
        if let Ok(headers) = decode_headers(&bytes) {
            prop_assert_eq!(decode_headers(&encode_headers(&headers)), Ok(headers));
        }
    }

    #[test]
    fn one_damaged_byte_or_a_cut_never_panics(
        headers in headers(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let whole = encode_headers(&headers);
        let at = at.index(whole.len());
        let _read_or_refused = decode_headers(&whole[..at]);
        let mut damaged = whole;
        damaged[at] = byte;
        let _read_or_refused = decode_headers(&damaged);
    }

    #[test]
    fn b50_a_receipt_holds_only_headers_from_its_list(
        names in vec("(set-cookie|link|etag|x-kept|x-other|connection|date)", 0..10),
        value in "[ -~]{0,10}",
    ) {
        let keep = Keep::new(10, ["X-Kept"]).unwrap();
        let lines = names.iter().map(|name| (name.as_str(), value.as_bytes()));
        let Receipt::Kept(answer) = keep.receipt(200, lines, Bytes::new()) else {
            return Err(TestCaseError::fail("a small answer is kept"));
        };
        let named: Vec<&str> = if names.iter().any(|name| name == "connection") {
            value.split(',').map(str::trim).collect()
        } else {
            vec![]
        };
        let expected: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| ["link", "etag", "x-kept"].contains(name) && !named.contains(name))
            .collect();
        let kept: Vec<&str> = answer.headers.iter().map(|(name, _)| &**name).collect();
        prop_assert_eq!(kept, expected);
    }

    #[test]
    fn b52_a_body_is_kept_byte_by_byte_or_not_at_all(body in vec(any::<u8>(), 0..32)) {
        let keep = Keep::new(16, [""; 0]).unwrap();
        match keep.receipt(200, std::iter::empty(), Bytes::from(body.clone())) {
            Receipt::Kept(answer) => prop_assert!(body.len() <= 16 && answer.body == body),
            Receipt::Fact { status, location } => {
                prop_assert!(body.len() > 16 && status == 200 && location.is_none());
            }
        }
    }
}
