//! What HTTP/2 itself says about a request, and what it does not.

use crate::support::{ATTEMPT, QUICK, attempt, counterparty, lab, retrying};
use samekey_client::address::Reach;
use samekey_client::retrying::{End, RetryingClient, RetryingOptions};
use samekey_client::transport::Protocol;
use samekey_core::delivery::Reason;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn over_http2(addr: SocketAddr) -> samekey_client::HttpCounterparty {
    let config = "protocol = \"http2\"\nallow_networks = [\"127.0.0.0/8\"]";
    counterparty(&format!("http://{addr}"), config)
}

fn retrying_over_http2() -> RetryingClient {
    let protocol = Protocol::Http2;
    RetryingClient::new(RetryingOptions {
        limits: QUICK,
        protocol,
        reach: Reach::PUBLIC.and_loopback(),
        ..RetryingOptions::default()
    })
    .unwrap()
}

#[tokio::test]
async fn http2_is_spoken_and_statuses_mean_the_same() {
    for (status, expected) in [
        (201, "done"),
        (202, "pending"),
        (302, "unknown: answer-unclear"),
        (402, "refused"),
        (421, "not processed"),
        (429, "rate limited"),
        (503, "unknown: server-error"),
    ] {
        let lab = lab(&format!(r#"{{"rules":[{{"answer":{{"status":{status}}}}}]}}"#)).await;
        assert_eq!(attempt(&over_http2(lab.addr()), ATTEMPT).await, expected, "{status}");
    }
    let lab = lab(r#"{"rules":[{"wire":"hang"}]}"#).await;
    let came_to = attempt(&over_http2(lab.addr()), Duration::from_millis(300)).await;
    assert_eq!(came_to, "unknown: timed-out");
}

#[tokio::test]
async fn b59_what_was_not_processed_is_sent_again_and_the_rest_is_not() {
    for (wire, came_to, sends, payments) in [
        (r#""refuse_stream""#, "not processed", 2, 1),
        (r#"{"goaway":"below"}"#, "not processed", 2, 1),
        (r#"{"goaway":"above"}"#, "unknown: connection-lost", 1, 1),
        (r#""cancel_stream""#, "unknown: connection-lost", 1, 1),
    ] {
        let plan = format!(r#"{{"rules":[{{"when":{{"number":[1]}},"wire":{wire}}}]}}"#);
        let lab = lab(&plan).await;
        assert_eq!(attempt(&over_http2(lab.addr()), ATTEMPT).await, came_to, "{wire}");
        lab.reset().unwrap();

        let client = retrying_over_http2();
        let request = client.post(&lab.url("/payments")).body(r#"{"order_id":"ORD-1"}"#);
        let called = client.execute(request.build().unwrap()).await.unwrap();
        assert_eq!(crate::support::class(&called.attempts[0].told.what), came_to, "{wire}");
        assert_eq!(called.attempts.len(), sends, "{wire}: {called}");
        assert_eq!(lab.counts().payments, payments, "{wire}");
        match called.end {
            End::Succeeded(_) => assert_eq!(sends, 2, "{wire}"),
            End::Unknown(reason) => assert_eq!(reason, Reason::ConnectionLost, "{wire}"),
            End::Refused(_) | End::Failed(_) => panic!("{wire}: {called}"),
        }
    }
}

/// A server that says GOAWAY with an error and this last stream, when the request is there, and closes.
async fn goaway(last: u32, code: u32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // SETTINGS, so that the client goes on; then whatever it sends until its body is there.
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
            let mut bytes = Vec::new();
            while !bytes.windows(7).any(|window| window == b"ORD-1\",") {
                let mut piece = [0; 4096];
                let read = stream.read(&mut piece).await.unwrap();
                assert!(read > 0);
                bytes.extend_from_slice(&piece[..read]);
            }
            let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
            frame.extend_from_slice(&last.to_be_bytes());
            frame.extend_from_slice(&code.to_be_bytes());
            stream.write_all(&frame).await.unwrap();
            stream.shutdown().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
        }
    });
    addr
}

/// The code of a GOAWAY proves nothing; only its last stream does. Ours is the first one.
#[tokio::test]
async fn b59_an_error_code_is_no_proof() {
    const NO_ERROR: u32 = 0;
    const INTERNAL_ERROR: u32 = 2;
    const ENHANCE_YOUR_CALM: u32 = 11;
    for code in [NO_ERROR, INTERNAL_ERROR, ENHANCE_YOUR_CALM] {
        for (last, expected) in [(0, "not processed"), (1, "unknown: connection-lost")] {
            let addr = goaway(last, code).await;
            assert_eq!(attempt(&over_http2(addr), ATTEMPT).await, expected, "{last} {code}");
        }
    }
}

#[tokio::test]
async fn a_peer_that_speaks_no_http2_was_sent_no_request_that_it_could_understand() {
    let addr = lab(r#"{"connections":{"mode":"silent"}}"#).await;
    let came_to = attempt(&over_http2(addr.addr()), Duration::from_millis(300)).await;
    assert_eq!(came_to, "unknown: timed-out", "bytes went out; the preface alone proves nothing");
    let _ = retrying(QUICK, None);
}
