//! One file a subcommand.

pub mod migrate;
pub mod sweep;
