//! `samekey send`: one command, written down, delivered, and its end.

use crate::courier::ConfigFlag;
use crate::database::{DatabaseFlag, Store, block_on_all};
use crate::exit::{Code, Stopped};
use crate::output::say;
use crate::show::{Format, json};
use bytes::Bytes;
use samekey::core::key::Org;
use samekey_client::core::delivery::{Delivery, State};
use samekey_client::core::receipt::Receipt;
use samekey_client::store::Ledger;
use samekey_client::store::outbox::{CommandId, Outbox, REQUEST_BYTES_MAX};
use samekey_client::{Courier, HttpRequest, NewCommand, Setup, Waited};
use serde::Serialize;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The longest wait: twelve hours is the longest profile.
const WAIT_S_MAX: u64 = 12 * 3600;
/// How long what is on its way is waited for when the time is over.
const GRACE: Duration = Duration::from_secs(35);

/// Have one command executed once
///
/// Writes the command down, delivers it, and says how it ended. The same action (organisation, destination,
/// operation, reference) sent again with the same request is the same command: it is not executed twice,
/// also when this program was killed in between.
///
/// Exit codes: 0 executed, 1 refused or given up before anything ran, 2 words or files that cannot be
/// understood, 3 the database cannot be reached, 4 not known yet: it goes on when a worker or this command runs
/// again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  \
    samekey send psp --operation charge --reference ORD-1 --path /payments \\\n    \
    --json '{\"order_id\":\"ORD-1\",\"amount\":1200,\"currency\":\"EUR\"}' --database sqlite:commands.db")]
pub struct Arguments {
    /// The destination, by its name in the configuration
    #[arg(value_name = "DESTINATION")]
    destination: String,
    #[command(flatten)]
    database: DatabaseFlag,
    #[command(flatten)]
    config: ConfigFlag,
    /// The organisation
    #[arg(long, default_value = "default")]
    org: String,
    /// What is done
    #[arg(long, value_name = "WORD")]
    operation: String,
    /// What it is done for: the id of the order, invoice or refund
    #[arg(long, value_name = "TEXT")]
    reference: String,
    /// Commands with the same order key are sent one after the other
    #[arg(long, value_name = "TEXT")]
    order_key: Option<String>,
    /// Path and query below the destination's address
    #[arg(long, value_name = "PATH")]
    path: String,
    /// The body, as JSON
    #[arg(
        long,
        value_name = "JSON",
        conflicts_with = "json_file",
        required_unless_present = "json_file"
    )]
    json: Option<String>,
    /// A file with the body, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// How long its end is waited for, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=WAIT_S_MAX))]
    wait_s: u64,
    /// Only write it down: a worker delivers it
    #[arg(long)]
    enqueue_only: bool,
    /// For whom the end is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Serialize)]
struct End {
    id: String,
    state: &'static str,
    reason: Option<&'static str>,
    attempts: u32,
    status: Option<u16>,
    /// The answer's body, where it was kept and is text.
    body: Option<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let setup = arguments.config.setup()?;
    let command = arguments.command()?;
    block_on_all(async {
        match arguments.database.open().await? {
            Store::Postgres(store) => send(store, setup, arguments, command).await,
            Store::Sqlite(store) => send(store, setup, arguments, command).await,
        }
    })
}

async fn send<S: Outbox + Ledger>(
    store: S,
    setup: Setup,
    arguments: &Arguments,
    command: NewCommand,
) -> Result<ExitCode, Stopped> {
    let courier = Courier::open(Arc::new(store), setup).await?;
    let org = command.org.clone();
    let placed = courier.enqueue(command).await?;
    if arguments.enqueue_only {
        say(&format!(
            "{}: in the outbox{}\n",
            placed.id,
            if placed.is_new { "" } else { " already" }
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let running = courier.spawn();
    let patience = Duration::from_secs(arguments.wait_s);
    let waited = courier.wait(&org, placed.id, patience).await?;
    running.drain(GRACE).await;
    let delivery = match waited {
        Waited::Ended(delivery) => delivery,
        // It may have ended while the rest was waited for.
        Waited::Pending(id) => match courier.delivery(&org, id).await? {
            Some(delivery) => delivery,
            None => return Err(gone()),
        },
    };
    report(placed.id, &delivery, arguments.format)
}

fn report(id: CommandId, delivery: &Delivery, format: Format) -> Result<ExitCode, Stopped> {
    let end = End::of(id, delivery);
    match format {
        Format::Text => say(&end.text())?,
        Format::Json => say(&format!("{}\n", json(&end)?))?,
    }
    Ok(match &delivery.state {
        State::Succeeded(_) => ExitCode::SUCCESS,
        State::Refused(_) | State::Failed(_) | State::Cancelled(_) | State::Resolved(_) => {
            Code::NothingDecided.into()
        }
        State::Waiting(_) | State::Sending(_) | State::Unknown(_) | State::Undecided(_) => {
            Code::Unknown.into()
        }
    })
}

fn gone() -> Stopped {
    Stopped::new(
        Code::Unknown,
        "the command is no longer in the database; look at its counterparty",
    )
}

impl Arguments {
    fn command(&self) -> Result<NewCommand, Stopped> {
        let org = Org::new(&self.org).map_err(|fault| {
            Stopped::new(Code::Usage, format!("--org is no organisation: {fault}"))
        })?;
        let body = self.body()?;
        if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_err() {
            return Err(Stopped::new(
                Code::Usage,
                "the body is no JSON; give it with --json or --json-file, such as --json '{\"amount\":1200}'",
            ));
        }
        let request = HttpRequest::post(self.path.as_str()).json(body).encode()?;
        Ok(NewCommand {
            org,
            destination: self.destination.clone(),
            operation: self.operation.clone(),
            business_ref: self.reference.clone(),
            order_key: self.order_key.clone(),
            request,
            delay: Duration::ZERO,
        })
    }

    fn body(&self) -> Result<Bytes, Stopped> {
        let unreadable = |error: std::io::Error| {
            Stopped::new(Code::Usage, format!("the body cannot be read: {error}"))
        };
        // One byte more than is sent tells a body that is too large.
        let most = u64::try_from(REQUEST_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        let mut body = Vec::new();
        match (&self.json, &self.json_file) {
            (Some(text), _) => body.extend_from_slice(text.as_bytes()),
            (None, Some(path)) if path.as_os_str() == "-" => {
                std::io::stdin().lock().take(most).read_to_end(&mut body).map_err(unreadable)?;
            }
            (None, Some(path)) => {
                let file = std::fs::File::open(path).map_err(unreadable)?;
                file.take(most).read_to_end(&mut body).map_err(unreadable)?;
            }
            (None, None) => {}
        }
        Ok(body.into())
    }
}

impl End {
    fn of(id: CommandId, delivery: &Delivery) -> End {
        let (receipt, reason) = match &delivery.state {
            State::Succeeded(ended) | State::Refused(ended) => (Some(&ended.with), None),
            State::Failed(ended) | State::Undecided(ended) => (None, Some(ended.with.code())),
            State::Waiting(_) | State::Sending(_) | State::Unknown(_) => {
                (None, delivery.last.map(|reason| reason.code()))
            }
            State::Cancelled(_) | State::Resolved(_) => (None, None),
        };
        let body = match receipt {
            Some(Receipt::Kept(answer)) => String::from_utf8(answer.body.to_vec()).ok(),
            Some(Receipt::Fact { .. }) | None => None,
        };
        End {
            id: id.to_string(),
            state: delivery.state_name(),
            reason,
            attempts: delivery.sends,
            status: receipt.map(Receipt::status),
            body,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.id, self.state);
        if let Some(reason) = self.reason {
            text.push_str(&format!(" ({reason})"));
        }
        if let Some(status) = self.status {
            text.push_str(&format!(", status {status}"));
        }
        text.push_str(&format!(", attempts {}\n", self.attempts));
        if let Some(body) = &self.body {
            text.push_str(&crate::show::escaped(body));
            text.push('\n');
        }
        match self.state {
            "undecided" => text.push_str(
                "It may have been executed: find out at the counterparty, then `samekey commands resolve --help`. Never send it under another reference.\n",
            ),
            "failed" => text.push_str(
                "Nothing of it was executed: `samekey commands retry` sends it again under its key.\n",
            ),
            "waiting" | "sending" | "unknown" => text.push_str(
                "It goes on: run a worker, or this command again with the same words.\n",
            ),
            _ => {}
        }
        text
    }
}
