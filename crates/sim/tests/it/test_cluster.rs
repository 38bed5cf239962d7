//! The program that runs a command inside a cluster: its exit codes, and that it always cleans up.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn test_cluster() -> Command {
    Command::new(env!("CARGO_BIN_EXE_test-cluster"))
}

fn sh(script: &str) -> Command {
    let mut command = test_cluster();
    command.args(["sh", "-c", script]);
    command
}

/// Polls until the process is gone or only waits to be collected.
fn assert_gone(id: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let gone = |stat: String| stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" Z"));
    while !std::fs::read_to_string(format!("/proc/{id}/stat")).map_or(true, gone) {
        assert!(Instant::now() < deadline, "process {id} still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A `test-cluster` whose command waits, with the ids of the command and of the server.
struct Waiting {
    program: std::process::Child,
    command: String,
    server: String,
}

fn start_waiting() -> Waiting {
    let script = "port=${SAMEKEY_TEST_POSTGRES##*:}; echo $$ ${port%/*}; exec sleep 120";
    let mut program = sh(script).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (command, port) = line.trim().split_once(' ').unwrap();
    Waiting { program, command: command.to_owned(), server: server_of_port(port) }
}

/// The id of the server that listens on `port`, by its command line.
fn server_of_port(port: &str) -> String {
    let has_port = |cmdline: &str| {
        let mut arguments = cmdline.split('\0');
        let is_server = arguments.next().is_some_and(|program| program.ends_with("/postgres"));
        is_server && arguments.any(|argument| argument == port)
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let found = processes.map(|entry| entry.path()).find(|path| {
        std::fs::read_to_string(path.join("cmdline")).is_ok_and(|cmdline| has_port(&cmdline))
    });
    found.expect("the server runs").file_name().unwrap().to_str().unwrap().to_owned()
}

fn kill(signal: &str, id: &str) {
    assert!(
        Command::new("sh")
            .args(["-c", &format!("kill -{signal} {id}")])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn own_cluster_program_hands_on_the_address_and_the_exit_code() {
    let script = "case $SAMEKEY_TEST_POSTGRES in postgres://*@127.0.0.1:*/postgres) exit 7;; esac";
    assert_eq!(sh(script).status().unwrap().code(), Some(7));
    assert_eq!(sh("exit 0").status().unwrap().code(), Some(0));
    assert_eq!(sh("kill -TERM $$").status().unwrap().code(), Some(128 + 15));
}

#[test]
fn own_cluster_program_without_a_command_is_a_wrong_call() {
    let output = test_cluster().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("found no command"));
}

#[test]
fn own_cluster_program_says_which_command_is_missing() {
    let output = test_cluster().arg("/nowhere/to/be/found").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/to/be/found"));
}

#[test]
fn own_cluster_program_asked_to_end_ends_the_command_and_the_server() {
    for signal in ["TERM", "INT"] {
        let mut waiting = start_waiting();
        assert!(Path::new(&format!("/proc/{}", waiting.server)).exists());
        kill(signal, &waiting.program.id().to_string());
        let number = if signal == "TERM" { 15 } else { 2 };
        assert_eq!(waiting.program.wait().unwrap().code(), Some(128 + number));
        assert_gone(&waiting.command);
        assert_gone(&waiting.server);
    }
}

#[test]
fn own_cluster_program_killed_takes_the_server_with_it() {
    let mut waiting = start_waiting();
    waiting.program.kill().unwrap();
    waiting.program.wait().unwrap();
    assert_gone(&waiting.server);
    // Nobody can hand on a SIGKILL to the command; it is ours to end.
    kill("KILL", &waiting.command);
}
