//! Properties of fingerprints, and the golden vectors that keep version 1 as it is.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use samekey_core::fingerprint::json::Canonical;
use samekey_core::fingerprint::{BodyForm, Digest, Request, V1};

mod golden;
mod other_reader;
mod trees;

use other_reader::other_reader_takes;
use trees::{Scribe, neighbours, tree};

const JSON: &[u8] = b"application/json";

fn post<'a>(content_type: &'a [u8], body: &'a [u8]) -> Request<'a> {
    Request {
        method: "POST",
        path: b"/payments",
        query: None,
        content_type: Some(content_type),
        content_encoding: None,
        semantic: &[],
        body,
    }
}

fn digest(request: &Request<'_>) -> Digest {
    (V1.digest)(request, BodyForm::Json)
}

fn of_json(body: impl AsRef<[u8]>) -> [u8; 32] {
    digest(&post(JSON, body.as_ref())).request_sha
}

#[test]
fn t30_b89_json_is_compared_by_meaning_and_raw_by_bytes() {
    let (one, other) = (br#"{"a":1,"b":["x"]}"#, br#" { "b" : [ "\u0078" ] , "a" : 1 } "#);
    assert_eq!(of_json(one), of_json(other));
    for content_type in [&b"text/plain"[..], b"application/json; charset=latin1"] {
        let (one, other) = (post(content_type, one), post(content_type, other));
        assert_ne!(digest(&one).request_sha, digest(&other).request_sha);
    }
    let raw = |body| (V1.digest)(&post(JSON, body), BodyForm::Raw).request_sha;
    assert_ne!(raw(one), raw(other));
    let encoded =
        |body| digest(&Request { content_encoding: Some(b"gzip"), ..post(JSON, body) }).request_sha;
    assert_ne!(encoded(&one[..]), encoded(&other[..]), "what is encoded is not read");
}

#[test]
fn t31_members_with_one_name_are_compared_by_bytes() {
    assert_ne!(of_json(r#"{"amount":1,"amount":9}"#), of_json(r#"{"amount":9,"amount":1}"#));
    assert_ne!(of_json(r#"{"amount":1,"amount":9}"#), of_json(r#"{"amount":9}"#));
}

#[test]
fn t32_numbers_are_compared_as_written() {
    let lexemes = ["100", "100.0", "1e2", "1E2", "9007199254740992", "9007199254740993", "0", "-0"];
    for form in [BodyForm::Json, BodyForm::Raw] {
        let shas: HashSet<_> = lexemes
            .map(|lexeme| (V1.digest)(&post(JSON, lexeme.as_bytes()), form).request_sha)
            .into();
        assert_eq!(shas.len(), lexemes.len());
    }
}

#[test]
fn b53_t35_t36_another_target_is_another_request() {
    let base = post(JSON, b"{}");
    let mut shas = HashSet::new();
    for (path, query) in [
        ("/transfer", None),
        ("/transfer", Some("")),
        ("/transfer", Some("to=a")),
        ("/transfer", Some("to=b")),
        ("/transfer", Some("a=1&b=2")),
        ("/transfer", Some("b=2&a=1")),
        ("/transfer?to=a", None),
        ("/transfer/", None),
        ("//transfer", None),
        ("/x/../transfer", None),
        ("/%74ransfer", None),
        ("/~", None),
        ("/%7E", None),
        ("/%7e", None),
    ] {
        let query = query.map(str::as_bytes);
        shas.insert(digest(&Request { path: path.as_bytes(), query, ..base }));
    }
    assert_eq!(shas.len(), 14);
}

#[test]
fn t37_t38_b68_media_type_and_encoding_count() {
    let base = post(JSON, b"{}");
    let mut shas = HashSet::new();
    for content_type in [
        None,
        Some("application/json"),
        Some("application/x-www-form-urlencoded"),
        Some("text/plain"),
        Some("application/json;v=1"),
        Some(""),
    ] {
        for content_encoding in [None, Some("gzip"), Some("br")] {
            let content_encoding = content_encoding.map(str::as_bytes);
            let content_type = content_type.map(str::as_bytes);
            shas.insert(digest(&Request { content_type, content_encoding, ..base }));
        }
    }
    assert_eq!(shas.len(), 18);
    assert_eq!(digest(&post(b"APPLICATION/json ; charset=\"UTF-8\"", b"{}")), digest(&base));
    assert_eq!(digest(&Request { content_encoding: Some(b"identity"), ..base }), digest(&base));
}

#[test]
fn t39_semantic_headers_count() {
    let with = |semantic| digest(&Request { semantic, ..post(JSON, b"{}") });
    let both = with(&[("On-Behalf-Of", b"a"), ("X-Mode", b"live")]);
    assert_eq!(both, with(&[("x-mode", b"live"), ("on-behalf-of", b"a")]));
    let others: [&[(&str, &[u8])]; 6] = [
        &[("on-behalf-of", b"b"), ("x-mode", b"live")],
        &[("on-behalf-of", b"a")],
        &[("on-behalf-of", b"a"), ("x-mode", b"")],
        &[("on-behalf-of", b"A"), ("x-mode", b"live")],
        &[("on-behalf-of", b"live"), ("x-mode", b"a")],
        &[],
    ];
    for other in others {
        let other = with(other);
        assert!(both.request_sha != other.request_sha && both.frame_sha != other.frame_sha);
    }
    assert_ne!(with(&[("a", b"1"), ("a", b"2")]), with(&[("a", b"2"), ("a", b"1")]));
}

#[test]
fn a_canonical_body_never_meets_its_own_bytes_sent_raw() {
    let sent = br#"{"a":1}"#;
    assert_eq!(Canonical::read(sent).unwrap().to_vec(), sent);
    let raw = (V1.digest)(&post(JSON, sent), BodyForm::Raw);
    assert_ne!(digest(&post(JSON, sent)).request_sha, raw.request_sha);
    assert_eq!(digest(&post(JSON, sent)).frame_sha, raw.frame_sha);
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..64)
}

/// Fields short enough that moving a byte from one to the next is likely.
type Fields = (String, String, Option<String>, Option<String>, Option<String>, Vec<String>, String);

fn fields() -> impl Strategy<Value = Fields> {
    let field = || "[ab]{0,2}";
    (
        field(),
        field(),
        proptest::option::of(field()),
        proptest::option::of(field()),
        proptest::option::of("[ab]{1,2}"),
        vec(field(), 0..2),
        field(),
    )
}

fn of_fields((method, path, query, media, encoding, semantic, body): &Fields) -> Digest {
    let semantic: Vec<(&str, &[u8])> =
        semantic.iter().map(|value| ("h", value.as_bytes())).collect();
    digest(&Request {
        method,
        path: path.as_bytes(),
        query: query.as_deref().map(str::as_bytes),
        content_type: media.as_deref().map(str::as_bytes),
        content_encoding: encoding.as_deref().map(str::as_bytes),
        semantic: &semantic,
        body: body.as_bytes(),
    })
}

proptest! {
    #[test]
    fn b89_every_way_to_write_a_value_has_one_fingerprint(
        tree in tree(), one in choices(), other in choices(),
    ) {
        let (one, other) = (Scribe::write(&tree, &one), Scribe::write(&tree, &other));
        prop_assert_eq!(other_reader_takes(one.as_bytes()), Some(true), "{}", &one);
        prop_assert_eq!(of_json(&one), of_json(&other), "{} and {}", &one, &other);

        let canonical = Canonical::read(one.as_bytes()).expect("canonical");
        let text = canonical.to_vec();
        prop_assert!(text.len() <= one.len() && text.len() == canonical.bytes());
        prop_assert_eq!(&Canonical::read(&text).expect("canonical").to_vec(), &text);
        let value = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).unwrap();
        prop_assert_eq!(value(one.as_bytes()), value(&text));
    }

    #[test]
    fn b89_another_value_has_another_fingerprint(tree in tree(), choices in choices()) {
        let sha = of_json(Scribe::write(&tree, &choices));
        for neighbour in neighbours(&tree) {
            let text = Scribe::write(&neighbour, &choices);
            prop_assert_ne!(sha, of_json(&text), "{:?} and {}", &tree, text);
        }
    }

    #[test]
    fn a_damaged_body_is_read_just_as_strictly_as_by_another_reader(
        tree in tree(),
        choices in choices(),
        damage in vec((any::<prop::sample::Index>(), 0..3_u8, any::<prop::sample::Index>()), 1..3),
    ) {
        const BYTES: &[u8] = b"{}[]:,\"\\/u0dDe.+-19atn \n\x00\x1f\x7f\x80\xc3\xff";
        let mut body = Scribe::write(&tree, &choices).into_bytes();
        for (at, kind, byte) in damage {
            let (at, byte) = (at.index(body.len() + 1), BYTES[byte.index(BYTES.len())]);
            match kind {
                0 => body.insert(at, byte),
                1 if at < body.len() => body[at] = byte,
                _ => body.truncate(at),
            }
        }
        let canonical = Canonical::read(&body);
        if let Some(takes) = other_reader_takes(&body) {
            prop_assert_eq!(canonical.is_some(), takes, "{}", String::from_utf8_lossy(&body));
        }
        let _never_panics = of_json(&body);
    }

    #[test]
    fn rubbish_never_panics(body in vec(any::<u8>(), 0..64), media in vec(any::<u8>(), 0..16)) {
        let _never_panics = digest(&post(&media, &body));
        let _never_panics = of_json(&body);
    }

    #[test]
    fn b53_requests_have_one_fingerprint_only_when_every_field_is_equal(
        one in fields(), other in fields(),
    ) {
        prop_assert_eq!(of_fields(&one) == of_fields(&other), one == other);
    }

    #[test]
    fn the_frame_forgives_another_body_and_nothing_else(one in fields(), body in "[ab]{0,2}") {
        let mut other = one.clone();
        other.6 = body;
        let (one_sha, other_sha) = (of_fields(&one), of_fields(&other));
        prop_assert_eq!(one_sha.frame_sha, other_sha.frame_sha);
        prop_assert_eq!(one_sha.request_sha == other_sha.request_sha, one == other);
        prop_assert_ne!(one_sha.frame_sha, one_sha.request_sha);
        other.1.push('c');
        prop_assert_ne!(one_sha.frame_sha, of_fields(&other).frame_sha);
    }
}
