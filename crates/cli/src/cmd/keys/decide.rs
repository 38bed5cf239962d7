//! `samekey keys resolve` and `samekey keys forget`: what a person decides.

use super::Target;
use crate::database::{Store, block_on};
use crate::exit::{Code, Stopped};
use crate::output::say;
use samekey::core::key::Scope;
use samekey::core::outcome::Ending;
use samekey::core::receipt::Receipt;
use samekey::core::record::{Record, State};
use samekey::core::step::Decision;
use samekey::keys::{Keys, Person, Undecided, executed_fact, state_name};
use samekey::store::Ledger;
use std::process::ExitCode;

/// The longest Location, in bytes: what servers commonly take for a request line is four times that.
const LOCATION_BYTES_MAX: usize = 2_048;

/// Decide about a key in review
///
/// Find out at the counterparty first what happened; `samekey keys show`
/// has the outbound key to ask with. Then say which it was:
///
///   executed      It was executed, or refused for good, and you have proof
///                 (a reference, a statement of account). Enter the result
///                 into the service's own tables FIRST: this writes the key
///                 and nothing else, and a Location that answers 404 reads
///                 like "not paid". Then give the status that the first
///                 answer would have had (a 4xx for a refusal), and where
///                 the result can be read. Whoever sends the key again is
///                 told that it is done.
///   not-executed  The counterparty says that it refused it or never
///                 accepted it; or it knows nothing of it, and since
///                 `since` more time has passed than any request can take
///                 to arrive (proxies, queues: ask the counterparty; if
///                 nobody knows, a day). One "not found" is no proof. The
///                 key is free: tell the caller to send the same request
///                 again, with the same key.
///   closed        It was made good in another way (refunded, written off).
///                 It does not run.
///
/// If you cannot tell, decide nothing: an open key costs a question, a
/// wrong "not-executed" costs the money twice. Never tell the caller to use
/// a new key: with a new key it is a second command.
///
/// A decision holds until the retention of the key is over.
#[derive(clap::Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  \
    samekey keys resolve alpha order-7 --view 3.7-9f2c01ab \\\n    \
    --as executed --status 201 --location /payments/PAY-7 \\\n    \
    --person 'M. Sato' --note 'paid, answer lost in the outage' \\\n    \
    --evidence 'outbound key 5f0c…, statement 2026-11-30, line 12'"
)]
pub struct Resolve {
    #[command(flatten)]
    target: Target,
    /// What you looked at, as `keys list` and `keys show` print it; if the key has changed since,
    /// nothing is decided
    #[arg(long, value_name = "VIEW", value_parser = super::view)]
    view: String,
    /// What happened
    #[arg(long = "as", value_enum, value_name = "WHAT")]
    what: What,
    /// With `executed`: the status that the first answer would have had: 200 to 299, or the final 4xx of
    /// a refusal (every 4xx but 401, 403, 407, 408, 413, 421, 425, 429)
    #[arg(long, value_name = "STATUS")]
    status: Option<u16>,
    /// With `executed`: where the result can be read
    #[arg(long, value_name = "URL")]
    location: Option<String>,
    #[command(flatten)]
    person: PersonFlags,
}

/// Remove the stored answer of a finished key
///
/// For personal data that has to go before the retention ends. The fact that the command was executed
/// stays, so that a retry does not run it again: it is told that the answer was not kept.
#[derive(clap::Args, Debug)]
pub struct Forget {
    #[command(flatten)]
    target: Target,
    /// What you looked at, as `keys show` prints it
    #[arg(long, value_name = "VIEW", value_parser = super::view)]
    view: String,
    #[command(flatten)]
    person: PersonFlags,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// It was executed, or refused for good, which is proved
    Executed,
    /// It was not executed and no longer can be, which is proved
    NotExecuted,
    /// It was made good in another way, and does not run
    Closed,
}

/// Who decides. All three stay with the key, and nothing of them can be changed later.
#[derive(clap::Args, Debug)]
pub struct PersonFlags {
    /// Your name
    #[arg(long = "person", value_name = "NAME")]
    name: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    note: String,
    /// What it rests on. Once a key is decided its outbound key is not shown any more: name it here
    #[arg(long, value_name = "TEXT")]
    evidence: String,
}

impl PersonFlags {
    /// The person as the account names them.
    pub fn person(&self) -> Person {
        Person { name: self.name.clone(), note: self.note.clone(), evidence: self.evidence.clone() }
    }
}

/// Runs `samekey keys resolve`.
pub fn resolve(arguments: &Resolve) -> Result<ExitCode, Stopped> {
    let (scope, decision) = (arguments.target.scope()?, arguments.decision()?);
    let person = arguments.person.person();
    let record = block_on(async {
        Ok(match arguments.target.database.open().await? {
            Store::Postgres(ledger) => {
                decide(&ledger, &scope, &arguments.view, decision, &person).await
            }
            Store::Sqlite(ledger) => {
                decide(&ledger, &scope, &arguments.view, decision, &person).await
            }
        }?)
    })?;
    let next = match arguments.what {
        What::Executed => {
            "whoever sends it again is told that it is done, with this status and Location: make sure that the result can be read there, since nothing but the key was written"
        }
        What::NotExecuted => {
            "tell the caller to send the same request again, with the same key: then it runs"
        }
        What::Closed => "it does not run while its record is kept",
    };
    say(&format!("decided: the key is {}; {next}\n", described(&record)))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `samekey keys forget`.
pub fn forget(arguments: &Forget) -> Result<ExitCode, Stopped> {
    let (scope, person) = (arguments.target.scope()?, arguments.person.person());
    let view = arguments.view.as_str();
    let (was_kept, record) = block_on(async {
        Ok(match arguments.target.database.open().await? {
            Store::Postgres(ledger) => strip(&ledger, &scope, view, &person).await,
            Store::Sqlite(ledger) => strip(&ledger, &scope, view, &person).await,
        }?)
    })?;
    let said = if was_kept {
        "forgotten: its answer is gone, the fact stays, and it does not run again"
    } else {
        "there was nothing to forget: no answer is kept, only the fact, and nothing was written"
    };
    say(&format!("{said}; the key is {}\n", described(&record)))?;
    Ok(ExitCode::SUCCESS)
}

/// Forgets; says whether there was an answer to forget.
async fn strip<L: Ledger>(
    ledger: &L,
    scope: &Scope,
    view: &str,
    person: &Person,
) -> Result<(bool, Record), Undecided> {
    let keys = Keys::of(ledger);
    let shown = keys.show(scope).await?;
    let was_kept = shown.is_some_and(|shown| match &shown.seen.record.state {
        State::Done(done) => matches!(done.receipt, Receipt::Kept(_)),
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Closed(_) => false,
    });
    Ok((was_kept, keys.forget(scope, view, person).await?))
}

async fn decide<L: Ledger>(
    ledger: &L,
    scope: &Scope,
    view: &str,
    decision: Decision,
    person: &Person,
) -> Result<Record, Undecided> {
    Keys::of(ledger).resolve(scope, view, decision, person).await
}

fn described(record: &Record) -> String {
    format!("{} ({})", state_name(&record.state), record.view())
}

/// Whether an answer with this status may be the end of a command: a success, or a refusal that is final.
fn is_told(status: u16) -> bool {
    (200..=299).contains(&status) || Ending::of_status(status) == Ending::Refused
}

impl Resolve {
    fn decision(&self) -> Result<Decision, Stopped> {
        let usage = |sentence: &str| Err(Stopped::new(Code::Usage, sentence));
        let said = self.status.is_some() || self.location.is_some();
        match self.what {
            What::Executed => match self.status {
                Some(status) if is_told(status) => {
                    Ok(Decision::Executed(executed_fact(status, self.place()?)))
                }
                Some(_) => usage(
                    "--status is neither a success nor a final refusal; expected the one that the first answer would have had: 200 to 299, or a 4xx but 401, 403, 407, 408, 413, 421, 425, 429",
                ),
                None => usage(
                    "--as executed has no --status; give the one that the first answer would have had, such as 201",
                ),
            },
            What::NotExecuted | What::Closed if said => {
                usage("--status and --location belong to --as executed; leave them out")
            }
            What::NotExecuted => Ok(Decision::NotExecuted),
            What::Closed => Ok(Decision::Close),
        }
    }

    fn place(&self) -> Result<Option<String>, Stopped> {
        let Some(place) = &self.location else { return Ok(None) };
        let plain = place.bytes().all(|byte| byte.is_ascii_graphic());
        if place.is_empty() || place.len() > LOCATION_BYTES_MAX || !plain {
            return Err(Stopped::new(
                Code::Usage,
                format!(
                    "--location is no address; expected 1 to {LOCATION_BYTES_MAX} visible ASCII characters, such as /payments/PAY-7"
                ),
            ));
        }
        Ok(Some(place.clone()))
    }
}

impl From<Undecided> for Stopped {
    fn from(undecided: Undecided) -> Stopped {
        let sentence = undecided.to_string();
        match undecided {
            Undecided::NoSuchKey | Undecided::StaleView | Undecided::NotInState(_) => {
                Stopped::new(Code::NothingDecided, format!("nothing was decided: {sentence}"))
            }
            Undecided::Incomplete(_) => Stopped::new(Code::Usage, sentence),
            Undecided::Store(error) => Stopped::from(error),
        }
    }
}
