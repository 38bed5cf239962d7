//! Proxies that fail at a chosen message: one in front of PostgreSQL, one in front of an HTTP service.
//!
//! Both run on a thread of their own, so that a test may block, and share what is below the protocol:
//! listening, refusing, freezing, cutting and delaying (`proxy/pump.rs`). What each understands, and
//! where it can fail, stands in its own module.
//!
//! Read next: `proxy/pump.rs`, then `proxy/postgres.rs` and `proxy/http.rs`.

pub mod http;
mod postgres;
mod pump;

pub use http::HttpProxy;
pub use postgres::{Cut, Proxy, Request, Target};
