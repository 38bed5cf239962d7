//! Built programs run as real processes: `samekey`, `orders` and whatever a test needs beside them.
//!
//! A program listens on port 0 and prints its address; [`Process::address`] reads it. Everything
//! blocks and has a bound. A process that is still there when its handle is dropped is killed, and
//! it dies with us when we are killed.

mod output;

use crate::error::{Error, ErrorKind, Result};
use crate::keeper::{self, AtOurDeath, Keeper};
use crate::signals::{self, wait_until};
use crate::target::programs_dir;
use nix::sys::signal::Signal;
use output::Capture;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long a program may take to print a line that a test waits for. A debug build on a loaded
/// machine needs a second or two; the bound only turns a hang into a failure.
pub const LINE_BOUND: Duration = Duration::from_secs(60);

/// How long a program may take to end once it was asked to.
pub const END_BOUND: Duration = Duration::from_secs(60);

/// How long a failure waits for the rest of what the program says about it.
const LAST_WORDS_BOUND: Duration = Duration::from_secs(2);

/// A program with its arguments and environment, not yet started.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<std::ffi::OsString>,
    environment: Vec<(String, std::ffi::OsString)>,
}

/// How a process ended and what it said.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The exit status.
    pub status: ExitStatus,
    /// All of its standard output, up to a limit.
    pub stdout: String,
    /// All of its standard error, up to a limit.
    pub stderr: String,
}

impl Finished {
    /// The exit code; `None` when a signal ended the process.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The number of the signal that ended the process.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

impl Program {
    /// A program of this workspace by name, taken from the folder that the test was built into.
    ///
    /// # Errors
    /// `Missing` when it is not built.
    pub fn built(name: &str) -> Result<Self> {
        let path = programs_dir().join(name);
        if path.is_file() {
            return Ok(Self::at(path));
        }
        Err(Error::new(
            ErrorKind::Missing,
            format!(
                "found no program {name} in {}; expected it to be built before the test; run \
                 scripts/test, or: cargo build --workspace --bins",
                programs_dir().display()
            ),
        ))
    }

    /// Any program by its path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), arguments: Vec::new(), environment: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets an environment variable. The rest of our environment is inherited, without any
    /// `SAMEKEY_` variable: a test says what it wants.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The program's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts the program with no standard input and its output collected.
    ///
    /// # Errors
    /// `System` when the operating system refuses.
    pub fn start(&self) -> Result<Process> {
        let mut command = keeper::tied(&self.path, AtOurDeath::Kill);
        inherit_environment(&mut command);
        command.args(&self.arguments).envs(self.environment.iter().map(|(n, v)| (n, v)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = self.path.display().to_string();
        let (mut child, keeper) = keeper::spawn(command)
            .map_err(|cause| Error::system(format!("start {name}"), cause))?;
        let stdout = Capture::of(child.stdout.take());
        let stderr = Capture::of(child.stderr.take());
        Ok(Process { name, child, stdout, stderr, _keeper: keeper })
    }

    /// Starts the program and waits until it ends by itself.
    ///
    /// # Errors
    /// As [`Program::start`], and `TimedOut` when it outlives `bound`, after which it is killed.
    pub fn run(&self, bound: Duration) -> Result<Finished> {
        self.start()?.wait(bound)
    }
}

/// A started program. Dropping the handle kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: Capture,
    stderr: Capture,
    _keeper: Keeper,
}

impl Process {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process still runs (a frozen one does).
    pub fn runs(&self) -> bool {
        signals::runs(self.id())
    }

    /// The first socket address that the program prints to standard output, such as in
    /// `listening on http://127.0.0.1:41234`.
    ///
    /// # Errors
    /// As [`Process::wait_for_line`].
    pub fn address(&mut self) -> Result<SocketAddr> {
        self.wait_for_line("an address to listen on", address_in)
    }

    /// Waits until `wanted` finds something in a line of standard output, from the first line on;
    /// `what` names it when it does not come.
    ///
    /// # Errors
    /// `NotStarted` when the program ends without such a line, `TimedOut` after [`LINE_BOUND`];
    /// both show what the program said.
    pub fn wait_for_line<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&str) -> Option<T>,
    ) -> Result<T> {
        let found = self.stdout.wait_for(LINE_BOUND, |text| {
            let complete = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
            complete.lines().find_map(&mut wanted)
        });
        found.ok_or_else(|| {
            let (kind, how) = match self.stdout.is_closed() {
                true => (ErrorKind::NotStarted, "closed its output"),
                false => (ErrorKind::TimedOut, "went on"),
            };
            // The reason often stands on the other stream, which closes a moment later.
            let reason = self.stderr.all(LAST_WORDS_BOUND);
            let said = format!("stdout: {} stderr: {reason}", self.stdout());
            Error::new(kind, format!("{} {how} without printing {what}; {said}", self.name))
        })
    }

    /// What the program has printed to standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What the program has printed to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Ends the process with SIGKILL and waits until it is gone.
    ///
    /// # Errors
    /// As [`Process::wait`].
    pub fn kill(self) -> Result<Finished> {
        signals::send(self.id(), Signal::SIGKILL)?;
        self.wait(END_BOUND)
    }

    /// Asks the process to end in an orderly way, with SIGTERM. Wait for it afterwards.
    ///
    /// # Errors
    /// `System` when the signal is refused.
    pub fn terminate(&self) -> Result<()> {
        signals::send(self.id(), Signal::SIGTERM)
    }

    /// Freezes the process with SIGSTOP; returns when it stands still.
    ///
    /// # Errors
    /// `System` when the signal is refused, `TimedOut` when the process goes on.
    pub fn freeze(&self) -> Result<()> {
        signals::send(self.id(), Signal::SIGSTOP)?;
        self.wait_until_frozen()
    }

    /// Waits until the process stands still, as after a SIGSTOP that it sent to itself.
    ///
    /// # Errors
    /// `TimedOut` when it goes on.
    pub fn wait_until_frozen(&self) -> Result<()> {
        let what = format!("{} stands still", self.name);
        wait_until(&what, END_BOUND, || Ok(signals::is_stopped(self.id())))
    }

    /// Waits until the process has frozen itself at a crash point, armed with the action `stop`.
    /// [`Process::thaw`] lets it leave the place.
    ///
    /// # Errors
    /// `TimedOut` when it does not get there.
    pub fn wait_until_stopped_at(&self, point: &str) -> Result<()> {
        let line = format!("crash point {point}: stop");
        let said = |text: &str| text.lines().any(|found| found == line).then_some(());
        let what = || format!("{} said {line:?}; it said: {}", self.name, self.stderr());
        self.stderr.wait_for(LINE_BOUND, said).ok_or_else(|| {
            Error::new(ErrorKind::TimedOut, format!("waited in vain until {}", what()))
        })?;
        self.wait_until_frozen()
    }

    /// Lets a frozen process go on, with SIGCONT.
    ///
    /// # Errors
    /// `System` when the signal is refused.
    pub fn thaw(&self) -> Result<()> {
        signals::send(self.id(), Signal::SIGCONT)
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Errors
    /// `TimedOut` when it outlives `bound`; it is killed then.
    pub fn wait(mut self, bound: Duration) -> Result<Finished> {
        let what = format!("{} has ended", self.name);
        let child = &mut self.child;
        let mut status = None;
        let ended = wait_until(&what, bound, || {
            status = child.try_wait().map_err(|cause| Error::system("wait for it", cause))?;
            Ok(status.is_some())
        });
        match (ended, status) {
            (Ok(()), Some(status)) => {
                let (stdout, stderr) = (self.stdout.all(END_BOUND), self.stderr.all(END_BOUND));
                Ok(Finished { status, stdout, stderr })
            }
            (ended, _) => {
                let cause = ended.err().map_or_else(String::new, |cause| cause.to_string());
                let said = format!("stdout: {} stderr: {}", self.stdout(), self.stderr());
                Err(Error::new(ErrorKind::TimedOut, format!("{cause}; {said}")))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a process to stop with SIGINT; `None`, a process that already ended, is fine.
pub fn interrupt(id: Option<u32>) {
    hand_on(id, Signal::SIGINT);
}

/// Asks a process to stop with SIGTERM; `None`, a process that already ended, is fine.
pub fn terminate(id: Option<u32>) {
    hand_on(id, Signal::SIGTERM);
}

fn hand_on(id: Option<u32>, signal: Signal) {
    if let Some(Err(failure)) = id.map(|id| signals::send(id, signal)) {
        eprintln!("{failure}");
    }
}

fn inherit_environment(command: &mut Command) {
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("SAMEKEY_")) {
        command.env_remove(name);
    }
}

/// The first word of a line that is a socket address, with or without a scheme, quotes or a path.
fn address_in(line: &str) -> Option<SocketAddr> {
    line.split(|c: char| c.is_whitespace() || "\"'<>=,/".contains(c))
        .find_map(|word| word.trim_end_matches(['.', ';', ')']).parse().ok())
}

#[cfg(test)]
mod tests {
    use super::address_in;

    #[test]
    fn an_address_is_found_in_the_usual_lines() {
        let port = |line| address_in(line).map(|address| address.port());
        assert_eq!(port("listening on http://127.0.0.1:4100/"), Some(4100));
        assert_eq!(port("listening on 127.0.0.1:4101."), Some(4101));
        assert_eq!(port(r#"{"address":"127.0.0.1:4102","at":"12:30"}"#), Some(4102));
        assert_eq!(port(r#"{"address": "[::1]:4103"}"#), Some(4103));
        assert_eq!(port("at 12:30:11 nothing listens"), None);
    }
}
