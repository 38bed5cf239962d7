//! `samekey sweep`: removes records whose retention is over.

use crate::database::{DatabaseFlag, block_on};
use crate::exit::Stopped;
use crate::output::say;
use indicatif::{ProgressBar, ProgressStyle};
use samekey::store::address::Address;
use samekey::store::outbox::Outbox;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::store::sqlite::SqliteLedger;
use samekey::store::{Ledger, SWEEP_BATCH_MAX, StoreError, SweepPass};
use std::process::ExitCode;
use std::time::Duration;

/// Remove finished records and commands whose retention is over
///
/// Records of keys have their own retention, which their route gave them; finished commands are kept for
/// --commands-days. What is not finished is never removed, however old it is: keys that are running, unknown
/// or in review, and commands that wait, are unknown, or are in the inbox. The work is done in small batches
/// with a pause between them, so that a service on the same database keeps its speed; stop it at any time,
/// nothing is half done.
///
/// What was removed is new again: the same key runs, and the same business action (organisation, destination,
/// operation, reference) is sent again where it is enqueued again. Keep both for longer than anybody retries.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseFlag,
    /// Rows a batch
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(SWEEP_BATCH_MAX)))]
    batch: u32,
    /// Milliseconds of rest between two batches
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=60_000), value_name = "MILLISECONDS")]
    rest: u64,
    /// For how many days finished commands are kept, with their attempts and what persons decided
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=DAYS_MAX), value_name = "DAYS")]
    commands_days: u64,
}

/// The longest retention of commands: a century, far from where times end.
const DAYS_MAX: u64 = 36_500;

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let address = arguments.database.address()?;
    block_on(async {
        let (records, commands) = match address {
            Address::Postgres(url) => {
                let pool = postgres::connect(&url)?;
                let store = PostgresLedger::open(pool, postgres::Options::default()).await?;
                sweep(&store, arguments).await?
            }
            Address::Sqlite(address) => sweep(&SqliteLedger::open(&address)?, arguments).await?,
        };
        say(&format!("removed: {records} records of keys, {commands} commands\n"))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Removes both, and says how many there were of each.
async fn sweep<S: Ledger + Outbox>(
    store: &S,
    arguments: &Arguments,
) -> Result<(u64, u64), Stopped> {
    let retention = Duration::from_secs(arguments.commands_days.saturating_mul(24 * 3600));
    let rest = Duration::from_millis(arguments.rest);
    let batch = arguments.batch;
    let records = all("records", rest, async || store.sweep(batch).await).await?;
    let commands =
        all("commands", rest, async || store.sweep_commands(retention, batch).await).await?;
    Ok((records, commands))
}

/// Goes on until a pass says that there is no more.
async fn all(
    what: &str,
    rest: Duration,
    pass: impl AsyncFn() -> Result<SweepPass, StoreError>,
) -> Result<u64, Stopped> {
    let bar = ProgressBar::new_spinner();
    let template = format!("{{spinner}} {{pos}} {what} removed, {{per_sec}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    let mut removed = 0u64;
    loop {
        let SweepPass { removed: now, more } = pass().await?;
        removed = removed.saturating_add(now);
        bar.set_position(removed);
        if !more {
            bar.finish_and_clear();
            return Ok(removed);
        }
        tokio::time::sleep(rest).await;
    }
}
