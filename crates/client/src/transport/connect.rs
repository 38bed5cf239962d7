//! A connection to an address that was checked.

use super::{Inner, NotSent, Phase, Protocol, by};
use crate::address::{Base, Scheme};
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

/// Addresses of one host that are tried at the most.
const ADDRESSES_MAX: usize = 8;

/// What bytes go through.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// An open connection, on which nothing was said but what TLS says.
pub(super) struct Connection {
    pub(super) stream: Box<dyn Stream>,
    pub(super) speaks: Speaks,
}

/// Which HTTP it speaks.
pub(super) enum Speaks {
    Http1,
    Http2,
}

pub(super) async fn open(
    inner: &Inner,
    base: &Base,
    connected_by: Instant,
) -> Result<Connection, (Phase, NotSent)> {
    let addresses = resolve(inner, base, connected_by).await?;
    let tcp = connect(&addresses, connected_by).await.map_err(|why| (Phase::Connect, why))?;
    let _ = tcp.set_nodelay(true);
    match base.scheme() {
        Scheme::Http => {
            Ok(Connection { stream: Box::new(tcp), speaks: speaks(inner.protocol, None) })
        }
        Scheme::Https => {
            secure(inner, base, tcp, connected_by).await.map_err(|why| (Phase::Handshake, why))
        }
    }
}

/// The addresses that may be connected to. They are looked up and checked for every connection.
async fn resolve(
    inner: &Inner,
    base: &Base,
    connected_by: Instant,
) -> Result<Vec<SocketAddr>, (Phase, NotSent)> {
    let failed = |why| (Phase::Resolve, why);
    let found: Vec<IpAddr> = match base.literal() {
        Some(address) => vec![address],
        None => match by(connected_by, inner.resolver.look_up(base.host())).await {
            None => return Err(failed(NotSent::ConnectTimedOut)),
            Some(Err(_)) => return Err(failed(NotSent::UnknownHost)),
            Some(Ok(found)) => found,
        },
    };
    if found.is_empty() {
        return Err(failed(NotSent::UnknownHost));
    }
    let allowed = found.into_iter().filter(|ip| inner.reach.allows(*ip, base.scheme()));
    let addresses: Vec<SocketAddr> =
        allowed.take(ADDRESSES_MAX).map(|ip| SocketAddr::new(ip, base.port())).collect();
    if addresses.is_empty() {
        return Err(failed(NotSent::AddressRefused));
    }
    Ok(addresses)
}

/// One after the other. Each gets an equal part of what is left, so that one that is silent does not take the
/// time of those after it.
async fn connect(addresses: &[SocketAddr], connected_by: Instant) -> Result<TcpStream, NotSent> {
    let mut why = NotSent::ConnectTimedOut;
    for (tried, address) in addresses.iter().enumerate() {
        let now = Instant::now();
        let left = u32::try_from(addresses.len().saturating_sub(tried)).unwrap_or(1).max(1);
        let ends = now + connected_by.saturating_duration_since(now) / left;
        match by(ends, TcpStream::connect(*address)).await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(_)) => why = NotSent::NotConnected,
            None => why = NotSent::ConnectTimedOut,
        }
    }
    Err(why)
}

async fn secure(
    inner: &Inner,
    base: &Base,
    tcp: TcpStream,
    connected_by: Instant,
) -> Result<Connection, NotSent> {
    let name = ServerName::try_from(base.host().to_owned()).map_err(|_| NotSent::UnknownHost)?;
    let connector = TlsConnector::from(Arc::clone(&inner.tls));
    match by(connected_by, connector.connect(name, tcp)).await {
        None => Err(NotSent::ConnectTimedOut),
        Some(Err(error)) => Err(tls_failure(&error)),
        Some(Ok(stream)) => {
            let speaks = speaks(inner.protocol, stream.get_ref().1.alpn_protocol());
            Ok(Connection { stream: Box::new(stream), speaks })
        }
    }
}

fn speaks(protocol: Protocol, agreed: Option<&[u8]>) -> Speaks {
    match (protocol, agreed) {
        (Protocol::Http2, _) | (Protocol::Negotiated, Some(b"h2")) => Speaks::Http2,
        (Protocol::Negotiated | Protocol::Http1, _) => Speaks::Http1,
    }
}

/// A certificate that is not valid is for a person; anything else may be better next time.
fn tls_failure(error: &io::Error) -> NotSent {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(error) if is_certificate(error) => NotSent::CertificateInvalid,
        Some(_) | None => NotSent::Tls,
    }
}

pub(crate) fn is_certificate(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
}
