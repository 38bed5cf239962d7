//! TLS on both sides: what this gateway shows to its clients, and whom it believes to be its upstream.
//!
//! Certificate and key are read once, at the start. Early data stays off on both sides: anybody on the way
//! may replay it.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, InconsistentKeys, RootCertStore, ServerConfig,
};
use samekey_client::file::{self, Unread};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A file of certificates is not larger; all authorities of a system together have about 250 KiB.
const PEM_BYTES_MAX: u64 = 4 << 20;
/// What a client may choose, the better one first.
const BOTH: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Which of the two files is wrong, and what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The one with the certificate.
    Certificate(String),
    /// The one with its key.
    Key(String),
}

/// What clients are shown.
#[derive(Clone)]
pub(crate) struct ServerTls(Arc<ServerConfig>);

impl fmt::Debug for ServerTls {
    /// A private key is in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}

impl ServerTls {
    /// The certificate of one file, its own first and then those of its authorities, and the key of the other.
    pub(crate) fn read(certificate: &str, key: &str) -> Result<ServerTls, Fault> {
        let chain = certificates(certificate).map_err(Fault::Certificate)?;
        let private = private_key(key).map_err(Fault::Key)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::Key(error.to_string()))?;
        let made = builder.with_no_client_auth().with_single_cert(chain, private);
        let mut config = made.map_err(|error| unusable(certificate, key, &error))?;
        config.alpn_protocols = BOTH.iter().map(|name| name.to_vec()).collect();
        Ok(ServerTls(Arc::new(config)))
    }

    /// What makes TLS of a connection that came.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

fn unusable(certificate: &str, key: &str, error: &rustls::Error) -> Fault {
    if matches!(error, rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) {
        return Fault::Key(format!(
            "the key in {key:?} is not the one of the first certificate in {certificate:?}; that has to be the server's own, with those of its authorities behind it"
        ));
    }
    if matches!(error, rustls::Error::InvalidCertificate(_)) {
        return Fault::Certificate(format!(
            "the first certificate in {certificate:?} cannot be read; expected an X.509 certificate"
        ));
    }
    Fault::Key(format!("the key in {key:?} cannot be used: {error}"))
}

/// Which HTTP the upstream is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Over TLS what the two sides agree on, HTTP/2 first; without TLS HTTP/1.1.
    Negotiated,
    /// HTTP/1.1 always.
    Http1,
    /// HTTP/2 always, without asking.
    Http2,
}

/// Who is believed to be the upstream.
#[derive(Clone)]
pub(crate) struct UpstreamTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamTls({:?})", self.name)
    }
}

impl UpstreamTls {
    /// Whoever has a certificate for this host, from an authority in this file, or of the system where no
    /// file is named.
    pub(crate) fn read(
        host: &str,
        authorities: Option<&str>,
        protocol: Protocol,
    ) -> Result<UpstreamTls, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            format!("no certificate can be for the host {host:?}; expected a name or an address")
        })?;
        let roots = match authorities {
            Some(file) => named_roots(file)?,
            None => system_roots()?,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        let offered: &[&[u8]] = match protocol {
            Protocol::Negotiated => &BOTH,
            Protocol::Http1 => &[b"http/1.1"],
            Protocol::Http2 => &[b"h2"],
        };
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        Ok(UpstreamTls { config: Arc::new(config), name })
    }

    /// What makes TLS of a connection to it, and the name that its certificate has to be for.
    pub(crate) fn connector(&self) -> (TlsConnector, ServerName<'static>) {
        (TlsConnector::from(Arc::clone(&self.config)), self.name.clone())
    }
}

fn named_roots(file: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|_| {
            format!(
                "one of the certificates in {file:?} cannot be read; expected those of authorities"
            )
        })?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "this system trusts no authority, so no upstream could be believed; install its certificates (package ca-certificates), or name the upstream's authority: upstream_ca = \"FILE.pem\""
                .to_owned(),
        );
    }
    Ok(roots)
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = contents(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|_| format!("{file:?} is damaged; expected certificates in PEM"))?;
    if found.is_empty() {
        return Err(format!(
            "there is {} in {file:?}; expected certificates in PEM, which begin with -----BEGIN CERTIFICATE-----",
            instead(&pem)
        ));
    }
    Ok(found)
}

fn private_key(file: &str) -> Result<PrivateKeyDer<'static>, String> {
    let pem = contents(file)?;
    if let Ok(key) = PrivateKeyDer::from_pem_slice(&pem) {
        return Ok(key);
    }
    Err(if has(&pem, "ENCRYPTED") {
        format!(
            "the key in {file:?} is encrypted with a passphrase, which nobody is there to type; write it without one: openssl pkey -in {file:?} -out KEY.pem"
        )
    } else {
        format!(
            "there is {} in {file:?}; expected a private key in PEM, which begins with -----BEGIN PRIVATE KEY-----",
            instead(&pem)
        )
    })
}

/// What stands in a file that has not what it should.
fn instead(pem: &[u8]) -> &'static str {
    if has(pem, "PRIVATE KEY-----") {
        "a private key"
    } else if has(pem, "-----BEGIN CERTIFICATE-----") {
        "a certificate"
    } else if has(pem, "-----BEGIN ") {
        "something else"
    } else if pem.is_empty() {
        "nothing"
    } else {
        "no PEM"
    }
}

fn has(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|window| window == word.as_bytes())
}

fn contents(file: &str) -> Result<Vec<u8>, String> {
    let path = Path::new(file);
    file::read(path, PEM_BYTES_MAX).map_err(|unread| match unread {
        Unread::Is(kind) => format!("{file:?} is {kind}, expected a regular file in PEM"),
        Unread::Larger(bytes_max) => format!(
            "{file:?} has more than {bytes_max} bytes; expected certificates or a key in PEM"
        ),
        Unread::Failed(error) => unreadable(file, path.is_relative(), &error),
    })
}

fn unreadable(file: &str, is_relative: bool, error: &io::Error) -> String {
    let is = |kind| error.kind() == kind;
    if is(ErrorKind::NotFound) && is_relative {
        format!(
            "there is no file {file:?} in the folder that the gateway was started in; write its whole path"
        )
    } else if is(ErrorKind::NotFound) {
        format!("there is no file {file:?}")
    } else if is(ErrorKind::PermissionDenied) {
        format!("{file:?} may not be read by the user that the gateway runs as")
    } else {
        format!("{file:?} cannot be read: {error}")
    }
}

/// Why no TLS came to be with the upstream, for whoever runs the gateway.
pub(crate) fn why(error: &io::Error) -> String {
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
    else {
        return format!("the connection ended within the handshake: {}", error.kind());
    };
    if let rustls::Error::InvalidCertificate(why) = error {
        return certificate(why);
    }
    if matches!(error, rustls::Error::InvalidMessage(_)) {
        return "what answers there speaks no TLS; is the upstream http://?".to_owned();
    }
    let no_common_http = matches!(
        error,
        rustls::Error::NoApplicationProtocol
            | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
    );
    if no_common_http {
        return "the upstream does not speak the HTTP that it was offered; see upstream_http"
            .to_owned();
    }
    error.to_string()
}

fn certificate(why: &CertificateError) -> String {
    let sentence = if matches!(why, CertificateError::UnknownIssuer) {
        "is from nobody who is trusted here; name its authority with upstream_ca"
    } else if matches!(
        why,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
    ) {
        "is for another host; write the host that it is for in upstream"
    } else if matches!(why, CertificateError::Expired | CertificateError::ExpiredContext { .. }) {
        "has expired"
    } else if matches!(
        why,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }
    ) {
        "is not valid yet; is the clock right?"
    } else {
        return format!("its certificate is not accepted: {why}");
    };
    format!("its certificate {sentence}")
}
