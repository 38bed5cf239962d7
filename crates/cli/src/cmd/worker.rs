//! `samekey worker`: delivers what is in the outbox.

use crate::courier::ConfigFlag;
use crate::database::{DatabaseFlag, Store, block_on_all};
use crate::exit::{Code, Stopped};
use crate::output::say;
use crate::show::escaped;
use crate::stop::Stop;
use metrics_exporter_prometheus::PrometheusBuilder;
use samekey_client::store::Ledger;
use samekey_client::store::outbox::Outbox;
use samekey_client::{Courier, Setup};
use samekey_gateway::AdminPages;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The longest grace: what takes longer than ten minutes is unknown by then anyway.
const GRACE_S_MAX: u64 = 600;

/// What a configuration looks like.
const CONFIGURATION: &str = r#"The configuration:

  # A copy of the database sends in no other environment.
  environment = "production"

  [destinations.psp]
  # inline: 15 s in all; durable: 1 h; patient: 12 h
  profile = "durable"
  concurrency = 8

  [destinations.psp.http]
  base_url = "https://pay.example/v1"
  credential = { environment = "PAY_TOKEN" }
  # So long it deduplicates by key; leave it out where it does not.
  key_life_s = 86400"#;

/// Deliver the commands that are in the outbox
///
/// Takes what is due, sends it, asks about what is unknown, and writes down how it ended, until it is asked to
/// stop (SIGTERM or Ctrl-C). Then it takes nothing more and waits for what is on its way. Any number of workers
/// may run on one PostgreSQL; one is enough for a SQLite file.
#[derive(clap::Args, Debug)]
#[command(after_long_help = CONFIGURATION)]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseFlag,
    #[command(flatten)]
    config: ConfigFlag,
    /// How long what is on its way is waited for, in seconds, once it was asked to stop
    #[arg(long, default_value_t = 35, value_parser = clap::value_parser!(u64).range(0..=GRACE_S_MAX))]
    grace_s: u64,
    /// Address of /healthz, /readyz and /metrics; nothing is shown without one. Port 0 takes a free one
    #[arg(long, env = "SAMEKEY_ADMIN", value_name = "ADDRESS", hide_env_values = true)]
    admin: Option<SocketAddr>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let config = arguments.config.read()?;
    block_on_all(async {
        let setup = config.setup_to_send().await?;
        match arguments.database.open().await? {
            Store::Postgres(store) => deliver(store, setup, arguments).await,
            Store::Sqlite(store) => deliver(store, setup, arguments).await,
        }
    })
}

async fn deliver<S: Outbox + Ledger>(
    store: S,
    setup: Setup,
    arguments: &Arguments,
) -> Result<ExitCode, Stopped> {
    let grace = Duration::from_secs(arguments.grace_s);
    let store = Arc::new(store);
    // Before anything is delivered, so that everything is counted.
    let pages = arguments.admin.map(|address| admin(address, &store)).transpose()?;
    let courier = Courier::open(store, setup).await?;
    let names: Vec<String> = courier.destinations().map(escaped).collect();
    if names.is_empty() {
        return Err(Stopped::new(
            Code::Usage,
            "the configuration has no destination, so nothing can be delivered; add a [destinations.NAME]",
        ));
    }
    let stop = Stop::listen()?;
    let running = courier.spawn();
    say(&format!("delivering to {}\n", names.join(", ")))?;
    if let Some(address) = pages.as_ref().and_then(AdminPages::address) {
        say(&format!("health, readiness and metrics on http://{address}\n"))?;
    }
    stop.asked().await;
    if let Some(pages) = &pages {
        pages.stopping();
    }
    say("asked to stop; waiting for what is on its way, a second signal ends at once\n")?;
    let is_all = tokio::select! {
        is_all = running.drain(grace) => is_all,
        () = stop.asked() => false,
    };
    if is_all {
        say("all that was on its way is written down\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(Stopped::new(
        Code::Unknown,
        "what is still on its way is unknown when its lease ends; the next worker clears it up",
    ))
}

/// The pages for operators, and the recorder that counts for them.
fn admin<S: Ledger>(address: SocketAddr, store: &Arc<S>) -> Result<AdminPages, Stopped> {
    let recorder = PrometheusBuilder::new().install_recorder().map_err(|error| {
        Stopped::new(Code::Unreachable, format!("nothing can be counted: {error}"))
    })?;
    AdminPages::serve(address, Arc::clone(store), move || recorder.render())
        .map_err(|error| Stopped::new(Code::Unreachable, error.to_string()))
}
