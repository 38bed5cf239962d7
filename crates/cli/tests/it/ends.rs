//! How the program ends where its output, its words or an address are no good.

use std::fs::File;
use std::process::{Command, Output, Stdio};

fn samekey() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_samekey"));
    command.stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A pipe that nobody reads any more.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_closed_pipe_ends_quietly_and_a_full_disk_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("x.db").display());
    let exercise = |name: &str| folder.path().join(name).display().to_string();
    for (n, arguments) in [
        vec!["migrate", "--database", &database],
        vec!["migrate", "--print", "postgres"],
        vec!["sweep", "--database", &database],
        vec!["lab", "new"],
    ]
    .into_iter()
    .enumerate()
    {
        let run = |out: Stdio, name: &str| {
            let mut command = samekey();
            command.args(&arguments);
            if n == 3 {
                command.arg(exercise(name));
            }
            command.stdout(out).stderr(Stdio::piped()).output().unwrap()
        };
        let output = run(closed(), "closed");
        assert_eq!(
            (output.status.code(), said(&output)),
            (Some(0), String::new()),
            "{arguments:?}"
        );
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = run(full.into(), "full");
        let sentence = said(&output);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {sentence}");
        assert!(
            sentence.contains("standard output cannot be written: No space left"),
            "{sentence}"
        );
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
    }
}

#[test]
fn p33_a_password_in_the_wrong_place_is_not_repeated() {
    const URL: &str = "postgres://app:canary@p@localhost/shop";
    for arguments in [
        vec!["migrate", URL],
        vec![URL],
        vec!["sweep", "--batch", URL],
        vec!["lab", "api", "--listen", URL],
        vec!["lab", "grade", URL],
        vec!["forensics", URL],
    ] {
        let output = samekey().args(&arguments).output().unwrap();
        let all = said(&output) + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {all}");
        assert!(!all.contains("canary") && all.contains("localhost"), "{arguments:?}: {all}");
    }
}

#[test]
fn a_taken_address_is_told_by_its_exit_code() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        vec!["lab", "api", "--listen", &taken],
        vec!["lab", "api", "--listen", "127.0.0.1:0", "--control", &taken],
        vec!["lab", "grade", folder.path().to_str().unwrap(), "--listen", &taken],
    ] {
        let output = samekey().args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("is in use by another process"), "{}", said(&output));
    }
}

#[test]
fn a_device_is_no_fault_plan_and_no_ledger() {
    for (flag, device, sentence) in [
        ("--faults", "/dev/zero", "more than 1048576 bytes"),
        ("--ledger", "/dev/full", "no ordinary file"),
        ("--ledger", "/dev/zero", "no ordinary file"),
    ] {
        let arguments = ["lab", "api", "--listen", "127.0.0.1:0", flag, device];
        let output = samekey().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flag} {device}: {}", said(&output));
        assert!(said(&output).contains(sentence), "{flag} {device}: {}", said(&output));
    }
}

#[test]
fn an_address_that_cannot_be_understood_is_a_matter_of_words() {
    for address in ["postgres://u:canary@h:notaport/db", "mysql://u:canary@h/db", "nonsense"] {
        for arguments in [
            vec!["sweep", "--database", address],
            vec!["forensics", "--query", "select 1", "--database", address],
        ] {
            let output = samekey().args(&arguments).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
            assert!(!said(&output).contains("canary"), "{}", said(&output));
        }
    }
}
