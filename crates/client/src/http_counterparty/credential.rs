//! Who we are at a counterparty: looked up each time that something is sent, so that a credential can be
//! changed without a restart, and is in nothing that is kept.

use crate::error::Error;
use crate::file::{self, Unread};
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// The largest credential, in bytes: heads of requests are not larger.
const CREDENTIAL_BYTES_MAX: u64 = 8 * 1024;
/// How long a file may take to be read: what lies on a slow disk comes within it, what hangs is not waited for.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// How many reads of one file go on at a time. Where its disk hangs, no more threads than these hang with it.
const READS_MAX: usize = 4;

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
    File { path: PathBuf, reads: Arc<Semaphore> },
    Lookup(Arc<dyn Fn() -> Option<SecretString> + Send + Sync>),
}

impl Credential {
    /// `Authorization: Bearer`, and what this environment variable says.
    pub fn environment(name: impl Into<String>) -> Credential {
        Credential::bearer(Source::Environment(name.into()))
    }

    /// `Authorization: Bearer`, and what stands in this file, a regular one of at most 8 KiB. One that takes
    /// longer than five seconds to be read counts as one that cannot be.
    pub fn file(path: impl Into<PathBuf>) -> Credential {
        let reads = Arc::new(Semaphore::new(READS_MAX));
        Credential::bearer(Source::File { path: path.into(), reads })
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
        match self.found().await {
            Ok(_) => Ok(()),
            Err(why) => Err(Error::config(format!("credential: {why}"))),
        }
    }

    /// The header as it is now; nothing where there is no credential. Its value is marked as sensitive.
    pub async fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.found().await.ok()
    }

    /// The header as it is now, or why there is none.
    async fn found(&self) -> Result<(HeaderName, HeaderValue), String> {
        let secret = match &self.source {
            Source::Environment(name) => match std::env::var_os(name) {
                None => {
                    return Err(format!(
                        "the environment variable {name} is not set, and nothing is sent without it"
                    ));
                }
                Some(found) => found.into_string().ok().map(SecretString::from),
            },
            Source::Lookup(look_up) => look_up(),
            Source::File { path, reads } => {
                let read = beside(Arc::clone(reads), {
                    let path = path.clone();
                    move || read(&path)
                });
                let read = read.await.unwrap_or_else(|| {
                    Err(format!("was not read within {} seconds", READ_TIME_MAX.as_secs()))
                });
                Some(read.map_err(|why| format!("the file {} {why}", path.display()))?)
            }
        };
        secret.and_then(|secret| self.carrying(&secret)).ok_or_else(|| match &self.source {
            Source::Environment(name) => format!(
                "what the environment variable {name} has is empty, or no text that a header can carry"
            ),
            Source::File { path, .. } => format!(
                "the file {} is empty, or has more than one line that a header can carry",
                path.display()
            ),
            Source::Lookup(_) => "its look-up finds none".to_owned(),
        })
    }

    /// The header with this in it, if that is something that a header can carry.
    fn carrying(&self, secret: &SecretString) -> Option<(HeaderName, HeaderValue)> {
        let secret = secret.expose_secret().trim();
        if secret.is_empty() {
            return None;
        }
        let mut value = HeaderValue::try_from(format!("{}{secret}", self.prefix)).ok()?;
        value.set_sensitive(true);
        Some((self.header.clone(), value))
    }
}

/// What this says, if it says it in time. It has a thread to itself: the runtime ends without it where it hangs,
/// and waits for its own blocking threads.
async fn beside<T: Send + 'static>(
    reads: Arc<Semaphore>,
    read: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let reading = async {
        let place = reads.acquire_owned().await.ok()?;
        let (told, tells) = oneshot::channel();
        let thread = std::thread::Builder::new().name("credential".to_owned());
        let started = thread.spawn(move || {
            let said = read();
            drop(place);
            // Nobody waits any more where it took too long.
            let _ = told.send(said);
        });
        started.ok()?;
        tells.await.ok()
    };
    tokio::time::timeout(READ_TIME_MAX, reading).await.ok()?
}

/// What stands in a file, or what is wrong with it, to be said behind its name.
fn read(path: &Path) -> Result<SecretString, String> {
    let bytes = file::read(path, CREDENTIAL_BYTES_MAX).map_err(|unread| match unread {
        Unread::Larger(_) => {
            format!("{unread}, which no credential that a header can carry has")
        }
        Unread::Is(_) | Unread::Failed(_) => unread.to_string(),
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| "cannot be read: stream did not contain valid UTF-8".to_owned())?;
    Ok(SecretString::from(text))
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Environment(name) => write!(f, "Credential(environment {name})"),
            Source::File { path, .. } => write!(f, "Credential(file {})", path.display()),
            Source::Lookup(_) => f.write_str("Credential(lookup)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CREDENTIAL_BYTES_MAX, Credential, READS_MAX, beside};
    use std::path::Path;
    use std::process::Command;
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};
    use tokio::sync::Semaphore;

    /// Less than what is waited for a file that hangs.
    const AT_ONCE: Duration = Duration::from_secs(3);

    async fn refused(path: &Path) -> String {
        let credential = Credential::file(path);
        let begun = Instant::now();
        assert!(credential.header().await.is_none());
        let why = credential.check().await.unwrap_err().to_string();
        assert!(begun.elapsed() < AT_ONCE, "{why}");
        why
    }

    #[tokio::test]
    async fn only_a_regular_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        std::fs::create_dir(at("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::write(at("large"), vec![b'x'; usize::try_from(CREDENTIAL_BYTES_MAX).unwrap() + 1])
            .unwrap();
        std::fs::write(at("empty"), " \n").unwrap();
        std::fs::write(at("lines"), "a\nb\n").unwrap();
        for (name, said) in [
            ("pipe", "is a named pipe, expected a regular file"),
            ("folder", "is a folder, expected a regular file"),
            ("socket", "is a socket, expected a regular file"),
            ("large", "has more than 8192 bytes"),
            ("empty", "is empty, or has more than one line"),
            ("lines", "is empty, or has more than one line"),
            ("missing", "cannot be read: No such file"),
        ] {
            let why = refused(&at(name)).await;
            let expected = format!("credential: the file {} {said}", at(name).display());
            assert!(why.starts_with(&expected), "{why}");
        }
        assert!(refused(Path::new("/dev/zero")).await.contains("is a device"));
        // What a secret store mounts is a link to a file.
        std::fs::write(at("token"), "t\n").unwrap();
        std::os::unix::fs::symlink(at("token"), at("link")).unwrap();
        let (_, value) = Credential::file(at("link")).header().await.unwrap();
        assert_eq!(value.as_bytes(), b"Bearer t");
    }

    #[test]
    fn a_read_that_hangs_holds_neither_the_runtime_nor_more_than_its_threads() {
        let (hold, held) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let held = Arc::new(std::sync::Mutex::new(held));
        let reads = Arc::new(Semaphore::new(READS_MAX));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        for _ in 0..READS_MAX + 1 {
            let (begun, held) = (begun.clone(), Arc::clone(&held));
            runtime.spawn(beside(Arc::clone(&reads), move || {
                begun.send(()).unwrap();
                let _ = held.lock().unwrap().recv();
            }));
        }
        for _ in 0..READS_MAX {
            begins.recv_timeout(AT_ONCE).unwrap();
        }
        assert!(begins.recv_timeout(Duration::from_millis(100)).is_err(), "one thread too many");
        let (ended, ends) = mpsc::channel();
        std::thread::spawn(move || {
            drop(runtime);
            ended.send(()).unwrap();
        });
        assert!(ends.recv_timeout(AT_ONCE).is_ok(), "the runtime waits for the file");
        drop(hold);
    }
}
