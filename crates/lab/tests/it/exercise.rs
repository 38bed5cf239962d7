//! The exercise as a learner meets it, in three languages, with the model answers.

use crate::support::folder;
use samekey_lab::exercise::{Language, lay_out};
use samekey_lab::grade::{Options, Report, grade};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the model answers lie.
pub fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../exercises")
}

/// Grading at a smaller scale of time: the model's client waits 0.5 s, even answers come 2 s late.
pub fn options(only: &[&str]) -> Options {
    let path = std::env::var("PATH").unwrap();
    Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        late_ms: 2_000,
        script_time: Duration::from_secs(30),
        only: only.iter().map(|name| (*name).to_owned()).collect(),
        environment: vec![("PATH".to_owned(), path), ("PAY_TIMEOUT".to_owned(), "0.5".to_owned())],
        owns_all_descendants: false,
    }
}

/// A folder with the model answers in it.
pub fn solved(name: &str) -> PathBuf {
    let folder = folder(name);
    copy_files(&model(), &folder);
    folder
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn assert_all_passed(report: &Report) {
    assert!(report.passed && report.checks.len() == 9, "{}", report.table());
}

#[tokio::test]
async fn the_model_answers_pass() {
    assert_all_passed(&grade(&model(), &options(&[])).await.unwrap());
}

#[tokio::test]
async fn the_exercise_is_laid_out_solved_and_graded_in_every_language() {
    for (code, language) in Language::ALL {
        let folder = folder(code).join("made/on/the/way");
        let written = lay_out(&folder, language).unwrap();
        assert_eq!(written.len(), 2);
        let empty = grade(&folder, &options(&[])).await.unwrap();
        assert!(!empty.passed);
        let missing = |check: &samekey_lab::grade::Check| {
            check.reason == format!("{} is missing", check.name)
        };
        assert!(empty.checks.iter().all(missing), "{}", empty.table());
        for script in ["naive.sh", "safe.sh", "newkey.sh", "backoff.sh", "retryable.sh"] {
            fs::copy(model().join(script), folder.join(script)).unwrap();
        }
        let texts = if code == "en" { model() } else { model().join(code) };
        for text in ["naive.txt", "newkey.txt", "forensics.txt", "report.md"] {
            fs::copy(texts.join(text), folder.join(text)).unwrap();
        }
        assert_all_passed(&grade(&folder, &options(&[])).await.unwrap());
    }
}

#[test]
fn the_task_names_every_file_and_the_commands_in_every_language() {
    for (code, language) in Language::ALL {
        let folder = folder(code);
        lay_out(&folder, language).unwrap();
        let task = fs::read_to_string(folder.join("README.md")).unwrap();
        let named = [
            "naive.sh",
            "naive.txt",
            "safe.sh",
            "newkey.sh",
            "newkey.txt",
            "backoff.sh",
            "retryable.sh",
            "payments.csv",
            "forensics.txt",
            "report.md",
            "samekey lab api",
            "samekey lab grade .",
            "curl -s http://127.0.0.1:8021/health",
            "Idempotency-Key: $K",
            "--max-time 2",
            "Retry-After",
            "409",
        ];
        for name in named {
            assert!(task.contains(name), "{code}: {name}");
        }
    }
}

#[test]
fn the_records_are_those_of_the_article() {
    let folder = folder("records");
    lay_out(&folder, Language::English).unwrap();
    let text = fs::read_to_string(folder.join("payments.csv")).unwrap();
    let mut wanted = String::from("payment_id,order_id,created_at\n");
    let rows = [
        ("ORD-1", "10:00:00"),
        ("ORD-2", "10:00:05"),
        ("ORD-2", "10:00:06"),
        ("ORD-2", "10:00:08"),
        ("ORD-2", "10:00:12"),
        ("ORD-3", "10:01:00"),
        ("ORD-4", "10:02:00"),
        ("ORD-4", "10:02:01"),
        ("ORD-4", "10:02:03"),
        ("ORD-4", "10:02:07"),
    ];
    for (number, (order, time)) in rows.iter().enumerate() {
        wanted.push_str(&format!("PAY-{},{order},2026-09-07T{time}Z\n", number + 1));
    }
    assert_eq!(text, wanted);
    assert_eq!(fs::read_to_string(model().join("payments.csv")).unwrap(), wanted);
}

#[test]
fn nothing_that_is_there_is_overwritten() {
    let folder = folder("taken");
    fs::write(folder.join("payments.csv"), "mine").unwrap();
    let error = lay_out(&folder, Language::Korean).unwrap_err();
    assert!(
        error.to_string().contains("payments.csv is there already, so nothing was written"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(folder.join("payments.csv")).unwrap(), "mine");
    assert!(!folder.join("README.md").exists());
    let file = folder.join("payments.csv");
    assert!(lay_out(&file, Language::English).is_err(), "a file is no folder");
}
