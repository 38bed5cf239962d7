//! Processor time, so that a ratio means something on a machine that others use too.
//!
//! A rate tells how fast a machine was; the time that the processors spent for a command is nearly the same
//! whatever else runs. It is read from `/proc`, so there is none where there is no `/proc`.

use crate::load::Failure;
use samekey_sim::Cluster;

/// Ticks a second, as Linux tells processor time to programs on every architecture.
const TICKS: f64 = 100.0;

/// Whose processor time counts: a service's, and its database server's with all its children.
#[derive(Clone, Copy)]
pub struct Spenders {
    service: u32,
    /// The service works in children of its own.
    is_family: bool,
    postmaster: Option<u32>,
}

impl Spenders {
    /// A process by its id, without a database server.
    pub fn of(service: u32) -> Spenders {
        Spenders { service, is_family: false, postmaster: None }
    }

    /// A process and its children, without a database server.
    pub fn family(master: u32) -> Spenders {
        Spenders { service: master, is_family: true, postmaster: None }
    }

    /// The process and its database server.
    pub fn with(self, cluster: &Cluster) -> Result<Spenders, Failure> {
        let file = cluster.folder().join("data").join("postmaster.pid");
        let text = std::fs::read_to_string(file)?;
        let first = text.lines().next().ok_or("the server's file says no process id")?;
        Ok(Spenders { postmaster: Some(first.trim().parse()?), ..self })
    }

    /// What they have spent up to now.
    pub fn spent(self) -> Result<Spent, Failure> {
        let server = self.postmaster.map_or(Ok(0.0), family)?;
        let service = if self.is_family {
            family(self.service)?
        } else {
            Process::read(self.service).ok_or("the service has ended")?.own
        };
        Ok(Spent { server, service })
    }
}

/// What a process and all its children have spent.
fn family(master: u32) -> Result<f64, Failure> {
    let mut spent = 0.0;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end while it is looked at; then its parent has its time.
        let Some(process) = Process::read(id) else { continue };
        if id == master {
            spent += process.own + process.of_ended_children;
        } else if process.parent == master {
            spent += process.own;
        }
    }
    Ok(spent)
}

/// Seconds of processor time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// The database server's, all its processes.
    pub server: f64,
    /// The service's.
    pub service: f64,
}

impl Spent {
    /// What was spent since an earlier look.
    pub fn since(self, earlier: Spent) -> Spent {
        Spent { server: self.server - earlier.server, service: self.service - earlier.service }
    }

    /// Both looks together.
    pub fn plus(self, other: Spent) -> Spent {
        Spent { server: self.server + other.server, service: self.service + other.service }
    }

    /// What each of so many commands took.
    pub fn each(self, commands: u64) -> Spent {
        let commands = commands as f64;
        Spent { server: self.server / commands, service: self.service / commands }
    }

    /// Both together.
    pub fn whole(self) -> f64 {
        self.server + self.service
    }
}

/// One process, as `/proc` shows it.
struct Process {
    parent: u32,
    own: f64,
    of_ended_children: f64,
}

impl Process {
    fn read(id: u32) -> Option<Process> {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name, in brackets, may hold anything; what is counted comes behind it.
        let (_, behind) = text.rsplit_once(')')?;
        let words: Vec<&str> = behind.split_whitespace().collect();
        let ticks = |place: usize| words.get(place)?.parse::<f64>().ok();
        Some(Process {
            parent: words.get(1)?.parse().ok()?,
            own: (ticks(11)? + ticks(12)?) / TICKS,
            of_ended_children: (ticks(13)? + ticks(14)?) / TICKS,
        })
    }
}

/// What rounds of two forms gave.
#[derive(Default)]
pub struct Ratios {
    /// Rate against rate, a round: the more the better.
    pub rates: Vec<f64>,
    /// Processor time of a command against that of the other form's, a round: the less the better.
    pub processor: Vec<f64>,
}

/// One side's round.
#[derive(Clone, Copy)]
pub struct Measured {
    /// Commands a second.
    pub rate: f64,
    /// Processor time of one command.
    pub each: Spent,
}

impl Ratios {
    /// Adds a round, and says on standard error what it was.
    pub fn add(&mut self, mine: Measured, theirs: Measured) {
        let ratio = mine.rate / theirs.rate;
        let processor = mine.each.whole() / theirs.each.whole();
        self.rates.push(ratio);
        self.processor.push(processor);
        let round = self.rates.len();
        let shares = |side: Measured| {
            format!("{:.0}+{:.0}", side.each.server * 1e6, side.each.service * 1e6)
        };
        eprintln!(
            "   round {round}: {ratio:.2}  ({:.0} and {:.0} a second)  processor {processor:.2}  ({} and {} us, server + service)",
            mine.rate,
            theirs.rate,
            shares(mine),
            shares(theirs),
        );
    }
}
