//! What the operator says about the provider: where it is, how long a call may take, and what it can
//! be asked.

use crate::provider::{Address, Limits, Provider};
use http::HeaderValue;
use samekey::core::policy::{Choices, Counterparty, LEASE_MAX, LEASE_MIN};
use std::time::Duration;

/// How long a call may take by default. Most payments are answered within two seconds; a caller that
/// waits longer is better told to come back.
const CALL_TIME_MAX: Duration = Duration::from_secs(5);
/// How long connecting may take at the most: three lost packets on the way. It is cut to the time of
/// the whole call.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// The lease of a payment by default. After a crash its key waits for so long.
const LEASE: Duration = Duration::from_secs(30);
/// How long a provider that deduplicates is taken to remember a key: a day is the shortest time that
/// the large ones promise.
const KEY_LIFE: Duration = Duration::from_secs(24 * 3600);

/// What can be asked of the provider.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is asked what is recorded under a key
    Answers,
    /// It executes a key once: sending the same bytes again is the question
    Dedups,
    /// It cannot be asked: a person decides
    Opaque,
}

/// The flags of payments.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Payments")]
pub struct Flags {
    /// The provider's address; `samekey lab api` plays one
    #[arg(long, default_value = "http://127.0.0.1:8021", env = "ORDERS_PROVIDER", value_name = "URL", hide_env_values = true, value_parser = Address::parse)]
    provider: Address,
    /// The bearer token by which the provider knows this service
    #[arg(long, env = "ORDERS_PROVIDER_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    provider_token: Option<String>,
    /// What the provider can be asked about a payment whose answer was lost
    #[arg(
        long,
        value_enum,
        default_value_t = Kind::Answers,
        env = "ORDERS_COUNTERPARTY",
        value_name = "KIND"
    )]
    counterparty: Kind,
    /// With `answers`: the longest time a payment may still arrive after it was sent, in milliseconds;
    /// only after it does "not found" prove that nothing was paid. Without it a person decides
    #[arg(long, env = "ORDERS_NOT_FOUND_AFTER_MS", value_name = "MILLISECONDS")]
    not_found_after_ms: Option<u64>,
    /// How long a payment is its owner's; after a crash its key waits for so long
    #[arg(long, default_value_t = millis(LEASE), env = "ORDERS_PAYMENT_LEASE_MS", value_name = "MILLISECONDS")]
    payment_lease_ms: u64,
    /// How long a payment may go on in all, its lease renewed meanwhile; one lease, where this is missing
    #[arg(long, env = "ORDERS_PAYMENT_TIME_MAX_MS", value_name = "MILLISECONDS")]
    payment_time_max_ms: Option<u64>,
    /// How long a call to the provider may take
    #[arg(long, default_value_t = millis(CALL_TIME_MAX), env = "ORDERS_CALL_TIMEOUT_MS", value_name = "MILLISECONDS")]
    call_timeout_ms: u64,
}

/// The flags, checked.
#[derive(Clone)]
pub struct Terms {
    /// What the provider can be asked.
    pub kind: Kind,
    address: Address,
    credential: Option<HeaderValue>,
    not_found_after: Option<Duration>,
    lease: Duration,
    run_max: Duration,
    limits: Limits,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Flags {
    /// Checks them against each other; the refusal is a sentence.
    pub fn check(&self) -> Result<Terms, String> {
        if self.call_timeout_ms == 0 {
            return Err(
                "--call-timeout-ms is 0, and no call could be made; expected at least 1".to_owned()
            );
        }
        self.check_lease()?;
        let run_max_ms = self.payment_time_max_ms.unwrap_or(self.payment_lease_ms);
        if run_max_ms <= self.call_timeout_ms {
            let (flag, what) = match self.payment_time_max_ms {
                Some(_) => ("--payment-time-max-ms", "time"),
                None => ("--payment-lease-ms", "lease"),
            };
            return Err(format!(
                "{flag} is {run_max_ms}, not longer than the {} of --call-timeout-ms: a payment could be on its way when its {what} is over; make the {what} longer or the call shorter",
                self.call_timeout_ms
            ));
        }
        if self.not_found_after_ms.is_some() && self.counterparty != Kind::Answers {
            return Err(
                "--not-found-after-ms is for --counterparty answers, since nothing else can say \"not found\"; leave it out"
                    .to_owned(),
            );
        }
        let call_time_max = Duration::from_millis(self.call_timeout_ms);
        let terms = Terms {
            kind: self.counterparty,
            address: self.provider.clone(),
            credential: self.credential()?,
            not_found_after: self.not_found_after_ms.map(Duration::from_millis),
            lease: Duration::from_millis(self.payment_lease_ms),
            run_max: Duration::from_millis(run_max_ms),
            limits: Limits { connect_time_max: CONNECT_TIME_MAX.min(call_time_max), call_time_max },
        };
        // Whatever else cannot keep the promise is refused with the policy's own sentence.
        terms.choices().check().map(|_| ()).map_err(|fault| fault.to_string())?;
        Ok(terms)
    }

    /// A lease that no policy takes, before anything is compared with it.
    fn check_lease(&self) -> Result<(), String> {
        let lease = Duration::from_millis(self.payment_lease_ms);
        if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
            return Ok(());
        }
        Err(format!(
            "--payment-lease-ms is {}; expected {} to {}",
            self.payment_lease_ms,
            LEASE_MIN.as_millis(),
            LEASE_MAX.as_millis()
        ))
    }

    fn credential(&self) -> Result<Option<HeaderValue>, String> {
        let Some(token) = &self.provider_token else { return Ok(None) };
        let plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        let value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| plain);
        let mut value = value.ok_or(
            "--provider-token is empty or has characters that no token has; expected visible ASCII",
        )?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

impl Terms {
    /// The policy of the route.
    pub fn choices(&self) -> Choices {
        let counterparty = match self.kind {
            Kind::Answers => Counterparty::Answers { not_found_after: self.not_found_after },
            Kind::Dedups => Counterparty::Dedups { key_life: KEY_LIFE },
            Kind::Opaque => Counterparty::Opaque,
        };
        let (lease, run_max) = (self.lease, self.run_max);
        Choices { counterparty, lease, run_max, ..Choices::default() }
    }

    /// The provider.
    pub fn provider(&self) -> Provider {
        Provider::new(self.address.clone(), self.credential.clone(), self.limits)
    }
}
