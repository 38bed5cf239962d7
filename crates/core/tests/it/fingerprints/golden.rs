//! The hashes were made by another program from the layout that the module of version 1 gives.
//! If one of them is wrong, the code is wrong: records with these hashes exist.

use samekey_core::fingerprint::{BodyForm, Request, V1};

use super::{JSON, post};

fn assert_pinned(request: &Request<'_>, form: BodyForm, request_sha: &str, frame_sha: &str) {
    let digest = (V1.digest)(request, form);
    assert_eq!(hex(digest.request_sha), request_sha);
    assert_eq!(hex(digest.frame_sha), frame_sha);
}

const PAYMENT: &[u8] = br#"{ "currency": "EUR", "amount": 100, "note": "caf\u00e9\n" }"#;
const PAYMENT_FRAME: &str = "0918f7992a1a21fe1d10c78a5d6a8271f8473d84db022b91242af39a40e7f0bb";

#[test]
fn json() {
    assert_pinned(
        &post(b"Application/JSON; charset=UTF-8", PAYMENT),
        BodyForm::Json,
        "746a519f337ff0bf0cb9f1faea5dc9a841c537407b052d23efe352f2058fca12",
        PAYMENT_FRAME,
    );
}

#[test]
fn raw() {
    assert_pinned(
        &post(JSON, PAYMENT),
        BodyForm::Raw,
        "e25069b33ea2255f45fa6e08295e3a6dbd05497b6fa25d08ac2c4eb7215a45f6",
        PAYMENT_FRAME,
    );
}

#[test]
fn empty() {
    let request = Request {
        method: "DELETE",
        path: b"/orders/1",
        query: Some(b""),
        content_type: None,
        content_encoding: Some(b"identity"),
        semantic: &[],
        body: b"",
    };
    assert_pinned(
        &request,
        BodyForm::Json,
        "fa7eaaada494cc87a45428dc3771794127cc7031d8888d1ee606bd4966f0b393",
        "7770c7fedf21235116ce81be7c6f5825e2a9274851e90a8ffc4073927783c709",
    );
}

#[test]
fn every_field() {
    let request = Request {
        method: "PATCH",
        path: b"/orders/%31",
        query: Some(b"b=2&a=1"),
        content_type: Some(b"application/merge-patch+json; charset=utf-8; v=1"),
        content_encoding: Some(b"GZip"),
        semantic: &[("X-Mode", b""), ("On-Behalf-Of", b"a"), ("on-behalf-of", b" b ")],
        body: &[0x1f, 0x8b, 0, 0xff],
    };
    assert_pinned(
        &request,
        BodyForm::Json,
        "94f06a5460e3d03a86284aef4f3d397caa149e36fb100c5011860433532d260d",
        "89c02ab1608378e9ae419df94ed05a3b4cb29435bb9f785cb7e5e47f705b6cf4",
    );
}

const NUMBERS_FRAME: &str = "a453344e90735214a629ddcb65f8ce6b19ec0be577180adfc68f8e08843a4f36";

#[test]
fn numbers_and_nesting() {
    let body = br#"[9007199254740993, 100,100.0,1e2,-0,
        {"\u0001":"\u0022\\\/", "":[{"b":true,"a":null}]}]"#;
    assert_pinned(
        &Request { path: b"/n", ..post(JSON, body) },
        BodyForm::Json,
        "8e3d9d787e0652dc175b8636dd63da565f920b6d1ee13a466c1c2cdf266ad6da",
        NUMBERS_FRAME,
    );
}

#[test]
fn a_name_twice() {
    assert_pinned(
        &Request { path: b"/n", ..post(JSON, br#"{"amount":1,"amount":9}"#) },
        BodyForm::Json,
        "c7273203f6333124ef80d140cd8f39aa92f53e4e8a0747552b7af0b1b6f167dc",
        NUMBERS_FRAME,
    );
}

fn hex(sha: [u8; 32]) -> String {
    sha.iter().map(|byte| format!("{byte:02x}")).collect()
}
