//! `samekey commands retry`, `cancel` and `resolve`: what a person decides.

use super::{Target, decided, no_such_command};
use crate::cmd::keys::PersonFlags;
use crate::courier::ConfigFlag;
use crate::database::{Store, block_on};
use crate::exit::{Code, Stopped};
use crate::output::say;
use samekey_client::core::delivery::Delivery;
use samekey_client::core::key::Org;
use samekey_client::core::lease::Hold;
use samekey_client::core::plan::Decision;
use samekey_client::inbox::{Done, Inbox};
use samekey_client::store::outbox::{CommandId, Outbox};
use samekey_client::store::{Ledger, Person};
use samekey_client::{Courier, Error, Kind, Setup};
use std::process::ExitCode;
use std::sync::Arc;

/// Have a command in the inbox tried or asked about again
///
/// What has failed is sent again, under the key that it always had. What is undecided is asked about, where
/// its counterparty answers questions, or sent again where the counterparty deduplicates and still remembers
/// the key; where neither is possible nothing changes, and only `samekey commands resolve` ends it.
#[derive(clap::Args, Debug)]
pub struct Retry {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    seen: Seen,
    #[command(flatten)]
    person: PersonFlags,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Take a command back that was never sent
///
/// It is never sent then, and its business action gets no new key: for what is wanted after all use
/// another reference. What was sent once cannot be taken back: it may have been executed.
#[derive(clap::Args, Debug)]
pub struct Cancel {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    person: PersonFlags,
}

/// Decide about a command in the inbox
///
/// Find out at the counterparty first what happened; `samekey commands
/// show` has the outbound key and the reference to ask with. Then say which
/// it was:
///
///   executed      It was executed, and you have proof. Enter the result
///                 into the service's own tables too: this writes the
///                 command and nothing else.
///   not-executed  The counterparty says that it never accepted it; or it
///                 knows nothing of it, and more time has passed than any
///                 request can take to arrive. One "not found" is no proof.
///                 The command has failed then: `samekey commands retry`
///                 sends it again under its key.
///   written-off   It was made good in another way, whatever ran. It is
///                 never sent again.
///
/// If you cannot tell, decide nothing: a wrong "not-executed" costs the
/// money twice.
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Resolve {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    seen: Seen,
    /// What happened
    #[arg(long = "as", value_enum, value_name = "WHAT")]
    what: What,
    #[command(flatten)]
    person: PersonFlags,
}

#[derive(clap::Args, Debug)]
struct Seen {
    /// What you looked at, as `commands inbox` and `commands show` print it; if the command has changed
    /// since, nothing is decided
    #[arg(long, value_name = "VIEW", value_parser = crate::cmd::keys::view)]
    view: String,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// It was executed, which is proved
    Executed,
    /// It was not executed and no longer can be, which is proved
    NotExecuted,
    /// It was made good in another way
    WrittenOff,
}

/// Runs `samekey commands retry`.
pub fn retry(arguments: &Retry) -> Result<ExitCode, Stopped> {
    let person = arguments.person.person();
    let setup = arguments.config.read()?.setup()?;
    let (org, id) = (arguments.target.org()?, arguments.target.id()?);
    let delivery = block_on(async {
        match arguments.target.database.open().await? {
            Store::Postgres(store) => {
                again(store, setup, (&org, id), &arguments.seen, &person).await
            }
            Store::Sqlite(store) => again(store, setup, (&org, id), &arguments.seen, &person).await,
        }
    })?;
    say(&format!(
        "done: the command is {} ({}); a courier takes it up within a second, if one runs\n",
        delivery.state_name(),
        delivery.view()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `samekey commands resolve`.
pub fn resolve(arguments: &Resolve) -> Result<ExitCode, Stopped> {
    let person = arguments.person.person();
    let (decision, next) = match arguments.what {
        What::Executed => {
            (Decision::Executed, "make sure that the service's own tables say so too")
        }
        What::NotExecuted => (
            Decision::NotExecuted,
            "`samekey commands retry` sends it again under its key, and the same action may get a new key",
        ),
        What::WrittenOff => (Decision::WriteOff, "it is never sent again"),
    };
    let (org, id) = (arguments.target.org()?, arguments.target.id()?);
    let delivery = block_on(async {
        match arguments.target.database.open().await? {
            Store::Postgres(store) => {
                on(&store, (&org, id), &arguments.seen, decision, &person).await
            }
            Store::Sqlite(store) => {
                on(&store, (&org, id), &arguments.seen, decision, &person).await
            }
        }
    })?;
    say(&format!(
        "decided: the command is {} ({}); {next}\n",
        delivery.state_name(),
        delivery.view()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `samekey commands cancel`.
pub fn cancel(arguments: &Cancel) -> Result<ExitCode, Stopped> {
    let person = arguments.person.person();
    let (org, id) = (arguments.target.org()?, arguments.target.id()?);
    let done = block_on(async {
        Ok(match arguments.target.database.open().await? {
            Store::Postgres(store) => Inbox::of(&store).cancel_by(&org, id, &person).await?,
            Store::Sqlite(store) => Inbox::of(&store).cancel_by(&org, id, &person).await?,
        })
    })?;
    decided(done, "only what was never sent can be taken back")?;
    say("cancelled: it was never sent, and never will be\n")?;
    Ok(ExitCode::SUCCESS)
}

/// What can be decided at all.
const WANTED: &str =
    "only what is in the inbox, and has not changed since you looked, can be decided";

async fn on<S: Outbox>(
    store: &S,
    (org, id): (&Org, CommandId),
    seen: &Seen,
    decision: Decision,
    person: &Person,
) -> Result<Delivery, Stopped> {
    let hold = seen.hold(store, org, id).await?;
    let done = Inbox::of(store).decide(org, id, hold, decision, person).await?;
    if is_as_seen(&done, hold) {
        return Err(Stopped::new(
            Code::NothingDecided,
            "nothing was decided: the command has failed, which says already that nothing of it ran; `samekey commands retry` sends it again under its key",
        ));
    }
    decided(done, WANTED)
}

/// Whether nothing was done although the command is in the inbox and as the person saw it.
fn is_as_seen(done: &Done, hold: Hold) -> bool {
    match done {
        Done::NotNow(delivery) => delivery.hold() == hold && delivery.is_in_inbox(),
        Done::Written(_) | Done::Contradicts(_) | Done::Unknown => false,
    }
}

/// Trying again is the courier's, since it knows what the destination can be asked.
async fn again<S: Outbox + Ledger>(
    store: S,
    setup: Setup,
    (org, id): (&Org, CommandId),
    seen: &Seen,
    person: &Person,
) -> Result<Delivery, Stopped> {
    let courier = Courier::open(Arc::new(store), setup).await?;
    let hold = seen.hold(courier.store(), org, id).await?;
    let done = courier.retry(org, id, hold, person).await?;
    if is_as_seen(&done, hold) {
        return Err(Stopped::new(
            Code::NothingDecided,
            "nothing was decided: the command may have run, and its counterparty neither answers questions nor still remembers the key, so it is not sent; find out there what happened, then `samekey commands resolve`",
        ));
    }
    decided(done, WANTED)
}

impl Seen {
    /// The hold of the command, if it is as the person saw it.
    async fn hold<S: Outbox>(&self, store: &S, org: &Org, id: CommandId) -> Result<Hold, Stopped> {
        let current = store.delivery(org, id).await?.ok_or_else(no_such_command)?.delivery.view();
        if current.to_string() == self.view {
            return Ok(current.hold());
        }
        // The new view is not said, so that nobody decides without having looked.
        Err(Stopped::new(
            Code::NothingDecided,
            "nothing was decided: that is not the view of the command as it is now; look at it with `samekey commands show` first",
        ))
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        match (error.kind(), error.store()) {
            (_, Some(store)) => Stopped::from(store.clone()),
            (
                Kind::Config
                | Kind::Request
                | Kind::NotReplayable
                | Kind::UnknownDestination
                | Kind::OtherEnvironment,
                None,
            ) => Stopped::new(Code::Usage, error.to_string()),
            (Kind::OtherContent | Kind::NotFollowed | Kind::Store, None) => {
                Stopped::new(Code::NothingDecided, error.to_string())
            }
        }
    }
}
