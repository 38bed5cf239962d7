//! The binary from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[macro_use]
mod database;
mod world;

mod bad;

mod commands;

mod config;

mod demo;

mod ends;
mod gateway;

mod keys;

mod lab;

mod send;

mod words;

mod worker;
