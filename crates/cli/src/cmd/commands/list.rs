//! `samekey commands inbox` and `samekey commands list`.

use super::{because, came_to, organisation, since_and_reason};
use crate::database::{DatabaseFlag, Store, block_on};
use crate::exit::Stopped;
use crate::output::say;
use crate::show::{Format, escaped, json, rows, second};
use samekey_client::store::LIST_PAGE_MAX;
use samekey_client::store::outbox::{CommandCount, CommandId, Listed, Outbox, Show};
use serde::Serialize;
use std::process::ExitCode;

/// How many commands are shown by default: more than a person goes through in one sitting.
const SHOWN_DEFAULT: u32 = 100;
/// The largest list: what is held in memory at once.
const SHOWN_MAX: i64 = 100_000;
/// The states in which a command waits for a person.
const INBOX_STATES: [&str; 2] = ["failed", "undecided"];

/// Which commands are listed, and how.
#[derive(clap::Args, Debug)]
struct Which {
    #[command(flatten)]
    database: DatabaseFlag,
    /// Only commands of this organisation
    #[arg(long)]
    org: Option<String>,
    /// Only commands to this destination
    #[arg(long)]
    destination: Option<String>,
    /// How many commands are shown at the most; all that are not finished are counted
    #[arg(long, default_value_t = SHOWN_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=SHOWN_MAX))]
    limit: u32,
    /// For whom the list is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// List the commands that wait for a person
///
/// `failed`: given up, and proved not to have run; `samekey commands retry` sends it again under its key, and
/// only then, or after a refusal, may the same action get a new key. `undecided`: given up, and it may have
/// run; find out at the counterparty, then `samekey commands resolve`.
#[derive(clap::Args, Debug)]
pub struct Inbox {
    #[command(flatten)]
    which: Which,
}

/// List commands
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    which: Which,
    /// Only commands in this state; may be given several times
    #[arg(long = "state", value_enum, value_name = "STATE")]
    states: Vec<StateName>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum StateName {
    Waiting,
    Sending,
    Unknown,
    Succeeded,
    Refused,
    Failed,
    Undecided,
    Cancelled,
    Resolved,
}

impl StateName {
    fn text(self) -> &'static str {
        match self {
            StateName::Waiting => "waiting",
            StateName::Sending => "sending",
            StateName::Unknown => "unknown",
            StateName::Succeeded => "succeeded",
            StateName::Refused => "refused",
            StateName::Failed => "failed",
            StateName::Undecided => "undecided",
            StateName::Cancelled => "cancelled",
            StateName::Resolved => "resolved",
        }
    }
}

#[derive(Serialize)]
struct Page {
    /// By destination and state; finished commands are not counted.
    counts: Vec<Count>,
    /// Whether there are more than are shown.
    more: bool,
    commands: Vec<Line>,
}

#[derive(Serialize)]
struct Count {
    destination: String,
    state: String,
    count: u64,
}

#[derive(Serialize)]
struct Line {
    org: String,
    id: String,
    destination: String,
    operation: String,
    reference: String,
    generation: u32,
    state: &'static str,
    since: Option<String>,
    due: Option<String>,
    reason: Option<&'static str>,
    /// What the last attempt or question came to, where that is not the reason.
    last: Option<&'static str>,
    attempts: u32,
    view: String,
}

/// Runs `samekey commands inbox`.
pub fn inbox(arguments: &Inbox) -> Result<ExitCode, Stopped> {
    show(&arguments.which, INBOX_STATES.map(str::to_owned).to_vec(), true)
}

/// Runs `samekey commands list`.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let states = arguments.states.iter().map(|state| state.text().to_owned()).collect();
    show(&arguments.which, states, false)
}

fn show(which: &Which, states: Vec<String>, is_inbox: bool) -> Result<ExitCode, Stopped> {
    let org = which.org.as_deref().map(organisation).transpose()?;
    let show = Show { org, destination: which.destination.clone(), states };
    let page = block_on(async {
        Ok(match which.database.open().await? {
            Store::Postgres(store) => page(&store, &show, which.limit).await?,
            Store::Sqlite(store) => page(&store, &show, which.limit).await?,
        })
    })?;
    match which.format {
        Format::Text => say(&text(&page, is_inbox))?,
        Format::Json => say(&format!("{}\n", json(&page)?))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn page<S: Outbox>(store: &S, show: &Show, limit: u32) -> Result<Page, Stopped> {
    let counts = store.count_commands().await?.into_iter().map(Count::of).collect();
    let mut page = Page { counts, more: false, commands: Vec::new() };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut after: Option<(samekey::core::key::Org, CommandId)> = None;
    loop {
        let from = after.as_ref().map(|(org, id)| (org, *id));
        let found = store.list(show, from, LIST_PAGE_MAX).await?;
        let Some(last) = found.last() else { return Ok(page) };
        after = Some((last.action.org.clone(), last.id));
        for listed in &found {
            if page.commands.len() >= limit {
                page.more = true;
                return Ok(page);
            }
            page.commands.push(Line::of(listed));
        }
    }
}

impl Count {
    fn of(count: CommandCount) -> Count {
        let CommandCount { destination, state, count } = count;
        Count { destination, state, count }
    }
}

impl Line {
    fn of(listed: &Listed) -> Line {
        let Listed { id, action, generation, seen } = listed;
        let delivery = &seen.delivery;
        let (since, reason) = since_and_reason(delivery);
        Line {
            org: action.org.as_str().to_owned(),
            id: id.to_string(),
            destination: action.destination.clone(),
            operation: action.operation.clone(),
            reference: action.business_ref.clone(),
            generation: *generation,
            state: delivery.state_name(),
            since: since.map(second),
            due: delivery.due().map(second),
            reason,
            last: came_to(delivery),
            attempts: delivery.sends,
            view: delivery.view().to_string(),
        }
    }
}

fn text(page: &Page, is_inbox: bool) -> String {
    let mut text = counted(&page.counts);
    if page.commands.is_empty() {
        if is_inbox {
            text.push_str("Nothing waits for a person.\n");
        }
        return text;
    }
    let names = [
        "org",
        "id",
        "destination",
        "operation",
        "reference",
        "state",
        "since",
        "due",
        "reason",
        "attempts",
        "view",
    ];
    let commands = page.commands.iter().map(|line| {
        vec![
            escaped(&line.org),
            line.id.clone(),
            escaped(&line.destination),
            escaped(&line.operation),
            escaped(&line.reference),
            line.state.to_owned(),
            line.since.clone().unwrap_or_default(),
            line.due.clone().unwrap_or_default(),
            because(line.reason, line.last),
            line.attempts.to_string(),
            line.view.clone(),
        ]
    });
    text.push_str(&rows(&names, &commands.collect::<Vec<_>>()));
    if page.more {
        text.push_str("There are more; --limit shows more of them.\n");
    }
    if is_inbox {
        text.push_str(
            "failed: nothing of it ran; `samekey commands retry` sends it again under its key.\n\
             undecided: it may have run; find out at the counterparty, then `samekey commands resolve --help`.\n",
        );
    }
    text
}

/// One line a destination.
fn counted(counts: &[Count]) -> String {
    let mut text = String::new();
    let mut last: Option<&str> = None;
    for count in counts {
        let state = format!("{} {}", count.count, count.state);
        if last == Some(count.destination.as_str()) {
            text.push_str(&format!(", {state}"));
        } else {
            if last.is_some() {
                text.push('\n');
            }
            text.push_str(&format!("{}: {state}", escaped(&count.destination)));
        }
        last = Some(&count.destination);
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}
