//! The calling side of samekey: a command is written down first, sent, and its end is known or handed to a
//! person.
//!
//! What this crate does not do: it decides nothing about retries itself. `samekey_core::plan` does, and what
//! it decides is kept by `samekey_store`'s outbox.
//!
//! Read next: [`counterparty`] (who executes commands, and what can be asked of it), then [`courier`] (what
//! delivers them), [`transport`] (what the end of one request proves), and `docs/calling.md`.

pub mod address;
mod chance;
pub mod command;
pub mod config;
pub mod counterparty;
pub mod courier;
mod error;
pub mod http_counterparty;
pub mod inbox;
pub mod request;
pub mod restored;
pub mod retrying;
pub mod signal;
pub mod transport;

pub use command::{NewCommand, Placed, Prepared};
pub use counterparty::{Counterparty, Order, Question, Reply};
pub use courier::{Courier, Destination, Running, Setup, Waited};
pub use error::{Error, Kind};
pub use http_counterparty::{HttpConfig, HttpCounterparty};
pub use request::HttpRequest;
pub use retrying::RetryingClient;
pub use samekey_core as core;
pub use samekey_store as store;
pub use signal::Signal;
