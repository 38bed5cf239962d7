//! `samekey lab`: the payments API, the exercise and the grader.

mod api;

use clap::Subcommand;
use std::process::ExitCode;

/// What ends with a sentence on standard error and this exit code.
const USAGE: u8 = 2;

/// Arguments of `samekey lab`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the payments API: every even payment is recorded at once and answered 6 s late
    Api(api::Args),
}

/// Runs the command; returns the exit code: 0 ok, 1 the grader found something, 2 it could not be done as asked.
pub fn run(args: Args) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&format!("the runtime did not start: {error}")),
    };
    match args.command {
        Command::Api(args) => runtime.block_on(api::run(args)),
    }
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("samekey lab: {message}");
    ExitCode::from(USAGE)
}
