//! One file a subcommand.

pub mod forensics;
pub mod lab;
pub mod migrate;
pub mod sweep;
