//! The running server: how it is created, launched, stopped and killed.

use super::home::{Account, give};
use crate::database;
use crate::error::{Error, ErrorKind, Result};
use crate::keeper::{self, AtOurDeath, Keeper};
use crate::signals::{self, wait_until};
use nix::sys::signal::Signal;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// Crash recovery on a loaded machine takes seconds; a minute means that something is wrong.
const START_BOUND: Duration = Duration::from_secs(60);
const STOP_BOUND: Duration = Duration::from_secs(30);
const KILL_BOUND: Duration = Duration::from_secs(10);

/// Ports that the kernel does not hand out for outgoing connections by default, so that a stopped
/// server finds its port free when it starts again.
const PORT_FIRST: u16 = 20_000;
const PORT_COUNT: u16 = 12_000;

/// How much of the server's log an error shows.
const LOG_LINES_MAX: usize = 15;

/// What every cluster is started with, before the settings that a test asks for. All promises of
/// durability stay at their defaults, that is, on. Small buffers, since many clusters may run.
const SETTINGS: [(&str, &str); 6] = [
    ("listen_addresses", "127.0.0.1"),
    ("max_connections", "100"),
    ("shared_buffers", "32MB"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("log_line_prefix", "%m [%p] %d "),
];

/// A server process with the thread that started it.
#[derive(Debug)]
pub(super) struct Postmaster {
    child: Child,
    log: PathBuf,
    _keeper: Keeper,
}

/// Creates the data folder with `initdb`. It is not synced to disk: the folder outlives no machine.
pub(super) fn init(bin: &Path, folder: &Path, account: Option<Account>, user: &str) -> Result<()> {
    let mut command = command(&bin.join("initdb"), account);
    command.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    command.args(["--username", user]).arg("--pgdata").arg(folder.join("data"));
    let output = command.output().map_err(|cause| Error::system("run initdb", cause))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(ErrorKind::NotStarted, format!("initdb failed: {}", last_lines(&text))))
}

/// A port on 127.0.0.1 that nobody listens on now.
pub(super) fn free_port() -> Result<u16> {
    // The clock and our id spread the tests that run side by side; no secret depends on it.
    let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
    let start = nanos.wrapping_add(std::process::id().wrapping_mul(7_919));
    (0..u32::from(PORT_COUNT))
        .map(|step| start.wrapping_add(step) % u32::from(PORT_COUNT))
        .filter_map(|offset| Some(PORT_FIRST + u16::try_from(offset).ok()?))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| Error::system("find a free port", "all are taken"))
}

/// Whether the server ended because another program listens on its port.
pub(super) fn port_was_taken(folder: &Path) -> bool {
    std::fs::read_to_string(log_of(folder)).is_ok_and(|log| log.contains("Address already in use"))
}

impl Postmaster {
    /// Starts the server and waits until it answers at `url`.
    pub(super) fn launch(
        bin: &Path,
        folder: &Path,
        account: Option<Account>,
        port: u16,
        settings: &[(String, String)],
        url: &str,
    ) -> Result<Self> {
        let log = log_of(folder);
        let file = File::create(&log)
            .map_err(|cause| Error::system(format!("create {}", log.display()), cause))?;
        give(&log, account)?;
        let mut command = command(&bin.join("postgres"), account);
        command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
        command.args(["-p", &port.to_string()]);
        for (name, value) in SETTINGS {
            command.args(["-c", &format!("{name}={value}")]);
        }
        for (name, value) in settings {
            command.args(["-c", &format!("{name}={value}")]);
        }
        let copy = file.try_clone().map_err(|cause| Error::system("share the log", cause))?;
        command.stdout(copy).stderr(file);
        let (child, keeper) = keeper::spawn(command)
            .map_err(|cause| Error::system("start the PostgreSQL server", cause))?;
        let mut postmaster = Self { child, log, _keeper: keeper };
        match postmaster.wait_until_ready(url) {
            Ok(()) => Ok(postmaster),
            Err(failure) => {
                let _ = postmaster.kill();
                Err(failure)
            }
        }
    }

    fn wait_until_ready(&mut self, url: &str) -> Result<()> {
        let child = &mut self.child;
        let log = &self.log;
        let shown = || last_lines(&std::fs::read_to_string(log).unwrap_or_default());
        wait_until("the server answers", START_BOUND, || {
            let ended = child.try_wait().map_err(|cause| Error::system("wait for it", cause))?;
            match ended {
                Some(status) => Err(Error::new(
                    ErrorKind::NotStarted,
                    format!("the PostgreSQL server ended at its start ({status}): {}", shown()),
                )),
                None => Ok(database::execute(url, "select 1").is_ok()),
            }
        })
    }

    /// Fast shutdown: cuts the connections, writes a checkpoint, ends.
    pub(super) fn stop(mut self) -> Result<()> {
        // A frozen server could not act on the request.
        self.thaw()?;
        signals::send(self.child.id(), Signal::SIGINT)?;
        let child = &mut self.child;
        let ended = wait_until("the server has stopped", STOP_BOUND, || {
            child.try_wait().map(|s| s.is_some()).map_err(|c| Error::system("wait for it", c))
        });
        ended.or_else(|failure| self.kill().and(Err(failure)))
    }

    /// SIGKILL for the server and its children, and the wait until none is left.
    pub(super) fn kill(mut self) -> Result<()> {
        let id = self.child.id();
        self.freeze_parent()?;
        let children = signals::children(id);
        signals::send(id, Signal::SIGKILL)?;
        for child in &children {
            signals::send(*child, Signal::SIGKILL)?;
        }
        self.child.wait().map_err(|cause| Error::system("wait for the server", cause))?;
        wait_until("the server's children are gone", KILL_BOUND, || {
            Ok(!children.iter().any(|child| signals::runs(*child)))
        })
    }

    /// SIGSTOP for the server, then for its children.
    pub(super) fn freeze(&self) -> Result<()> {
        self.freeze_parent()?;
        self.signal_all(Signal::SIGSTOP)
    }

    /// SIGCONT for the server and its children.
    pub(super) fn thaw(&self) -> Result<()> {
        self.signal_all(Signal::SIGCONT)
    }

    /// A frozen server starts no child, so the list of its children is complete afterwards.
    fn freeze_parent(&self) -> Result<()> {
        let id = self.child.id();
        signals::send(id, Signal::SIGSTOP)?;
        wait_until("the server stands still or has ended", KILL_BOUND, || {
            Ok(signals::is_stopped(id) || !signals::runs(id))
        })
    }

    fn signal_all(&self, signal: Signal) -> Result<()> {
        signals::send(self.child.id(), signal)?;
        signals::children(self.child.id()).into_iter().try_for_each(|id| signals::send(id, signal))
    }
}

/// A command with a clean environment, run as `account`, in a process group of its own so that
/// Ctrl-C reaches the tests and not the server under them.
fn command(program: &Path, account: Option<Account>) -> Command {
    let mut command = keeper::tied(program, AtOurDeath::Quit);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
    command.current_dir("/").stdin(Stdio::null()).process_group(0);
    if let Some(Account { uid, gid }) = account {
        command.uid(uid).gid(gid);
    }
    command
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES_MAX);
    lines.get(from..).unwrap_or_default().join("\n")
}
