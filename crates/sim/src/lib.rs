//! What breaks samekey on purpose, and the ground that its tests stand on. Never published.
//!
//! - [`cluster`]: a throw-away PostgreSQL server that a test may kill.
//! - [`database`]: one fresh database for each test, in the cluster that `scripts/test` starts.
//! - [`proxy`]: what goes wrong between a service and PostgreSQL, message by message, and between a
//!   service and a counterparty over HTTP, request by request.
//! - [`history`]: what clients saw, compared with what happened.
//! - [`sampler`]: the ledger of keys over time, and who holds a transaction open.
//! - [`process`]: built programs run as real processes: started, frozen, killed, always ended.
//! - [`sweep`]: every crash point, with every action, on every database.
//! - `tests/tidy`: the rules of the house that a machine can check.
//!
//! What it does not do: it decides nothing about keys or answers, and no other crate may depend on
//! it (as a dev-dependency without a version it may, since publishing drops those).
//!
//! Read next: `cluster.rs`, then `CONTRIBUTING.md` for how the whole gate is run.

pub mod cluster;
pub mod database;
pub mod error;
pub mod history;
mod keeper;
pub mod process;
pub mod proxy;
pub mod sampler;
mod signals;
pub mod sweep;
mod target;

pub use cluster::{Cluster, Options};
pub use database::{FreshDatabase, fresh_database, fresh_database_blocking};
pub use error::{Error, ErrorKind, Result};
pub use history::History;
pub use process::{Finished, Process, Program};
pub use proxy::{HttpProxy, Proxy};
pub use sampler::Sampler;
pub use sweep::Sweep;
