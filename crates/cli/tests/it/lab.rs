//! `samekey lab` as a process: its arguments, its exit codes, and its death by `kill -9`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(20);

fn samekey(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_samekey")).args(arguments).output().unwrap()
}

fn folder() -> PathBuf {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("lab-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A running `samekey lab api`; killed when it is dropped.
struct Api {
    child: Child,
    address: String,
}

impl Api {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_samekey"))
            .args(["lab", "api", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        Self { child, address }
    }

    fn send(&self, method: &str, path: &str, key: &str, body: &str) -> Option<(u16, String)> {
        send(&self.address, method, path, key, body)
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body, or nothing where the connection broke.
pub fn send(
    address: &str,
    method: &str,
    path: &str,
    key: &str,
    body: &str,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\nIdempotency-Key: {key}\r\n"
    );
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

#[test]
fn every_answered_payment_survives_kill_9_and_no_key_pays_twice() {
    let ledger = folder().join("ledger.jsonl");
    let ledger = ledger.to_str().unwrap();
    let answers: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    for round in 0..3 {
        let mut api = Api::start(&["--ledger", ledger, "--late-every", "0"]);
        let payers: Vec<_> = (0..4)
            .map(|payer| {
                let (address, answers) = (api.address.clone(), Arc::clone(&answers));
                thread::spawn(move || {
                    for number in 0..2000 {
                        let key = format!("{round}-{payer}-{number}");
                        let body = format!("{{\"order_id\":\"{key}\"}}");
                        match send(&address, "POST", "/payments", &key, &body) {
                            Some((201, answer)) => answers.lock().unwrap().insert(key, answer),
                            Some(other) => panic!("{other:?}"),
                            None => return,
                        };
                    }
                })
            })
            .collect();
        let enough = (round + 1) * 100;
        while answers.lock().unwrap().len() < enough {
            thread::yield_now();
        }
        api.child.kill().unwrap();
        api.child.wait().unwrap();
        payers.into_iter().for_each(|payer| payer.join().unwrap());
    }
    let api = Api::start(&["--ledger", ledger, "--late-every", "0"]);
    for (key, answer) in answers.lock().unwrap().iter() {
        let body = format!("{{\"order_id\":\"{key}\"}}");
        let (status, again) = api.send("POST", "/payments", key, &body).unwrap();
        assert_eq!((status, &again), (201, answer), "{key}");
    }
    let (_, csv) = api.send("GET", "/payments.csv", "-", "").unwrap();
    let mut records: HashMap<&str, u32> = HashMap::new();
    for order in csv
        .lines()
        .filter(|line| line.starts_with("PAY-"))
        .filter_map(|line| line.split(',').nth(1))
    {
        *records.entry(order).or_default() += 1;
    }
    assert!(records.len() >= answers.lock().unwrap().len());
    assert!(records.values().all(|count| *count == 1), "an order was recorded twice");
}

#[test]
fn sigterm_ends_the_api_in_order() {
    let mut api = Api::start(&[]);
    let pid = api.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(api.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_plan_from_a_file_is_in_force_and_its_seed_can_be_replaced() {
    let plan = folder().join("plan.json");
    std::fs::write(&plan, r#"{"seed":1,"rules":[{"process":"never","answer":{"status":503}}]}"#)
        .unwrap();
    let api = Api::start(&["--faults", plan.to_str().unwrap(), "--seed", "9", "--late-ms", "5"]);
    assert_eq!(api.send("POST", "/payments", "K", "order_id=1").unwrap().0, 503);
    let (_, faults) = api.send("GET", "/faults", "-", "").unwrap();
    assert!(
        faults.contains(r#""seed":9"#) && faults.contains(r#""late":{"every":2,"ms":5}"#),
        "{faults}"
    );
}

#[test]
fn bad_input_is_one_clear_line_and_exit_code_2() {
    let folder = folder();
    let plan = folder.join("plan.json");
    let plan_text = plan.to_str().unwrap();
    let missing = folder.join("missing.json");
    let nowhere = folder.join("no/ledger.jsonl");
    let cases: [(&str, Vec<&str>, &str); 8] = [
        ("{}", vec!["api", "--faults", missing.to_str().unwrap()], "No such file"),
        (
            r#"{"rules":[{"wire":"x"}]}"#,
            vec!["api", "--faults", plan_text],
            "plan.json: rules[0].wire: unknown variant `x`",
        ),
        (
            r#"{"connections":{"mode":"refuse"}}"#,
            vec!["api", "--faults", plan_text],
            "give connections.for_ms, or start with --control",
        ),
        (
            "{}",
            vec!["api", "--listen", "127.0.0.1:0", "--ledger", nowhere.to_str().unwrap()],
            "ledger.jsonl: No such file",
        ),
        (
            "{}",
            vec!["api", "--listen", "127.0.0.1:0", "--late-ms", "99999999"],
            "late.ms: 99999999, expected at most 3600000",
        ),
        ("{}", vec!["grade", "/nowhere/at/all"], "/nowhere/at/all is not a folder"),
        ("{}", vec!["grade", ".", "--only", "nave.sh"], "nave.sh is not a file that is checked"),
        (
            "{}",
            vec!["new", folder.to_str().unwrap()],
            "README.md is there already, so nothing was written",
        ),
    ];
    std::fs::write(folder.join("README.md"), "mine").unwrap();
    for (text, arguments, sentence) in cases {
        std::fs::write(&plan, text).unwrap();
        let output = samekey(&[&["lab"], arguments.as_slice()].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(
            error.contains(sentence) && error.trim().lines().count() == 1,
            "{arguments:?}: {error}"
        );
    }
    for arguments in [
        vec!["lab"],
        vec!["lab", "api", "--listen", "here"],
        vec!["lab", "new", "x", "--lang", "fr"],
    ] {
        assert_eq!(samekey(&arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn the_exercise_is_laid_out_in_each_language_and_graded_with_an_exit_code() {
    for (lang, word) in
        [("en", "charge a customer twice"), ("ja", "二重に請求"), ("ko", "두 번 청구")]
    {
        let folder = folder().join("idem");
        let laid = samekey(&["lab", "new", folder.to_str().unwrap(), "--lang", lang]);
        assert!(laid.status.success());
        assert!(std::fs::read_to_string(folder.join("README.md")).unwrap().contains(word));
        let graded =
            samekey(&["lab", "grade", folder.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        assert_eq!(graded.status.code(), Some(1));
        assert!(
            String::from_utf8(graded.stdout)
                .unwrap()
                .contains("FAIL  naive.sh       naive.sh is missing")
        );
    }
}

fn exercises() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../exercises").to_str().unwrap().to_owned()
}

#[test]
fn the_model_answers_pass_with_exit_code_0_as_a_table_and_as_json() {
    let scaled = ["--listen", "127.0.0.1:0", "--late-ms", "2000", "--format", "json"];
    let output = Command::new(env!("CARGO_BIN_EXE_samekey"))
        .args(["lab", "grade", &exercises()])
        .args(scaled)
        .env("PAY_TIMEOUT", "0.5")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains(r#""passed": true"#) && text.contains(r#""name": "report.md""#),
        "{text}"
    );
}

#[test]
fn what_flees_from_the_grader_by_every_trick_is_ended_too() {
    let folder = folder();
    let script = folder.join("backoff.sh");
    // No group, no session, no mark in the environment, and a parent that is gone before anybody looks.
    let text = "#!/usr/bin/env bash\n(env -i /usr/bin/setsid /bin/bash -c '/bin/sleep 86441 & /bin/sleep 86441 &' &)\necho 1 2 3\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let graded = samekey(&["lab", "grade", folder.to_str().unwrap(), "--only", "backoff.sh"]);
    assert_eq!(graded.status.code(), Some(1));
    // Other runs of this test may be at work; what this script started has its folder as working directory.
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let of_folder =
        |process: &PathBuf| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder);
    let commands = processes
        .filter(of_folder)
        .filter_map(|process| std::fs::read(process.join("cmdline")).ok());
    let left =
        commands.filter(|command| String::from_utf8_lossy(command).contains("86441")).count();
    assert_eq!(left, 0);
}
