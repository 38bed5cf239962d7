//! The request that is stored with a claim, so that a question can repeat or compare it.

use crate::body::Request;
use crate::claim::full_uri;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use samekey_core::request;

/// Headers that say what the body is. Beside them only the route's semantic headers are stored, which say
/// what the command is. Credentials above all are not, and a question carries the service's own.
const CONTENT_HEADERS: [HeaderName; 3] =
    [http::header::CONTENT_TYPE, http::header::CONTENT_ENCODING, http::header::CONTENT_LANGUAGE];

/// A stored request: method, target, content headers, the route's semantic headers, and body, as they were
/// claimed.
pub type StoredRequest = Request;

/// The bytes of a request, as the core writes them.
pub(crate) fn encode(request: &Request, semantic: &[String]) -> Bytes {
    let target = full_uri(request).path_and_query().map_or("/", |target| target.as_str());
    let mut headers = Vec::new();
    let mut names: Vec<&str> = CONTENT_HEADERS.iter().map(HeaderName::as_str).collect();
    for name in semantic {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        for value in request.headers().get_all(name) {
            headers.push((Box::from(name), Bytes::copy_from_slice(value.as_bytes())));
        }
    }
    request::StoredRequest {
        method: request.method().as_str().into(),
        target: target.into(),
        headers,
        body: request.body().clone(),
    }
    .encode()
}

/// The request in these bytes; nothing where they are damaged or a newer version's.
pub(crate) fn decode(bytes: &Bytes) -> Option<StoredRequest> {
    let stored = request::StoredRequest::decode(bytes)?;
    let mut request = Request::new(stored.body);
    *request.method_mut() = http::Method::from_bytes(stored.method.as_bytes()).ok()?;
    *request.uri_mut() = http::Uri::try_from(stored.target.as_bytes()).ok()?;
    for (name, value) in stored.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        request.headers_mut().append(name, HeaderValue::from_bytes(&value).ok()?);
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
            .header("x-account", "one")
            .header("x-account", "two")
            .header("x-other", "1")
            .body(Bytes::from_static(b"{\"amount\": 1200}\0\xff"))
            .unwrap();
        let semantic = ["x-account".to_owned(), "content-type".to_owned()];
        let stored = encode(&request, &semantic);
        let back = decode(&stored).unwrap();
        assert_eq!(back.method(), request.method());
        assert_eq!(back.uri(), request.uri());
        assert_eq!(back.body(), request.body());
        assert_eq!(back.headers()["content-type"], "application/json");
        let accounts: Vec<_> = back.headers().get_all("x-account").iter().collect();
        assert_eq!(accounts, ["one", "two"], "what the command is");
        assert_eq!(back.headers().len(), 3, "and nothing else: {:?}", back.headers());
        for cut in 0..stored.len() - request.body().len() {
            assert!(decode(&stored.slice(..cut)).is_none(), "cut at {cut}");
        }
    }
}
