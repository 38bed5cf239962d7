//! What the operator says about the provider: where it is, how long a call may take, and what it can
//! be asked.

use crate::delivery::DESTINATION;
use crate::provider::{Address, Limits, Provider};
use http::HeaderValue;
use samekey::core::policy::{Choices, Counterparty, LEASE_MAX, LEASE_MIN};
use samekey::core::profile;
use samekey_client::http_counterparty::{AskConfig, Credential, MarkConfig};
use samekey_client::transport::Resolver;
use samekey_client::{Destination, HttpConfig, HttpCounterparty, Setup};
use secrecy::SecretString;
use std::time::Duration;

/// What of the provider is the same everywhere.
const PROVIDER: &str = include_str!("../provider.toml");

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
/// The first wait between two attempts, or two questions, about the payment of an order.
const RETRY_WAIT: Duration = Duration::from_secs(1);

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
    /// How long to wait before the payment of an order is sent or asked about a second time, in
    /// milliseconds; it doubles with every further time
    #[arg(long, default_value_t = millis(RETRY_WAIT), env = "ORDERS_RETRY_WAIT_MS", value_name = "MILLISECONDS")]
    retry_wait_ms: u64,
    /// The one environment in which this database may send payments of orders. A copy of the database that is
    /// opened in another one is refused, so that it does not pay again
    #[arg(long, default_value = "demo", env = "ORDERS_ENVIRONMENT", value_name = "NAME")]
    environment: String,
}

/// The flags, checked.
#[derive(Clone)]
pub struct Terms {
    /// What the provider can be asked.
    pub kind: Kind,
    address: Address,
    credential: Option<HeaderValue>,
    token: Option<SecretString>,
    not_found_after: Option<Duration>,
    lease: Duration,
    run_max: Duration,
    limits: Limits,
    environment: String,
    orders: profile::Limits,
    http: HttpConfig,
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
            token: self.provider_token.clone().map(SecretString::from),
            not_found_after: self.not_found_after_ms.map(Duration::from_millis),
            lease: Duration::from_millis(self.payment_lease_ms),
            run_max: Duration::from_millis(run_max_ms),
            limits: Limits { connect_time_max: CONNECT_TIME_MAX.min(call_time_max), call_time_max },
            environment: self.environment.clone(),
            orders: self.limits_of_orders(),
            http: self.http()?,
        };
        // Whatever else cannot keep the promise is refused with the policy's own sentence.
        terms.choices().check().map(|_| ()).map_err(|fault| fault.to_string())?;
        terms.courier().map_err(|error| error.to_string())?;
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

    /// How the payment of an order is tried. Its lease is not renewed, and so is longer than a call.
    fn limits_of_orders(&self) -> profile::Limits {
        let mut limits = profile::Limits::DURABLE;
        let call_time_max = Duration::from_millis(self.call_timeout_ms);
        limits.attempt_time_max = call_time_max.max(profile::ATTEMPT_TIME_MIN);
        let lease_ms = self.payment_time_max_ms.unwrap_or(self.payment_lease_ms);
        let lease_min = limits.attempt_time_max.saturating_add(limits.attempt_time_max / 4);
        limits.lease = Duration::from_millis(lease_ms).max(lease_min);
        for waits in [&mut limits.backoff, &mut limits.questions] {
            waits.base = Duration::from_millis(self.retry_wait_ms);
            waits.cap = waits.cap.max(waits.base);
        }
        limits
    }

    /// The provider as the generic counterparty knows it.
    fn http(&self) -> Result<HttpConfig, String> {
        let mut http: HttpConfig = toml::from_str(PROVIDER).map_err(|error| error.to_string())?;
        http.base_url = self.provider.to_string();
        let connect_time_max = CONNECT_TIME_MAX.min(Duration::from_millis(self.call_timeout_ms));
        http.connect_time_max_ms = Some(millis(connect_time_max));
        match self.counterparty {
            Kind::Answers => {
                let lease_ms = millis(self.limits_of_orders().lease);
                let own =
                    MarkConfig { pointer: "/error".to_owned(), value: "not_found".to_owned() };
                // In whole seconds, and no shorter than what a process of this service may take itself.
                let bound = self.not_found_after_ms.map(|ms| ms.max(lease_ms).div_ceil(1_000));
                http.ask = Some(AskConfig {
                    by_key: Some("/payments/by-key/{key}".to_owned()),
                    by_reference: Some("/payments/by-reference/{reference}".to_owned()),
                    not_found: Some(own),
                    not_found_after_s: bound,
                    ..AskConfig::default()
                });
            }
            Kind::Dedups => http.key_life_s = Some(KEY_LIFE.as_secs()),
            Kind::Opaque => {}
        }
        Ok(http)
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

    /// What has the payments of orders executed.
    pub fn courier(&self) -> Result<Setup, samekey_client::Error> {
        let token = self.token.clone();
        let credential = token.map(|token| Credential::lookup(move || Some(token.clone())));
        let provider = HttpCounterparty::with(self.http.clone(), credential, Resolver::system())?;
        let destination = Destination::with_limits(DESTINATION, provider, self.orders)?;
        Ok(Setup::new(&self.environment)?.destination(destination))
    }

    /// The provider.
    pub fn provider(&self) -> Provider {
        Provider::new(self.address.clone(), self.credential.clone(), self.limits)
    }
}
