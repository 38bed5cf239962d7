//! Whose certificates are trusted.

use super::Protocol;
use crate::error::Error;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Whose certificates are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the system.
    #[default]
    System,
    /// Only those in this PEM text: for a counterparty with an authority of its own.
    Only(Vec<u8>),
}

/// The TLS of a transport. Early data stays off: it may be replayed by anybody on the way.
pub(crate) fn config(trust: &Trust, protocol: Protocol) -> Result<Arc<ClientConfig>, Error> {
    let mut config = client_config(trust)?;
    config.alpn_protocols = match protocol {
        Protocol::Negotiated => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

/// TLS without a word about which HTTP is spoken in it. The cryptography is named here, so that nothing
/// depends on what else is linked into the program.
fn client_config(trust: &Trust) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| Error::config("TLS 1.2 and 1.3 are not available in this build"))?;
    Ok(builder.with_root_certificates(roots(trust)?).with_no_client_auth())
}

fn roots(trust: &Trust) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    match trust {
        // A system without certificates trusts nobody: every connection is then refused as it is made.
        Trust::System => {
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Trust::Only(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|_| {
                    Error::config("the trusted certificates cannot be read; expected PEM")
                })?;
                roots.add(certificate).map_err(|_| {
                    Error::config(
                        "one of the trusted certificates is no certificate of an authority",
                    )
                })?;
            }
            if roots.is_empty() {
                return Err(Error::config(
                    "there is no trusted certificate in the PEM text that was given",
                ));
            }
        }
    }
    Ok(roots)
}
