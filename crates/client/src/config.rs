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

use crate::counterparty::Counterparty;
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
        limits.check(counterparty.declared()).map_err(|fault| {
            let sentence = format!("`{}`: {}", setting_of(fault.limit), fault.why());
            of_destination(name, &Error::config(sentence))
        })?;
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

/// What a limit is called in a configuration.
fn setting_of(limit: &str) -> &str {
    match limit {
        "attempt_time_max" => "attempt_time_max_ms",
        "backoff.base" => "wait_base_ms",
        "lease" => "lease_ms",
        "not_found_after" => "http.ask.not_found_after_s",
        "time_max" => "time_max_s",
        same => same,
    }
}

fn of_destination(name: &str, error: &Error) -> Error {
    Error::config(format!("destination `{}`: {error}", name.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::CourierConfig;

    /// A limit that cannot be used is told by the name that it has in the file.
    #[test]
    fn t82_a_limit_that_cannot_be_used_is_named_as_it_stands_in_the_file() {
        for (setting, http, named) in [
            (
                "",
                "key_life_s = 600",
                "`time_max_s`: 3600s and a lease of 45s are longer than the 600s",
            ),
            ("time_max_s = 700000", "", "`time_max_s`: 700000s is outside"),
            ("lease_ms = 20000", "", "`lease_ms`: 20s, of which 18s can be used"),
            ("attempt_time_max_ms = 10", "", "`attempt_time_max_ms`: 10ms is outside"),
            ("wait_base_ms = 1", "", "`wait_base_ms`: 1ms is outside"),
            ("attempts_max = 0", "", "`attempts_max`: 0 is outside"),
            (
                "",
                "ask = { by_key = \"/p/{key}\", not_found = { pointer = \"/error\", value = \"none\" }, not_found_after_s = 10 }\nanswer = { status = \"/s\", succeeded = [\"ok\"], amount = { ours = \"/a\", theirs = \"/a\" }, reference = { ours = \"/r\", theirs = \"/r\" } }",
                "`http.ask.not_found_after_s`: 10s is shorter than the lease",
            ),
        ] {
            let text = format!(
                "environment = \"test\"\n[destinations.psp]\n{setting}\n[destinations.psp.http]\nbase_url = \"https://pay.example\"\n{http}"
            );
            let config: CourierConfig = toml::from_str(&text).unwrap();
            let sentence = config.into_setup().err().unwrap().to_string();
            assert!(sentence.starts_with("destination `psp`: `"), "{sentence}");
            assert!(sentence.contains(named), "{sentence}");
        }
    }
}
