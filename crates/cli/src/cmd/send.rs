//! `samekey send`: one command, written down, delivered, and its end.

mod progress;

use crate::courier::ConfigFlag;
use crate::database::{DatabaseFlag, Store, block_on_all};
use crate::exit::{Code, Stopped};
use crate::output::say;
use crate::show::{Format, json};
use crate::stop::Stop;
use bytes::Bytes;
use samekey::core::key::Org;
use samekey_client::core::delivery::{Delivery, Ended, Reason, Resolution, State};
use samekey_client::core::receipt::Receipt;
use samekey_client::store::Ledger;
use samekey_client::store::outbox::{CommandId, Outbox, REQUEST_BYTES_MAX};
use samekey_client::{Courier, Error, HttpRequest, NewCommand, Placed, Setup};
use serde::Serialize;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest wait: twelve hours is the longest profile.
const WAIT_S_MAX: u64 = 12 * 3600;
/// How long what is on its way is waited for when the time is over.
const GRACE: Duration = Duration::from_secs(35);
/// What the library calls what a flag gives it.
const FLAGS: [(&str, &str); 3] = [
    ("`operation`", "--operation"),
    ("`business_ref`", "--reference"),
    ("`order_key`", "--order-key"),
];
/// The rest after a failure of the store.
const STORE_REST: Duration = Duration::from_millis(500);

/// Have one command executed once
///
/// Writes the command down, delivers it, and says how it ended. The same action (organisation, destination,
/// operation, reference) sent again with the same request is the same command: it is not executed twice,
/// also when this program was killed in between. What else is due for the same destination is delivered too.
/// It is told on standard error what it waits for; stopped by Ctrl-C, it lets end what is on its way.
///
/// Exit codes: 0 executed, 1 refused or given up before anything ran, 2 words or files that cannot be
/// understood, 3 the database cannot be reached, 4 not known yet: it goes on when a worker or this command runs
/// again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  \
    samekey send psp --operation charge --reference ORD-1 \\\n    \
    --path /payments \\\n    \
    --json '{\"order_id\":\"ORD-1\",\"amount\":1200,\"currency\":\"EUR\"}' \\\n    \
    --database sqlite:commands.db")]
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
    /// How long its end is waited for, in seconds; an attempt that is on its way then is waited for as well
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=WAIT_S_MAX))]
    wait_s: u64,
    /// Only write it down: a worker delivers it
    #[arg(long)]
    enqueue_only: bool,
    /// For whom the end is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What is told of a command that is only written down.
#[derive(Serialize)]
struct Written {
    id: String,
    is_new: bool,
}

#[derive(Serialize)]
struct End {
    id: String,
    state: &'static str,
    reason: Option<&'static str>,
    /// What the last attempt or question came to, where that is not the reason.
    last: Option<&'static str>,
    attempts: u32,
    status: Option<u16>,
    /// The answer's body, where it was kept and is text.
    body: Option<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let config = arguments.config.read()?.only(&arguments.destination)?;
    let command = arguments.command()?;
    block_on_all(async {
        // Who only writes it down needs no credential: a worker has it.
        let setup =
            if arguments.enqueue_only { config.setup() } else { config.setup_to_send().await }?;
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
    let stop = Stop::listen()?;
    let placed = courier.enqueue(command).await.map_err(in_flags)?;
    if arguments.enqueue_only {
        return report_placed(&placed, arguments.format);
    }
    let running = courier.spawn();
    let patience = Duration::from_secs(arguments.wait_s);
    let id = placed.id;
    tokio::select! {
        () = ended(&courier, &org, id, patience) => {}
        () = progress::tell(&courier, &org, &placed) => {}
        () = stop.asked() => progress::say_stopping(),
    }
    tokio::select! {
        is_all = running.drain(GRACE) => {
            if !is_all {
                progress::say_given_up();
            }
        }
        () = progress::tell_rest() => {}
        () = stop.asked() => progress::say_given_up(),
    }
    // It may have ended while the rest was waited for.
    match courier.delivery(&org, id).await {
        Ok(Some(delivery)) => report(id, &delivery, arguments.format),
        Ok(None) => Err(gone()),
        Err(error) => Err(Stopped::new(
            Code::Unknown,
            format!(
                "the command {id} is in the outbox, and how it stands cannot be read: {error}; the same words again tell, when the database is back"
            ),
        )),
    }
}

/// What is wrong with a command, by the flags that said it: the library names its own fields.
fn in_flags(error: Error) -> Stopped {
    let mut stopped = Stopped::from(error);
    for (field, flag) in FLAGS {
        stopped.sentence = stopped.sentence.replace(field, flag);
    }
    stopped
}

/// Waits for the end of a command, also through failures of the store: its lane outlives them too.
async fn ended<S: Outbox + Ledger>(
    courier: &Courier<S>,
    org: &Org,
    id: CommandId,
    patience: Duration,
) {
    let ends = Instant::now() + patience;
    while courier.wait(org, id, ends.saturating_duration_since(Instant::now())).await.is_err() {
        if Instant::now() >= ends {
            return;
        }
        tokio::time::sleep(STORE_REST).await;
    }
}

fn report_placed(placed: &Placed, format: Format) -> Result<ExitCode, Stopped> {
    let Placed { id, is_new } = placed;
    match format {
        Format::Text => {
            let already = if *is_new { "" } else { " already" };
            say(&format!("{id}: in the outbox{already}; a worker delivers it\n"))?;
        }
        Format::Json => {
            let written = Written { id: id.to_string(), is_new: *is_new };
            say(&format!("{}\n", json(&written)?))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn report(id: CommandId, delivery: &Delivery, format: Format) -> Result<ExitCode, Stopped> {
    let end = End::of(id, delivery);
    let text = match format {
        Format::Text => end.text(),
        Format::Json => format!("{}\n", json(&end)?),
    };
    let code = code_of(&delivery.state);
    match (say(&text), code) {
        (Ok(()), None) => Ok(ExitCode::SUCCESS),
        (Ok(()), Some(code)) => Ok(code.into()),
        // Whoever cannot read it has the exit code, and that is of the command.
        (Err(stopped), Some(code)) => Err(Stopped::new(code, stopped.sentence)),
        (Err(stopped), None) => Err(stopped),
    }
}

/// What a command's state is to the shell; nothing where it was executed.
fn code_of(state: &State) -> Option<Code> {
    match state {
        State::Succeeded(_) | State::Resolved(Ended { with: Resolution::Executed, .. }) => None,
        State::Refused(_)
        | State::Failed(_)
        | State::Cancelled(_)
        | State::Resolved(Ended { with: Resolution::WrittenOff, .. }) => Some(Code::NothingDecided),
        State::Waiting(_) | State::Sending(_) | State::Unknown(_) | State::Undecided(_) => {
            Some(Code::Unknown)
        }
    }
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
        if body.len() > REQUEST_BYTES_MAX {
            return Err(Stopped::new(
                Code::Usage,
                format!(
                    "the body has more than {REQUEST_BYTES_MAX} bytes; put large data elsewhere first and name it in the command"
                ),
            ));
        }
        if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&body) {
            // What stands there is not repeated: it may be anybody's data.
            return Err(Stopped::new(
                Code::Usage,
                format!(
                    "the body is no JSON (line {}, column {}); expected such as {{\"amount\":1200}}",
                    error.line(),
                    error.column()
                ),
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
            let name = self.json_file.as_ref().map(|path| path.display().to_string());
            let name = name.unwrap_or_default();
            Stopped::new(Code::Usage, format!("the body cannot be read from {name}: {error}"))
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
            last: delivery.last.map(Reason::code).filter(|last| Some(*last) != reason),
            attempts: delivery.sends,
            status: receipt.map(Receipt::status),
            body,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.id, self.state);
        match (self.reason, self.last) {
            (Some(reason), Some(last)) => text.push_str(&format!(" ({reason}, {last})")),
            (Some(reason), None) => text.push_str(&format!(" ({reason})")),
            (None, Some(_) | None) => {}
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
            "waiting" if self.reason == Some(Reason::NotAccepted.code()) => text.push_str(
                "The counterparty does not accept the credential: mend that, then run a worker, or this command again with the same words.\n",
            ),
            "waiting" | "sending" | "unknown" => text.push_str(
                "It goes on: run a worker, or this command again with the same words.\n",
            ),
            "resolved" => text.push_str(
                "A person decided about it: `samekey commands show` tells who, and on what evidence.\n",
            ),
            "cancelled" => text.push_str(
                "It was taken back before it was sent; what is wanted after all needs another reference.\n",
            ),
            _ => {}
        }
        text
    }
}
