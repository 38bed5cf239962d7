//! Whether a request is processed: before or after the fault, twice, late, slowly, not at all.

use crate::support::{PATIENCE, exchange, get, lab, paid, pay, request, send};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn even_payments_are_recorded_at_once_and_answered_late() {
    let lab = lab(r#"{"late":{"every":2,"ms":60000}}"#).await;
    assert_eq!(pay(&lab, "ORD-1", None).await.status(), 201);
    let late = tokio::time::timeout(Duration::from_millis(200), pay(&lab, "ORD-2", None)).await;
    assert!(late.is_err(), "the answer came at once");
    assert_eq!(paid(&lab, "ORD-2"), 1);
    assert_eq!(
        pay(&lab, "ORD-2", None).await.status(),
        201,
        "the third request is an odd one again"
    );
    assert_eq!(paid(&lab, "ORD-2"), 2);
    assert!(lab.until(PATIENCE, |lab| lab.counts().answered == 3).await);
    let fates: Vec<_> =
        lab.requests().unwrap().iter().map(|request| request.answer.unwrap().word()).collect();
    assert_eq!(fates, ["sent", "caller_gone", "sent"]);
}

#[tokio::test]
async fn a_replay_counts_as_a_request_and_records_nothing() {
    let lab = lab(r#"{"late":{"every":2,"ms":150}}"#).await;
    let first = pay(&lab, "ORD-1", Some("K")).await;
    let began = std::time::Instant::now();
    let second = pay(&lab, "ORD-1", Some("K")).await;
    assert!(
        began.elapsed() >= Duration::from_millis(150),
        "the replay was number two and must be late"
    );
    assert_eq!((first.status(), first.replayed()), (201, false));
    assert_eq!((second.status(), second.replayed()), (201, true));
    assert_eq!(first.body(), second.body());
    assert_eq!(paid(&lab, "ORD-1"), 1);
}

#[tokio::test]
async fn a_reset_forgets_payments_keys_log_and_number() {
    let lab = lab(r#"{"late":{"every":2,"ms":60000}}"#).await;
    pay(&lab, "ORD-1", Some("K")).await;
    assert_eq!(send(&lab, "POST", "/reset", None, "").await.status(), 200);
    assert_eq!(get(&lab, "/payments").await.json(), serde_json::json!([]));
    let again = pay(&lab, "ORD-1", Some("K")).await;
    assert_eq!((again.status(), again.replayed()), (201, false), "number one again, and not late");
    assert_eq!(lab.requests().unwrap().len(), 1);
}

#[tokio::test]
async fn error_statuses_come_before_or_after_processing_with_any_retry_after() {
    for status in [500, 502, 503, 504, 429] {
        for (process, effects) in [("never", 0), ("once", 1)] {
            for retry_after in ["7", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "soon", "999999", ""] {
                let plan = format!(
                    r#"{{"rules":[{{"times":1,"process":"{process}","answer":{{"status":{status},"retry_after":"{retry_after}"}}}}]}}"#
                );
                let lab = lab(&plan).await;
                let answer = pay(&lab, "ORD-1", Some("K")).await;
                assert_eq!(answer.status(), status);
                assert_eq!(answer.headers("retry-after"), [retry_after.to_ascii_lowercase()]);
                assert_eq!(paid(&lab, "ORD-1"), effects);
                let retry = pay(&lab, "ORD-1", Some("K")).await;
                assert_eq!((retry.status(), retry.replayed()), (201, process == "once"));
                assert_eq!(paid(&lab, "ORD-1"), 1);
            }
        }
    }
}

#[tokio::test]
async fn b34_one_plan_plays_429_then_503_then_a_lost_answer() {
    let plan = r#"{"rules":[
        {"when":{"number":[1]},"process":"never","answer":{"status":429}},
        {"when":{"number":[2]},"process":"never","answer":{"status":503}},
        {"when":{"number":[3]},"wire":"close"}]}"#;
    let lab = lab(plan).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(pay(&lab, "ORD-1", Some("K")).await.status());
    }
    assert_eq!(statuses, [429, 503, 0, 201]);
    assert_eq!(paid(&lab, "ORD-1"), 1);
    let rules: Vec<_> =
        lab.requests().unwrap().into_iter().map(|request| request.arrived.rule).collect();
    let names = ["rule 1", "rule 2", "rule 3"].map(|name| Some(name.to_owned()));
    assert_eq!(rules, [&names[..], &[None]].concat());
}

#[tokio::test]
async fn a_duplicate_delivery_is_two_arrivals_and_as_many_effects_as_keys_allow() {
    let lab = lab(r#"{"rules":[{"process":"twice","times":2}]}"#).await;
    let keyed = pay(&lab, "ORD-1", Some("K")).await;
    assert!(keyed.replayed(), "the caller sees the second delivery's answer");
    assert_eq!((paid(&lab, "ORD-1"), lab.counts().arrived), (1, 2));
    pay(&lab, "ORD-2", None).await;
    assert_eq!((paid(&lab, "ORD-2"), lab.counts().arrived), (2, 4));
}

#[tokio::test]
async fn t63_a_request_delivered_late_is_not_found_until_it_is_released() {
    let plan =
        r#"{"rules":[{"times":1,"process":{"late":{}},"answer":{"early":true},"wire":"close"}]}"#;
    let lab = lab(plan).await;
    assert!(pay(&lab, "ORD-1", Some("K")).await.bytes.is_empty());
    assert_eq!(get(&lab, "/payments/by-key/K").await.status(), 404);
    assert_eq!(get(&lab, "/payments/by-reference/ORD-1").await.status(), 404);
    let overtaking = pay(&lab, "ORD-1", Some("K")).await;
    assert_eq!((overtaking.status(), overtaking.replayed()), (201, false));
    lab.release();
    // The late one meets the key of the one that overtook it; nothing is recorded, so nothing can be waited for but
    // a later request.
    pay(&lab, "ORD-2", None).await;
    assert_eq!(paid(&lab, "ORD-1"), 1);
}

#[tokio::test]
async fn a_late_request_without_a_key_is_recorded_after_its_caller_is_gone() {
    let lab = lab(r#"{"rules":[{"process":{"late":{}}}]}"#).await;
    let mut stream = tokio::net::TcpStream::connect(lab.addr()).await.unwrap();
    stream.write_all(&request("POST", "/payments", &[], r#"{"order_id":"ORD-1"}"#)).await.unwrap();
    assert!(lab.until(PATIENCE, |lab| lab.counts().arrived == 1).await);
    drop(stream);
    assert!(lab.until(PATIENCE, |lab| lab.counts().answered == 1).await);
    assert_eq!(paid(&lab, "ORD-1"), 0);
    lab.release();
    assert!(
        lab.until(PATIENCE, |lab| lab.counts().payments == 1).await,
        "the request got lost with its caller"
    );
}

#[tokio::test]
async fn what_was_held_before_a_reset_is_not_recorded_after_it() {
    let lab = lab(r#"{"rules":[{"times":1,"process":{"late":{}}}]}"#).await;
    let held = pay(&lab, "ORD-1", None);
    let then = async {
        assert!(lab.until(PATIENCE, |lab| lab.counts().arrived == 1).await);
        lab.reset().unwrap();
        lab.release();
    };
    let (answer, ()) = tokio::join!(held, then);
    assert_eq!(answer.status(), 503);
    assert!(lab.ledger().unwrap().is_empty());
}

#[tokio::test]
async fn b55_a_slow_command_makes_its_key_busy_and_its_query_pending() {
    let lab = lab(r#"{"rules":[{"times":1,"process":{"slow":{}}}]}"#).await;
    let slow = pay(&lab, "ORD-1", Some("K"));
    let meanwhile = async {
        assert!(lab.until(PATIENCE, |lab| lab.counts().arrived == 1).await);
        let busy = pay(&lab, "ORD-1", Some("K")).await;
        assert_eq!((busy.status(), busy.headers("retry-after")), (409, vec!["1".to_owned()]));
        assert_eq!(busy.json()["error"], "in_progress");
        assert_eq!(get(&lab, "/payments/by-key/K").await.json()["status"], "pending");
        assert_eq!(pay(&lab, "ORD-2", Some("L")).await.status(), 201, "other keys are not busy");
        lab.release();
    };
    let (first, ()) = tokio::join!(slow, meanwhile);
    let retry = pay(&lab, "ORD-1", Some("K")).await;
    assert_eq!((first.status(), retry.status(), retry.replayed()), (201, 201, true));
    assert_eq!(first.body(), retry.body());
    assert_eq!(paid(&lab, "ORD-1"), 1);
}

#[tokio::test]
async fn an_answer_can_be_held_after_processing() {
    let lab = lab(r#"{"rules":[{"answer":{"held":true}}]}"#).await;
    let held = pay(&lab, "ORD-1", None);
    let then = async {
        assert!(lab.until(PATIENCE, |lab| lab.counts().payments == 1).await);
        assert_eq!(lab.counts().answered, 0);
        assert_eq!(send(&lab, "POST", "/release", None, "").await.status(), 200);
    };
    let (answer, ()) = tokio::join!(held, then);
    assert_eq!(answer.status(), 201);
}

#[tokio::test]
async fn t79_a_key_lives_as_long_as_the_plan_says() {
    let lab = lab(r#"{"keys":{"life_ms":1}}"#).await;
    pay(&lab, "ORD-1", Some("K")).await;
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(3) {
        tokio::task::yield_now().await;
    }
    assert!(!pay(&lab, "ORD-1", Some("K")).await.replayed());
    assert_eq!(paid(&lab, "ORD-1"), 2);
}

#[tokio::test]
async fn without_deduplication_a_key_is_only_logged() {
    let lab = lab(r#"{"keys":{"dedup":false}}"#).await;
    for _ in 0..2 {
        assert!(!pay(&lab, "ORD-1", Some("K")).await.replayed());
    }
    assert_eq!(paid(&lab, "ORD-1"), 2);
    assert!(
        lab.requests().unwrap().iter().all(|request| request.arrived.key.as_deref() == Some("K"))
    );
}

#[tokio::test]
async fn b91_a_key_with_another_body_is_replayed_or_refused_and_another_path_always_refused() {
    for (policy, status) in [("replay", 201), ("reject", 422)] {
        let lab = lab(&format!(r#"{{"keys":{{"on_mismatch":"{policy}"}}}}"#)).await;
        pay(&lab, "ORD-1", Some("K")).await;
        let other =
            send(&lab, "POST", "/payments", Some("K"), r#"{"order_id":"ORD-1","amount":20}"#).await;
        assert_eq!(other.status(), status);
        let path =
            send(&lab, "POST", "/charges", Some("K"), r#"{"order_id":"ORD-1","amount":1500}"#)
                .await;
        assert_eq!((path.status(), path.json()["error"].as_str()), (422, Some("key_reused")));
        assert_eq!(lab.counts().payments, 1);
    }
}

#[tokio::test]
async fn b79_a_duplicate_window_refuses_the_same_order_and_amount_and_names_the_original() {
    let lab = lab(r#"{"duplicate_window_ms":30000,"rules":[{"times":1,"wire":"close"}]}"#).await;
    pay(&lab, "ORD-1", Some("K1")).await;
    let retry = pay(&lab, "ORD-1", Some("K2")).await;
    assert_eq!((retry.status(), retry.json()["error"].as_str()), (409, Some("duplicate")));
    assert_eq!(retry.json()["payment_id"], "PAY-1");
    let other =
        send(&lab, "POST", "/payments", Some("K3"), r#"{"order_id":"ORD-1","amount":"1500.01"}"#)
            .await;
    assert_eq!(other.status(), 201);
    assert!(pay(&lab, "ORD-1", Some("K1")).await.replayed(), "a known key is no duplicate");
}

#[tokio::test]
async fn b17_a_declined_payment_stays_declined_under_its_key_and_succeeds_under_a_new_one_once_repaired()
 {
    let lab =
        lab(r#"{"rules":[{"when":{"fields":{"method":"card"}},"process":"declined"}]}"#).await;
    let card = r#"{"order_id":"ORD-1","method":"card"}"#;
    let first = send(&lab, "POST", "/payments", Some("K1"), card).await;
    assert_eq!((first.status(), first.json()["error"].as_str()), (402, Some("declined")));
    assert_eq!(get(&lab, "/payments/by-key/K1").await.json()["status"], "declined");
    assert_eq!(send(&lab, "POST", "/repair", None, r#"{"order_id":"ORD-1"}"#).await.status(), 200);
    let same = send(&lab, "POST", "/payments", Some("K1"), card).await;
    assert_eq!((same.status(), same.replayed()), (402, true));
    assert_eq!(same.body(), first.body());
    let new = send(&lab, "POST", "/payments", Some("K2"), card).await;
    assert_eq!(new.status(), 201);
    assert_eq!(paid(&lab, "ORD-1"), 1);
}

#[tokio::test]
async fn seeded_runs_are_equal_and_other_seeds_are_not() {
    let plan = |seed: u32| {
        format!(
            r#"{{"seed":{seed},"rules":[{{"name":"lost","when":{{"share":0.3}},"wire":"close"}},
                {{"name":"early","when":{{"share":0.3}},"process":"never","answer":{{"status":503}}}},
                {{"name":"made up","when":{{"share":0.3}},"answer":{{"body":{{"seeded":64}}}}}}]}}"#
        )
    };
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let lab = lab(&plan(seed)).await;
        let mut run = Vec::new();
        for number in 0..60 {
            let answer = pay(&lab, &format!("ORD-{number}"), None).await;
            let made_up = Some(answer.body().to_vec())
                .filter(|_| answer.headers("content-type") == ["application/octet-stream"]);
            run.push((answer.status(), made_up));
        }
        let rules: Vec<_> =
            lab.requests().unwrap().into_iter().map(|request| request.arrived.rule).collect();
        runs.push((run, rules));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].1, runs[2].1);
    let names: std::collections::BTreeSet<_> = runs[0].1.iter().flatten().collect();
    assert_eq!(names.len(), 3, "a run that met not every fault shows little");
}

#[tokio::test]
async fn two_hundred_payments_through_an_api_that_loses_every_second_answer_are_two_hundred() {
    let lab = lab(r#"{"late":{"every":2,"ms":60000}}"#).await;
    let client_timeout = Duration::from_millis(20);
    for number in 0..200 {
        let (order, key) = (format!("ORD-{number}"), format!("K-{number}"));
        let mut attempts = 0;
        loop {
            attempts += 1;
            assert!(attempts < 20, "order {order} never got an answer");
            match tokio::time::timeout(client_timeout, pay(&lab, &order, Some(&key))).await {
                Ok(answer) if answer.status() == 201 => break,
                Ok(answer) => panic!("{answer:?}"),
                Err(_) => {}
            }
        }
    }
    assert_eq!(lab.counts().payments, 200);
    assert!(lab.counts().arrived > 250);
}

#[tokio::test]
async fn rubbish_gets_a_clear_answer_and_the_api_lives() {
    let lab = lab("{}").await;
    let big = "x".repeat(17 * 1024 * 1024);
    let wrong: [(Vec<u8>, u16); 9] = [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n".to_vec(), 400),
        (b"GET /payments HTTP/1.1\r\nHost lab\r\n\r\n".to_vec(), 400),
        (b"POST /payments HTTP/1.1\r\nHost: lab\r\nContent-Length: +5\r\n\r\nhello".to_vec(), 400),
        (request("POST", "/payments", &[], "{"), 400),
        (request("POST", "/payments", &[], ""), 400),
        (request("POST", "/payments", &[("Content-Encoding", "gzip")], "abc"), 400),
        (request("DELETE", "/nowhere", &[], ""), 404),
        (request("POST", "/payments/PAY-9/refund", &[], "{}"), 404),
        (request("POST", "/faults", &[], r#"{"rules":[{"wire":"explode"}]}"#), 400),
    ];
    for (bytes, status) in wrong {
        let answer = exchange(lab.addr(), &bytes).await;
        assert_eq!(answer.status(), status, "{}", String::from_utf8_lossy(&bytes));
    }
    let mut stream = tokio::net::TcpStream::connect(lab.addr()).await.unwrap();
    let too_big = request("POST", "/payments", &[], &big);
    // The API may close before it has read everything; then writing fails, which is as good as the answer.
    if stream.write_all(&too_big).await.is_ok() {
        let answer = crate::support::read_to_end(&mut stream).await;
        assert!(answer.status() == 413 || answer.end.is_err(), "{answer:?}");
    }
    let plan = send(&lab, "POST", "/faults", None, r#"{"rules":[{"wire":"explode"}]}"#).await;
    assert!(
        plan.json()["detail"]
            .as_str()
            .unwrap()
            .contains("rules[0].wire: unknown variant `explode`")
    );
    assert_eq!(lab.counts().payments, 0);
    assert_eq!(pay(&lab, "ORD-1", None).await.status(), 201);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_logged_and_never_processed() {
    let lab = lab("{}").await;
    let mut stream = tokio::net::TcpStream::connect(lab.addr()).await.unwrap();
    let whole =
        request("POST", "/payments", &[("Idempotency-Key", "K")], r#"{"order_id":"ORD-1"}"#);
    stream.write_all(&whole[..whole.len() - 3]).await.unwrap();
    drop(stream);
    assert!(lab.until(PATIENCE, |lab| lab.counts().arrived == 1).await);
    let requests = lab.requests().unwrap();
    assert!(!requests[0].arrived.whole);
    assert_eq!(lab.counts().payments, 0);
    assert!(!pay(&lab, "ORD-1", Some("K")).await.replayed());
}

#[tokio::test]
async fn the_log_keeps_what_tests_compare_and_hides_credentials() {
    let lab = lab("{}").await;
    let headers =
        [("Authorization", "Bearer secret-4711"), ("X-Trace", "t1"), ("Idempotency-Key", "K")];
    let bytes = request("POST", "/payments", &headers, "order_id=ORD-1");
    exchange(lab.addr(), &bytes).await;
    exchange(lab.addr(), &bytes).await;
    let requests = lab.requests().unwrap();
    assert_eq!(requests[0].arrived.body_sha256, requests[1].arrived.body_sha256);
    assert_eq!(requests[0].header("authorization"), requests[1].header("authorization"));
    assert_eq!(requests[0].header("x-trace"), Some("t1"));
    let log = String::from_utf8(get(&lab, "/log").await.bytes).unwrap();
    assert!(log.contains("\"authorization\",\"sha256:") && !log.contains("secret-4711"), "{log}");
}
