//! `samekey keys show`: everything that is known of one key.

use super::{Target, since_and_reason};
use crate::database::{Store, block_on};
use crate::exit::{Code, Stopped};
use crate::output::say;
use crate::show::{Format, escaped, json, second};
use samekey::core::receipt::Receipt;
use samekey::core::record::State;
use samekey::keys::{Keys, Shown, state_name};
use samekey::store::{Decided, Ledger};
use serde::Serialize;
use std::process::ExitCode;

/// Show one key: its state, its view, and what persons decided about it
///
/// The outbound key is the one under which the counterparty knows the command: ask there with it. The
/// request of an open key is kept where the counterparty can be asked; it may hold what is nobody's
/// business, so it is shown only with --request. No stored answer is shown.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Show the request too, while the key is open and it is kept
    #[arg(long)]
    request: bool,
    /// For whom it is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Serialize)]
struct Page {
    org: String,
    key: String,
    state: &'static str,
    since: Option<String>,
    reason: Option<&'static str>,
    view: String,
    fence: u64,
    route: Option<String>,
    outbound_key: Option<String>,
    questions_asked: Option<u32>,
    next_question: Option<String>,
    lease_ends: Option<String>,
    request: Option<String>,
    answer_status: Option<u16>,
    answer_kept: Option<bool>,
    kept_until: Option<String>,
    decisions: Vec<Account>,
}

/// What a person decided, as it is shown.
#[derive(Serialize)]
pub struct Account {
    at: String,
    decision: String,
    person: String,
    note: String,
    evidence: String,
    fence_seen: u64,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let scope = arguments.target.scope()?;
    let shown = block_on(async {
        Ok(match arguments.target.database.open().await? {
            Store::Postgres(ledger) => show(&ledger, &scope).await?,
            Store::Sqlite(ledger) => show(&ledger, &scope).await?,
        })
    })?;
    let mut page = Page::of(&arguments.target, &shown);
    if arguments.request {
        page.request = shown.request().map(|request| {
            let body = String::from_utf8_lossy(request.body());
            format!("{} {} {body}", request.method(), request.uri())
        });
    }
    match arguments.format {
        Format::Text => say(&page.text())?,
        Format::Json => say(&format!("{}\n", json(&page)?))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn show<L: Ledger>(ledger: &L, scope: &samekey::core::key::Scope) -> Result<Shown, Stopped> {
    let shown = Keys::of(ledger).show(scope).await?;
    shown.ok_or_else(|| {
        Stopped::new(
            Code::NothingDecided,
            "there is no such key; it was never used in this organisation, or its retention is over",
        )
    })
}

impl Page {
    fn of(target: &Target, shown: &Shown) -> Page {
        let record = &shown.seen.record;
        let (since, reason) = since_and_reason(&record.state);
        let mut page = Page {
            org: target.org.clone(),
            key: target.key.clone(),
            state: state_name(&record.state),
            since: since.map(second),
            reason,
            view: record.view().to_string(),
            fence: record.fence.number(),
            route: shown.intent.as_ref().map(|intent| intent.route.clone()),
            outbound_key: shown.intent.as_ref().map(|intent| intent.outbound_key.to_string()),
            questions_asked: None,
            next_question: None,
            lease_ends: None,
            request: None,
            answer_status: None,
            answer_kept: None,
            // An open record is kept, whatever its row says.
            kept_until: (!record.is_open()).then(|| second(record.keep_until)),
            decisions: shown.decisions.iter().map(Account::of).collect(),
        };
        match &record.state {
            State::Running(running) => page.lease_ends = Some(second(running.lease_ends)),
            State::Unknown(unknown) => {
                page.questions_asked = Some(unknown.asked);
                page.next_question = Some(second(unknown.ask_after));
            }
            State::Done(done) => match &done.receipt {
                Receipt::Kept(answer) => {
                    (page.answer_status, page.answer_kept) = (Some(answer.status), Some(true));
                }
                Receipt::Fact { status, .. } => {
                    (page.answer_status, page.answer_kept) = (Some(*status), Some(false));
                }
            },
            State::Free | State::Review(_) | State::Closed(_) => {}
        }
        page
    }

    fn text(&self) -> String {
        let kept = match self.answer_kept {
            Some(true) => Some("kept, and replayed to whoever sends the key again"),
            Some(false) => Some("not kept, only the fact and the status"),
            None => None,
        };
        let lines = [
            ("organisation", Some(escaped(&self.org))),
            ("key", Some(escaped(&self.key))),
            ("state", Some(self.state.to_owned())),
            ("since", self.since.clone()),
            ("reason", self.reason.map(str::to_owned)),
            ("view", Some(self.view.clone())),
            ("route", self.route.as_deref().map(escaped)),
            ("outbound key", self.outbound_key.clone()),
            ("request", self.request.as_deref().map(escaped)),
            ("questions asked", self.questions_asked.map(|asked| asked.to_string())),
            ("next question", self.next_question.clone()),
            ("lease ends", self.lease_ends.clone()),
            ("status", self.answer_status.map(|status| status.to_string())),
            ("answer", kept.map(str::to_owned)),
            ("kept until", self.kept_until.clone()),
        ];
        let mut text: String = lines
            .iter()
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name:16} {value}\n")))
            .collect();
        for account in &self.decisions {
            text.push_str(&account.text());
        }
        text
    }
}

impl Account {
    /// Of this account.
    pub fn of(decided: &Decided) -> Account {
        Account {
            at: second(decided.at),
            decision: decided.decision.clone(),
            person: decided.person.clone(),
            note: decided.note.clone(),
            evidence: decided.evidence.clone(),
            fence_seen: decided.seen.number(),
        }
    }

    /// For people, with an empty line before it.
    pub fn text(&self) -> String {
        format!(
            "\n{} {} by {}, who saw fence {}\n  note: {}\n  evidence: {}\n",
            self.at,
            escaped(&self.decision),
            escaped(&self.person),
            self.fence_seen,
            escaped(&self.note),
            escaped(&self.evidence)
        )
    }
}
