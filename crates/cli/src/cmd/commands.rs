//! `samekey commands`: what is on its way to counterparties, and what a person decides about it.

mod decide;
mod list;
mod show;

use crate::cmd::keys::organisation;
use crate::database::DatabaseFlag;
use crate::exit::{Code, Stopped};
use clap::Subcommand;
use samekey::core::key::Org;
use samekey_client::core::delivery::{Delivery, Resolution, State};
use samekey_client::core::time::Time;
use samekey_client::inbox::Done;
use samekey_client::store::outbox::CommandId;
use std::process::ExitCode;

/// Look at commands on their way to counterparties, and decide about those that gave up
///
/// A command goes on by itself until its counterparty has executed or refused it. What gives up waits in
/// the inbox for a person: `failed` is proved not to have run, `undecided` may have run and is never sent
/// again by itself.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit codes: 0 done, 1 nothing was decided (the command changed, or is in another state, or is none), \
                        2 words that cannot be understood, 3 the database cannot be reached, 4 the database did not \
                        acknowledge the decision: look at the command again."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Inbox(list::Inbox),
    List(list::Arguments),
    Show(show::Arguments),
    Retry(decide::Retry),
    Cancel(decide::Cancel),
    Resolve(decide::Resolve),
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    match &arguments.command {
        Command::Inbox(arguments) => list::inbox(arguments),
        Command::List(arguments) => list::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Retry(arguments) => decide::retry(arguments),
        Command::Cancel(arguments) => decide::cancel(arguments),
        Command::Resolve(arguments) => decide::resolve(arguments),
    }
}

/// Which command, in which database.
#[derive(clap::Args, Debug)]
struct Target {
    /// The organisation
    #[arg(value_name = "ORG")]
    org: String,
    /// The command's id, as `commands list` prints it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    database: DatabaseFlag,
}

impl Target {
    fn org(&self) -> Result<Org, Stopped> {
        organisation(&self.org)
    }

    fn id(&self) -> Result<CommandId, Stopped> {
        self.id.parse().map_err(|_| {
            Stopped::new(
                Code::Usage,
                "that is no command's id; expected one such as 0193a1b2-…, as `samekey commands list` prints it",
            )
        })
    }
}

fn no_such_command() -> Stopped {
    Stopped::new(
        Code::NothingDecided,
        "there is no such command in this organisation, or its retention is over; `samekey commands list` shows those that are open",
    )
}

/// What was decided, or why nothing was.
fn decided(done: Done, wanted: &str) -> Result<Delivery, Stopped> {
    match done {
        Done::Written(delivery) => Ok(*delivery),
        Done::NotNow(delivery) | Done::Contradicts(delivery) => Err(Stopped::new(
            Code::NothingDecided,
            format!(
                "nothing was decided: the command is {}, and {wanted}; look at it again with `samekey commands show`",
                delivery.state_name()
            ),
        )),
        Done::Unknown => Err(no_such_command()),
    }
}

/// What the last attempt or question came to, where that is not the reason itself: who reads `time-over` wants
/// to know what kept it so long.
fn came_to(delivery: &Delivery) -> Option<&'static str> {
    let (_, reason) = since_and_reason(delivery);
    delivery.last.map(|last| last.code()).filter(|last| Some(*last) != reason)
}

/// A reason, and what led to it.
fn because(reason: Option<&str>, last: Option<&str>) -> String {
    match (reason, last) {
        (Some(reason), Some(last)) => format!("{reason} ({last})"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => String::new(),
    }
}

/// Since when a delivery is in its state, and why, where the state says so.
fn since_and_reason(delivery: &Delivery) -> (Option<Time>, Option<&'static str>) {
    match &delivery.state {
        State::Waiting(_) | State::Unknown(_) => {
            (None, delivery.last.or(delivery.doubt).map(|reason| reason.code()))
        }
        State::Sending(sending) => (Some(sending.since), None),
        State::Succeeded(ended) | State::Refused(ended) => (Some(ended.since), None),
        State::Failed(ended) | State::Undecided(ended) => {
            (Some(ended.since), Some(ended.with.code()))
        }
        State::Cancelled(ended) => (Some(ended.since), None),
        State::Resolved(ended) => {
            let how = match ended.with {
                Resolution::Executed => "executed",
                Resolution::WrittenOff => "written-off",
            };
            (Some(ended.since), Some(how))
        }
    }
}
