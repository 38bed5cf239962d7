//! Answers of every shape, and status queries that are right, late, missing, failing or wrong.

use crate::support::{dechunked, get, lab, pay, send};
use std::io::Read;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn b67_chunked_and_gzip_answers_carry_the_true_body() {
    let lab = lab(r#"{"rules":[{"when":{"number":[2]},"answer":{"chunked":true}},
        {"when":{"number":[3]},"answer":{"gzip":true}},{"when":{"number":[4]},"answer":{"gzip":true,"chunked":true}}]}"#)
    .await;
    let plain = pay(&lab, "ORD-1", Some("K")).await;
    let chunked = pay(&lab, "ORD-1", Some("K")).await;
    assert_eq!(chunked.headers("transfer-encoding"), ["chunked"]);
    let (whole, chunks) = dechunked(chunked.body());
    assert_eq!((whole.as_slice(), chunks), (plain.body(), 3));
    for is_chunked in [false, true] {
        let zipped = pay(&lab, "ORD-1", Some("K")).await;
        assert_eq!(zipped.headers("content-encoding"), ["gzip"]);
        assert_eq!(zipped.headers("content-length").is_empty(), is_chunked);
        let bytes = if is_chunked { dechunked(zipped.body()).0 } else { zipped.body().to_vec() };
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
        assert_eq!(text, plain.body());
    }
}

#[tokio::test]
async fn binary_bodies_and_repeated_headers_arrive_as_planned() {
    let plan = r#"{"rules":[{"answer":{"status":200,"body":{"base64":"AAH/gAA="},"location":"/payments/PAY-1",
        "headers":[["Set-Cookie","a=1"],["Set-Cookie","b=2"],["X-Twice","1"],["X-Twice","1"],
                   ["Content-Type","image/png"],["Connection","X-Secret"],["X-Secret","s"],["WWW-Authenticate","Basic"]]}}]}"#;
    let lab = lab(plan).await;
    let answer = pay(&lab, "ORD-1", None).await;
    assert_eq!(answer.body(), [0, 1, 255, 128, 0]);
    assert_eq!(answer.headers("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(answer.headers("x-twice"), ["1", "1"]);
    assert_eq!(answer.headers("content-type"), ["image/png"]);
    assert_eq!(answer.headers("location"), ["/payments/pay-1"]);
    // Where the caller keeps the connection, the planned Connection header is the only one.
    let mut stream = tokio::net::TcpStream::connect(lab.addr()).await.unwrap();
    stream
        .write_all(b"POST /payments HTTP/1.1\r\nHost: lab\r\nContent-Length: 0\r\n\r\n")
        .await
        .unwrap();
    let mut buffer = [0; 4096];
    let read = stream.read(&mut buffer).await.unwrap();
    let head = String::from_utf8_lossy(&buffer[..read]).to_ascii_lowercase();
    assert!(
        head.contains("connection: x-secret\r\n") && head.contains("x-secret: s\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn t99_large_and_endless_bodies_come_from_the_seed() {
    let lab =
        lab(r#"{"seed":3,"rules":[{"when":{"number":[1]},"answer":{"body":{"seeded":3000000}}},
        {"answer":{"body":"endless"}}]}"#)
        .await;
    let large = pay(&lab, "ORD-1", None).await;
    assert_eq!(large.headers("content-length"), ["3000000"]);
    assert_eq!(large.body().len(), 3_000_000);
    let mut stream = tokio::net::TcpStream::connect(lab.addr()).await.unwrap();
    let bytes = crate::support::request("POST", "/payments", &[], "order_id=ORD-2");
    stream.write_all(&bytes).await.unwrap();
    let mut much = vec![0; 5_000_000];
    stream.read_exact(&mut much).await.unwrap();
}

#[tokio::test]
async fn statuses_without_a_body_have_none() {
    for status in [204, 304] {
        let lab = lab(&format!(
            r#"{{"rules":[{{"answer":{{"status":{status},"body":{{"text":"not sent"}}}}}}]}}"#
        ))
        .await;
        let answer = pay(&lab, "ORD-1", None).await;
        assert_eq!((answer.status(), answer.body()), (status, &b""[..]));
    }
}

#[tokio::test]
async fn t68_redirects_point_to_the_same_or_another_host() {
    let other = lab("{}").await;
    for location in ["/moved".to_owned(), other.url("/payments")] {
        let plan = format!(
            r#"{{"rules":[{{"process":"never","answer":{{"status":307,"location":"{location}"}}}}]}}"#
        );
        let lab = lab(&plan).await;
        let answer = pay(&lab, "ORD-1", None).await;
        assert_eq!((answer.status(), answer.headers("location")), (307, vec![location]));
        assert_eq!(lab.counts().payments, 0);
        // Whoever follows is found out: every path that is not management is logged.
        get(&lab, "/moved").await;
        assert_eq!(lab.requests().unwrap()[1].arrived.path, "/moved");
    }
    assert!(other.requests().unwrap().is_empty());
}

#[tokio::test]
async fn a_right_query_tells_by_key_by_reference_and_by_id() {
    let lab = lab("{}").await;
    for path in ["by-key/K%2F1", "by-reference/ORD%201", "PAY-1"] {
        assert_eq!(get(&lab, &format!("/payments/{path}")).await.status(), 404, "{path}");
    }
    let paid = pay(&lab, "ORD 1", Some("K/1")).await.json();
    assert_eq!(get(&lab, "/payments/by-key/K%2F1").await.json(), paid);
    pay(&lab, "ORD 1", None).await;
    let order = get(&lab, "/payments/by-reference/ORD%201").await.json();
    assert_eq!((order["status"].as_str(), order["count"].as_u64()), (Some("succeeded"), Some(2)));
    assert_eq!(
        (order["payment_id"].as_str(), order["amount"].as_u64()),
        (Some("PAY-1"), Some(1500))
    );
    assert_eq!(order["effects"].as_array().unwrap().len(), 2);
    assert_eq!(get(&lab, "/payments/PAY-1").await.json()["status"], "captured");
}

#[tokio::test]
async fn b35_a_query_is_late_missing_pending_failing_or_wrong() {
    let plan = r#"{"rules":[
        {"when":{"op":["query"],"number":[1]},"answer":{"late_ms":80}},
        {"when":{"op":["query"],"number":[2]},"answer":{"query":"missing"}},
        {"when":{"op":["query"],"number":[3]},"answer":{"query":"pending"}},
        {"when":{"op":["query"],"number":[4]},"answer":{"status":500}},
        {"when":{"op":["query"],"number":[5]},"wire":"reset"},
        {"when":{"op":["query"],"number":[6]},"answer":{"set":{"amount":1,"status":"refused"}}}]}"#;
    let lab = lab(plan).await;
    pay(&lab, "ORD-1", Some("K")).await;
    let began = Instant::now();
    let late = get(&lab, "/payments/by-key/K").await;
    assert!(late.status() == 200 && began.elapsed() >= Duration::from_millis(80));
    assert_eq!(get(&lab, "/payments/by-key/K").await.status(), 404);
    assert_eq!(get(&lab, "/payments/by-key/K").await.json()["status"], "pending");
    assert_eq!(get(&lab, "/payments/by-key/K").await.status(), 500);
    assert!(get(&lab, "/payments/by-key/K").await.end.is_err());
    let wrong = get(&lab, "/payments/by-reference/ORD-1").await.json();
    assert_eq!((wrong["amount"].as_u64(), wrong["status"].as_str()), (Some(1), Some("refused")));
    assert_eq!(wrong["order_id"], "ORD-1");
    let right = get(&lab, "/payments/by-key/K").await.json();
    assert_eq!(
        (right["amount"].as_u64(), right["status"].as_str()),
        (Some(1500), Some("succeeded"))
    );
}

#[tokio::test]
async fn lists_are_json_and_csv() {
    let lab = lab("{}").await;
    pay(&lab, "ORD-1", Some("K,\"1\"")).await;
    send(
        &lab,
        "POST",
        "/payments",
        None,
        r#"{"order_id":"=cmd()","amount":"10.50","currency":"EUR"}"#,
    )
    .await;
    send(&lab, "POST", "/payments/PAY-1/refund", None, "").await;
    let unchunked = |exchange: crate::support::Exchange| {
        String::from_utf8(dechunked(exchange.body()).0).unwrap()
    };
    let payments: serde_json::Value =
        serde_json::from_str(&unchunked(get(&lab, "/payments").await)).unwrap();
    assert_eq!(payments.as_array().unwrap().len(), 2);
    let ledger: serde_json::Value =
        serde_json::from_str(&unchunked(get(&lab, "/ledger").await)).unwrap();
    assert_eq!(ledger[2]["effect"], "refund");
    let log: serde_json::Value = serde_json::from_str(&unchunked(get(&lab, "/log").await)).unwrap();
    assert_eq!(
        (log.as_array().unwrap().len(), log[0]["idempotency_key"].as_str()),
        (3, Some("K,\"1\""))
    );
    let csv_text = unchunked(get(&lab, "/ledger.csv").await);
    let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
    let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(columns[..3], ["payment_id", "order_id", "created_at"]);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!((rows.len(), &rows[0][7], &rows[1][5]), (3, "K,\"1\"", "10.50"));
    assert_eq!(unchunked(get(&lab, "/payments.csv").await).lines().count(), 3);
    assert_eq!(unchunked(get(&lab, "/log.csv").await).lines().count(), 4);
}
