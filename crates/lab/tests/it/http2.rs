//! HTTP/2 faults, seen by a client that sees frames.

use crate::support::{PATIENCE, lab, paid};
use bytes::Bytes;
use h2::Reason;
use samekey_lab::Lab;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// One payment on a connection of its own; the status, or the error that the stream ended with.
async fn pay(lab: &Lab, order: &str, before: usize) -> Result<u16, h2::Error> {
    let stream = TcpStream::connect(lab.addr()).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    let mut last = Ok(0);
    for number in 0..=before {
        client = client.ready().await?;
        let request = http::Request::post(lab.url("/payments")).body(()).unwrap();
        let (answer, mut body) = client.send_request(request, false)?;
        let order = if number == before { order.to_owned() } else { format!("before-{number}") };
        body.send_data(Bytes::from(format!("{{\"order_id\":\"{order}\"}}")), true)?;
        last = timeout(PATIENCE, answer).await.unwrap().map(|answer| answer.status().as_u16());
    }
    last
}

#[tokio::test]
async fn http2_is_spoken_without_faults() {
    let lab = lab("{}").await;
    assert_eq!(pay(&lab, "ORD-1", 2).await.unwrap(), 201);
    assert_eq!(lab.counts().payments, 3);
}

#[tokio::test]
async fn b59_a_refused_stream_is_not_processed_and_a_cancelled_one_is() {
    let faults =
        [("refuse_stream", Reason::REFUSED_STREAM, 0), ("cancel_stream", Reason::CANCEL, 1)];
    for (wire, reason, effects) in faults {
        let lab = lab(&format!(r#"{{"rules":[{{"wire":"{wire}"}}]}}"#)).await;
        let error = pay(&lab, "ORD-1", 0).await.unwrap_err();
        assert_eq!(error.reason(), Some(reason), "{wire}");
        assert!(error.is_reset() && error.is_remote(), "{wire}: {error:?}");
        assert_eq!(paid(&lab, "ORD-1"), effects, "{wire}");
    }
}

#[tokio::test]
async fn b59_goaway_below_is_not_processed_and_goaway_above_is() {
    for before in [0, 2] {
        for (last, effects) in [("below", 0), ("above", 1)] {
            let number = before + 1;
            let lab = lab(&format!(
                r#"{{"rules":[{{"when":{{"number":[{number}]}},"wire":{{"goaway":"{last}"}}}}]}}"#
            ))
            .await;
            let error = pay(&lab, "ORD-1", before).await.unwrap_err();
            // The client itself tells the two apart: only a stream above the last id ends with GOAWAY's own error.
            assert_eq!(
                error.is_go_away() && error.is_remote(),
                last == "below",
                "{last}: {error:?}"
            );
            assert_eq!(paid(&lab, "ORD-1"), effects, "{last}");
            assert_eq!(lab.counts().payments, before as u64 + effects as u64);
        }
    }
}

#[tokio::test]
async fn faults_of_http2_streams_do_not_fit_requests_over_http1() {
    let lab = lab(r#"{"rules":[{"wire":"refuse_stream"}]}"#).await;
    assert_eq!(crate::support::pay(&lab, "ORD-1", None).await.status(), 201);
}
