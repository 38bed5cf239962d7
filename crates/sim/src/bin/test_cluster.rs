//! Starts a test cluster, runs a command with its address in the environment, stops the cluster.
//!
//! `test-cluster COMMAND [ARGUMENT]...`; the exit code is the command's own, 2 for a wrong call, 3
//! when the cluster or the command does not start, and 128 plus the signal's number when the
//! command is ended by a signal. SIGINT and SIGTERM end the command first, then the cluster.

use samekey_sim::database::VARIABLE;
use samekey_sim::{Cluster, Options, process};
use std::env::ArgsOs;
use std::error::Error;
use std::ffi::OsStr;
use std::iter::Skip;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;

/// The requests to end, listened to before anything is started that would have to be ended.
struct Requests {
    interrupt: Signal,
    terminate: Signal,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("test-cluster: found no command; expected one to run; see scripts/with-cluster");
        return ExitCode::from(USAGE);
    };
    match run(&program, arguments).await {
        Ok(status) => ExitCode::from(code_of(status)),
        Err(failure) => {
            eprintln!("test-cluster: {failure}");
            ExitCode::from(UNREACHABLE)
        }
    }
}

async fn run(program: &OsStr, arguments: Skip<ArgsOs>) -> Result<ExitStatus, Box<dyn Error>> {
    let requests = Requests {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
    };
    let cluster = Cluster::start(Options::new())?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, cluster.admin_url()).kill_on_drop(true);
    let child = command
        .spawn()
        .map_err(|cause| format!("cannot run {}: {cause}", Path::new(program).display()))?;
    Ok(follow(child, requests).await?)
}

/// Waits for the command, handing on the requests to end.
async fn follow(mut child: Child, mut requests: Requests) -> std::io::Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status,
            // A terminal sends SIGINT to the command as well; a second one does no harm.
            _ = requests.interrupt.recv() => process::interrupt(child.id()),
            _ = requests.terminate.recv() => process::terminate(child.id()),
        }
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
