//! No connection to an address that is not allowed, whatever a name or an id says.

use crate::support::{ATTEMPT, QUICK, attempt, command, counterparty_with, lab, question};
use samekey_client::address::Reach;
use samekey_client::retrying::{Called, End, RetryingClient, RetryingOptions};
use samekey_client::transport::{Phase, Resolver};
use samekey_client::{Counterparty, Kind};
use samekey_core::delivery::{AskedBy, Reason};
use samekey_core::outcome::Heard;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;

/// A name with these addresses, one set after the other; the last one stays.
fn names(sets: &[&[&str]]) -> (Resolver, Arc<AtomicUsize>) {
    let sets: Vec<Vec<IpAddr>> =
        sets.iter().map(|set| set.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let resolver = Resolver::new(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let set = sets[number.min(sets.len() - 1)].clone();
        Box::pin(async move { Ok(set) })
    });
    (resolver, asked)
}

#[tokio::test]
async fn p66_t104_a_name_that_flips_to_loopback_is_not_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("https://flip.test:{port}");
    for private in ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1"] {
        let (resolver, asked) = names(&[&[private]]);
        let counterparty = counterparty_with(&url, "", resolver).unwrap();
        for number in 1..=2 {
            let came_to = attempt(&counterparty, ATTEMPT).await;
            assert_eq!(came_to, "not accepted: not-sendable", "{private}");
            assert_eq!(asked.load(Ordering::SeqCst), number, "looked up for every connection");
        }
    }
    let nobody = tokio::time::timeout(std::time::Duration::from_millis(50), listener.accept());
    assert!(nobody.await.is_err(), "a connection was made");
}

#[tokio::test]
async fn t104_of_several_addresses_only_the_allowed_ones_are_connected_to() {
    let lab = lab("{}").await;
    let url = format!("http://flip.test:{}", lab.addr().port());
    // 127.0.0.1 is allowed here, and nothing else of what the name says.
    let (resolver, _) = names(&[&["10.255.255.1", "169.254.169.254", "127.0.0.1"], &["10.0.0.1"]]);
    let config = "allow_plain_http = true\nallow_networks = [\"127.0.0.1/32\"]";
    let counterparty = counterparty_with(&url, config, resolver).unwrap();
    assert_eq!(attempt(&counterparty, ATTEMPT).await, "done");
    assert_eq!(attempt(&counterparty, ATTEMPT).await, "not accepted: not-sendable");
}

fn retrying(reach: Reach, resolver: Resolver) -> RetryingClient {
    let options = RetryingOptions { limits: QUICK, reach, resolver, ..RetryingOptions::default() };
    RetryingClient::new(options).unwrap()
}

async fn call(client: &RetryingClient, url: &str) -> Called {
    let request = client.post(url).body(r#"{"order_id":"ORD-1"}"#).build().unwrap();
    client.execute(request).await.unwrap()
}

#[tokio::test]
async fn p66_t104_the_client_without_a_database_looks_at_what_a_name_means_each_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("https://flip.test:{port}/payments");
    for private in ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1"] {
        let (resolver, asked) = names(&[&[private]]);
        let client = retrying(Reach::PUBLIC, resolver);
        for number in 1..=2 {
            let called = call(&client, &url).await;
            assert_eq!(called.end, End::Failed(Reason::NotSendable), "{private}: {called}");
            assert_eq!(called.attempts[0].phase, Some(Phase::Resolve), "{private}");
            assert_eq!(asked.load(Ordering::SeqCst), number, "looked up for every attempt");
        }
    }
    let nobody = tokio::time::timeout(std::time::Duration::from_millis(50), listener.accept());
    assert!(nobody.await.is_err(), "a connection was made");

    // Of several addresses only the allowed one, and that each time anew.
    let lab = lab("{}").await;
    let url = format!("http://flip.test:{}/payments", lab.addr().port());
    let (resolver, _) = names(&[&["10.255.255.1", "169.254.169.254", "127.0.0.1"], &["10.0.0.1"]]);
    let own = Reach::PUBLIC.and(["127.0.0.1/32".parse().unwrap()]).and_plain_http();
    let client = retrying(own, resolver);
    let called = call(&client, &url).await;
    assert!(matches!(called.end, End::Succeeded(_)), "{called}");
    let called = call(&client, &url).await;
    assert_eq!(called.end, End::Failed(Reason::NotSendable), "{called}");
    assert_eq!(lab.requests().unwrap().len(), 1);
}

#[tokio::test]
async fn t104_the_client_without_a_database_refuses_what_may_never_be_connected_to() {
    let (resolver, asked) = names(&[&["1.1.1.1"]]);
    let client = retrying(Reach::PUBLIC, resolver);
    for url in [
        "https://127.0.0.1/payments",
        "https://[::1]/payments",
        "https://169.254.169.254/",
        "https://10.0.0.1/",
        "http://127.0.0.1/",
        "http://localhost/",
        "http://pay.test/",
        "ftp://pay.test/",
    ] {
        let request = client.post(url).body("{}").build().unwrap();
        let refused = client.execute(request).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Request, "{url}: {refused}");
        assert!(
            refused.to_string().contains("expected https")
                || refused.to_string().contains("RetryingOptions::reach"),
            "{refused}"
        );
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nothing was looked up");
}

#[test]
fn t104_literal_addresses_are_refused_at_start_up() {
    for url in ["https://169.254.169.254", "https://127.0.0.1", "https://[::1]", "https://10.0.0.1"]
    {
        let refused = counterparty_with(url, "", Resolver::system()).err().unwrap().to_string();
        assert!(refused.contains("allow_networks"), "{url}: {refused}");
    }
}

#[tokio::test]
async fn t104_an_id_changes_neither_host_nor_path_of_a_question() {
    let lab = lab("{}").await;
    let config = r#"
allow_networks = ["127.0.0.0/8"]
[ask]
by_reference = "/payments/{reference}"
[answer]
status = "/status"
succeeded = ["succeeded"]
amount = { ours = "/amount", theirs = "/amount" }
reference = { ours = "/order_id", theirs = "/order_id" }
"#;
    let url = format!("http://{}/v1", lab.addr());
    let counterparty = counterparty_with(&url, config, Resolver::system()).unwrap();
    for (id, path) in [
        ("../../admin", "/v1/payments/..%2F..%2Fadmin"),
        ("@evil.test", "/v1/payments/%40evil.test"),
        ("x?a=1#b", "/v1/payments/x%3Fa%3D1%23b"),
        ("x HTTP/1.1\\\\n", "/v1/payments/x%20HTTP%2F1.1%5C%5Cn"),
    ] {
        let command = command(id, 1200);
        let _ = counterparty.ask(question(&command, AskedBy::Reference)).await;
        let seen = lab.requests().unwrap();
        assert_eq!(seen.last().unwrap().arrived.path, path, "{id}");
    }
    let before = lab.requests().unwrap().len();
    for id in ["..", "."] {
        let heard = counterparty.ask(question(&command(id, 1200), AskedBy::Reference)).await;
        assert_eq!(heard.told.what, Heard::CannotTell, "{id}");
    }
    assert_eq!(lab.requests().unwrap().len(), before, "nothing was asked");
}
