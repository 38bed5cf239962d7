//! The ledger in a file.

use crate::support::{folder, get, pay, send};
use samekey_lab::faults::Plan;
use samekey_lab::{Kind, Lab, Options};
use std::fs;
use std::io::Write;
use std::path::Path;

async fn open(path: &Path) -> Result<Lab, samekey_lab::Error> {
    let plan = Plan::default();
    Lab::start(Options { plan, ledger: Some(path.to_owned()), ..Options::default() }).await
}

#[tokio::test]
async fn payments_keys_numbers_and_answers_outlive_the_process() {
    let path = folder("ledger").join("ledger.jsonl");
    let lab = open(&path).await.unwrap();
    let first = pay(&lab, "ORD-1", Some("K1")).await;
    pay(&lab, "ORD-1", None).await;
    send(&lab, "POST", "/payments/PAY-1/refund", Some("R1"), r#"{"amount":500}"#).await;
    let before = (lab.ledger().unwrap(), lab.requests().unwrap(), lab.counts());
    lab.stop().await;

    let lab = open(&path).await.unwrap();
    assert_eq!((lab.ledger().unwrap(), lab.requests().unwrap(), lab.counts()), before);
    let again = pay(&lab, "ORD-1", Some("K1")).await;
    assert!(again.replayed());
    assert_eq!(again.body(), first.body());
    assert_eq!(get(&lab, "/payments/by-reference/ORD-1").await.json()["count"], 2);
    assert_eq!(get(&lab, "/payments/PAY-1").await.json()["refunded"], 500);
    pay(&lab, "ORD-2", None).await;
    let requests = lab.requests().unwrap();
    let numbers: Vec<u64> = requests.iter().map(|request| request.arrived.number).collect();
    let ids: std::collections::BTreeSet<u64> =
        requests.iter().map(|request| request.arrived.request).collect();
    assert_eq!(
        numbers,
        [1, 2, 1, 3, 1, 2, 4],
        "two payments, a refund, a replay, two queries, a payment"
    );
    assert_eq!(ids.len(), requests.len());
    assert_eq!(lab.ledger().unwrap().last().unwrap().id, "PAY-4");
}

#[tokio::test]
async fn a_reset_outlives_the_process_too() {
    let path = folder("ledger").join("ledger.jsonl");
    let lab = open(&path).await.unwrap();
    pay(&lab, "ORD-1", Some("K1")).await;
    lab.reset().unwrap();
    pay(&lab, "ORD-2", None).await;
    lab.stop().await;
    let lab = open(&path).await.unwrap();
    assert_eq!(lab.payments().unwrap().len(), 1);
    assert_eq!(lab.payments().unwrap()[0].id, "PAY-1");
    assert!(!pay(&lab, "ORD-1", Some("K1")).await.replayed());
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off_and_any_other_broken_line_is_named() {
    let path = folder("ledger").join("ledger.jsonl");
    let lab = open(&path).await.unwrap();
    pay(&lab, "ORD-1", Some("K1")).await;
    lab.stop().await;
    let whole = fs::read(&path).unwrap();
    fs::File::options().append(true).open(&path).unwrap().write_all(br#"{"entry":"eff"#).unwrap();
    let lab = open(&path).await.unwrap();
    assert_eq!(lab.payments().unwrap().len(), 1);
    assert_eq!(fs::read(&path).unwrap(), whole);
    lab.stop().await;

    let mut broken = whole.clone();
    broken.extend_from_slice(b"rubbish\n");
    broken.extend_from_slice(&whole);
    fs::write(&path, &broken).unwrap();
    let error = open(&path).await.err().unwrap();
    assert_eq!(error.kind(), Kind::Ledger);
    assert!(error.to_string().contains("line 4 is no entry of a ledger"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), broken, "a file that is refused is not touched");
}

#[tokio::test]
async fn one_ledger_is_not_used_by_two() {
    let path = folder("ledger").join("ledger.jsonl");
    let _first = open(&path).await.unwrap();
    let error = open(&path).await.err().unwrap();
    assert!(error.to_string().contains("another process uses this ledger"), "{error}");
    let missing = open(Path::new("/nowhere/at/all/ledger.jsonl")).await.err().unwrap();
    assert_eq!(missing.kind(), Kind::Ledger);
}

#[tokio::test]
async fn memory_and_file_give_the_same_answers() {
    let in_file = open(&folder("ledger").join("ledger.jsonl")).await.unwrap();
    let in_memory = crate::support::lab("{}").await;
    let steps = [
        ("POST", "/payments", Some("K1"), r#"{"order_id":"A","amount":10,"capture":false}"#),
        ("POST", "/payments", Some("K1"), r#"{"order_id":"A","amount":10,"capture":false}"#),
        ("POST", "/payments", Some("K2"), r#"{"order_id":"A","amount":20}"#),
        ("POST", "/payments/PAY-1/capture", Some("K2"), "{}"),
        ("POST", "/payments/PAY-1/capture", Some("K3"), "{}"),
        ("POST", "/payments/PAY-1/refund", None, r#"{"amount":4}"#),
        ("POST", "/payments", None, "{"),
        ("GET", "/payments/by-reference/A", None, ""),
        ("GET", "/payments/by-key/K2", None, ""),
        ("GET", "/payments/PAY-1", None, ""),
    ];
    for (method, path, key, body) in steps {
        let mut answers = Vec::new();
        for lab in [&in_file, &in_memory] {
            let answer = send(lab, method, path, key, body).await;
            let text = String::from_utf8_lossy(answer.body()).into_owned();
            // The two run at different moments; only the times may differ.
            let timeless: Vec<String> =
                text.split('"').filter(|part| !part.starts_with("20")).map(str::to_owned).collect();
            answers.push((answer.status(), answer.replayed(), timeless));
        }
        assert_eq!(answers[0], answers[1], "{method} {path}");
    }
}

#[tokio::test]
async fn after_stop_the_ledger_is_free_at_once_whatever_was_held() {
    let path = folder("ledger").join("ledger.jsonl");
    let plan = r#"{"rules":[{"process":{"late":{}},"answer":{"early":true},"wire":"close"}]}"#;
    for _ in 0..5 {
        let lab = open(&path).await.unwrap();
        lab.set_plan(Plan::from_json("plan", plan.as_bytes()).unwrap()).unwrap();
        let idle = tokio::net::TcpStream::connect(lab.addr()).await.unwrap();
        assert!(pay(&lab, "ORD-1", None).await.bytes.is_empty());
        lab.stop().await;
        drop(idle);
    }
    assert_eq!(open(&path).await.unwrap().counts().arrived, 5);
}
