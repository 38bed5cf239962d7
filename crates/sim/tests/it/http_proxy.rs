//! The proxy in front of an HTTP service cuts where it is told to, and writes down what passed.

use samekey_sim::HttpProxy;
use samekey_sim::history::{CallKind, History};
use samekey_sim::proxy::http::{Cut, Target};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const BOUND: Duration = Duration::from_secs(30);
const PAY: Target = Target::to("POST", "/pay");

/// A service that counts what it gets and answers each path in its own way.
struct Service {
    url: String,
    got: Arc<Mutex<Vec<String>>>,
}

impl Service {
    async fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/base", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&got);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream, Arc::clone(&noted)));
            }
        });
        Service { url, got }
    }

    fn got(&self) -> Vec<String> {
        self.got.lock().unwrap().clone()
    }

    async fn wait_for(&self, count: usize) {
        let deadline = Instant::now() + BOUND;
        while self.got().len() < count {
            assert!(Instant::now() < deadline, "{:?}", self.got());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn answer_all(stream: TcpStream, got: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    while let Some((path, body)) = request(&mut stream).await {
        let answer = match path.as_str() {
            "/chunked" => {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
            }
            "/closing" => "HTTP/1.1 200 OK\r\n\r\nok",
            "/busy" => "HTTP/1.1 429 Busy\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n",
            _ => "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
        };
        got.lock().unwrap().push(body);
        if stream.write_all(answer.as_bytes()).await.is_err() || path == "/closing" {
            return;
        }
    }
}

async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|count| *count > 0)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    Some((path, String::from_utf8(body).unwrap()))
}

/// A client with one connection.
struct Client(TcpStream);

impl Client {
    async fn of(proxy: &HttpProxy) -> Client {
        Client(TcpStream::connect(proxy.address()).await.unwrap())
    }

    async fn send(&mut self, path: &str, body: &str) -> bool {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k-1\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(request.as_bytes()).await.is_ok()
    }

    /// What comes until the text ends with `end`, or the connection does.
    async fn read_to(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        let read = async {
            while !text.ends_with(end.as_bytes()) {
                match self.0.read_u8().await {
                    Ok(byte) => text.push(byte),
                    Err(_) => return,
                }
            }
        };
        tokio::time::timeout(BOUND, read).await.expect("an answer or an end");
        String::from_utf8(text).unwrap()
    }

    /// Everything that comes before the connection ends.
    async fn rest(&mut self) -> String {
        self.read_to("no answer ends like this").await
    }

    async fn pay(&mut self, body: &str) -> String {
        self.send("/pay", body).await;
        self.read_to("ok").await
    }
}

async fn world() -> (Service, HttpProxy, History) {
    let (service, history) = (Service::start().await, History::default());
    let proxy = HttpProxy::before(&service.url, &history).unwrap();
    (service, proxy, history)
}

#[tokio::test]
async fn http_proxy_hands_everything_on_and_tells_what_passed() {
    let (service, proxy, history) = world().await;
    assert!(proxy.url().ends_with("/base"));
    let before = history.now();
    let mut client = Client::of(&proxy).await;
    assert!(client.pay("one").await.starts_with("HTTP/1.1 201"));
    client.send("/chunked", "two").await;
    assert!(client.read_to("0\r\n\r\n").await.contains("2\r\nok"));
    client.send("/busy", "three").await;
    assert!(client.read_to("\r\n\r\n").await.contains("429"));
    client.send("/closing", "four").await;
    assert!(client.rest().await.ends_with("ok"));
    assert_eq!(service.got(), ["one", "two", "three", "four"]);
    let seen = proxy.exchanges();
    assert_eq!(seen.iter().map(|e| e.on_connection).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let statuses: Vec<_> = seen.iter().map(|e| e.status.unwrap()).collect();
    assert_eq!(statuses, [201, 200, 429, 200]);
    let first = &seen[0];
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/pay"));
    assert_eq!((first.key.as_deref(), first.body.as_slice()), (Some("k-1"), &b"one"[..]));
    assert_eq!(first.body_sha, <[u8; 32]>::from(Sha256::digest(b"one")));
    let (sent, answered) = (first.sent.unwrap(), first.answered.unwrap());
    assert!(before < sent.at && sent.at < answered.at && answered.at < history.now());
    let call = seen[2].call("a", "r", 0, CallKind::Command).unwrap();
    assert_eq!(call.retry_after, Some(Duration::from_secs(3)));
    proxy.forget();
    assert!(proxy.exchanges().is_empty());
}

#[tokio::test]
async fn http_proxy_serves_requests_that_are_sent_ahead() {
    let (service, proxy, _) = world().await;
    let mut client = Client::of(&proxy).await;
    client.send("/pay", "one").await;
    client.send("/pay", "two").await;
    let both = [client.read_to("ok").await, client.read_to("ok").await];
    assert!(both.iter().all(|answer| answer.starts_with("HTTP/1.1 201")), "{both:?}");
    assert_eq!(service.got(), ["one", "two"]);
}

#[tokio::test]
async fn http_proxy_cuts_before_the_service_gets_it() {
    let (service, proxy, _) = world().await;
    let mut client = Client::of(&proxy).await;
    proxy.arm(PAY, 2, Cut::Before);
    client.send("/other", "x").await;
    client.read_to("ok").await;
    assert!(client.pay("one").await.ends_with("ok"));
    assert_eq!((client.pay("two").await.as_str(), proxy.fired()), ("", 1));
    assert_eq!(service.got(), ["x", "one"]);
    let cut = proxy.exchanges().pop().unwrap();
    assert_eq!((cut.cut, cut.sent), (Some(Cut::Before), None));
    assert_eq!(proxy.sent(PAY).len(), 1);
}

#[tokio::test]
async fn http_proxy_cuts_after_the_service_answered() {
    let (service, proxy, _) = world().await;
    proxy.arm(PAY, 1, Cut::After);
    let mut client = Client::of(&proxy).await;
    assert_eq!(client.pay("one").await, "");
    assert_eq!(service.got(), ["one"]);
    let cut = proxy.exchanges().pop().unwrap();
    assert_eq!((cut.status, cut.cut), (Some(201), Some(Cut::After)));
    assert!(Client::of(&proxy).await.pay("two").await.ends_with("ok"));
}

#[tokio::test]
async fn http_proxy_cuts_an_answer_at_every_byte() {
    let (service, proxy, _) = world().await;
    let whole = Client::of(&proxy).await.pay("x").await;
    for after_bytes in 0..=whole.len() {
        let after_bytes = u64::try_from(after_bytes).unwrap();
        proxy.arm(PAY, 1, Cut::Answer { after_bytes });
        let mut client = Client::of(&proxy).await;
        client.send("/pay", "x").await;
        let told = client.rest().await;
        assert_eq!((told.len() as u64, whole.starts_with(&told)), (after_bytes, true));
        assert_eq!(proxy.fired(), after_bytes + 1);
    }
    assert_eq!(service.got().len(), whole.len() + 2);
}

#[tokio::test]
async fn http_proxy_holds_a_request_back_that_lands_later() {
    let (service, proxy, _) = world().await;
    proxy.arm(PAY, 1, Cut::Held);
    assert_eq!(Client::of(&proxy).await.pay("late").await, "");
    // Others pass it, and even the end of all connections does not end it.
    assert!(Client::of(&proxy).await.pay("next").await.ends_with("ok"));
    proxy.cut_all();
    assert_eq!(service.got(), ["next"]);
    proxy.deliver();
    service.wait_for(2).await;
    assert_eq!(service.got(), ["next", "late"]);
}

#[tokio::test]
async fn t67_http_proxy_closes_a_kept_connection_as_the_client_writes() {
    let (service, proxy, _) = world().await;
    proxy.arm(PAY, 1, Cut::AsWritten);
    let mut client = Client::of(&proxy).await;
    // The first request of a connection is not meant.
    assert!(client.pay("one").await.ends_with("ok"));
    assert_eq!((client.pay("two").await.as_str(), proxy.fired()), ("", 1));
    assert_eq!(service.got(), ["one"]);
    let cut = proxy.exchanges().pop().unwrap();
    assert_eq!((cut.cut, cut.on_connection, cut.sent), (Some(Cut::AsWritten), 2, None));
}

#[tokio::test]
async fn http_proxy_loses_the_whole_service_with_a_request() {
    let (service, proxy, _) = world().await;
    let (mut client, mut other) = (Client::of(&proxy).await, Client::of(&proxy).await);
    assert!(other.pay("first").await.ends_with("ok"));
    proxy.arm_last(PAY, 1, Cut::After);
    assert_eq!(client.pay("lost").await, "");
    assert_eq!(other.pay("never").await, "");
    service.wait_for(2).await;
    proxy.refuse();
    assert!(TcpStream::connect(proxy.address()).await.is_err());
    proxy.accept();
    assert!(Client::of(&proxy).await.pay("again").await.ends_with("ok"));
    assert_eq!(service.got(), ["first", "lost", "again"]);
}

#[tokio::test]
async fn http_proxy_delays_freezes_and_refuses() {
    let (service, proxy, _) = world().await;
    let mut client = Client::of(&proxy).await;
    let time = Duration::from_millis(60);
    proxy.delay(time);
    let begun = Instant::now();
    client.pay("one").await;
    assert!(begun.elapsed() >= time);
    proxy.delay(Duration::ZERO);
    proxy.freeze();
    client.send("/pay", "two").await;
    assert!(tokio::time::timeout(time, client.read_to("ok")).await.is_err());
    assert_eq!(service.got(), ["one"]);
    proxy.thaw();
    assert!(client.read_to("ok").await.ends_with("ok"));
    for _ in 0..20 {
        proxy.refuse();
        let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        proxy.accept();
        assert!(Client::of(&proxy).await.pay("again").await.ends_with("ok"));
    }
}

#[tokio::test]
async fn http_proxy_tells_a_client_that_waits_to_continue() {
    let (service, proxy, _) = world().await;
    let mut client = Client::of(&proxy).await;
    let head = "POST /pay HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    client.0.write_all(head.as_bytes()).await.unwrap();
    assert!(client.read_to("\r\n\r\n").await.starts_with("HTTP/1.1 100"));
    client.0.write_all(b"one").await.unwrap();
    assert!(client.read_to("ok").await.contains("201"));
    assert_eq!(service.got(), ["one"]);
}

#[tokio::test]
async fn http_proxy_ends_what_is_no_http() {
    let (service, proxy, _) = world().await;
    let mut client = Client::of(&proxy).await;
    client.0.write_all(b"\x16\x03\x01 hello\r\n\r\n").await.unwrap();
    assert_eq!(client.rest().await, "");
    assert!(service.got().is_empty());
    let wrong = HttpProxy::before("https://127.0.0.1:1", &History::default()).unwrap_err();
    assert!(wrong.to_string().contains("expected http://HOST:PORT"), "{wrong}");
}
