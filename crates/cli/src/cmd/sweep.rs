//! `samekey sweep`: removes records whose retention is over.

use crate::database::{DatabaseFlag, block_on};
use crate::exit::Stopped;
use crate::output::say;
use indicatif::{ProgressBar, ProgressStyle};
use samekey::store::address::Address;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::store::sqlite::SqliteLedger;
use samekey::store::{Ledger, SWEEP_BATCH_MAX};
use std::process::ExitCode;
use std::time::Duration;

/// Remove finished records whose retention is over
///
/// Open records (running, unknown, in review) are never removed, however old they are. The work
/// is done in small batches with a pause between them, so that a service on the same database
/// keeps its speed; stop it at any time, nothing is half done.
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
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let address = arguments.database.address()?;
    block_on(async {
        let removed = match address {
            Address::Postgres(url) => {
                let pool = postgres::connect(&url)?;
                let ledger = PostgresLedger::open(pool, postgres::Options::default()).await?;
                sweep(&ledger, arguments).await?
            }
            Address::Sqlite(address) => sweep(&SqliteLedger::open(&address)?, arguments).await?,
        };
        say(&format!("{removed} records removed\n"))?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn sweep<L: Ledger>(ledger: &L, arguments: &Arguments) -> Result<u64, Stopped> {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} records removed, {per_sec}") {
        bar.set_style(style);
    }
    let mut removed = 0u64;
    loop {
        let pass = ledger.sweep(arguments.batch).await?;
        removed = removed.saturating_add(pass.removed);
        bar.set_position(removed);
        if !pass.more {
            bar.finish_and_clear();
            return Ok(removed);
        }
        tokio::time::sleep(Duration::from_millis(arguments.rest)).await;
    }
}
