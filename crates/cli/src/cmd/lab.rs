//! `samekey lab`: the payments API, the exercise and the grader.

mod api;
mod exercise;

use crate::exit::Code;
use crate::output::complain;
use clap::Subcommand;
use samekey_lab::{Error, Kind};
use std::process::ExitCode;

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
    /// Lay out the exercise: the task in one of three languages, and the payment records to look into
    New(exercise::NewArgs),
    /// Grade a solved exercise by what its scripts really made the API record
    Grade(exercise::GradeArgs),
}

/// Runs the command; returns the exit code: 0 ok, 1 the grader found something, 2 it could not be done as asked,
/// 3 an address is taken.
pub fn run(args: Args) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain("samekey lab", &format!("the runtime did not start: {error}"));
            return Code::Unreachable.into();
        }
    };
    match args.command {
        Command::Api(args) => runtime.block_on(api::run(args)),
        Command::New(args) => exercise::new(&args),
        Command::Grade(args) => runtime.block_on(exercise::grade(args)),
    }
}

/// Ends with a sentence about what was asked for.
fn refuse(message: &str) -> ExitCode {
    complain("samekey lab", message);
    Code::Usage.into()
}

/// Ends with what the lab says, and the code of its kind.
fn failed(error: &Error) -> ExitCode {
    complain("samekey lab", &error.to_string());
    code_of(error).into()
}

/// The exit code of what the lab says.
pub fn code_of(error: &Error) -> Code {
    match error.kind() {
        Kind::AddressInUse | Kind::System => Code::Unreachable,
        Kind::Plan | Kind::Ledger | Kind::Exercise => Code::Usage,
    }
}
