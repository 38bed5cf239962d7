//! How names become addresses.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

/// A look-up on its way.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks names up. Whatever it says is checked before it is connected to.
#[derive(Clone)]
pub struct Resolver(Arc<dyn Fn(&str) -> Resolving + Send + Sync>);

impl Resolver {
    /// The system's.
    pub fn system() -> Resolver {
        Resolver::new(|host| {
            let host = host.to_owned();
            Box::pin(async move {
                let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        })
    }

    /// Another one. It is asked anew for every connection.
    pub fn new(look_up: impl Fn(&str) -> Resolving + Send + Sync + 'static) -> Resolver {
        Resolver(Arc::new(look_up))
    }

    pub(crate) fn look_up(&self, host: &str) -> Resolving {
        (self.0)(host)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
