//! One file for each subcommand.

pub mod forensics;
