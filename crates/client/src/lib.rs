//! The calling side of samekey: a command is written down first, sent, and its end is known or handed to a
//! person.
//!
//! What this crate does not do: it decides nothing about retries itself. `samekey_core::plan` does, and what
//! it decides is kept by `samekey_store`'s outbox.
//!
//! # Quick start
//! A command of a service on SQLite, written with the order that it belongs to. On PostgreSQL it is enqueued by
//! `store::postgres::outbox::enqueue(&tx, …)` in any transaction of tokio-postgres.
//!
//! ```
//! use samekey_client::core::key::Org;
//! use samekey_client::store::sqlite::{AtomicEnd, SqliteLedger};
//! use samekey_client::{Courier, Destination, HttpConfig, HttpCounterparty, HttpRequest, NewCommand, Setup, Waited};
//! use std::{sync::Arc, time::Duration};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! # let lab = samekey_lab::Lab::start(samekey_lab::Options::default()).await?;
//! # let (base_url, folder) = (lab.url(""), tempfile::tempdir()?);
//! # let database = &format!("sqlite:{}", folder.path().join("shop.db").display());
//! # let allow_networks = vec!["127.0.0.0/8".parse()?];
//! # SqliteLedger::migrate(database)?;
//! let store = Arc::new(SqliteLedger::open(database)?);
//! # store.write(|db| AtomicEnd::Commit(db.execute_batch("create table orders (id text)"))).await??;
//! // It remembers a key for a day, so after a lost answer the same request may be sent again.
//! let psp = HttpConfig { base_url, key_life_s: Some(86_400), allow_networks, ..HttpConfig::default() };
//! let psp = Destination::new("psp", HttpCounterparty::new(psp)?)?;
//! let courier = Courier::open(Arc::clone(&store), Setup::new("test")?.destination(psp)).await?;
//! let running = courier.spawn();
//!
//! let org = Org::new("alpha")?; // whom *you* have authenticated
//! let charge = courier.prepare(NewCommand {
//!     org: org.clone(),
//!     destination: "psp".to_owned(),
//!     operation: "charge".to_owned(),
//!     business_ref: "ORD-1".to_owned(),
//!     order_key: None,
//!     request: HttpRequest::post("/payments").json(r#"{"order_id":"ORD-1","amount":1200}"#).encode()?,
//!     delay: Duration::ZERO,
//! }).await?;
//! let placed = store.write_tx(move |tx| {
//!     let order = tx.connection().execute("insert into orders values ('ORD-1')", []);
//!     // Here the action is found again, and refused if its request is another one.
//!     let placed = tx.enqueue(&charge.command, &charge.delivery).map_err(Into::into);
//!     let placed = placed.and_then(|enqueued| charge.placed(enqueued));
//!     let is_all = order.is_ok() && placed.is_ok();
//!     if is_all { AtomicEnd::Commit(placed) } else { AtomicEnd::RollBack(placed) }
//! }).await??;
//! courier.wake("psp");
//!
//! let waited = courier.wait(&org, placed.id, Duration::from_secs(10)).await?;
//! let Waited::Ended(delivery) = waited else { panic!("it goes on, and ends without us") };
//! assert_eq!(delivery.state_name(), "succeeded");
//! assert!(running.drain(Duration::from_secs(35)).await, "what was on its way is written down");
//! # assert_eq!(lab.counts().payments, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Where nothing has to outlive the process, [`RetryingClient`] does the same without a database; with the feature
//! `tower` it is a layer as well, around a client of your own.
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
pub mod file;
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
