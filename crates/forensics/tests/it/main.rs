//! The crate from outside: records in, reports out.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod cases;
mod causes;
mod database;
mod exercise;
mod formats;
mod report;
mod support;
