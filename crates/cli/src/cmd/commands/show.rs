//! `samekey commands show`: everything that is known of one command.

use super::{Target, no_such_command, since_and_reason};
use crate::cmd::keys::Account;
use crate::database::{Store, block_on};
use crate::exit::Stopped;
use crate::output::say;
use crate::show::{Format, escaped, json, second};
use bytes::Bytes;
use samekey_client::HttpRequest;
use samekey_client::core::delivery::{Delivery, State};
use samekey_client::core::key::Org;
use samekey_client::core::receipt::Receipt;
use samekey_client::store::outbox::{AttemptNote, Command, CommandId, Outbox};
use serde::Serialize;
use std::process::ExitCode;

/// Show one command: its state, its view, every attempt, and what persons decided about it
///
/// The outbound key is the one under which the counterparty knows the command: ask there with it, or with
/// the reference. The request may hold what is nobody's business, so it is shown only with --request. No
/// answer is shown.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Show the request too
    #[arg(long)]
    request: bool,
    /// For whom it is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Serialize)]
struct Page {
    org: String,
    id: String,
    destination: String,
    operation: String,
    reference: String,
    generation: u32,
    order_key: Option<String>,
    outbound_key: String,
    state: &'static str,
    since: Option<String>,
    reason: Option<&'static str>,
    doubt: Option<&'static str>,
    last: Option<&'static str>,
    view: String,
    began: String,
    gives_up: String,
    due: Option<String>,
    attempts: u32,
    questions_asked: Option<u32>,
    answer_status: Option<u16>,
    request: Option<String>,
    notes: Vec<Note>,
    decisions: Vec<Account>,
}

#[derive(Serialize)]
struct Note {
    kind: String,
    number: u32,
    began: String,
    noted: String,
    came_to: String,
    status: Option<u16>,
    fence: u64,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let (org, id) = (arguments.target.org()?, arguments.target.id()?);
    let page = block_on(async {
        Ok(match arguments.target.database.open().await? {
            Store::Postgres(store) => page(&store, &org, id, arguments.request).await?,
            Store::Sqlite(store) => page(&store, &org, id, arguments.request).await?,
        })
    })?;
    match arguments.format {
        Format::Text => say(&page.text())?,
        Format::Json => say(&format!("{}\n", json(&page)?))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn page<S: Outbox>(
    store: &S,
    org: &Org,
    id: CommandId,
    with_request: bool,
) -> Result<Page, Stopped> {
    let command = store.command(org, id).await?.ok_or_else(no_such_command)?;
    let seen = store.delivery(org, id).await?.ok_or_else(no_such_command)?;
    let mut page = Page::of(&command, &seen.delivery);
    if with_request {
        page.request = Some(request_text(&command.request));
    }
    page.notes = store.attempts(org, id).await?.iter().map(Note::of).collect();
    page.decisions = store.accounts(org, id).await?.iter().map(Account::of).collect();
    Ok(page)
}

impl Page {
    fn of(command: &Command, delivery: &Delivery) -> Page {
        let (since, reason) = since_and_reason(delivery);
        let asked = match &delivery.state {
            State::Unknown(unknown) => Some(unknown.asked),
            State::Waiting(_)
            | State::Sending(_)
            | State::Succeeded(_)
            | State::Refused(_)
            | State::Failed(_)
            | State::Undecided(_)
            | State::Cancelled(_)
            | State::Resolved(_) => None,
        };
        Page {
            org: command.action.org.as_str().to_owned(),
            id: command.id.to_string(),
            destination: command.action.destination.clone(),
            operation: command.action.operation.clone(),
            reference: command.action.business_ref.clone(),
            generation: command.generation,
            order_key: command.order_key.clone(),
            outbound_key: command.key.to_string(),
            state: delivery.state_name(),
            since: since.map(second),
            reason,
            doubt: delivery.doubt.map(|reason| reason.code()),
            last: delivery.last.map(|reason| reason.code()),
            view: delivery.view().to_string(),
            began: second(delivery.began),
            gives_up: second(delivery.gives_up),
            due: delivery.due().map(second),
            attempts: delivery.sends,
            questions_asked: asked,
            answer_status: receipt(delivery).map(Receipt::status),
            request: None,
            notes: Vec::new(),
            decisions: Vec::new(),
        }
    }

    fn text(&self) -> String {
        let lines = [
            ("organisation", Some(escaped(&self.org))),
            ("id", Some(self.id.clone())),
            ("destination", Some(escaped(&self.destination))),
            ("operation", Some(escaped(&self.operation))),
            ("reference", Some(escaped(&self.reference))),
            ("generation", Some(self.generation.to_string())),
            ("order key", self.order_key.as_deref().map(escaped)),
            ("outbound key", Some(self.outbound_key.clone())),
            ("state", Some(self.state.to_owned())),
            ("since", self.since.clone()),
            ("reason", self.reason.map(str::to_owned)),
            ("in doubt by", self.doubt.map(str::to_owned)),
            ("last came to", self.last.map(str::to_owned)),
            ("view", Some(self.view.clone())),
            ("began", Some(self.began.clone())),
            ("gives up", Some(self.gives_up.clone())),
            ("due", self.due.clone()),
            ("attempts", Some(self.attempts.to_string())),
            ("questions asked", self.questions_asked.map(|asked| asked.to_string())),
            ("status", self.answer_status.map(|status| status.to_string())),
        ];
        let mut text: String = lines
            .iter()
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name:16} {value}\n")))
            .collect();
        if let Some(request) = &self.request {
            text.push('\n');
            for line in request.lines() {
                text.push_str(&format!("  {}\n", escaped(line)));
            }
        }
        for note in &self.notes {
            let status = note.status.map(|status| format!(", status {status}"));
            text.push_str(&format!(
                "\n{} {} {}: {}{}, noted {}",
                note.began,
                escaped(&note.kind),
                note.number,
                escaped(&note.came_to),
                status.unwrap_or_default(),
                note.noted
            ));
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for account in &self.decisions {
            text.push_str(&account.text());
        }
        text
    }
}

/// A request as a person reads it: its first line, its headers, its body.
fn request_text(bytes: &Bytes) -> String {
    let Some(request) = HttpRequest::decode(bytes) else {
        // Whoever enqueued it has a form of its own.
        return String::from_utf8_lossy(bytes).into_owned();
    };
    let mut text = format!("{} {}\n", request.method, request.target);
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&request.body));
    text
}

fn receipt(delivery: &Delivery) -> Option<&Receipt> {
    match &delivery.state {
        State::Succeeded(ended) | State::Refused(ended) => Some(&ended.with),
        State::Waiting(_)
        | State::Sending(_)
        | State::Unknown(_)
        | State::Failed(_)
        | State::Undecided(_)
        | State::Cancelled(_)
        | State::Resolved(_) => None,
    }
}

impl Note {
    fn of(note: &AttemptNote) -> Note {
        Note {
            kind: note.kind.clone(),
            number: note.number,
            began: second(note.began),
            noted: second(note.noted),
            came_to: note.came_to.clone(),
            status: note.status,
            fence: note.fence.number(),
        }
    }
}
