//! Processes are found, heard, frozen, killed and never left behind.

use samekey_sim::{ErrorKind, Process, Program};
use std::path::Path;
use std::time::Duration;

fn sh(script: &str) -> Program {
    Program::at("/bin/sh").args(["-c", script])
}

fn exists(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

/// A process that has printed `ready` and then counts the lines that it is sent signals for.
fn counting() -> Process {
    let script = "n=0; echo ready; while :; do n=$((n+1)); echo line $n; sleep 0.02; done";
    let mut process = sh(script).start().unwrap();
    process.wait_for_line("ready", |line| (line == "ready").then_some(())).unwrap();
    process
}

#[test]
fn a_listening_program_is_asked_for_its_address() {
    let script = "echo starting at 12:30; echo listening on http://127.0.0.1:4100/; exec sleep 60";
    let mut process = sh(script).start().unwrap();
    assert_eq!(process.address().unwrap().to_string(), "127.0.0.1:4100");
    assert!(process.runs());
}

#[test]
fn a_line_is_not_believed_before_it_is_complete() {
    let script = "printf 'on 127.0.0.1:41'; sleep 0.2; echo 00; exec sleep 60";
    let mut process = sh(script).start().unwrap();
    assert_eq!(process.address().unwrap().port(), 4100);
}

#[test]
fn a_program_that_ends_without_an_address_shows_what_it_said() {
    let failure = sh("echo no luck >&2; exit 3").start().unwrap().address().unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::NotStarted);
    assert!(failure.to_string().contains("no luck"), "{failure}");
}

#[test]
fn own_process_killed_is_gone_with_signal_nine() {
    let process = counting();
    let id = process.id();
    let finished = process.kill().unwrap();
    assert_eq!((finished.code(), finished.signal()), (None, Some(9)));
    assert!(!exists(id));
    assert!(finished.stdout.starts_with("ready\n"));
}

#[test]
fn own_process_frozen_says_nothing_until_it_is_thawed() {
    let mut process = counting();
    process.freeze().unwrap();
    // Once it stands still, a pipe of our own holds at most what was written before.
    let count = |process: &Process| process.stdout().lines().count();
    let frozen_at = count(&process);
    let wanted = frozen_at + 20;
    process.thaw().unwrap();
    let line = format!("line {wanted}");
    process.wait_for_line(&line, |found| (found == line).then_some(())).unwrap();
    assert!(count(&process) > frozen_at);
}

#[test]
fn own_process_that_stops_itself_is_noticed() {
    let mut process = sh("echo $$; kill -STOP $$; exec sleep 60").start().unwrap();
    process.wait_for_line("its id", |line| line.parse::<u32>().ok()).unwrap();
    process.wait_until_frozen().unwrap();
    assert!(process.runs());
}

#[test]
fn a_program_asked_to_end_may_do_so_in_its_own_way() {
    let mut process = sh("trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.02; done")
        .start()
        .unwrap();
    process.wait_for_line("ready", |line| (line == "ready").then_some(())).unwrap();
    process.terminate().unwrap();
    let finished = process.wait(Duration::from_secs(20)).unwrap();
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(4), "ready\nbye\n"));
}

#[test]
fn a_program_that_outlives_its_bound_is_ended() {
    let process = sh("echo here; exec sleep 60").start().unwrap();
    let id = process.id();
    let failure = process.wait(Duration::from_millis(200)).unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::TimedOut);
    assert!(!exists(id));
}

#[test]
fn a_dropped_process_is_gone() {
    let process = counting();
    let id = process.id();
    drop(process);
    assert!(!exists(id));
}

#[test]
fn a_program_that_is_not_built_is_named_with_the_remedy() {
    assert!(Program::built("test-cluster").unwrap().path().is_file());
    let failure = Program::built("no-such-program").unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Missing);
    assert!(failure.to_string().contains("cargo build --workspace --bins"), "{failure}");
}

#[test]
fn a_program_hears_of_no_variable_that_the_test_did_not_set() {
    let script = "echo ${SAMEKEY_TEST_POSTGRES-unset} $SAMEKEY_MINE";
    let finished = sh(script).env("SAMEKEY_MINE", "set").run(Duration::from_secs(20)).unwrap();
    assert_eq!(finished.stdout, "unset set\n");
}
