//! Signals to processes that we started ourselves, by id, and the wait until they are gone.

use crate::error::{Error, ErrorKind, Result};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a condition outside this process is looked at again.
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// Sends `signal` to the process `id`. A process that is already gone is not an error.
pub(crate) fn send(id: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(id)
        .map(Pid::from_raw)
        .map_err(|_| Error::system(format!("signal process {id}"), "no such process id"))?;
    match signal::kill(pid, signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(cause) => Err(Error::system(format!("send {signal} to process {id}"), cause)),
    }
}

/// Whether the process `id` still runs. A zombie, which only waits to be collected, does not.
pub(crate) fn runs(id: u32) -> bool {
    state_and_parent(id).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// Whether the process `id` stands still after a SIGSTOP, with every thread of it: one is stopped
/// first, and the others when it gets to tell them.
pub(crate) fn is_stopped(id: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else { return false };
    threads.flatten().all(|thread| {
        state_and_parent_in(&thread.path().join("stat")).is_some_and(|(state, _)| state == 'T')
    })
}

/// The direct children of the process `id`.
pub(crate) fn children(id: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|child| state_and_parent(*child).is_some_and(|(_, parent)| parent == id))
        .collect()
}

/// Polls `condition` until it holds; `what` names it in the error when `bound` passes first.
pub(crate) fn wait_until(
    what: &str,
    bound: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + bound;
    loop {
        if condition()? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let sentence = format!("waited {} s in vain until {what}", bound.as_secs_f32());
            return Err(Error::new(ErrorKind::TimedOut, sentence));
        }
        std::thread::sleep(POLL);
    }
}

/// Reads the state letter and the parent's id from `/proc`; the program's name before them is in
/// parentheses and may itself contain any character.
fn state_and_parent(id: u32) -> Option<(char, u32)> {
    state_and_parent_in(Path::new(&format!("/proc/{id}/stat")))
}

fn state_and_parent_in(stat: &Path) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(stat).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some((state, parent))
}
