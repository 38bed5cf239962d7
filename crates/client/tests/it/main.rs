//! The calling side: couriers on the memory store; and on real sockets, against the lab's payments API and
//! against peers that misbehave byte by byte; and an outage as a whole, on PostgreSQL.

// Helpers beside the tests may panic as the tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod addresses;
mod courier;
mod generic;
mod http2;
#[cfg(feature = "tower")]
mod layer;
mod outage;
mod problems;
mod retrying;
mod rows;
mod support;
mod tls;
