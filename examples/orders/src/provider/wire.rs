//! One HTTP request on a connection of its own.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use samekey::core::record::Reason;
use samekey::store::OutboundKey;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// The largest answer that is read: a payment is described in a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The port of an address that names none.
const HTTP_PORT: u16 = 80;

/// Where the provider is.
#[derive(Clone, Debug)]
pub struct Address {
    host: String,
    port: u16,
    authority: HeaderValue,
    path: String,
}

impl Address {
    /// Reads an address such as `http://127.0.0.1:8021`; a path in it comes before every other.
    pub fn parse(text: &str) -> Result<Address, &'static str> {
        const EXPECTED: &str = "expected an address such as http://127.0.0.1:8021";
        let uri: Uri = text.parse().map_err(|_| EXPECTED)?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(
                    "this example speaks plain HTTP to its provider; put a TLS proxy on loopback before it, or expected http://HOST:PORT",
                );
            }
            Some(_) | None => return Err(EXPECTED),
        }
        let authority = uri.authority().ok_or(EXPECTED)?;
        if authority.as_str().contains('@') {
            return Err(
                "the provider's address carries a credential; give it with --provider-token",
            );
        }
        if text.contains('#') {
            return Err("the provider's address has a fragment; expected http://HOST:PORT");
        }
        if uri.query().is_some() {
            return Err("the provider's address has a query; expected http://HOST:PORT");
        }
        // A port that cannot be read is not one that was left out.
        let rest = authority.as_str().trim_start_matches(authority.host());
        let port = match (authority.port_u16(), rest.is_empty()) {
            (Some(port), _) if port != 0 => port,
            (None, true) => HTTP_PORT,
            (Some(_) | None, _) => {
                return Err(
                    "the provider's address has no port that can be used; expected http://HOST:PORT with a port from 1 to 65535",
                );
            }
        };
        Ok(Address {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port,
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| EXPECTED)?,
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", String::from_utf8_lossy(self.authority.as_bytes()), self.path)
    }
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until the connection stands. Whoever does not answer until then was never sent anything.
    pub connect_time_max: Duration,
    /// The whole call, connecting included.
    pub call_time_max: Duration,
}

/// The way to one provider.
#[derive(Clone)]
pub(super) struct Wire(Arc<Inner>);

struct Inner {
    address: Address,
    credential: Option<HeaderValue>,
    limits: Limits,
}

/// How a call ended.
pub(super) enum Heard {
    /// No byte of the request left this process.
    NotSent,
    /// Some of it may have, and there is no whole answer.
    Lost(Reason),
    /// The whole answer.
    Answer(StatusCode, Bytes),
}

impl Wire {
    pub(super) fn new(address: Address, credential: Option<HeaderValue>, limits: Limits) -> Wire {
        Wire(Arc::new(Inner { address, credential, limits }))
    }

    /// Sends one request. It is sent once, or not at all.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        key: Option<OutboundKey>,
        body: Bytes,
    ) -> Heard {
        let Inner { limits, .. } = &*self.0;
        let ends = Instant::now() + limits.call_time_max;
        let connected = Instant::now() + limits.connect_time_max;
        // Made before anything is sent, so that what cannot be made was not sent.
        let Ok(request) = self.request(method, path, key, body) else { return Heard::NotSent };
        let Ok(Some(stream)) = timeout_at(connected.min(ends), self.connect()).await else {
            return Heard::NotSent;
        };
        match timeout_at(ends, exchange(stream, request)).await {
            Ok(heard) => heard,
            Err(_) => Heard::Lost(Reason::TimedOut),
        }
    }

    /// Refused, unreachable, and a name that nobody knows are all one: nothing was sent.
    fn connect(&self) -> impl Future<Output = Option<TcpStream>> {
        let Address { host, port, .. } = &self.0.address;
        async move {
            let stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
            let _ = stream.set_nodelay(true);
            Some(stream)
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        key: Option<OutboundKey>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let Inner { address, credential, .. } = &*self.0;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", address.path))
            .header(header::HOST, &address.authority)
            .header(header::ACCEPT, "application/json")
            .header(header::CONNECTION, "close");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key.to_string());
        }
        if let Some(credential) = credential {
            request = request.header(header::AUTHORIZATION, credential);
        }
        request.body(Full::new(body))
    }
}

/// The connection is driven by the call itself and not by a task of its own: so each byte is written in a
/// step of the call, before which the owner's lease was looked at, and the connection ends with the call.
async fn exchange(stream: TcpStream, request: Request<Full<Bytes>>) -> Heard {
    // Where the connection stood at once, this is still the step that began before it; nothing is sent
    // without another look.
    tokio::task::yield_now().await;
    // The handshake of HTTP/1 sends nothing.
    let Ok((sender, connection)) = http1::handshake(TokioIo::new(stream)).await else {
        return Heard::NotSent;
    };
    let (mut connection, mut heard) = (pin!(connection), pin!(hear(sender, request)));
    tokio::select! {
        biased;
        heard = &mut heard => return heard,
        // The other side has ended it; what it had said before is still to be read.
        _ = &mut connection => {}
    }
    heard.await
}

async fn hear(mut sender: SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Heard {
    // From here on bytes may be out, whatever an error says.
    let Ok(answer) = sender.send_request(request).await else {
        return Heard::Lost(Reason::ConnectionLost);
    };
    let (head, body) = answer.into_parts();
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Heard::Answer(head.status, body.to_bytes()),
        Err(_) => Heard::Lost(Reason::ConnectionLost),
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn an_address_is_read_or_refused_with_a_sentence() {
        let address = Address::parse("http://pay.test:8021/v1/").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("pay.test", 8021));
        assert_eq!(
            (address.authority.to_str().unwrap(), address.path.as_str()),
            ("pay.test:8021", "/v1")
        );
        let six = Address::parse("http://[::1]").unwrap();
        assert_eq!((six.host.as_str(), six.port, six.path.as_str()), ("::1", 80, ""));
        for (text, part) in [
            ("", "expected an address"),
            ("127.0.0.1:8021", "expected an address"),
            ("ftp://pay.test", "expected an address"),
            ("https://pay.test", "plain HTTP"),
            ("http://me:secret@pay.test", "--provider-token"),
            ("http://pay.test/?a=1", "has a query"),
        ] {
            let sentence = Address::parse(text).unwrap_err();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }
}
