//! Every rule of the grader with a wrong answer that it catches, and every way in which a script can misbehave.

use crate::exercise::{options, solved};
use samekey_lab::grade::{Options, Report, grade};
use samekey_lab::{Kind, Lab, Options as LabOptions};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Puts a wrong script in the place of a right one.
fn replace(folder: &Path, script: &str, wrong: &str) {
    fs::copy(fixture(wrong), folder.join(script)).unwrap();
    fs::set_permissions(folder.join(script), fs::Permissions::from_mode(0o755)).unwrap();
}

async fn judge(wrong: &str, script: &str, only: &[&str]) -> (Report, PathBuf) {
    let folder = solved("wrong");
    replace(&folder, script, wrong);
    (grade(&folder, &options(only)).await.unwrap(), folder)
}

/// The wrong script fails, for the reason that it is there for.
async fn caught(script: &str, wrong: &str, reason: &str) {
    let (report, _) = judge(&format!("{script}/{wrong}"), script, &[script]).await;
    let check = &report.checks[0];
    assert!(!report.passed && !check.passed, "{wrong} passed: {}", check.reason);
    assert!(check.reason.contains(reason), "{wrong}: {}", check.reason);
    assert!(!check.reason.contains(['\n', '\u{1b}']), "{wrong}: {}", check.reason);
}

#[tokio::test]
async fn naive_must_pay_double_for_four_orders_by_what_is_recorded() {
    caught("naive.sh", "sends-nothing-but-boasts.sh", "it sent no payment request to the API")
        .await;
    caught("naive.sh", "names-no-order.sh", "none of its 4 requests named an order_id").await;
    caught("naive.sh", "three-orders.sh", "its requests name 3 orders; at least 4 are wanted")
        .await;
    caught("naive.sh", "no-retry.sh", "4 records for 4 orders: no double payment").await;
}

#[tokio::test]
async fn safe_must_pay_exactly_once_with_keys_that_belong_to_orders() {
    caught(
        "safe.sh",
        "key-only-at-first.sh",
        "7 records for 4 orders; not exactly once: ORD-2 (2 times), ORD-3 (2 times)",
    )
    .await;
    caught("safe.sh", "one-key-for-all.sh", "the same key came with two orders: always-the-same")
        .await;
    caught("safe.sh", "no-retry.sh", "no key came with two requests").await;
    caught("safe.sh", "three-orders.sh", "its requests name 3 orders").await;
}

#[tokio::test]
async fn newkey_must_send_keys_and_pay_double_all_the_same() {
    caught("newkey.sh", "no-key.sh", "7 of 7 requests came without a key").await;
    caught("newkey.sh", "same-key.sh", "4 records for 4 orders: no double payment").await;
    caught("newkey.sh", "three-orders.sh", "its requests name 3 orders").await;
}

#[tokio::test]
async fn backoff_must_grow_and_differ() {
    caught("backoff.sh", "three.sh", "it printed 3 intervals; at least 4 are wanted").await;
    caught("backoff.sh", "shrinks.sh", "each interval must be larger").await;
    caught("backoff.sh", "equal.sh", "each interval must be larger").await;
    caught("backoff.sh", "no-jitter.sh", "both runs printed the same intervals").await;
    caught("backoff.sh", "words.sh", "it printed 0 intervals").await;
}

#[tokio::test]
async fn retryable_must_know_each_status() {
    caught(
        "retryable.sh",
        "always-yes.sh",
        "400 should be no; 422 should be no; 401 should be no; 403 should be no; 404",
    )
    .await;
    caught(
        "retryable.sh",
        "always-no.sh",
        "500 should be yes; 502 should be yes; 503 should be yes; 504",
    )
    .await;
    caught("retryable.sh", "forgets-timeout.sh", "timeout should be yes").await;
    caught("retryable.sh", "chats.sh", "500 got neither yes nor no").await;
    for answer in ["yes", "no"] {
        let folder = solved("conflict");
        let script = fs::read_to_string(folder.join("retryable.sh")).unwrap();
        let with_409 =
            script.replace("case \"$1\" in", &format!("case \"$1\" in\n  409) echo {answer} ;;"));
        assert_ne!(script, with_409);
        fs::write(folder.join("retryable.sh"), with_409).unwrap();
        let report = grade(&folder, &options(&["retryable.sh"])).await.unwrap();
        assert!(report.passed, "409 is not graded: {}", report.table());
    }
}

#[tokio::test]
async fn each_missing_topic_of_a_text_is_named() {
    let wrong = [
        ("forensics.txt", "ORD-4: the client retried.", "ORD-2"),
        ("forensics.txt", "ORD-2: the client retried.", "ORD-4"),
        (
            "forensics.txt",
            "ORD-2 and ORD-4 were clicked twice.",
            "the cause: a retry of the client",
        ),
        (
            "naive.txt",
            "More records than wanted: a timeout, but it was processed.",
            "what was counted (how many records)",
        ),
        (
            "naive.txt",
            "7 records for 4 orders: it was processed, the answer was late.",
            "the timeout",
        ),
        (
            "naive.txt",
            "7 records for 4 orders, because of a timeout.",
            "why: it was processed, only the answer was lost",
        ),
        (
            "newkey.txt",
            "A key is for one business action.",
            "why it is of no use (a new key looks like a new request)",
        ),
        ("newkey.txt", "A new key looks like something new.", "the unit of a key"),
        (
            "report.md",
            "One key per order. Backoff: less load. Jitter: not all at once.",
            "what a timeout means",
        ),
        (
            "report.md",
            "A timeout: unknown. Backoff: less load. Jitter: not all at once.",
            "the unit of a key",
        ),
        (
            "report.md",
            "A timeout: unknown. A key per order. Jitter: not all at once.",
            "what backoff prevents",
        ),
        (
            "report.md",
            "A timeout: unknown. A key per order. Backoff: less load.",
            "what jitter prevents",
        ),
    ];
    for (name, text, topic) in wrong {
        let folder = solved("text");
        fs::write(folder.join(name), text).unwrap();
        let report = grade(&folder, &options(&[name])).await.unwrap();
        assert_eq!(report.checks[0].reason, format!("it does not speak of: {topic}"), "{text}");
    }
    let folder = solved("text");
    fs::write(folder.join("report.md"), "x".repeat(300_000)).unwrap();
    fs::remove_file(folder.join("naive.txt")).unwrap();
    fs::create_dir(folder.join("naive.txt")).unwrap();
    let report = grade(&folder, &options(&["report.md", "naive.txt"])).await.unwrap();
    let reasons: Vec<&str> = report.checks.iter().map(|check| check.reason.as_str()).collect();
    assert_eq!(reasons, ["naive.txt is not a file", "report.md is longer than 262144 bytes"]);
}

#[tokio::test]
async fn the_report_says_what_the_grader_cannot_judge_in_table_and_json() {
    let (report, _) = judge("naive.sh/no-retry.sh", "naive.sh", &["naive.sh", "report.md"]).await;
    let table = report.table();
    assert!(table.starts_with("FAIL  naive.sh       4 records for 4 orders"), "{table}");
    assert!(table.contains("\npass  report.md"), "{table}");
    assert!(
        table.contains("1 of 2 passed.") && table.contains("only looks for the words of a topic"),
        "{table}"
    );
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(json["passed"], false);
    assert_eq!(json["checks"][1]["name"], "report.md");
    assert!(json["note"].as_str().unwrap().contains("cannot tell"));
}

#[tokio::test]
async fn a_folder_or_a_file_that_is_none_is_refused() {
    let error = grade(Path::new("/nowhere/at/all"), &options(&[])).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all is not a folder"), "{error}");
    let error = grade(&solved("only"), &options(&["nave.sh"])).await.unwrap_err();
    assert!(error.to_string().contains("nave.sh is not a file that is checked"), "{error}");
}

/// How many processes of this test have this word in their command line. Other runs of the same test may be at work;
/// what a script started has its folder as working directory.
fn alive(folder: &Path, word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let of_folder =
        |process: &PathBuf| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder);
    let commands =
        processes.filter(of_folder).filter_map(|process| fs::read(process.join("cmdline")).ok());
    commands.filter(|command| String::from_utf8_lossy(command).contains(word)).count()
}

fn short(only: &[&str]) -> Options {
    Options { script_time: Duration::from_secs(2), ..options(only) }
}

#[tokio::test]
async fn a_script_that_hangs_is_stopped_and_the_other_checks_go_on() {
    let folder = solved("hangs");
    for script in ["naive.sh", "backoff.sh", "retryable.sh"] {
        replace(&folder, script, "ill/hangs.sh");
    }
    let began = Instant::now();
    let only = ["naive.sh", "backoff.sh", "retryable.sh", "forensics.txt"];
    let report = grade(&folder, &short(&only)).await.unwrap();
    for check in &report.checks[..3] {
        assert_eq!(check.reason, format!("{} did not end within 2 s and was stopped", check.name));
    }
    assert!(report.checks[3].passed);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(alive(&folder, "86411"), 0, "a sleeper was left behind");
}

#[tokio::test]
async fn what_a_script_leaves_behind_is_ended_however_it_fled() {
    let (report, folder) = judge("ill/forks.sh", "naive.sh", &["naive.sh", "backoff.sh"]).await;
    assert_eq!(report.checks[0].reason, "it sent no payment request to the API");
    assert!(report.checks[1].passed, "{}", report.table());
    for sleeper in ["86421", "86422", "86423", "86424"] {
        assert_eq!(alive(&folder, sleeper), 0, "sleeper {sleeper} was left behind");
    }
}

#[tokio::test]
async fn a_script_that_prints_megabytes_is_stopped() {
    for flood in ["ill/floods.sh", "ill/floods-errors.sh"] {
        let began = Instant::now();
        let (report, _) = judge(flood, "backoff.sh", &["backoff.sh", "report.md"]).await;
        assert_eq!(
            report.checks[0].reason,
            "backoff.sh printed more than 1048576 bytes and was stopped"
        );
        assert!(report.checks[1].passed && began.elapsed() < Duration::from_secs(20));
    }
}

#[tokio::test]
async fn a_script_that_multiplies_is_stopped() {
    let (report, folder) = judge("ill/multiplies.sh", "safe.sh", &["safe.sh"]).await;
    assert_eq!(
        report.checks[0].reason,
        "safe.sh had more than 200 processes at once and was stopped"
    );
    assert_eq!(alive(&folder, "86431"), 0);
}

#[tokio::test]
async fn a_script_that_is_missing_or_no_script_is_one_sentence() {
    let folder = solved("none");
    fs::remove_file(folder.join("naive.sh")).unwrap();
    fs::set_permissions(folder.join("safe.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(folder.join("newkey.sh")).unwrap();
    fs::create_dir(folder.join("newkey.sh")).unwrap();
    fs::write(folder.join("backoff.sh"), "#!/no/such/interpreter\n").unwrap();
    fs::remove_file(folder.join("retryable.sh")).unwrap();
    let pipe = folder.join("retryable.sh");
    let made = crate::support::run("mkfifo", &["-m", "755", pipe.to_str().unwrap()]).await;
    assert!(made.status.success());
    let report = grade(
        &folder,
        &options(&["naive.sh", "safe.sh", "newkey.sh", "backoff.sh", "retryable.sh"]),
    )
    .await;
    let report = report.unwrap();
    let reasons: Vec<&str> = report.checks.iter().map(|check| check.reason.as_str()).collect();
    assert_eq!(
        reasons[..3],
        [
            "naive.sh is missing",
            "safe.sh is not executable; say: chmod +x safe.sh",
            "newkey.sh is not a file"
        ]
    );
    assert!(reasons[3].starts_with("backoff.sh cannot be started: "), "{}", reasons[3]);
    assert_eq!(reasons[4], "retryable.sh is not a file");
}

#[tokio::test]
async fn a_script_without_a_first_line_is_bashs_and_its_complaint_is_shown_harmlessly() {
    let folder = solved("bare");
    let bare = "intervals=(1 2 4 8)\nfor i in \"${intervals[@]}\"; do echo $i.$RANDOM; done\n";
    fs::write(folder.join("backoff.sh"), bare).unwrap();
    assert!(grade(&folder, &options(&["backoff.sh"])).await.unwrap().passed);
    caught(
        "naive.sh",
        "fails.sh",
        "it sent no payment request to the API (it ended with exit code 7: [2Jno curl here)",
    )
    .await;
}

#[tokio::test]
async fn a_port_in_use_is_told_and_is_no_fault_of_the_scripts() {
    let taken = Lab::start(LabOptions::default()).await.unwrap();
    let of = |only: &[&str]| Options { listen: taken.addr(), ..options(only) };
    let folder = solved("port");
    for only in [&[][..], &["safe.sh"]] {
        let error = grade(&folder, &of(only)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::AddressInUse);
        let sentence = format!("{} is in use by another process; stop it", taken.addr());
        assert!(error.to_string().starts_with(&sentence), "{error}");
    }
    let report = grade(&folder, &of(&["backoff.sh", "naive.txt"])).await.unwrap();
    assert!(report.passed, "{}", report.table());
    assert_eq!(taken.counts().arrived, 0);
}
