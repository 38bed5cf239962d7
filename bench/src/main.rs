//! What samekey costs, as ratios of one run.
//!
//! Both sides of a ratio run in the same process under the same load, in rounds that alternate, so that
//! whatever else the machine does hits both. Bare times are never reported. `scripts/bench` builds this
//! and prints the table; `docs/speed.md` has the last one and what it means.

mod courier;
mod external;
mod forms;
mod gateway;
mod ledger;
mod load;
mod memory;
mod processor;
mod serve;
mod sql;
mod table;

use clap::{Parser, Subcommand};
use load::Failure;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Seconds a round
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rounds a ratio; the median is reported
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these lines of the table, by their letters
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Live keys of line c, in thousands
    #[arg(long, default_value_t = 5_000)]
    live: u64,
}

#[derive(Subcommand)]
enum Command {
    /// Be the service under load (started by the bench itself)
    Serve {
        /// The database
        database: String,
        /// The provider that external commands call
        #[arg(long)]
        provider: Option<String>,
    },
    /// Be the provider that external commands call (started by the bench itself)
    Echo,
    /// Be a worker that delivers commands (started by the bench itself)
    Deliver {
        /// The database
        database: String,
        /// The provider
        provider: String,
    },
}

/// How long and how often a form is measured.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Length of a round.
    pub round: Duration,
    /// Rounds a ratio.
    pub rounds: usize,
    /// Live keys of line c.
    pub live: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = Plan {
        round: Duration::from_secs(arguments.seconds.clamp(1, 60)),
        rounds: arguments.rounds.clamp(1, 50),
        live: arguments.live * 1_000,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench: no runtime could be started: {error}");
            return ExitCode::from(3);
        }
    };
    let ended = runtime.block_on(async {
        match arguments.command {
            Some(Command::Serve { database, provider }) => {
                serve::serve(&database, provider.as_deref()).await
            }
            Some(Command::Echo) => serve::echo().await,
            Some(Command::Deliver { database, provider }) => {
                courier::deliver(&database, &provider).await
            }
            None => measure(plan, &arguments.only).await,
        }
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(3)
        }
    }
}

async fn measure(plan: Plan, only: &[String]) -> Result<(), Failure> {
    let wanted = |letter: &str| only.is_empty() || only.iter().any(|given| given == letter);
    let mut table = table::Table::new();
    forms::on_postgres(plan, &wanted, &mut table).await?;
    if wanted("e") {
        forms::on_sqlite(plan, &mut table).await?;
    }
    if wanted("f") {
        ledger::grouped(plan, &mut table).await?;
    }
    external::on_postgres(plan, &wanted, &mut table).await?;
    courier::on_postgres(plan, &wanted, &mut table).await?;
    if wanted("m") {
        memory::large_bodies(&mut table).await?;
    }
    gateway::on_both(plan, &wanted, &mut table).await?;
    println!("{table}");
    Ok(())
}
