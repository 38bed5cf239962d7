//! `samekey demo` and `samekey dev`: what they show, counted in the API's ledger, and what they leave behind.

use crate::lab::send;
use samekey_sim::Program;
use samekey_sim::process::{END_BOUND, Finished, Process, interrupt};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// A folder for temporary files, so that what is left behind is seen.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn samekey(arguments: &[&str], folder: &Path) -> Program {
    Program::at(env!("CARGO_BIN_EXE_samekey")).args(arguments).env("TMPDIR", folder)
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Waits until the process has said this on standard error.
fn wait_until_said(process: &Process, words: &str) {
    let began = Instant::now();
    while !process.stderr().contains(words) {
        assert!(process.runs() && began.elapsed() < END_BOUND, "{}", process.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn end(process: Process, folder: &Path) -> Finished {
    let ended = process.wait(END_BOUND).unwrap();
    assert_empty(folder);
    ended
}

#[test]
fn the_demo_shows_a_double_payment_and_that_a_key_prevents_it() {
    let folder = folder();
    let ended =
        samekey(&["demo", "--fast", "--format", "json"], folder.path()).run(END_BOUND).unwrap();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_empty(folder.path());
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let count = |of: &str, what: &str| result[of][what].as_u64().unwrap();
    let per_order = |of: &str| -> Vec<u64> {
        let orders = result[of]["per_order"].as_object().unwrap();
        orders.values().map(|payments| payments.as_u64().unwrap()).collect()
    };
    assert_eq!(result["orders"], 4);
    for client in ["naive", "safe"] {
        // Both lost answers, sent again, and believe the same.
        assert!(count(client, "answers_lost") > 0, "{result}");
        assert!(count(client, "requests_sent") > 4, "{result}");
        assert_eq!(count(client, "orders_believed_paid"), 4, "{result}");
        assert_eq!(per_order(client).len(), 4, "{result}");
        assert_eq!(per_order(client).iter().sum::<u64>(), count(client, "payments"), "{result}");
    }
    // The ledger tells them apart.
    assert!(per_order("naive").iter().any(|payments| *payments > 1), "{result}");
    assert_eq!(per_order("safe"), [1, 1, 1, 1], "{result}");
    assert_eq!(count("safe", "reached_api"), 4, "nothing was sent on twice: {result}");
    // Who sees no terminal sees a line a change.
    let told = |line: &str| ended.stderr.lines().any(|found| found.starts_with(line));
    assert!(told("naive: ORD-2 no answer in 0.5 s"), "{}", ended.stderr);
    assert!(told("safe: ORD-2 no answer in 0.5 s; rests"), "{}", ended.stderr);
    assert!(told("safe: ORD-2 recorded once"), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\x1b'), "{}", ended.stderr);
}

#[test]
fn the_demo_ends_with_a_table_and_what_to_type_next() {
    let folder = folder();
    let ended = samekey(&["demo", "--fast"], folder.path()).run(END_BOUND).unwrap();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let row = |name: &str| -> Vec<String> {
        let line = ended.stdout.lines().find(|line| line.trim().starts_with(name));
        let words = line.unwrap_or_else(|| panic!("{name}: {ended:?}")).split_whitespace();
        words.rev().take(2).map(str::to_owned).collect()
    };
    assert_eq!(row("orders"), ["4", "4"]);
    assert_eq!(row("payments recorded").first().unwrap(), "4");
    assert_eq!(row("payments too many").first().unwrap(), "none");
    assert_ne!(row("payments too many").last().unwrap(), "none");
    let longest = ended.stdout.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{ended:?}");
    assert!(ended.stdout.contains(" dev\n") && ended.stdout.contains(" lab new practice\n"));
}

#[test]
fn a_demo_that_is_stopped_ends_at_once_and_leaves_nothing_behind() {
    for words in ["naive: ORD-2 is sent", "safe: ORD-2 is sent"] {
        let folder = folder();
        let process = samekey(&["demo", "--fast"], folder.path()).start().unwrap();
        wait_until_said(&process, words);
        interrupt(Some(process.id()));
        let ended = end(process, folder.path());
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        let last = ended.stderr.lines().last().unwrap();
        assert_eq!(last, "samekey: stopped before its end; nothing is left behind", "{ended:?}");
    }
}

#[test]
fn dev_runs_until_it_is_stopped_and_sends_a_command_on_once() {
    let folder = folder();
    let mut process = samekey(&["dev"], folder.path()).start().unwrap();
    let mut address = |name: &'static str| {
        process
            .wait_for_line(name, |line| {
                line.strip_prefix(name)?.trim().strip_prefix("http://").map(str::to_owned)
            })
            .unwrap()
    };
    let (api, gateway) = (address("api"), address("gateway"));
    let database = process
        .wait_for_line("the database", |line| {
            line.split_once("--database ").map(|it| it.1.to_owned())
        })
        .unwrap();
    // The first answer is in time, the second late: but the second time nothing is sent on.
    let pay = |key: &str| send(&gateway, "POST", "/payments", key, "order_id=ORD-2").unwrap();
    let (first, second) = (pay("pay-ORD-2"), pay("pay-ORD-2"));
    assert_eq!((first.0, &first), (201, &second));
    let (_, recorded) = send(&api, "GET", "/payments.csv", "", "").unwrap();
    assert_eq!(recorded.matches("ORD-2").count(), 1, "{recorded}");
    // Nothing runs under an empty key.
    assert_eq!(pay("").0, 400);
    // The line about the key can be typed.
    let shown =
        samekey(&["keys", "show", "default", "pay-ORD-2", "--database", &database], folder.path());
    let shown = shown.run(END_BOUND).unwrap();
    assert!(shown.code() == Some(0) && shown.stdout.contains("done"), "{shown:?}");
    process.terminate().unwrap();
    let ended = end(process, folder.path());
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
}

#[test]
fn dev_on_a_taken_address_or_without_a_folder_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let folder = folder();
    for (arguments, temporary, part) in [
        (["dev", "--listen", &taken], folder.path(), "choose another with --listen"),
        (["dev", "--api", &taken], folder.path(), "in use by another process"),
        (["demo", "--format", "json"], Path::new("/nonexistent"), "name another in TMPDIR"),
    ] {
        let ended = samekey(&arguments, temporary).run(END_BOUND).unwrap();
        assert_eq!(ended.code(), Some(3), "{arguments:?}: {ended:?}");
        assert_eq!((ended.stdout.as_str(), ended.stderr.lines().count()), ("", 1), "{ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {ended:?}");
        assert_empty(folder.path());
    }
}
