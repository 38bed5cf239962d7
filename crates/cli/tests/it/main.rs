//! The binary from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod ends;
mod gateway;

mod keys;

mod lab;
