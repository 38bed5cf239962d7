//! The request that is stored with a claim, so that a question can repeat or compare it.

use crate::body::Request;
use crate::claim::full_uri;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use samekey_core::receipt::{decode_headers, encode_headers};

/// Headers that say what the body is. Nothing else of the caller's is stored: its credentials above
/// all are not, and a question carries the service's own.
const CONTENT_HEADERS: [HeaderName; 3] =
    [http::header::CONTENT_TYPE, http::header::CONTENT_ENCODING, http::header::CONTENT_LANGUAGE];
const METHOD: &str = ":method";
const TARGET: &str = ":target";
const LENGTH_BYTES: usize = 4;

/// A stored request: method, target, content headers and body, as they were claimed.
pub type StoredRequest = Request;

/// The bytes of a request, in the order length of the head, head, body.
pub(crate) fn encode(request: &Request) -> Bytes {
    let target = full_uri(request).path_and_query().map_or("/", |target| target.as_str());
    let mut head = vec![
        (Box::from(METHOD), Bytes::copy_from_slice(request.method().as_str().as_bytes())),
        (Box::from(TARGET), Bytes::copy_from_slice(target.as_bytes())),
    ];
    for name in &CONTENT_HEADERS {
        for value in request.headers().get_all(name) {
            head.push((Box::from(name.as_str()), Bytes::copy_from_slice(value.as_bytes())));
        }
    }
    let head = encode_headers(&head);
    let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(LENGTH_BYTES + head.len() + request.body().len());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(request.body());
    Bytes::from(bytes)
}

/// The request in these bytes; nothing where they are damaged or a newer version's.
pub(crate) fn decode(bytes: &Bytes) -> Option<StoredRequest> {
    let length: [u8; LENGTH_BYTES] = bytes.get(..LENGTH_BYTES)?.try_into().ok()?;
    let body_at = LENGTH_BYTES.checked_add(usize::try_from(u32::from_be_bytes(length)).ok()?)?;
    let head = decode_headers(bytes.get(LENGTH_BYTES..body_at)?).ok()?;
    let mut request = Request::new(bytes.slice(body_at..));
    for (name, value) in head {
        match &*name {
            METHOD => *request.method_mut() = http::Method::from_bytes(&value).ok()?,
            TARGET => *request.uri_mut() = http::Uri::try_from(value.as_ref()).ok()?,
            _ => {
                let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
                request.headers_mut().append(name, HeaderValue::from_bytes(&value).ok()?);
            }
        }
    }
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use bytes::Bytes;

    #[test]
    fn a_request_comes_back_as_it_was_claimed() {
        let request = http::Request::post("/payments?a=1&a=2")
            .header("content-type", "application/json")
            .header("authorization", "Bearer secret")
            .body(Bytes::from_static(b"{\"amount\": 1200}\0\xff"))
            .unwrap();
        let stored = encode(&request);
        let back = decode(&stored).unwrap();
        assert_eq!(back.method(), request.method());
        assert_eq!(back.uri(), request.uri());
        assert_eq!(back.body(), request.body());
        assert_eq!(back.headers()["content-type"], "application/json");
        assert!(!back.headers().contains_key("authorization"));
        for cut in 0..stored.len() - request.body().len() {
            assert!(decode(&stored.slice(..cut)).is_none(), "cut at {cut}");
        }
    }
}
