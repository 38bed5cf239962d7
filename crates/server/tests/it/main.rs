//! The tests of the server library over real HTTP, on SQLite and on PostgreSQL.

// Helpers beside the tests may panic as the tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod basics;
mod chaos;
mod concurrency;
mod endings;
mod external;
mod fingerprints;
mod framing;
mod hangups;
mod harness;
mod keys;
mod outages;
mod overtime;
mod parity;
mod promises;
mod replays;
mod scopes;
mod secrets;
mod sqlite_load;
mod transactions;
mod waiting;
