//! Grades an exercise: starts the API, runs the scripts, counts what was really recorded.
//!
//! The scripts are untrusted in the sense that they may be wrong in every way: hang, fork, flood, fail. They are not
//! locked in: who grades somebody else's scripts runs somebody else's code.

mod printed;
mod processes;
mod recorded;
mod report;
mod script;
mod topics;

pub use processes::adopt_orphans;
pub use report::{Check, Report};

use crate::api::{Lab, Options as LabOptions};
use crate::error::{Error, Kind};
use crate::faults::{Late, Plan};
use recorded::Counted;
use script::{Limits, Ran, Surroundings};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use topics::Topic;

/// Bytes that a script may print.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;
/// Processes that a script may have at once. A script of the exercise needs a handful.
const PROCESSES_MAX: usize = 200;
/// The longest text that is looked at.
const TEXT_BYTES_MAX: u64 = 256 * 1024;

/// How an exercise is graded.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the API listens. The exercise's scripts expect 127.0.0.1:8021.
    pub listen: SocketAddr,
    /// How late every second answer is, in milliseconds. The scripts' own timeouts must be shorter.
    pub late_ms: u64,
    /// How long one run of a script may take.
    pub script_time: Duration,
    /// Only these files are checked; all of them, where it is empty.
    pub only: Vec<String>,
    /// The environment of the scripts; they get `LAB_URL` besides, and nothing else.
    pub environment: Vec<(String, String)>,
    /// True where this process does nothing but grade and has called [`adopt_orphans`]: then every descendant of it
    /// belongs to the script at work.
    pub owns_all_descendants: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8021)),
            late_ms: 6_000,
            script_time: Duration::from_secs(60),
            only: Vec::new(),
            environment: Vec::new(),
            owns_all_descendants: false,
        }
    }
}

/// Grades the exercise in a folder. Whatever is wrong in it is in the report; an error says that there is no folder,
/// or that the API cannot listen.
pub async fn grade(folder: &Path, options: &Options) -> Result<Report, Error> {
    let folder = folder.canonicalize().ok().filter(|folder| folder.is_dir()).ok_or_else(|| {
        Error::new(Kind::Exercise, format!("{} is not a folder", folder.display()))
    })?;
    if let Some(unknown) = options.only.iter().find(|name| !FILES.contains(&name.as_str())) {
        let known = FILES.join(", ");
        return Err(Error::new(
            Kind::Exercise,
            format!("{unknown} is not a file that is checked; these are: {known}"),
        ));
    }
    let is_asked =
        |name: &&str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    // An address that is taken is no fault of the scripts.
    if NEED_THE_API.iter().any(is_asked) {
        let probe = LabOptions { listen: options.listen, ..LabOptions::default() };
        Lab::start(probe).await?.stop().await;
    }
    let grader = Grader { folder, options };
    let mut checks = Vec::new();
    for name in FILES {
        if is_asked(&name) {
            checks.push(check(name, grader.judge(name).await));
        }
    }
    Ok(Report::new(checks))
}

/// The files that are checked, in the order of the report.
const FILES: [&str; 9] = [
    "naive.sh",
    "safe.sh",
    "newkey.sh",
    "backoff.sh",
    "retryable.sh",
    "forensics.txt",
    "naive.txt",
    "newkey.txt",
    "report.md",
];

/// Those of them that are run against the API.
const NEED_THE_API: [&str; 3] = ["naive.sh", "safe.sh", "newkey.sh"];

type Judge = fn(&Counted) -> Result<String, String>;

fn check(name: &'static str, judged: Result<String, String>) -> Check {
    let passed = judged.is_ok();
    Check { name, passed, reason: judged.unwrap_or_else(|reason| reason) }
}

struct Grader<'a> {
    folder: PathBuf,
    options: &'a Options,
}

impl Grader<'_> {
    async fn judge(&self, name: &'static str) -> Result<String, String> {
        match name {
            "naive.sh" => self.recorded(name, Counted::naive).await,
            "safe.sh" => self.recorded(name, Counted::safe).await,
            "newkey.sh" => self.recorded(name, Counted::newkey).await,
            "backoff.sh" => self.backoff().await,
            "retryable.sh" => self.retryable().await,
            "forensics.txt" => self.text(name, topics::FORENSICS),
            "naive.txt" => self.text(name, topics::NAIVE),
            "newkey.txt" => self.text(name, topics::NEWKEY),
            _ => self.text(name, topics::REPORT),
        }
    }

    /// Runs a script against an API of its own and judges what was recorded.
    async fn recorded(&self, name: &'static str, judge: Judge) -> Result<String, String> {
        let late = Some(Late { every: 2, ms: self.options.late_ms });
        let plan = Plan { late, ..Plan::default() };
        let start = LabOptions { listen: self.options.listen, plan, ..LabOptions::default() };
        let lab =
            Lab::start(start).await.map_err(|error| format!("the API did not start: {error}"))?;
        let ran = self.run(name, &[], Some(&lab)).await;
        let counted = lab
            .requests()
            .and_then(|requests| Ok(Counted::of(&requests, &lab.payments()?)))
            .map_err(|error| error.to_string());
        lab.stop().await;
        let ran = ran?;
        let judged = judge(&counted?);
        judged.map_err(|reason| format!("{reason}{}", excuse(&ran)))
    }

    async fn backoff(&self) -> Result<String, String> {
        let first = self.run("backoff.sh", &[], None).await?;
        let second = self.run("backoff.sh", &[], None).await?;
        printed::backoff(&first.output, &second.output)
            .map_err(|reason| format!("{reason}{}", excuse(&first)))
    }

    async fn retryable(&self) -> Result<String, String> {
        let yes = printed::RETRYABLE.iter().map(|status| (*status, true));
        let no = printed::FINAL.iter().map(|status| (*status, false));
        let mut wrong = Vec::new();
        for (status, wanted) in yes.chain(no) {
            let ran = self.run("retryable.sh", &[status], None).await?;
            let word = if wanted { "yes" } else { "no" };
            match printed::answer(&ran.output) {
                Some(answer) if answer == wanted => {}
                Some(_) => wrong.push(format!("{status} should be {word}")),
                None => wrong.push(format!("{status} got neither yes nor no")),
            }
        }
        if wrong.is_empty() {
            Ok("yes and no where they belong".to_owned())
        } else {
            Err(wrong.join("; "))
        }
    }

    fn text(&self, name: &'static str, topics: &'static [Topic]) -> Result<String, String> {
        let text = read_text(&self.folder, name)?;
        let missing = topics::missing(&text, topics);
        if missing.is_empty() {
            Ok("every topic is named (only looked for, not judged)".to_owned())
        } else {
            Err(format!("it does not speak of: {}", missing.join("; ")))
        }
    }

    async fn run(
        &self,
        name: &'static str,
        arguments: &[&str],
        lab: Option<&Lab>,
    ) -> Result<Ran, String> {
        let mut environment = self.options.environment.clone();
        environment.extend(lab.map(|lab| ("LAB_URL".to_owned(), lab.url(""))));
        let limits = Limits {
            time: self.options.script_time,
            output_bytes: OUTPUT_BYTES_MAX,
            processes: PROCESSES_MAX,
        };
        let around = Surroundings {
            environment,
            owns_all_descendants: self.options.owns_all_descendants,
            limits,
        };
        script::run(&self.folder, name, arguments, &around).await
    }
}

/// What a script itself said about its failure, if it failed.
fn excuse(ran: &Ran) -> String {
    match (ran.exit_code, ran.complaint.as_str()) {
        (Some(0), _) => String::new(),
        (Some(code), "") => format!(" (it ended with exit code {code})"),
        (Some(code), complaint) => format!(" (it ended with exit code {code}: {complaint})"),
        (None, _) => " (a signal ended it)".to_owned(),
    }
}

/// Reads a text. Only plain files: a pipe would never end.
fn read_text(folder: &Path, name: &'static str) -> Result<String, String> {
    let path = folder.join(name);
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("{name} is missing"));
        }
        Err(error) => return Err(format!("{name} cannot be read: {error}")),
        Ok(found) if !found.is_file() => return Err(format!("{name} is not a file")),
        Ok(found) if found.len() > TEXT_BYTES_MAX => {
            return Err(format!("{name} is longer than {TEXT_BYTES_MAX} bytes"));
        }
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    std::fs::File::open(&path)
        .and_then(|file| file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| format!("{name} cannot be read: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
