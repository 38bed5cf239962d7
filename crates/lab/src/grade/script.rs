//! Runs one untrusted script: its own process group, a time, output and process limit, and everything that it
//! started is ended afterwards.

use super::processes::{MARK, Processes};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// How often the processes of a running script are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// After a script has ended its pipes are read for this long at most.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);
/// Tries to start a file that another process still has open for writing.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Characters of a script's complaint that are shown.
const COMPLAINT_CHARACTERS_MAX: usize = 120;

/// What a script may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may run.
    pub time: Duration,
    /// Bytes it may print, to both outputs together.
    pub output_bytes: u64,
    /// Processes it may have at once.
    pub processes: usize,
}

/// How a script is run.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The whole environment, but for the mark.
    pub environment: Vec<(String, String)>,
    /// Whether every descendant of this process belongs to the script.
    pub owns_all_descendants: bool,
    /// What it may use.
    pub limits: Limits,
}

/// What a script did, as far as can be seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// What it printed.
    pub output: String,
    /// Its exit code; none where a signal ended it.
    pub exit_code: Option<i32>,
    /// The first line of its error output, made harmless.
    pub complaint: String,
}

/// Runs a script to its end. The refusal is the reason why there is no result.
pub async fn run(
    folder: &Path,
    name: &str,
    arguments: &[&str],
    around: &Surroundings,
) -> Result<Ran, String> {
    check_file(folder, name)?;
    let mark = new_mark();
    let (mut child, mut processes) = start(folder, name, arguments, around, &mark).await?;
    let meter = Arc::new(Meter::default());
    let output =
        tokio::spawn(read(child.stdout.take(), Arc::clone(&meter), around.limits.output_bytes));
    let errors =
        tokio::spawn(read(child.stderr.take(), Arc::clone(&meter), around.limits.output_bytes));
    let ended = watch(&mut child, &mut processes, &meter, name, around.limits).await;
    let all_ended = processes.end().await;
    // Reaped here, so that its id cannot be given to another process while we still kill by it.
    let reaped = timeout(DRAIN_TIME_MAX, child.wait()).await;
    let all_ended = all_ended && reaped.is_ok() && processes.end_unseen().await;
    let output = drained(output).await;
    let errors = drained(errors).await;
    if !all_ended {
        return Err(format!("{name} started processes that could not be ended"));
    }
    let exit_code = ended?;
    Ok(Ran {
        output: String::from_utf8_lossy(&output).into_owned(),
        exit_code,
        complaint: harmless(&String::from_utf8_lossy(&errors)),
    })
}

fn check_file(folder: &Path, name: &str) -> Result<(), String> {
    match std::fs::metadata(folder.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!("{name} is missing")),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
        Ok(found) if !found.is_file() => Err(format!("{name} is not a file")),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => {
            Err(format!("{name} is not executable; say: chmod +x {name}"))
        }
        Ok(_) => Ok(()),
    }
}

async fn start(
    folder: &Path,
    name: &str,
    arguments: &[&str],
    around: &Surroundings,
    mark: &str,
) -> Result<(Child, Processes), String> {
    let path = folder.join(name);
    let begins = |error: io::Error| format!("{name} cannot be started: {error}");
    // A script without a first line that names its interpreter is bash's, as it would be in a terminal.
    let mut command = if has_interpreter(&path).map_err(begins)? {
        Command::new(&path)
    } else {
        let mut bash = Command::new("bash");
        bash.arg(&path);
        bash
    };
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(around.environment.iter().map(|(name, value)| (name, value)))
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut tries = 0;
    let child = loop {
        match command.spawn() {
            Ok(child) => break child,
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES =>
            {
                tries += 1;
                sleep(BUSY_PAUSE).await;
            }
            Err(error) => return Err(begins(error)),
        }
    };
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let group = group.ok_or_else(|| format!("{name} has no process id"))?;
    Ok((child, Processes::new(group, mark, around.owns_all_descendants)))
}

fn has_interpreter(path: &Path) -> io::Result<bool> {
    let mut start = [0; 2];
    let file = std::fs::File::open(path)?;
    match io::Read::read_exact(&mut &file, &mut start) {
        Ok(()) => Ok(&start == b"#!"),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits for the end of the script, or for the first limit that it breaks.
async fn watch(
    child: &mut Child,
    processes: &mut Processes,
    meter: &Meter,
    name: &str,
    limits: Limits,
) -> Result<Option<i32>, String> {
    let end = Instant::now() + limits.time;
    loop {
        tokio::select! {
            status = child.wait() => {
                return match status {
                    _ if meter.bytes.load(Ordering::Relaxed) > limits.output_bytes => Err(too_much(name, limits)),
                    Ok(status) => Ok(status.code()),
                    Err(error) => Err(format!("{name} cannot be waited for: {error}")),
                };
            }
            () = meter.overflow.notified() => return Err(too_much(name, limits)),
            () = sleep(LOOK_EVERY) => {}
        }
        if processes.look().len() > limits.processes {
            return Err(format!(
                "{name} had more than {} processes at once and was stopped",
                limits.processes
            ));
        }
        if Instant::now() >= end {
            let seconds = limits.time.as_secs_f64();
            return Err(format!("{name} did not end within {seconds} s and was stopped"));
        }
    }
}

fn too_much(name: &str, limits: Limits) -> String {
    format!("{name} printed more than {} bytes and was stopped", limits.output_bytes)
}

/// Counts what a script prints.
#[derive(Debug, Default)]
struct Meter {
    bytes: AtomicU64,
    overflow: Notify,
}

/// Reads to the end, or to the limit. A closed pipe then stops a writer that is not stopped otherwise.
async fn read(pipe: Option<impl AsyncRead + Unpin>, meter: Arc<Meter>, bytes_max: u64) -> Vec<u8> {
    let mut all = Vec::new();
    let Some(mut pipe) = pipe else { return all };
    let mut buffer = [0; 8192];
    loop {
        // A pipe that breaks has said all that it will say.
        let read = pipe.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            return all;
        }
        all.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if meter.bytes.fetch_add(read as u64, Ordering::Relaxed) + read as u64 > bytes_max {
            meter.overflow.notify_one();
            return all;
        }
    }
}

async fn drained(reading: tokio::task::JoinHandle<Vec<u8>>) -> Vec<u8> {
    let stop = reading.abort_handle();
    match timeout(DRAIN_TIME_MAX, reading).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) | Err(_) => {
            stop.abort();
            Vec::new()
        }
    }
}

/// The first line of what a script complains about, without anything that a terminal could obey.
fn harmless(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|letter| !letter.is_control()).take(COMPLAINT_CHARACTERS_MAX).collect()
}

/// A value that no other run on this machine has.
fn new_mark() -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{run}", std::process::id(), now.as_nanos())
}
