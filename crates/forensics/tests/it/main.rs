//! The crate from outside: records in, reports out.

mod bad_input;
mod cases;
mod causes;
mod database;
mod exercise;
mod formats;
mod report;
mod support;
