//! The ground that the tests of all crates stand on, tested itself.

// clippy.toml allows these in test functions; their helpers need it said here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod cluster;
mod database;
mod http_proxy;
mod process;
mod proxy;
mod sampler;
mod sweep;
mod test_cluster;
