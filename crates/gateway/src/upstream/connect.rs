//! A connection to the upstream, on which nothing was said but what TLS says.

use super::Failed;
use super::guarded::Guarded;
use crate::config::{Settings, Target};
use crate::tls::{self, Protocol, UpstreamTls};
use samekey::CallLease;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// What bytes go through.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// An open connection.
pub(super) struct Connection {
    pub(super) stream: Box<dyn Stream>,
    pub(super) speaks: Speaks,
}

/// Which HTTP it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Http1,
    Http2,
}

/// How connections are made.
pub(super) struct Connects {
    target: Target,
    tls: Option<UpstreamTls>,
    protocol: Protocol,
    /// How long one may take, its name look-up and its TLS included.
    pub(super) time_max: Duration,
}

impl Connects {
    pub(super) fn new(settings: &Settings) -> Connects {
        Connects {
            target: settings.target.clone(),
            tls: settings.upstream_tls.clone(),
            protocol: settings.upstream_http,
            time_max: settings.limits.connect_time_max,
        }
    }

    pub(super) fn scheme(&self) -> &'static str {
        self.target.scheme()
    }

    /// Opens a connection, which takes nothing more once this lease is over.
    pub(super) async fn open(
        &self,
        by: Instant,
        lease: Option<CallLease>,
    ) -> Result<Connection, Failed> {
        let connecting = TcpStream::connect((self.target.host.as_str(), self.target.port));
        let stream = timeout_at(by, connecting)
            .await
            .map_err(|_| Failed::NeverReached)?
            .map_err(|_| Failed::NeverReached)?;
        let _ = stream.set_nodelay(true);
        let stream = Guarded { stream, lease };
        match &self.tls {
            None => {
                let speaks = speaks(self.protocol, None);
                Ok(Connection { stream: Box::new(stream), speaks })
            }
            Some(tls) => self.secured(stream, tls, by).await,
        }
    }

    async fn secured(
        &self,
        stream: Guarded,
        tls: &UpstreamTls,
        by: Instant,
    ) -> Result<Connection, Failed> {
        let (connector, name) = tls.connector();
        let why = match timeout_at(by, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => {
                let speaks = speaks(self.protocol, stream.get_ref().1.alpn_protocol());
                return Ok(Connection { stream: Box::new(stream), speaks });
            }
            Ok(Err(error)) => tls::why(&error),
            Err(_) => "it did not end in time".to_owned(),
        };
        tracing::warn!(host = self.target.host, why, "no TLS with the upstream; nothing was sent");
        Err(Failed::NoTls)
    }
}

fn speaks(protocol: Protocol, agreed: Option<&[u8]>) -> Speaks {
    match (protocol, agreed) {
        (Protocol::Http2, _) | (Protocol::Negotiated, Some(b"h2")) => Speaks::Http2,
        (Protocol::Negotiated | Protocol::Http1, _) => Speaks::Http1,
    }
}
