//! A courier as it stands in a configuration file.
//!
//! ```
//! use samekey_client::config::CourierConfig;
//!
//! let config: CourierConfig = toml::from_str(
//!     r#"
//!     environment = "production"
//!
//!     [destinations.psp]
//!     profile = "durable"
//!     concurrency = 16
//!
//!     [destinations.psp.http]
//!     base_url = "https://pay.example/v1"
//!     credential = { environment = "PAY_TOKEN" }
//!     key_life_s = 86400
//!     "#,
//! )?;
//! let setup = config.into_setup()?;
//! # let _ = setup;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::courier::{Destination, Setup};
use crate::error::Error;
use crate::http_counterparty::{HttpConfig, HttpCounterparty};
use samekey_core::profile::Limits;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a courier is made of.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CourierConfig {
    /// The one world in which this database may send, such as `production`.
    pub environment: String,
    /// Where commands go, by the names that they are enqueued with.
    #[serde(default)]
    pub destinations: BTreeMap<String, DestinationConfig>,
}

/// Where commands go, and how they are tried.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestinationConfig {
    /// From which profile the limits are taken; `durable` where it is missing.
    #[serde(default)]
    pub profile: ProfileName,
    /// How long one attempt may take, in milliseconds, in place of the profile's.
    pub attempt_time_max_ms: Option<u64>,
    /// The first wait between two attempts, in milliseconds, in place of the profile's.
    pub wait_base_ms: Option<u64>,
    /// The longest wait between two attempts, in milliseconds, in place of the profile's.
    pub wait_cap_ms: Option<u64>,
    /// How many attempts are made at the most, in place of the profile's.
    pub attempts_max: Option<u32>,
    /// How long a command is tried, in seconds, in place of the profile's.
    pub time_max_s: Option<u64>,
    /// How long an attempt belongs to the worker that began it, in milliseconds, in place of the profile's.
    pub lease_ms: Option<u64>,
    /// How many requests are on their way at a time, from one process; eight where it is missing.
    pub concurrency: Option<u32>,
    /// The counterparty.
    pub http: HttpConfig,
}

/// A profile by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// Somebody waits: 15 seconds in all.
    Inline,
    /// An hour in all.
    #[default]
    Durable,
    /// Twelve hours in all.
    Patient,
}

impl CourierConfig {
    /// Whether every credential can be found now. A courier looks them up anew for each request, so that
    /// they can be changed while it runs; this is for a program that had better not start without.
    ///
    /// # Errors
    /// One sentence that names the destination and where its credential was looked for, never its value.
    pub async fn check_credentials(&self) -> Result<(), Error> {
        for (name, destination) in &self.destinations {
            let Some(config) = destination.http.credential.clone() else { continue };
            let checked = match config.check() {
                Ok(credential) => credential.check().await,
                Err(error) => Err(error),
            };
            checked.map_err(|error| of_destination(name, &error))?;
        }
        Ok(())
    }

    /// The courier's setup.
    ///
    /// # Errors
    /// One sentence that names the destination and the setting which cannot be used.
    pub fn into_setup(self) -> Result<Setup, Error> {
        let mut setup = Setup::new(&self.environment)?;
        for (name, config) in self.destinations {
            setup = setup.destination(config.into_destination(&name)?);
        }
        Ok(setup)
    }
}

impl DestinationConfig {
    fn into_destination(self, name: &str) -> Result<Destination, Error> {
        let limits = self.limits();
        let counterparty =
            HttpCounterparty::new(self.http).map_err(|error| of_destination(name, &error))?;
        let destination = Destination::with_limits(name, counterparty, limits)?;
        match self.concurrency {
            Some(requests_max) => destination.concurrency(requests_max),
            None => Ok(destination),
        }
    }

    fn limits(&self) -> Limits {
        let mut limits = match self.profile {
            ProfileName::Inline => Limits::INLINE,
            ProfileName::Durable => Limits::DURABLE,
            ProfileName::Patient => Limits::PATIENT,
        };
        let millis = Duration::from_millis;
        for (to, from) in [
            (&mut limits.attempt_time_max, self.attempt_time_max_ms),
            (&mut limits.backoff.base, self.wait_base_ms),
            (&mut limits.backoff.cap, self.wait_cap_ms),
            (&mut limits.lease, self.lease_ms),
        ] {
            if let Some(ms) = from {
                *to = millis(ms);
            }
        }
        if let Some(seconds) = self.time_max_s {
            limits.time_max = Duration::from_secs(seconds);
        }
        if let Some(count) = self.attempts_max {
            limits.attempts_max = count;
        }
        limits
    }
}

fn of_destination(name: &str, error: &Error) -> Error {
    Error::config(format!("destination `{}`: {error}", name.escape_debug()))
}
