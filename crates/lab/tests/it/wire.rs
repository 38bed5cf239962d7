//! What happens to an answer on its way, seen on a real socket.

use crate::support::{PATIENCE, exchange, get, lab, paid, pay, request};
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn an_answer_is_lost_by_close_or_reset_before_or_after_processing() {
    for (process, effects) in [("never", 0), ("once", 1)] {
        for (wire, end) in [("close", Ok(())), ("reset", Err(ErrorKind::ConnectionReset))] {
            let lab =
                lab(&format!(r#"{{"rules":[{{"process":"{process}","wire":"{wire}"}}]}}"#)).await;
            let lost = pay(&lab, "ORD-1", None).await;
            assert!(lost.bytes.is_empty(), "{lost:?}");
            assert_eq!(lost.end, end, "{process} {wire}");
            assert_eq!(paid(&lab, "ORD-1"), effects);
            assert_eq!(lab.requests().unwrap()[0].answer.unwrap().word(), "lost");
        }
    }
}

#[tokio::test]
async fn b07_an_answer_that_never_comes_leaves_the_connection_open_and_the_payment_made() {
    let lab = lab(r#"{"rules":[{"wire":"hang"}]}"#).await;
    let answer = timeout(Duration::from_millis(200), pay(&lab, "ORD-1", None)).await;
    assert!(answer.is_err());
    assert_eq!(paid(&lab, "ORD-1"), 1);
}

#[tokio::test]
async fn an_answer_is_cut_at_every_byte() {
    let lab = lab("{}").await;
    let whole = pay(&lab, "ORD-1", Some("K")).await.bytes.len() as u64;
    assert!(whole > 200);
    for after_bytes in (0..=whole).step_by(7).chain([whole - 1, whole]) {
        for (then, end) in [("close", Ok(())), ("reset", Err(ErrorKind::ConnectionReset))] {
            let plan = format!(
                r#"{{"rules":[{{"wire":{{"cut":{{"after_bytes":{after_bytes},"then":"{then}"}}}}}}]}}"#
            );
            let plan = samekey_lab::faults::Plan::from_json("plan", plan.as_bytes()).unwrap();
            lab.set_plan(plan).unwrap();
            let cut = pay(&lab, &format!("ORD-{after_bytes}-{then}"), None).await;
            // The answer's length differs a little from the first one's: only what lies below it is a cut.
            if after_bytes < whole - 30 && then == "close" {
                assert_eq!(cut.bytes.len() as u64, after_bytes);
                assert_eq!(cut.end, end);
            }
            if after_bytes < whole - 30 && then == "reset" {
                assert!(
                    cut.bytes.len() as u64 <= after_bytes,
                    "a reset may overtake bytes, never add some"
                );
                assert_eq!(cut.end, end);
            }
        }
    }
}

#[tokio::test]
async fn head_and_body_trickle() {
    for (wire, is_head) in [("slow_head", true), ("slow_body", false)] {
        let lab =
            lab(&format!(r#"{{"rules":[{{"wire":{{"{wire}":{{"bytes":10,"every_ms":5}}}}}}]}}"#))
                .await;
        let mut stream = TcpStream::connect(lab.addr()).await.unwrap();
        let bytes = request("POST", "/payments", &[], r#"{"order_id":"ORD-1"}"#);
        let began = Instant::now();
        stream.write_all(&bytes).await.unwrap();
        let mut all = Vec::new();
        let mut head_after = None;
        let mut buffer = [0; 4096];
        loop {
            let read = timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap().unwrap();
            if read == 0 {
                break;
            }
            all.extend_from_slice(&buffer[..read]);
            if head_after.is_none() && all.windows(4).any(|window| window == b"\r\n\r\n") {
                head_after = Some(began.elapsed());
            }
        }
        let whole_after = began.elapsed();
        assert!(all.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&all));
        assert!(all.ends_with(b"}"));
        let head_bytes = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let (slow_bytes, slow_time) = if is_head {
            (head_bytes, head_after.unwrap())
        } else {
            (all.len() - head_bytes - 4, whole_after - head_after.unwrap())
        };
        let least = Duration::from_millis(5 * (slow_bytes as u64 / 10 - 1));
        assert!(
            slow_time >= least.mul_f32(0.8),
            "{wire}: {slow_bytes} bytes in {slow_time:?}, expected {least:?}"
        );
    }
}

#[tokio::test]
async fn t67_an_idle_connection_dies_at_its_next_request_which_is_not_processed() {
    let lab = lab(r#"{"rules":[{"wire":"kill_idle"}]}"#).await;
    let keep = |order: &str| {
        let body = format!("{{\"order_id\":\"{order}\"}}");
        format!(
            "POST /payments HTTP/1.1\r\nHost: lab\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let mut stream = TcpStream::connect(lab.addr()).await.unwrap();
    stream.write_all(keep("ORD-1").as_bytes()).await.unwrap();
    let mut buffer = [0; 4096];
    let read = timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap().unwrap();
    assert!(buffer[..read].starts_with(b"HTTP/1.1 201"));
    stream.write_all(keep("ORD-2").as_bytes()).await.unwrap();
    let died = timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap();
    assert_eq!(died.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!((paid(&lab, "ORD-1"), paid(&lab, "ORD-2")), (1, 0));
    assert_eq!(lab.counts().arrived, 2);
}

#[tokio::test]
async fn other_bytes_come_in_place_of_the_answer() {
    let texts = ["HTTP/1.1 103 Early Hints\\r\\nLink: </a>\\r\\n\\r\\n", "this is not HTTP", ""];
    for text in texts {
        let lab = lab(&format!(r#"{{"rules":[{{"wire":{{"raw":{{"text":"{text}"}}}}}}]}}"#)).await;
        let answer = pay(&lab, "ORD-1", None).await;
        let wanted = text.replace("\\r", "\r").replace("\\n", "\n");
        assert_eq!(String::from_utf8_lossy(&answer.bytes), wanted);
        assert_eq!((answer.end, paid(&lab, "ORD-1")), (Ok(()), 1));
    }
}

#[tokio::test]
async fn what_was_cut_does_not_reach_a_later_answer_on_the_same_connection() {
    let plan = r#"{"rules":[{"when":{"number":[1]},"wire":{"cut":{"after_bytes":100000}}}]}"#;
    let lab = lab(plan).await;
    let body = r#"{"order_id":"ORD-1"}"#;
    let keep = format!(
        "POST /payments HTTP/1.1\r\nHost: lab\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(lab.addr()).await.unwrap();
    let mut buffer = [0; 4096];
    for _ in 0..500 {
        stream.write_all(keep.as_bytes()).await.unwrap();
        let read = timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap().unwrap();
        assert!(read > 0, "the connection was cut by a plan that no longer holds");
    }
}

#[tokio::test]
async fn management_is_never_touched_by_a_fault() {
    let lab = lab(r#"{"late":{"every":1,"ms":60000},"rules":[{"when":{"op":["other","query","pay"]},"wire":"close"}]}"#).await;
    pay(&lab, "ORD-1", None).await;
    for path in [
        "/health",
        "/payments",
        "/payments.csv",
        "/ledger",
        "/ledger.csv",
        "/log",
        "/log.csv",
        "/counts",
        "/faults",
    ] {
        assert_eq!(get(&lab, path).await.status(), 200, "{path}");
    }
    let stray = exchange(lab.addr(), &request("GET", "/nowhere", &[], "")).await;
    assert!(stray.bytes.is_empty());
}
