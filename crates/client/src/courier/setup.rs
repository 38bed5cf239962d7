//! What a courier is made of.

use super::{Health, Place};
use crate::counterparty::{Boxed, Counterparty};
use crate::error::{Error, Kind};
use crate::signal::Listener;
use samekey_core::profile::{Limits, Profile};
use samekey_store::outbox::NAME_BYTES_MAX;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU32};
use tokio::sync::Notify;

/// The most requests to one destination at a time: each holds a request and a connection.
pub const CONCURRENCY_MAX: u32 = 256;
/// As many as most payment providers take from one caller without a word.
const CONCURRENCY_DEFAULT: u32 = 8;
/// The longest name of an environment.
const ENVIRONMENT_BYTES_MAX: usize = 64;

/// Where commands go, and how.
pub struct Destination {
    name: String,
    counterparty: Box<dyn Boxed>,
    profile: Profile,
    concurrency_max: u32,
}

impl Destination {
    /// A destination of this name, tried as [`Limits::DURABLE`] says, eight requests at a time.
    ///
    /// # Errors
    /// [`Kind::Config`] for a name out of bounds, and where the counterparty forgets keys before the
    /// retries end.
    pub fn new(name: &str, counterparty: impl Counterparty) -> Result<Destination, Error> {
        Destination::with_limits(name, counterparty, Limits::DURABLE)
    }

    /// A destination of this name, tried within these limits.
    ///
    /// # Errors
    /// As [`Destination::new`], and for a limit out of bounds.
    pub fn with_limits(
        name: &str,
        counterparty: impl Counterparty,
        limits: Limits,
    ) -> Result<Destination, Error> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
            return Err(Error::new(
                Kind::Config,
                format!(
                    "a destination's name has {} bytes; expected 1 to {NAME_BYTES_MAX} without control characters",
                    name.len()
                ),
            ));
        }
        let profile = limits
            .check(counterparty.declared())
            .map_err(|fault| Error::new(Kind::Config, format!("destination `{name}`: {fault}")))?;
        Ok(Destination {
            name: name.to_owned(),
            counterparty: Box::new(counterparty),
            profile,
            concurrency_max: CONCURRENCY_DEFAULT,
        })
    }

    /// As many requests at a time, from this process.
    ///
    /// # Errors
    /// [`Kind::Config`] outside 1 to [`CONCURRENCY_MAX`].
    pub fn concurrency(mut self, requests_max: u32) -> Result<Destination, Error> {
        if requests_max == 0 || requests_max > CONCURRENCY_MAX {
            return Err(Error::new(
                Kind::Config,
                format!(
                    "destination `{}`: a concurrency of {requests_max} is outside 1..={CONCURRENCY_MAX}",
                    self.name
                ),
            ));
        }
        self.concurrency_max = requests_max;
        Ok(self)
    }

    pub(super) fn into_place(self) -> Place {
        Place {
            name: self.name,
            counterparty: self.counterparty,
            profile: self.profile,
            in_flight: AtomicU32::new(0),
            health: Mutex::new(Health::new(self.concurrency_max)),
            wake: Notify::new(),
            heeded: AtomicI64::new(i64::MIN),
        }
    }
}

/// What a courier is made of besides its store.
pub struct Setup {
    pub(super) environment: String,
    pub(super) destinations: Vec<Destination>,
    pub(super) listener: Option<Listener>,
}

impl Setup {
    /// A courier for this environment, such as `production` or `test`, without destinations.
    ///
    /// # Errors
    /// [`Kind::Config`] for a name out of bounds.
    pub fn new(environment: &str) -> Result<Setup, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if environment.is_empty()
            || environment.len() > ENVIRONMENT_BYTES_MAX
            || !environment.chars().all(plain)
        {
            return Err(Error::new(
                Kind::Config,
                format!(
                    "the name of the environment has to be 1 to {ENVIRONMENT_BYTES_MAX} letters, digits, `-`, `_` or `.`, such as `production`"
                ),
            ));
        }
        Ok(Setup { environment: environment.to_owned(), destinations: Vec::new(), listener: None })
    }

    /// With one destination more.
    #[must_use]
    pub fn destination(mut self, destination: Destination) -> Setup {
        self.destinations.push(destination);
        self
    }

    /// Hands every signal to this function. It must not block.
    #[must_use]
    pub fn listener(mut self, listener: Listener) -> Setup {
        self.listener = Some(listener);
        self
    }
}
