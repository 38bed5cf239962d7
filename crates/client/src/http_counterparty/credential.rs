//! Who we are at a counterparty: looked up each time that something is sent, so that a credential can be
//! changed without a restart, and is in nothing that is kept.

use crate::error::Error;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// The largest credential, in bytes: heads of requests are not larger.
const CREDENTIAL_BYTES_MAX: usize = 8 * 1024;

/// A credential of ours.
#[derive(Clone)]
pub struct Credential {
    header: HeaderName,
    prefix: String,
    source: Source,
}

#[derive(Clone)]
enum Source {
    Environment(String),
    File(PathBuf),
    Lookup(Arc<dyn Fn() -> Option<SecretString> + Send + Sync>),
}

impl Credential {
    /// `Authorization: Bearer`, and what this environment variable says.
    pub fn environment(name: impl Into<String>) -> Credential {
        Credential::bearer(Source::Environment(name.into()))
    }

    /// `Authorization: Bearer`, and what stands in this file.
    pub fn file(path: impl Into<PathBuf>) -> Credential {
        Credential::bearer(Source::File(path.into()))
    }

    /// `Authorization: Bearer`, and what this says, which is called for every request and must not block.
    pub fn lookup(
        look_up: impl Fn() -> Option<SecretString> + Send + Sync + 'static,
    ) -> Credential {
        Credential::bearer(Source::Lookup(Arc::new(look_up)))
    }

    fn bearer(source: Source) -> Credential {
        Credential { header: http::header::AUTHORIZATION, prefix: "Bearer ".to_owned(), source }
    }

    /// In another header, after another prefix.
    ///
    /// # Errors
    /// `header` is no name of a header.
    pub fn in_header(mut self, header: &str, prefix: &str) -> Result<Credential, Error> {
        self.header = header.parse().map_err(|_| {
            Error::config(format!("credential.header: {header:?} is no name of a header"))
        })?;
        self.prefix = prefix.to_owned();
        Ok(self)
    }

    /// Whether there is a credential that can be sent now.
    ///
    /// # Errors
    /// One sentence that says where it was looked for, and nothing of what was found.
    pub async fn check(&self) -> Result<(), Error> {
        if self.header().await.is_some() {
            return Ok(());
        }
        Err(Error::config(match &self.source {
            Source::Environment(name) => match std::env::var_os(name) {
                None => format!(
                    "credential: the environment variable {name} is not set, and nothing is sent without it"
                ),
                Some(_) => format!(
                    "credential: what the environment variable {name} has is empty, or no text that a header can carry"
                ),
            },
            Source::File(path) => format!(
                "credential: the file {} cannot be read, is empty, or has more than one line of at most {CREDENTIAL_BYTES_MAX} bytes",
                path.display()
            ),
            Source::Lookup(_) => "credential: its look-up finds none".to_owned(),
        }))
    }

    /// The header as it is now; nothing where there is no credential. Its value is marked as sensitive.
    pub async fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        let secret = match &self.source {
            Source::Environment(name) => SecretString::from(std::env::var(name).ok()?),
            Source::Lookup(look_up) => look_up()?,
            Source::File(path) => {
                let path = path.clone();
                // A file may lie on a slow disk.
                tokio::task::spawn_blocking(move || read(path)).await.ok()??
            }
        };
        let secret = secret.expose_secret().trim();
        if secret.is_empty() {
            return None;
        }
        let mut value = HeaderValue::try_from(format!("{}{secret}", self.prefix)).ok()?;
        value.set_sensitive(true);
        Some((self.header.clone(), value))
    }
}

fn read(path: PathBuf) -> Option<SecretString> {
    let limit = u64::try_from(CREDENTIAL_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(limit).read_to_string(&mut text).ok()?;
    (text.len() <= CREDENTIAL_BYTES_MAX).then(|| SecretString::from(text))
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Environment(name) => write!(f, "Credential(environment {name})"),
            Source::File(path) => write!(f, "Credential(file {})", path.display()),
            Source::Lookup(_) => f.write_str("Credential(lookup)"),
        }
    }
}
