//! `samekey lab api`: the payments API as a process.

use super::{failed, refuse};
use crate::exit::Code;
use crate::output::complain;
use crate::stand::address;
use samekey_lab::faults::{Late, Plan};
use samekey_lab::{Lab, Options};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Arguments of `samekey lab api`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; port 0 takes a free one and prints it
    #[arg(long, default_value = "127.0.0.1:8021", value_name = "ADDRESS", value_parser = address)]
    listen: SocketAddr,
    /// A second address on which management stays reachable while a fault plan shuts the door
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    control: Option<SocketAddr>,
    /// Payments whose number is a multiple of this are answered late; 0 makes none late. Without a fault plan: 2
    #[arg(long, value_name = "N")]
    late_every: Option<u64>,
    /// How late, in milliseconds. Without a fault plan: 6000
    #[arg(long, value_name = "MS")]
    late_ms: Option<u64>,
    /// A fault plan in JSON; it replaces the late answers, unless it names them
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Replaces the seed of the fault plan
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Keep payments and requests in this file, so that they survive the end of the process
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// Serves until it is interrupted.
pub async fn run(args: Args) -> ExitCode {
    let plan = match plan(&args) {
        Ok(plan) => plan,
        Err(message) => return refuse(&message),
    };
    if plan.connections.shuts_for_good() && args.control.is_none() {
        return refuse(
            "the fault plan shuts the door for good: give connections.for_ms, or start with --control",
        );
    }
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate)] = signals else {
        complain("samekey lab", "signals cannot be listened for");
        return Code::Unreachable.into();
    };
    let options = Options { listen: args.listen, control: args.control, plan, ledger: args.ledger };
    let lab = match Lab::start(options).await {
        Ok(lab) => lab,
        Err(error) => return failed(&error),
    };
    let mut out = std::io::stdout();
    let mut told = writeln!(out, "listening on {}", lab.url(""));
    if let Some(control) = lab.control_addr() {
        told = told.and_then(|()| writeln!(out, "control on http://{control}"));
    }
    // Nobody has to read this; the API serves all the same.
    let _ = told.and_then(|()| out.flush());
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    lab.stop().await;
    ExitCode::SUCCESS
}

/// The largest fault plan, in bytes: thousands of rules, and far from what a wrong file may hold.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// Reads a file to its end, or to where it is no fault plan any more: a device has no end.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    file.take(PLAN_BYTES_MAX.saturating_add(1))
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes <= PLAN_BYTES_MAX) {
        return Ok(text);
    }
    Err(format!("more than {PLAN_BYTES_MAX} bytes, which no fault plan has; name another file"))
}

fn plan(args: &Args) -> Result<Plan, String> {
    let mut plan = match &args.faults {
        None => Plan::article(),
        Some(path) => {
            let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Plan::from_json(&path.display().to_string(), &text)
                .map_err(|error| error.to_string())?
        }
    };
    plan.seed = args.seed.unwrap_or(plan.seed);
    if args.late_every.is_some() || args.late_ms.is_some() {
        let article = Plan::article().late.unwrap_or(Late { every: 2, ms: 6_000 });
        let before = plan.late.unwrap_or(article);
        let every = args.late_every.unwrap_or(before.every);
        let late = Late { every, ms: args.late_ms.unwrap_or(before.ms) };
        plan.late = Some(late).filter(|late| late.every > 0);
    }
    plan.check()?;
    Ok(plan)
}
