//! Crash points: named places where a test ends, stops or fails a real process. Not a public
//! interface, and absent from release builds.
//!
//! A place between two steps that must survive a crash is marked with
//! [`crash_point!`](crate::crash_point), in this crate or in one that depends on it:
//!
//! ```text
//! crash_point!("settle.before-commit");
//! crash_point!("settle.before-commit", return Err(Error::unavailable()));
//! ```
//!
//! A test arms one of them in the environment of the process that it starts:
//!
//! ```text
//! SAMEKEY_CRASH_POINT=NAME[:NTH][=ACTION]     NTH counts from 1 (the default)
//! ```
//!
//! | action | what happens when the place is reached for the NTH time |
//! |---|---|
//! | `abort` (default) | the process ends at once (SIGABRT): no destructor, no flush, no goodbye, which is what kill -9 leaves behind |
//! | `panic` | the current thread or task panics |
//! | `error` | the second argument of the macro is evaluated; a place without one ends the process with code 2 |
//! | `sleep:MS` | the thread stands still for so many milliseconds, a minute at most, as an owner does that is not scheduled |
//! | `stop` | the process stands still with SIGSTOP, and the place is not left before somebody sends SIGCONT |
//!
//! Only that one pass acts; earlier and later ones go on. The moment is announced on standard error
//! as `crash point NAME: ACTION`; that of `stop` once the process stands still, so whoever has read
//! it may send SIGCONT. An unknown name or a wrong form ends the process with code 2 and
//! a sentence, since a test that arms nothing would pass without having tested anything.
//!
//! Every name is in [`CRASH_POINTS`], or the place does not compile; `tidy` holds that each name
//! has its place. So a test that goes through the list has been at every boundary there is. The
//! macro expands to nothing unless its crate is built with `debug_assertions`, so release builds
//! have neither the places nor a look at the environment.

#[cfg(debug_assertions)]
use std::sync::OnceLock;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that arms a crash point.
pub const VARIABLE: &str = "SAMEKEY_CRASH_POINT";

/// On whose way a crash point is, and so which tests go through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Of atomic commands, and of the sweep.
    Atomic,
    /// Of external commands, and of recovery: for tests that have a counterparty.
    External,
    /// Of the outbox and its courier: for tests that deliver.
    Courier,
}

/// Every crash point there is, in the order in which a command passes them.
pub const CRASH_POINTS: &[&str] = &[
    "claim.before",
    "claim.after",
    "call.before",
    "call.after",
    "settle.before-commit",
    "settle.after-commit",
    "reply.before",
    "writer.group-begun",
    "writer.before-commit",
    "writer.after-commit",
    "sweep.between-batches",
    "external.claim-before",
    "external.claim-after",
    "external.call-before",
    "external.renewed",
    "external.call-after",
    "external.settle-before",
    "external.settle-after",
    "recover.before",
    "recover.taken-over",
    "recover.asked",
    "recover.heard",
    "outbox.enqueued",
    "outbox.take-decided",
    "outbox.taken",
    "courier.taken",
    "courier.send-before",
    "courier.send-after",
    "courier.ask-before",
    "courier.ask-after",
    "courier.settle-before",
    "outbox.advanced",
    "courier.settle-after",
];

/// The crash points on this way, in the order in which a command passes them.
pub fn points_on(way: Way) -> Vec<&'static str> {
    CRASH_POINTS.iter().copied().filter(|point| way_of(point) == way).collect()
}

fn way_of(point: &str) -> Way {
    match point.split_once('.') {
        Some(("external" | "recover", _)) => Way::External,
        Some(("courier" | "outbox", _)) => Way::Courier,
        Some(_) | None => Way::Atomic,
    }
}

/// Marks a place where a test may end, stop or fail the process; see the module `crash`.
#[doc(hidden)]
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(debug_assertions)]
        {
            const { assert!($crate::crash::is_listed($name), "add it to CRASH_POINTS") };
            $crate::crash::reach($name);
        }
    };
    ($name:literal, $error:expr) => {
        #[cfg(debug_assertions)]
        {
            const { assert!($crate::crash::is_listed($name), "add it to CRASH_POINTS") };
            if $crate::crash::reach_or_fail($name) {
                $error
            }
        }
    };
}

/// Whether `name` is in [`CRASH_POINTS`]; evaluated by the compiler at every place.
pub const fn is_listed(name: &str) -> bool {
    let mut list = CRASH_POINTS;
    while let [first, rest @ ..] = list {
        if equal(first.as_bytes(), name.as_bytes()) {
            return true;
        }
        list = rest;
    }
    false
}

/// `==` for bytes, in the form that the compiler can evaluate.
const fn equal(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([x, one_rest @ ..], [y, other_rest @ ..]) = (one, other) {
        if *x != *y {
            return false;
        }
        (one, other) = (one_rest, other_rest);
    }
    one.is_empty() && other.is_empty()
}

#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Abort,
    Panic,
    Error,
    Stop,
    Sleep(u64),
}

/// A minute: longer than any lease in a test.
#[cfg(debug_assertions)]
const SLEEP_MS_MAX: u64 = 60_000;

/// What the environment asks for.
#[cfg(debug_assertions)]
#[derive(Debug, PartialEq, Eq)]
struct Armed {
    name: String,
    nth: u64,
    action: Action,
}

#[cfg(debug_assertions)]
impl Armed {
    fn parse(text: &str) -> Result<Self, String> {
        let (place, action) = text.split_once('=').unwrap_or((text, "abort"));
        let (name, nth) = place.split_once(':').unwrap_or((place, "1"));
        let action = match action {
            "abort" => Action::Abort,
            "panic" => Action::Panic,
            "error" => Action::Error,
            "stop" => Action::Stop,
            other => {
                let slept = other.strip_prefix("sleep:").and_then(|millis| millis.parse().ok());
                Action::Sleep(slept.filter(|millis| *millis <= SLEEP_MS_MAX).ok_or_else(|| {
                    format!(
                        "action {other}; expected abort, panic, error, stop or sleep:MILLISECONDS"
                    )
                })?)
            }
        };
        let nth = nth.parse().ok().filter(|nth| *nth > 0);
        let nth = nth.ok_or_else(|| format!("{place}; expected NAME:NTH with NTH from 1"))?;
        if !is_listed(name) {
            let all = CRASH_POINTS.join(", ");
            return Err(format!("{name}; expected one of {all}"));
        }
        Ok(Self { name: name.to_owned(), nth, action })
    }
}

/// Called at a place that cannot fail.
#[cfg(debug_assertions)]
pub fn reach(name: &'static str) {
    if shall_fail(name) {
        end(&format!("{name}=error; this place has no error to give; use another action"));
    }
}

/// Called at a place that can fail; true when it shall.
#[cfg(debug_assertions)]
pub fn reach_or_fail(name: &'static str) -> bool {
    let shall_fail = shall_fail(name);
    if shall_fail {
        eprintln!("crash point {name}: error");
    }
    shall_fail
}

/// Counts this pass, and does what is armed; true where that is an error, which is the place's to give. A
/// place that has none to give has not obeyed, so it is announced by those that have.
#[cfg(debug_assertions)]
fn shall_fail(name: &'static str) -> bool {
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    static PASSES: AtomicU64 = AtomicU64::new(0);
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        Some(Armed::parse(&text).unwrap_or_else(|wrong| end(&wrong)))
    });
    let Some(armed) = armed.as_ref().filter(|armed| armed.name == name) else { return false };
    if PASSES.fetch_add(1, Ordering::SeqCst) + 1 != armed.nth {
        return false;
    }
    match armed.action {
        Action::Abort => {
            eprintln!("crash point {name}: abort");
            std::process::abort()
        }
        Action::Panic => panic!("crash point {name}: panic"),
        Action::Stop => {
            stop(name);
            false
        }
        Action::Sleep(millis) => {
            eprintln!("crash point {name}: sleep");
            std::thread::sleep(std::time::Duration::from_millis(millis));
            false
        }
        Action::Error => true,
    }
}

/// What stops the process `$1` at the place `$2`, from outside: it sends SIGSTOP, sees the process
/// stand still, says so, and ends when the process goes on or is gone.
///
/// SIGSTOP to a process wakes one of its threads, and only that one stops the others when it gets a
/// processor. So whoever sent it may not leave its place as soon as the signal is sent: on a busy
/// machine it ran on far enough to commit. It waits for this script instead.
#[cfg(debug_assertions)]
const STOP: &str = r#"
stands_still() { read -r stat <"/proc/$1/stat" 2>/dev/null && case $stat in *') T '*) ;; *) false ;; esac; }
kill -STOP "$1" || exit 1
polls=0
until stands_still "$1"; do
    polls=$((polls + 1))
    [ "$polls" -lt 6000 ] || exit 1
    sleep 0.01
done
echo "crash point $2: stop" >&2
while stands_still "$1"; do sleep 0.01; done
"#;

/// SIGSTOP for ourselves. The standard library cannot send a signal, but every shell can.
#[cfg(debug_assertions)]
fn stop(name: &str) {
    let id = std::process::id().to_string();
    let sent = std::process::Command::new("/bin/sh").args(["-c", STOP, "stop", &id, name]).status();
    if !sent.is_ok_and(|status| status.success()) {
        end("an action stop that this system cannot do: /bin/sh, its kill and /proc are needed");
    }
}

#[cfg(debug_assertions)]
fn end(wrong: &str) -> ! {
    eprintln!("{VARIABLE}: found {wrong}");
    std::process::exit(2)
}

#[cfg(all(test, debug_assertions))]
mod tests {
    // clippy.toml allows this in test functions; their helpers need it said here.
    #![allow(clippy::unwrap_used)]

    use super::{Action, Armed, CRASH_POINTS, VARIABLE, is_listed};
    use std::io::BufRead;
    use std::process::{Command, Output, Stdio};

    /// What the child does: it passes two places twice each and can fail at the second. In an
    /// ordinary run of the tests nothing is armed and it passes.
    #[test]
    fn crash_child_passes_its_places() {
        assert_eq!(pass(), Ok(()));
        assert_eq!(pass(), Ok(()));
        eprintln!("child went through");
    }

    fn pass() -> Result<(), &'static str> {
        crate::crash_point!("claim.before");
        crate::crash_point!("claim.after", return Err("injected"));
        Ok(())
    }

    /// This test program, running nothing but the child, with a crash point armed.
    fn child(armed: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", "crash::tests::crash_child_passes_its_places"]);
        command.env(VARIABLE, armed).stdin(Stdio::null());
        command
    }

    fn run(armed: &str) -> (Output, String) {
        let output = child(armed).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, stderr)
    }

    #[test]
    fn crash_abort_ends_the_process_at_the_named_pass_only() {
        use std::os::unix::process::ExitStatusExt;
        for armed in ["claim.before", "claim.before:2", "claim.after:2=abort"] {
            let (output, stderr) = run(armed);
            assert_eq!(output.status.signal(), Some(6), "{armed}: {stderr}");
            assert!(!stderr.contains("child went through"), "{armed}: {stderr}");
        }
        let (output, stderr) = run("claim.before:3");
        assert!(output.status.success() && stderr.contains("child went through"), "{stderr}");
        let (output, _) = run("settle.before-commit");
        assert!(output.status.success(), "a place that is never reached did something");
    }

    #[test]
    fn crash_panic_and_error_fail_inside_the_process() {
        let (output, stderr) = run("claim.before=panic");
        assert!(stderr.contains("crash point claim.before: panic"), "{stderr}");
        assert_eq!(output.status.code(), Some(101));
        let (_, stderr) = run("claim.after:2=error");
        assert!(stderr.contains("Err(\"injected\")"), "{stderr}");
    }

    #[test]
    fn crash_stop_waits_for_somebody_to_continue_it() {
        let mut child = child("claim.before=stop").stderr(Stdio::piped()).spawn().unwrap();
        let mut said = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap() == "crash point claim.before: stop"));
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        assert!(stat.contains(") T "), "{stat}");
        let go_on = format!("kill -CONT {}", child.id());
        assert!(Command::new("/bin/sh").args(["-c", &go_on]).status().unwrap().success());
        assert!(said.any(|line| line.unwrap() == "child went through"));
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn crash_wrong_orders_end_the_process_with_a_sentence() {
        let no_error = "this place has no error to give";
        for (armed, sentence) in [
            ("claim.sooner", "expected one of claim.before, "),
            ("claim.before:0", "expected NAME:NTH with NTH from 1"),
            ("claim.before=fly", "expected abort, panic, error, stop or sleep:MILLISECONDS"),
            ("claim.before=sleep:60001", "expected abort, panic, error, stop or sleep"),
            ("claim.before=error", no_error),
        ] {
            let (output, stderr) = run(armed);
            assert_eq!(output.status.code(), Some(2), "{armed}: {stderr}");
            assert!(stderr.contains(sentence), "{armed}: {stderr}");
        }
    }

    #[test]
    fn crash_orders_are_read_in_every_form() {
        let armed = |nth, action| Ok(Armed { name: "claim.before".to_owned(), nth, action });
        assert_eq!(Armed::parse("claim.before"), armed(1, Action::Abort));
        assert_eq!(Armed::parse("claim.before:7"), armed(7, Action::Abort));
        assert_eq!(Armed::parse("claim.before:7=stop"), armed(7, Action::Stop));
        assert_eq!(Armed::parse("claim.before=panic"), armed(1, Action::Panic));
    }

    #[test]
    fn crash_names_are_unique_and_all_found() {
        for (index, name) in CRASH_POINTS.iter().enumerate() {
            assert!(is_listed(name));
            assert!(!CRASH_POINTS[..index].contains(name), "{name} twice");
        }
        assert!(!is_listed("") && !is_listed("claim") && !is_listed("claim.before "));
    }
}
