//! `samekey keys`: what is open, and what a person decides about it.

mod decide;
mod list;
mod show;

pub use decide::PersonFlags;
pub use show::Account;

use crate::database::DatabaseFlag;
use crate::exit::{Code, Stopped};
use clap::Subcommand;
use samekey::core::key::{Key, Org, Scope};
use samekey::core::record::State;
use samekey::core::time::Time;
use std::process::ExitCode;

/// Look at open keys, and decide about those that nobody can be asked about
///
/// A key is open while nobody can say how its command ended. A key in review waits for a person: it
/// may have been executed, and it is never run again by itself.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit codes: 0 done, 1 nothing was decided (the key changed, or is in another state, or is none), \
                        2 words that cannot be understood, 3 the database cannot be reached, 4 the database did not \
                        acknowledge the decision: look at the key again."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Resolve(decide::Resolve),
    Forget(decide::Forget),
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    match &arguments.command {
        Command::List(arguments) => list::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Resolve(arguments) => decide::resolve(arguments),
        Command::Forget(arguments) => decide::forget(arguments),
    }
}

/// Which key, in which database.
#[derive(clap::Args, Debug)]
struct Target {
    /// The organisation
    #[arg(value_name = "ORG")]
    org: String,
    /// The key, without quotes of its header
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    database: DatabaseFlag,
}

impl Target {
    fn scope(&self) -> Result<Scope, Stopped> {
        let usage = |sentence| Stopped::new(Code::Usage, sentence);
        Ok(Scope {
            org: organisation(&self.org)?,
            key: Key::new(&self.key).map_err(|fault| usage(format!("that is no key: {fault}")))?,
        })
    }
}

/// An organisation as it was typed.
pub fn organisation(text: &str) -> Result<Org, Stopped> {
    Org::stored(text)
        .map_err(|fault| Stopped::new(Code::Usage, format!("that is no organisation: {fault}")))
}

/// Since when a record is in its state, and why, where the state says so.
fn since_and_reason(state: &State) -> (Option<Time>, Option<&'static str>) {
    match state {
        State::Free => (None, None),
        State::Running(running) => (Some(running.since), None),
        State::Unknown(unknown) => (Some(unknown.since), Some(unknown.reason.code())),
        State::Review(review) => (Some(review.since), Some(review.reason.code())),
        State::Done(done) => (Some(done.since), None),
        State::Closed(closed) => (Some(closed.since), None),
    }
}

/// A view as it was printed. One that cannot be a view was mistyped, and is not told as one that is old.
pub fn view(text: &str) -> Result<String, String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_view = text.split_once('-').is_some_and(|(numbers, owner)| {
        owner.len() == 8
            && owner.bytes().all(|byte| byte.is_ascii_hexdigit())
            && numbers
                .split_once('.')
                .is_some_and(|(fence, revision)| is_number(fence) && is_number(revision))
    });
    if is_view {
        return Ok(text.to_owned());
    }
    Err("expected a view as `keys show` and `commands show` print it, such as 3.7-9f2c01ab"
        .to_owned())
}
