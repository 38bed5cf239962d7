//! The gateway as its clients and its upstream see it: real sockets on both sides, raw bytes where bytes
//! matter, and effects counted by the upstream of the tests.

// Helpers beside the tests may panic as the tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod asking;
mod authority;
mod backend;
mod basics;
mod chaos;
mod client;
mod concurrency;
mod contract;
mod corpus;
mod endings;
mod http2;
mod http2_upstream;
mod pages;
mod process;
mod sizes;
mod tenants;
mod through;
mod tls_clients;
mod tls_upstream;
mod world;
