//! The lab from outside: real sockets, real curl and bash.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod article;
mod docs;
mod door;
mod exercise;
mod grader;
mod http2;
mod idle;
mod ledger;
mod lifecycle;
mod processed;
mod shapes;
mod support;
mod wire;
