//! Finds and ends the processes of a script: its group, and what fled from it.
//!
//! A script may start others that outlive it, in groups and sessions of their own. They are known by their group or
//! session, by a mark in their environment, and by having been seen as descendants. Where there is no `/proc`,
//! only the group is ended.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::time::Duration;
use tokio::time::sleep;

/// The name of the environment variable that marks a script's processes.
pub const MARK: &str = "SAMEKEY_LAB_RUN";

/// Rounds of killing: each ends all that is there; only something that starts faster than it dies needs many.
const ROUNDS_MAX: u32 = 100;
/// The pause between rounds, in which the kernel takes down what was killed.
const ROUND_PAUSE: Duration = Duration::from_millis(10);
/// Bytes of a process's environment that are looked at; the mark is among the first ones handed over.
const ENVIRONMENT_BYTES_MAX: u64 = 256 * 1024;

/// From now on, orphaned descendants of this process become its children, so that none is lost from sight.
///
/// It changes the whole process and is meant for a program that does nothing but grade.
pub fn adopt_orphans() -> bool {
    #[cfg(target_os = "linux")]
    return nix::sys::prctl::set_child_subreaper(true).is_ok();
    #[cfg(not(target_os = "linux"))]
    false
}

/// The processes of one script.
#[derive(Debug)]
pub struct Processes {
    group: Pid,
    mark: String,
    /// Process ids with their start times, so that a reused id is not taken for the old process.
    seen: HashMap<i32, u64>,
    owns_all_descendants: bool,
}

struct Stat {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    start: u64,
}

impl Processes {
    /// The processes started by the leader of a group, with this value of the mark.
    pub fn new(group: i32, mark: &str, owns_all_descendants: bool) -> Self {
        let mark = format!("{MARK}={mark}");
        Self { group: Pid::from_raw(group), mark, seen: HashMap::new(), owns_all_descendants }
    }

    /// Looks again; returns those that are alive.
    pub fn look(&mut self) -> Vec<i32> {
        let all = all_processes();
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut mine: HashSet<i32> = HashSet::new();
        for process in &all {
            let is_known = self.seen.get(&process.pid) == Some(&process.start);
            let group = self.group.as_raw();
            let is_in_group = process.group == group || process.session == group;
            if process.pid != own && (is_known || is_in_group || has_mark(process.pid, &self.mark))
            {
                mine.insert(process.pid);
            }
        }
        // Children come after their parents in no particular order: go on until nobody is added.
        loop {
            let before = mine.len();
            for process in &all {
                let of_mine = mine.contains(&process.parent);
                if of_mine || (self.owns_all_descendants && process.parent == own) {
                    mine.insert(process.pid);
                }
            }
            if mine.len() == before {
                break;
            }
        }
        for process in all.iter().filter(|process| mine.contains(&process.pid)) {
            self.seen.insert(process.pid, process.start);
        }
        mine.into_iter().collect()
    }

    /// Ends them all; false where some would not die.
    pub async fn end(&mut self) -> bool {
        for _ in 0..ROUNDS_MAX {
            self.kill_group();
            if self.kill_seen() == 0 {
                return true;
            }
            sleep(ROUND_PAUSE).await;
        }
        false
    }

    /// Ends what nobody has seen, once the leader has been waited for: a list of processes is read one by one, and
    /// whoever is born behind the reader while its parent dies before it is on no list. But an orphan
    /// becomes our child in the same instant, and whether there is any child at all, the system knows. False
    /// where some would not die.
    pub async fn end_unseen(&mut self) -> bool {
        if !self.owns_all_descendants {
            return true;
        }
        for _ in 0..ROUNDS_MAX {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::ECHILD) => return true,
                Ok(WaitStatus::StillAlive) => {
                    self.kill_seen();
                    sleep(ROUND_PAUSE).await;
                }
                // One is gone; there may be more.
                Ok(_) | Err(_) => {}
            }
        }
        false
    }

    /// Kills whatever is seen, and tells how many that were.
    fn kill_seen(&mut self) -> usize {
        let alive = self.look();
        for pid in &alive {
            // One that is gone already is as good as killed.
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        if self.owns_all_descendants {
            for pid in self.seen.keys().filter(|pid| **pid != self.group.as_raw()) {
                let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
            }
        }
        alive.len()
    }

    /// Kills the group alone, at once.
    pub fn kill_group(&self) {
        // An error says that nobody is left in it.
        let _ = killpg(self.group, Signal::SIGKILL);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Every process that is no zombie.
fn all_processes() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).collect()
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, also brackets and blanks: count from the last one.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    if *fields.first()? == "Z" {
        return None;
    }
    let start = fields.get(19)?.parse().ok()?;
    Some(Stat { pid, parent: number(1)?, group: number(2)?, session: number(3)?, start })
}

fn has_mark(pid: i32, mark: &str) -> bool {
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    let mut environment = Vec::new();
    if file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).is_err() {
        return false;
    }
    environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
}
