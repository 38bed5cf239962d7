//! The samekey command: parse, dispatch, exit code.

mod cmd;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "samekey", version, about = "Same key, same answer: safe retries for payments")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find duplicate payments in records and name the cause
    Forensics(cmd::forensics::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let code = match cli.command {
        Command::Forensics(args) => cmd::forensics::run(args, &mut std::io::stdout().lock()),
    };
    ExitCode::from(code)
}
