//! `samekey keys list`: what is open.

use super::{organisation, since_and_reason};
use crate::database::{DatabaseFlag, Store, block_on};
use crate::exit::Stopped;
use crate::output::say;
use crate::show::{Format, escaped, json, rows, second};
use samekey::core::key::{Org, Scope};
use samekey::core::record::State;
use samekey::core::time::Time;
use samekey::keys::{Keys, state_name};
use samekey::store::{LIST_PAGE_MAX, Ledger, OpenRecord};
use serde::Serialize;
use std::process::ExitCode;

/// How many keys are shown by default: more than a person goes through in one sitting.
const SHOWN_DEFAULT: u32 = 100;
/// The largest list: what is held in memory at once.
const SHOWN_MAX: i64 = 100_000;

/// List open keys, those in review first of all
///
/// The first line says how many wait for a person, and since when the oldest does. Every key comes
/// with the reason and with its view, which a decision has to name.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseFlag,
    /// Only keys that wait for a person
    #[arg(long)]
    review: bool,
    /// Only keys whose outcome is unknown and is being asked about
    #[arg(long)]
    unknown: bool,
    /// Only keys that somebody works on
    #[arg(long)]
    running: bool,
    /// Only keys of this organisation
    #[arg(long)]
    org: Option<String>,
    /// How many keys are shown at the most; all are counted
    #[arg(long, default_value_t = SHOWN_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=SHOWN_MAX))]
    limit: u32,
    /// For whom the list is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Default, Serialize)]
struct Listed {
    review: u64,
    unknown: u64,
    running: u64,
    /// Since when the oldest key waits for a person.
    review_since: Option<String>,
    /// More keys than are shown.
    not_shown: u64,
    keys: Vec<Line>,
    #[serde(skip)]
    oldest: Option<Time>,
}

#[derive(Serialize)]
struct Line {
    org: String,
    key: String,
    route: String,
    state: &'static str,
    since: Option<String>,
    reason: Option<&'static str>,
    view: String,
    #[serde(skip)]
    rank: u8,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let org = arguments.org.as_deref().map(organisation).transpose()?;
    let listed = block_on(async {
        match arguments.database.open().await? {
            Store::Postgres(ledger) => list(&ledger, arguments, org.as_ref()).await,
            Store::Sqlite(ledger) => list(&ledger, arguments, org.as_ref()).await,
        }
    })?;
    match arguments.format {
        Format::Text => say(&text(&listed))?,
        Format::Json => say(&format!("{}\n", json(&listed)?))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list<L: Ledger>(
    ledger: &L,
    arguments: &Arguments,
    org: Option<&Org>,
) -> Result<Listed, Stopped> {
    let keys = Keys::of(ledger);
    let mut listed = Listed::default();
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let mut after: Option<Scope> = None;
    loop {
        let page = keys.open(after.as_ref(), LIST_PAGE_MAX).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.scope.clone());
        let page = page.into_iter().filter(|open| org.is_none_or(|org| open.scope.org == *org));
        for open in page {
            listed.count(&open);
            if arguments.shows(&open.seen.record.state) {
                listed.keys.push(Line::of(&open));
            }
        }
        // Those in review come first, so they are kept while others make room.
        listed.keys.sort_by_key(|line| line.rank);
        listed.not_shown += listed.keys.len().saturating_sub(limit) as u64;
        listed.keys.truncate(limit);
    }
    listed.review_since = listed.oldest.map(second);
    Ok(listed)
}

impl Arguments {
    fn shows(&self, state: &State) -> bool {
        let all = !self.review && !self.unknown && !self.running;
        match state {
            State::Review(_) => all || self.review,
            State::Unknown(_) => all || self.unknown,
            State::Running(_) => all || self.running,
            State::Free | State::Done(_) | State::Closed(_) => false,
        }
    }
}

impl Listed {
    fn count(&mut self, open: &OpenRecord) {
        match &open.seen.record.state {
            State::Review(review) => {
                self.review += 1;
                self.oldest = Some(self.oldest.map_or(review.since, |at| at.min(review.since)));
            }
            State::Unknown(_) => self.unknown += 1,
            State::Running(_) => self.running += 1,
            State::Free | State::Done(_) | State::Closed(_) => {}
        }
    }
}

impl Line {
    fn of(open: &OpenRecord) -> Line {
        let state = &open.seen.record.state;
        let (since, reason) = since_and_reason(state);
        Line {
            org: open.scope.org.as_str().to_owned(),
            key: open.scope.key.as_str().to_owned(),
            route: open.route.clone(),
            state: state_name(state),
            since: since.map(second),
            reason,
            view: open.seen.record.view().to_string(),
            rank: match state {
                State::Review(_) => 0,
                State::Unknown(_) => 1,
                State::Running(_) | State::Free | State::Done(_) | State::Closed(_) => 2,
            },
        }
    }
}

fn text(listed: &Listed) -> String {
    let since = match &listed.review_since {
        Some(since) => format!(", the oldest since {since}"),
        None => String::new(),
    };
    let mut text = format!(
        "{} in review{since}; {} unknown, being asked about; {} running\n",
        listed.review, listed.unknown, listed.running
    );
    if listed.keys.is_empty() {
        return text;
    }
    let keys = listed.keys.iter().map(|line| {
        vec![
            escaped(&line.org),
            escaped(&line.key),
            escaped(&line.route),
            line.state.to_owned(),
            line.since.clone().unwrap_or_default(),
            line.reason.unwrap_or_default().to_owned(),
            line.view.clone(),
        ]
    });
    let names = ["org", "key", "route", "state", "since", "reason", "view"];
    text.push_str(&rows(&names, &keys.collect::<Vec<_>>()));
    if listed.not_shown > 0 {
        text.push_str(&format!("{} more; --limit shows more of them\n", listed.not_shown));
    }
    if listed.review > 0 {
        text.push_str(
            "Those in review wait for a person: find out at the counterparty what happened, then `samekey keys resolve --help`.\n",
        );
    }
    text
}
