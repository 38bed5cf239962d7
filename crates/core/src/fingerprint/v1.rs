//! Version 1 of the fingerprint. **Frozen**: records made with it outlive every release. A change here
//! would answer every retry over an upgrade with a mismatch, or worse. A new idea is a new version.
//!
//! Hashed is, with SHA-256, where `u64` is eight bytes, the highest first, and a `field` is its length
//! as `u64` followed by its bytes:
//!
//! ```text
//! "samekey.fingerprint.v1" 0x00
//! field method
//! field path
//! 0x00 | 0x01 field query
//! 0x00 | 0x01 field media type (lower-cased essence, then ";" parameter, for each that counts)
//! 0x00 | 0x01 field content-encoding (lower-cased)
//! u64 number of semantic headers, then for each: field name (lower-cased), field value (trimmed)
//! the frame ends here:   0x00
//! the request goes on:   0x01 field body as sent  |  0x02 field body in canonical form
//! ```
//!
//! No field can run into the next one, and the last tag says how the body was read: so neither a frame
//! and a request, nor a raw and a canonical body, ever hash the same bytes.

use sha2::{Digest as _, Sha256};

use super::media::{content_encoding, media_type};
use super::{Algorithm, BodyForm, Digest, Request, Version, json};

/// The first algorithm.
pub const V1: Algorithm = Algorithm { version: Version(1), digest };

const DOMAIN: &[u8] = b"samekey.fingerprint.v1\0";
const ABSENT: [u8; 1] = [0];
const PRESENT: [u8; 1] = [1];
const FRAME_ENDS: [u8; 1] = [0];
const BODY_RAW: [u8; 1] = [1];
const BODY_CANONICAL: [u8; 1] = [2];

fn digest(request: &Request<'_>, form: BodyForm) -> Digest {
    let media = request.content_type.map(media_type);
    let encoding = content_encoding(request.content_encoding);

    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    field(&mut hash, request.method.as_bytes());
    field(&mut hash, request.path);
    optional(&mut hash, request.query);
    optional(&mut hash, media.as_ref().map(|media| media.text.as_slice()));
    optional(&mut hash, encoding.as_deref());
    semantic(&mut hash, request.semantic);

    let mut frame = hash.clone();
    frame.update(FRAME_ENDS);

    let may_be_json = encoding.is_none() && media.is_some_and(|media| media.is_json);
    let canonical = match form {
        BodyForm::Json if may_be_json => json::Canonical::read(request.body),
        BodyForm::Json | BodyForm::Raw => None,
    };
    match canonical {
        Some(canonical) => {
            hash.update(BODY_CANONICAL);
            length(&mut hash, canonical.bytes());
            canonical.write(&mut |piece| hash.update(piece));
        }
        None => {
            hash.update(BODY_RAW);
            field(&mut hash, request.body);
        }
    }
    Digest { request_sha: hash.finalize().into(), frame_sha: frame.finalize().into() }
}

fn semantic(hash: &mut Sha256, headers: &[(&str, &[u8])]) {
    let mut headers: Vec<(String, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim_ascii()))
        .collect();
    // A stable sort: lines with one name keep their order.
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    length(hash, headers.len());
    for (name, value) in headers {
        field(hash, name.as_bytes());
        field(hash, value);
    }
}

fn optional(hash: &mut Sha256, bytes: Option<&[u8]>) {
    match bytes {
        None => hash.update(ABSENT),
        Some(bytes) => {
            hash.update(PRESENT);
            field(hash, bytes);
        }
    }
}

fn field(hash: &mut Sha256, bytes: &[u8]) {
    length(hash, bytes.len());
    hash.update(bytes);
}

fn length(hash: &mut Sha256, length: usize) {
    hash.update((length as u64).to_be_bytes());
}
