//! The one binary, `samekey`: parse, dispatch, exit code.

use clap::{Parser, Subcommand};
use std::process::ExitCode;

mod cmd {
    pub mod lab;
}

#[derive(Parser)]
#[command(name = "samekey", version, about = "Same key, same answer")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A payments API that loses answers, and an exercise about safe retries with its grader
    Lab(cmd::lab::Args),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Lab(args) => cmd::lab::run(args),
    }
}
