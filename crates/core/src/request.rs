//! A request as it is stored, so that it can be sent again as it was, byte for byte.
//!
//! ```text
//! length of the head      4 bytes, big-endian
//! head                    what `receipt::encode_headers` writes: `:method`, `:target`, then the headers
//! body                    the rest
//! ```
//!
//! The head begins with its version. Nothing is checked but the form: who makes a request knows what may be
//! in it.

use crate::receipt::{decode_headers, encode_headers};
use bytes::Bytes;
use std::fmt;

const METHOD: &str = ":method";
const TARGET: &str = ":target";
const LENGTH_BYTES: usize = 4;

/// A stored request. Its `Debug` shows sizes only: it is other people's data.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredRequest {
    /// The method.
    pub method: Box<str>,
    /// Path and query.
    pub target: Box<str>,
    /// The headers, names in lower case, in their order.
    pub headers: Vec<(Box<str>, Bytes)>,
    /// The whole body.
    pub body: Bytes,
}

impl StoredRequest {
    /// The bytes of this request.
    ///
    /// ```
    /// use samekey_core::request::StoredRequest;
    ///
    /// let request = StoredRequest {
    ///     method: "POST".into(),
    ///     target: "/payments".into(),
    ///     headers: vec![("content-type".into(), "application/json".into())],
    ///     body: "{}".into(),
    /// };
    /// assert_eq!(StoredRequest::decode(&request.encode()), Some(request));
    /// ```
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let part = |name: &str, text: &str| (name.into(), Bytes::copy_from_slice(text.as_bytes()));
        let mut head = vec![part(METHOD, &self.method), part(TARGET, &self.target)];
        head.extend(self.headers.iter().cloned());
        let head = encode_headers(&head);
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(LENGTH_BYTES + head.len() + self.body.len());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&self.body);
        Bytes::from(bytes)
    }

    /// The request in these bytes; nothing where they are damaged or a later release's.
    #[must_use]
    pub fn decode(bytes: &Bytes) -> Option<StoredRequest> {
        let length: [u8; LENGTH_BYTES] = bytes.get(..LENGTH_BYTES)?.try_into().ok()?;
        let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
        let body_at = LENGTH_BYTES.checked_add(length)?;
        let head = decode_headers(bytes.get(LENGTH_BYTES..body_at)?).ok()?;
        let (mut method, mut target, mut headers) = (None, None, Vec::new());
        for (name, value) in head {
            match &*name {
                METHOD => method = Some(text(&value)?),
                TARGET => target = Some(text(&value)?),
                _ => headers.push((name, value)),
            }
        }
        Some(StoredRequest {
            method: method?,
            target: target?,
            headers,
            body: bytes.slice(body_at..),
        })
    }
}

fn text(value: &[u8]) -> Option<Box<str>> {
    std::str::from_utf8(value).ok().map(Box::from)
}

impl fmt::Debug for StoredRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRequest")
            .field("method", &self.method)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::StoredRequest;
    use bytes::Bytes;

    #[test]
    fn a_request_comes_back_as_it_was_and_a_cut_one_does_not() {
        let request = StoredRequest {
            method: "PATCH".into(),
            target: "/payments?a=1&a=2".into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: Bytes::from_static(b"{\"amount\": 1200}\0\xff"),
        };
        let bytes = request.encode();
        assert_eq!(StoredRequest::decode(&bytes), Some(request.clone()));
        for cut in 0..bytes.len() - request.body.len() {
            assert_eq!(StoredRequest::decode(&bytes.slice(..cut)), None, "cut at {cut}");
        }
        let mut later = bytes.to_vec();
        later[4] = 2;
        assert_eq!(StoredRequest::decode(&Bytes::from(later)), None, "a later version");
    }
}
