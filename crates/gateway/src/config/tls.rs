//! The settings of TLS: what clients are shown, and who is believed to be the upstream.

use super::Target;
use super::source::Section;
use crate::error::Error;
use crate::tls::{Fault, Protocol, ServerTls, UpstreamTls};

const TLS_KEYS: [&str; 2] = ["certificate", "key"];

/// What clients are shown; nothing where they come without TLS.
pub(super) fn towards_clients(top: &Section<'_>) -> Result<Option<ServerTls>, Error> {
    let Some(section) = top.section("tls", &TLS_KEYS)? else { return Ok(None) };
    let (certificate, key) = (section.required("certificate")?, section.required("key")?);
    ServerTls::read(certificate, key).map(Some).map_err(|fault| match fault {
        Fault::Certificate(sentence) => section.fault("certificate", sentence),
        Fault::Key(sentence) => section.fault("key", sentence),
    })
}

/// In which HTTP the upstream is spoken to.
pub(super) fn protocol(top: &Section<'_>) -> Result<Protocol, Error> {
    let words = [("auto", Protocol::Negotiated), ("1", Protocol::Http1), ("2", Protocol::Http2)];
    Ok(top.choice("upstream_http", &words)?.unwrap_or(Protocol::Negotiated))
}

/// Who is believed to be the upstream; nothing where it is spoken to without TLS.
pub(super) fn towards_upstream(
    top: &Section<'_>,
    target: &Target,
    protocol: Protocol,
) -> Result<Option<UpstreamTls>, Error> {
    let authorities = top.text("upstream_ca")?;
    match (target.is_secure, authorities) {
        (true, Some(_)) => UpstreamTls::read(&target.host, authorities, protocol)
            .map(Some)
            .map_err(|sentence| top.fault("upstream_ca", sentence)),
        (true, None) => UpstreamTls::read(&target.host, None, protocol)
            .map(Some)
            .map_err(|sentence| Error::settings(format!("the upstream is https://: {sentence}"))),
        (false, Some(_)) => Err(top.fault(
            "upstream_ca",
            "the upstream is http://, so nobody shows a certificate; write https://, or leave this out",
        )),
        (false, None) => Ok(None),
    }
}
