//! What happens to connections before anybody speaks HTTP.

use crate::support::{PATIENCE, exchange, get, lab, pay, request, send};
use samekey_lab::faults::{Connections, Door, Plan};
use samekey_lab::{Kind, Lab, Options};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

fn shut(mode: Door) -> Plan {
    Plan { connections: Connections { mode, for_ms: None }, ..Plan::default() }
}

/// How a new connection fares; looked at until it is as wanted, because the door moves in a task of its own.
async fn until_connecting(lab: &Lab, wanted: &str) {
    let look = async {
        loop {
            let now =
                match timeout(Duration::from_millis(300), TcpStream::connect(lab.addr())).await {
                    Ok(Ok(_)) => "made",
                    Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => "refused",
                    // The listener went away between the handshake and now.
                    Ok(Err(error)) if error.kind() == ErrorKind::ConnectionReset => "reset",
                    Ok(Err(error)) => panic!("{error}"),
                    Err(_) => "hangs",
                };
            if now == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("a connection was never {wanted}"));
}

#[tokio::test]
async fn t65_refused_and_open_again_at_the_same_address() {
    let lab = lab("{}").await;
    for _ in 0..3 {
        lab.set_plan(shut(Door::Refuse)).unwrap();
        until_connecting(&lab, "refused").await;
        lab.set_plan(Plan::default()).unwrap();
        until_connecting(&lab, "made").await;
        assert_eq!(pay(&lab, "ORD-1", None).await.status(), 201);
    }
}

#[tokio::test]
async fn a_refusing_door_ends_connections_that_are_open() {
    let lab = lab("{}").await;
    let mut stream = TcpStream::connect(lab.addr()).await.unwrap();
    lab.set_plan(shut(Door::Refuse)).unwrap();
    let ended = crate::support::read_to_end(&mut stream).await;
    assert!(ended.bytes.is_empty());
}

#[tokio::test]
async fn b07_a_black_hole_hangs_while_connecting_and_opens_again() {
    let lab = lab("{}").await;
    lab.set_plan(shut(Door::BlackHole)).unwrap();
    until_connecting(&lab, "hangs").await;
    assert_eq!(lab.counts().arrived, 0);
    lab.set_plan(Plan::default()).unwrap();
    until_connecting(&lab, "made").await;
    assert_eq!(pay(&lab, "ORD-1", None).await.status(), 201);
}

#[tokio::test]
async fn a_silent_door_accepts_and_says_nothing() {
    let lab = lab("{}").await;
    lab.set_plan(shut(Door::Silent)).unwrap();
    let answer = timeout(Duration::from_millis(200), pay(&lab, "ORD-1", None)).await;
    assert!(answer.is_err());
    lab.set_plan(Plan::default()).unwrap();
    // Accepting may still be silent for the moment that the door takes to notice.
    let opened =
        async { while timeout(Duration::from_millis(200), get(&lab, "/health")).await.is_err() {} };
    timeout(PATIENCE, opened).await.unwrap();
    assert_eq!(lab.counts().arrived, 0);
}

#[tokio::test]
async fn a_door_opens_by_itself_after_its_time() {
    let lab = lab("{}").await;
    let plan = r#"{"connections":{"mode":"refuse","for_ms":100}}"#;
    assert_eq!(send(&lab, "POST", "/faults", None, plan).await.status(), 200);
    until_connecting(&lab, "refused").await;
    until_connecting(&lab, "made").await;
    assert_eq!(lab.door(), Door::Open);
}

#[tokio::test]
async fn over_http_a_door_shuts_for_good_only_where_there_is_a_control_address() {
    let plan = r#"{"connections":{"mode":"refuse"}}"#;
    let without = lab("{}").await;
    let refused = send(&without, "POST", "/faults", None, plan).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.json()["detail"].as_str().unwrap().contains("connections.for_ms is missing"));

    let free = Options::default().listen;
    let with = Lab::start(Options { control: Some(free), ..Options::default() }).await.unwrap();
    let control = with.control_addr().unwrap();
    assert_eq!(exchange(control, &request("POST", "/faults", &[], plan)).await.status(), 200);
    until_connecting(&with, "refused").await;
    assert_eq!(exchange(control, &request("GET", "/health", &[], "")).await.status(), 200);
    assert_eq!(
        exchange(control, &request("POST", "/payments", &[], "order_id=1")).await.status(),
        404
    );
    assert_eq!(exchange(control, &request("POST", "/faults", &[], "{}")).await.status(), 200);
    until_connecting(&with, "made").await;
}

#[tokio::test]
async fn an_address_in_use_is_one_sentence() {
    let first = lab("{}").await;
    let second = Lab::start(Options { listen: first.addr(), ..Options::default() }).await;
    let error = second.err().unwrap();
    assert_eq!((error.kind(), error.is_transient()), (Kind::AddressInUse, true));
    assert!(error.to_string().contains("is in use by another process"), "{error}");
}

#[tokio::test]
async fn after_stop_nothing_listens_and_the_port_is_free() {
    let lab = lab("{}").await;
    let address = lab.addr();
    let mut open = TcpStream::connect(address).await.unwrap();
    lab.stop().await;
    assert!(crate::support::read_to_end(&mut open).await.bytes.is_empty());
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let again = Lab::start(Options { listen: address, ..Options::default() }).await.unwrap();
    assert_eq!(get(&again, "/health").await.status(), 200);
}
