//! From an address to a pool of connections.

use crate::error::{Kind, StoreError};
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Config, NoTls};

/// Connections of a pool by default. Measured on two cores: eight beat 32 and 64, because a
/// database does one thing a core at a time and the rest only waits inside it.
pub const CONNECTIONS_DEFAULT: usize = 8;

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a caller waits for a free connection before it is refused. Longer than most commands,
/// shorter than most callers' patience.
const WAIT_TIME_MAX: Duration = Duration::from_secs(2);
/// How long sent data may stay unacknowledged before the connection counts as broken.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);
/// Idle seconds before the first keepalive: a firewall that forgets idle connections is noticed
/// before a command is sent into the void.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TRIES: u32 = 3;

/// Makes a pool of [`CONNECTIONS_DEFAULT`] connections to the database at `url`.
///
/// The address is `postgres://user:password@host:port/database` or the `key=value` form. What it
/// says about timeouts, keepalives and the application's name is kept; the rest gets defaults. No
/// connection is made yet.
///
/// # Errors
/// [`Kind::Address`] where the address cannot be understood, or asks for TLS, which this function
/// does not speak: make a pool with a TLS connector of your own then. The text repeats no part of
/// the address.
pub fn connect(url: &str) -> Result<Pool, StoreError> {
    connect_with(url, CONNECTIONS_DEFAULT)
}

/// The same with another number of connections.
///
/// # Errors
/// As [`connect`]; and for no connections at all.
pub fn connect_with(url: &str, connections: usize) -> Result<Pool, StoreError> {
    if connections == 0 {
        return Err(address("a pool of 0 connections was asked for; ask for at least 1"));
    }
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(configuration(url)?, NoTls, manager))
        .max_size(connections)
        .runtime(Runtime::Tokio1)
        .create_timeout(Some(CONNECT_TIME_MAX))
        .wait_timeout(Some(WAIT_TIME_MAX))
        .build()
        .map_err(|_| address("the pool of connections cannot be set up"))
}

fn configuration(url: &str) -> Result<Config, StoreError> {
    let mut config: Config = url.parse().map_err(|_| {
        address(
            "the address of the database cannot be understood; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        )
    })?;
    let named = config.get_hosts().iter().any(|host| match host {
        Host::Tcp(name) => !name.is_empty(),
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    if !named && config.get_hostaddrs().is_empty() {
        return Err(address("the address of the database names no host; name one"));
    }
    if config.get_user().is_none_or(str::is_empty) {
        return Err(address("the address of the database names no user; name one"));
    }
    if config.get_ssl_mode() == SslMode::Require {
        return Err(address(
            "the address asks for TLS, which this pool does not speak; hand in a pool with a TLS connector",
        ));
    }
    // Without a connector, to prefer TLS is to do without.
    config.ssl_mode(SslMode::Disable);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIME_MAX);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SEND_TIME_MAX);
    }
    if config.get_application_name().is_none() {
        config.application_name("samekey");
    }
    if config.get_keepalives_interval().is_none() {
        config
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_TRIES);
    }
    Ok(config)
}

fn address(sentence: &str) -> StoreError {
    StoreError::new(Kind::Address, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s14_a_wrong_address_is_refused_without_being_repeated() {
        for url in [
            "postgres://canary-user:canary-password@canary-host:notaport/db",
            "canary",
            "postgres://",
            "postgres:///db?user=canary",
            "postgres://canary-host/db",
            "postgres://canary:canary@canary-host/db?sslmode=require",
            "",
        ] {
            let error = connect(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert_eq!(error.kind(), Kind::Address, "{url}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }

    #[test]
    fn what_the_address_says_is_kept() {
        let url =
            "postgres://u:p@h/d?connect_timeout=1&application_name=mine&keepalives_interval=7";
        let config = configuration(url).unwrap();
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(1)));
        assert_eq!(config.get_application_name(), Some("mine"));
        assert_eq!(config.get_keepalives_interval(), Some(Duration::from_secs(7)));
        let config = configuration("postgres://u:p@h/d").unwrap();
        assert_eq!(config.get_application_name(), Some("samekey"));
        assert_eq!(config.get_tcp_user_timeout(), Some(&SEND_TIME_MAX));
    }
}
