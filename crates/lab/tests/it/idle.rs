//! Connections on which nothing happens. Time is virtual here: it jumps ahead whenever everybody waits.

use crate::support::{lab, request};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

async fn ends_after(bytes: &[u8]) -> (Vec<u8>, Duration) {
    let lab = lab(r#"{"rules":[{"wire":"hang"}]}"#).await;
    let mut stream = TcpStream::connect(lab.addr()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let began = Instant::now();
    let mut all = Vec::new();
    let read = timeout(Duration::from_secs(500), stream.read_to_end(&mut all)).await;
    assert!(read.is_err() || read.unwrap().is_ok());
    (all, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn t98_half_a_head_and_an_idle_connection_end_and_a_request_at_work_does_not() {
    for slow in [&b""[..], b"POST /payments HTTP/1.1\r\nHost: l"] {
        let (bytes, after) = ends_after(slow).await;
        assert!(bytes.is_empty());
        assert!((30..=90).contains(&after.as_secs()), "{after:?}");
    }
    let (_, after) = ends_after(&request("POST", "/payments", &[], "order_id=1")).await;
    assert_eq!(after.as_secs(), 500, "a request that hangs by plan is at work");
}
