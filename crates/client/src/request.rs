//! A request that is kept with its command and sent again as it is, byte for byte.

use crate::address::{Base, check_target};
use crate::error::Error;
use crate::transport::Outgoing;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use samekey_core::request::StoredRequest;
use samekey_store::outbox::REQUEST_BYTES_MAX;
use std::fmt;

/// Headers of a request at the most: an API asks for a handful.
pub const REQUEST_HEADERS_MAX: usize = 32;

/// Headers that belong to one connection or are made by it.
const OF_THE_CONNECTION: [HeaderName; 10] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Credentials. They are looked up when a command is sent, and are in nothing that is kept.
const CREDENTIALS: [HeaderName; 3] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What a command asks for, over HTTP.
///
/// ```
/// use samekey_client::request::HttpRequest;
///
/// let request = HttpRequest::post("/payments").json(r#"{"order_id":"ORD-1","amount":1200}"#);
/// let bytes = request.encode()?;
/// assert_eq!(HttpRequest::decode(&bytes).as_ref(), Some(&request));
/// # Ok::<(), samekey_client::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// POST, PUT, PATCH or DELETE.
    pub method: Method,
    /// Path and query below the counterparty's address.
    pub target: String,
    /// Headers; neither credentials nor the key nor those of a connection.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl fmt::Debug for HttpRequest {
    /// Requests are other people's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl HttpRequest {
    /// A POST without headers and body.
    pub fn post(target: impl Into<String>) -> HttpRequest {
        HttpRequest {
            method: Method::POST,
            target: target.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// With this body, which is JSON.
    #[must_use]
    pub fn json(mut self, body: impl Into<Bytes>) -> HttpRequest {
        let json = HeaderValue::from_static("application/json");
        self.headers.insert(header::CONTENT_TYPE, json);
        self.body = body.into();
        self
    }

    /// The bytes to keep with a command.
    ///
    /// # Errors
    /// The request is not one that can be kept and sent: its method, path, size, or a header that is not the
    /// caller's to set.
    pub fn encode(&self) -> Result<Bytes, Error> {
        self.check()?;
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            headers.push((name.as_str().into(), Bytes::copy_from_slice(value.as_bytes())));
        }
        let bytes = StoredRequest {
            method: self.method.as_str().into(),
            target: self.target.as_str().into(),
            headers,
            body: self.body.clone(),
        }
        .encode();
        if bytes.len() > REQUEST_BYTES_MAX {
            return Err(Error::request(format!(
                "a request of {} bytes is over the limit of {REQUEST_BYTES_MAX}; send large data elsewhere first and name it in the command",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// The request in these bytes; nothing where they are damaged, a later release's, or not a request that
    /// this release would keep.
    pub fn decode(bytes: &Bytes) -> Option<HttpRequest> {
        let stored = StoredRequest::decode(bytes)?;
        let mut headers = HeaderMap::new();
        for (name, value) in stored.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            headers.append(name, HeaderValue::from_bytes(&value).ok()?);
        }
        let request = HttpRequest {
            method: Method::from_bytes(stored.method.as_bytes()).ok()?,
            target: stored.target.into(),
            headers,
            body: stored.body,
        };
        request.check().is_ok().then_some(request)
    }

    /// As it is sent to this place.
    pub(crate) fn outgoing(self, base: &Base) -> Option<Outgoing> {
        let target = base.target(&self.target).ok()?;
        Some(Outgoing { method: self.method, target, headers: self.headers, body: self.body })
    }

    fn check(&self) -> Result<(), Error> {
        check_target(&self.target)?;
        if ![Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(&self.method) {
            return Err(Error::request(format!(
                "{} is no method of a command; expected POST, PUT, PATCH or DELETE",
                self.method
            )));
        }
        if self.headers.len() > REQUEST_HEADERS_MAX {
            return Err(Error::request(format!(
                "{} headers are over the limit of {REQUEST_HEADERS_MAX}",
                self.headers.len()
            )));
        }
        self.headers.keys().try_for_each(check_header)
    }
}

/// Whether a header may be kept with a command.
fn check_header(name: &HeaderName) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::request(format!("the header {name} {why}")));
    if CREDENTIALS.contains(name) {
        return refuse(
            "is a credential, and is not kept with a command; name its source in the counterparty's configuration",
        );
    }
    if *name == IDEMPOTENCY_KEY {
        return refuse("is set from the command's own key; leave it out");
    }
    if OF_THE_CONNECTION.contains(name) {
        return refuse("belongs to a connection and is set when one is made; leave it out");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{HttpRequest, Method, REQUEST_BYTES_MAX};
    use bytes::Bytes;

    #[test]
    fn a_request_comes_back_as_it_was_kept() {
        let mut request = HttpRequest::post("/payments?a=1").json(&b"{\"a\": 1}\0\xff"[..]);
        request.headers.append("x-shop", "a".parse().unwrap());
        request.headers.append("x-shop", "b".parse().unwrap());
        let bytes = request.encode().unwrap();
        assert_eq!(HttpRequest::decode(&bytes), Some(request));
        assert_eq!(HttpRequest::decode(&bytes.slice(..7)), None);
        assert_eq!(HttpRequest::decode(&Bytes::new()), None);
    }

    #[test]
    fn what_is_not_the_callers_to_set_is_refused_with_a_sentence() {
        for (name, part) in [
            ("authorization", "is a credential"),
            ("cookie", "is a credential"),
            ("proxy-authorization", "is a credential"),
            ("idempotency-key", "the command's own key"),
            ("host", "belongs to a connection"),
            ("content-length", "belongs to a connection"),
            ("transfer-encoding", "belongs to a connection"),
            ("connection", "belongs to a connection"),
        ] {
            let mut request = HttpRequest::post("/payments");
            request.headers.insert(name, "x".parse().unwrap());
            let sentence = request.encode().unwrap_err().to_string();
            assert!(sentence.contains(part) && sentence.contains(name), "{sentence}");
        }
        let get = HttpRequest { method: Method::GET, ..HttpRequest::post("/payments") };
        assert!(get.encode().unwrap_err().to_string().contains("no method of a command"));
        let away = HttpRequest::post("//evil.test/payments");
        assert!(away.encode().is_err());
        let large = HttpRequest::post("/payments").json(vec![b'a'; REQUEST_BYTES_MAX]);
        assert!(large.encode().unwrap_err().to_string().contains("over the limit"));
        let fits = HttpRequest::post("/payments").json(vec![b'a'; REQUEST_BYTES_MAX - 100]);
        fits.encode().unwrap();
    }
}
