//! One file a subcommand.

pub mod commands;
pub mod completions;
pub mod config;
pub mod demo;
pub mod dev;
pub mod forensics;
pub mod gateway;
pub mod keys;
pub mod lab;
pub mod man;
pub mod migrate;
pub mod restore_mark;
pub mod send;
pub mod sweep;
pub mod worker;
