//! A peer that says what it is told to, the lab, and a command.

use samekey_client::address::Reach;
use samekey_client::http_counterparty::{HttpConfig, HttpCounterparty};
use samekey_client::retrying::{RetryingClient, RetryingOptions};
use samekey_client::transport::Resolver;
use samekey_client::{Counterparty, HttpRequest, Order, Question};
use samekey_core::backoff::{Backoff, Chance};
use samekey_core::delivery::{AskedBy, Delivery};
use samekey_core::key::Org;
use samekey_core::lease::Owner;
use samekey_core::outcome::{Heard, NotRun, Outcome, Speaks};
use samekey_core::plan::{Input, Verdict, enqueued, plan};
use samekey_core::profile::{Limits, Profile};
use samekey_core::time::Time;
use samekey_lab::faults::Plan;
use samekey_lab::{Lab, Options};
use samekey_store::OutboundKey;
use samekey_store::outbox::{Action, Command, CommandId};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// No step of a test takes this long.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The time of one attempt where nothing hangs.
pub const ATTEMPT: Duration = Duration::from_secs(5);

/// What a peer does with a connection.
#[derive(Clone, Debug)]
pub enum Act {
    /// Reads the request, says these bytes, and closes.
    Say(Vec<u8>),
    /// Reads the request, says these bytes, and resets.
    SayAndReset(Vec<u8>),
    /// Reads the request, says these bytes, and keeps the connection open.
    SayAndHang(Vec<u8>),
    /// Closes without reading.
    Close,
    /// Says these bytes at once and closes after a byte was read.
    Greet(Vec<u8>),
}

impl Act {
    pub fn say(text: &str) -> Act {
        Act::Say(text.replace('\n', "\r\n").into_bytes())
    }
}

/// A peer on loopback. It ends with the test.
pub struct Peer {
    pub addr: SocketAddr,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    task: JoinHandle<()>,
}

impl Peer {
    /// Acts for the n-th connection, from 0, as it is told.
    pub async fn new(act: impl Fn(usize) -> Act + Send + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, act(number), Arc::clone(&seen)));
            }
        });
        Peer { addr, requests, task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// The requests that came whole, as bytes.
    pub fn requests(&self) -> Vec<Vec<u8>> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, act: Act, seen: Arc<Mutex<Vec<Vec<u8>>>>) {
    match act {
        Act::Close => {}
        Act::Greet(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.read(&mut [0; 1]).await;
        }
        Act::Say(bytes) => {
            let came = request(&mut stream).await;
            seen.lock().unwrap().extend(came);
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Act::SayAndReset(bytes) => {
            let came = request(&mut stream).await;
            seen.lock().unwrap().extend(came);
            let _ = stream.write_all(&bytes).await;
            stream.set_zero_linger().unwrap();
        }
        Act::SayAndHang(bytes) => {
            let came = request(&mut stream).await;
            seen.lock().unwrap().extend(came);
            let _ = stream.write_all(&bytes).await;
            // Until the other side gives up.
            let _ = stream.read(&mut [0; 1]).await;
        }
    }
}

/// One request with a `content-length`, or none where it ended before.
pub async fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 16 * 1024];
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&piece[..read]);
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(head) = head else { continue };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        if bytes.len() >= head + 4 + length {
            return Some(bytes);
        }
    }
}

/// A lab with this plan.
pub async fn lab(plan: &str) -> Lab {
    let plan = Plan::from_json("plan", plan.as_bytes()).unwrap();
    Lab::start(Options { plan, ..Options::default() }).await.unwrap()
}

/// How the lab's API is described, its address aside.
pub const LAB: &str = r#"
allow_networks = ["127.0.0.0/8"]

[ask]
by_key = "/payments/by-key/{key}"
by_reference = "/payments/by-reference/{reference}"
not_found = { pointer = "/error", value = "not_found" }

[answer]
status = "/status"
succeeded = ["succeeded"]
refused = ["declined"]
pending = ["pending"]
amount = { ours = "/amount", theirs = "/amount" }
currency = { ours = "/currency", theirs = "/currency" }
reference = { ours = "/order_id", theirs = "/order_id" }
key = "/idempotency_key"
in_progress = { status = 409, pointer = "/error", value = "in_progress" }
stored_refusals = [402]
own_errors = "/error"
"#;

/// A counterparty by this configuration.
pub fn counterparty(base_url: &str, rest: &str) -> HttpCounterparty {
    counterparty_with(base_url, rest, Resolver::system()).unwrap()
}

pub fn counterparty_with(
    base_url: &str,
    rest: &str,
    resolver: Resolver,
) -> Result<HttpCounterparty, samekey_client::Error> {
    let config: HttpConfig = toml::from_str(&format!("base_url = {base_url:?}\n{rest}")).unwrap();
    HttpCounterparty::with(config, None, resolver)
}

/// A counterparty about which nothing is known but where it is.
pub fn bare(addr: SocketAddr) -> HttpCounterparty {
    counterparty(&format!("http://{addr}"), "allow_networks = [\"127.0.0.0/8\"]")
}

pub fn command(order_id: &str, amount: u64) -> Command {
    let body = format!(r#"{{"order_id":"{order_id}","amount":{amount},"currency":"EUR"}}"#);
    Command {
        id: CommandId::from_bytes([1; 16]),
        action: Action {
            org: Org::new("shop").unwrap(),
            destination: "pay".to_owned(),
            operation: "charge".to_owned(),
            business_ref: order_id.to_owned(),
        },
        generation: 1,
        order_key: None,
        key: OutboundKey::from_bytes([7; 16]),
        request: HttpRequest::post("/payments").json(body).encode().unwrap(),
    }
}

pub fn order(command: &Command, time_max: Duration) -> Order {
    Order { command: command.clone(), number: 1, time_max }
}

pub fn question(command: &Command, by: AskedBy) -> Question {
    Question { command: command.clone(), by, time_max: ATTEMPT }
}

/// Limits that end a test soon.
pub const QUICK: Limits = Limits {
    attempt_time_max: Duration::from_millis(400),
    backoff: Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(50) },
    attempts_max: 5,
    time_max: Duration::from_secs(4),
    lease: Duration::from_millis(500),
    questions_max: 5,
    questions: Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(50) },
};

/// A day, in seconds.
pub const DAY: Option<Duration> = Some(Duration::from_secs(24 * 3600));

pub fn retrying(limits: Limits, key_life: Option<Duration>) -> RetryingClient {
    RetryingClient::new(RetryingOptions {
        limits,
        key_life,
        reach: Reach::PUBLIC.and_loopback(),
        ..RetryingOptions::default()
    })
    .unwrap()
}

/// Drives a command to its end in memory, as a courier does, and says what each attempt came to.
pub async fn deliver(
    counterparty: &HttpCounterparty,
    command: &Command,
    profile: &Profile,
) -> (Delivery, Vec<String>) {
    let began = Instant::now();
    let now = || Time::EPOCH.plus(began.elapsed());
    let mut delivery = enqueued(now(), Duration::ZERO, profile);
    let mut came_to = Vec::new();
    while let Some(due) = delivery.due() {
        assert!(began.elapsed() < PATIENCE, "{delivery:?}");
        sleep_until(began + due.since(Time::EPOCH)).await;
        let owner = Owner::from_bytes([1; 16]);
        let (taken, verdict) = plan(delivery, Input::Take(owner), now(), profile);
        delivery = taken;
        let input = if let Verdict::Send(attempt) = verdict {
            let (number, time_max) = (attempt.number, attempt.time_max);
            let order = Order { command: command.clone(), number, time_max };
            let reply = counterparty.send(order).await;
            came_to.push(class(&reply.told.what));
            Input::Report(attempt.hold, reply.told, Chance::LEAST)
        } else if let Verdict::Ask(hold, by) = verdict {
            let reply = counterparty.ask(question(command, by)).await;
            came_to.push(heard(&reply.told.what));
            Input::Hear(hold, reply.told, Chance::LEAST)
        } else {
            continue;
        };
        (delivery, _) = plan(delivery, input, now(), profile);
    }
    (delivery, came_to)
}

/// An outcome in one word.
pub fn class(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(_) => "done".to_owned(),
        Outcome::DoneBodyLost(_) => "done, body lost".to_owned(),
        Outcome::Refused(_, Speaks::ForItself) => "refused".to_owned(),
        Outcome::Refused(_, Speaks::ForTheKey) => "refused for the key".to_owned(),
        Outcome::NotRun(NotRun::NotSent) => "not sent".to_owned(),
        Outcome::NotRun(NotRun::NotProcessed) => "not processed".to_owned(),
        Outcome::NotRun(NotRun::RateLimited) => "rate limited".to_owned(),
        Outcome::NotAccepted(reason) => format!("not accepted: {}", reason.code()),
        Outcome::InFlight => "in flight".to_owned(),
        Outcome::Pending => "pending".to_owned(),
        Outcome::Unknown(reason) => format!("unknown: {}", reason.code()),
        Outcome::Stop(reason) => format!("stop: {}", reason.code()),
    }
}

/// What was heard, in one word.
pub fn heard(heard: &Heard) -> String {
    match heard {
        Heard::Executed(_) => "heard: executed".to_owned(),
        Heard::Refused(_) => "heard: refused".to_owned(),
        Heard::NotFound => "heard: not found".to_owned(),
        Heard::Pending => "heard: pending".to_owned(),
        Heard::CannotTell => "heard: cannot tell".to_owned(),
        Heard::Different => "heard: different".to_owned(),
    }
}

/// What one attempt of the generic counterparty comes to.
pub async fn attempt(counterparty: &HttpCounterparty, time_max: Duration) -> String {
    let order = order(&command("ORD-1", 1200), time_max);
    let reply = timeout(PATIENCE, counterparty.send(order)).await.unwrap();
    class(&reply.told.what)
}

/// What the first attempt of the retrying client comes to.
pub async fn first_attempt(client: &RetryingClient, url: &str) -> String {
    let request = client.post(url).body("{\"order_id\":\"ORD-1\"}").build().unwrap();
    let called = timeout(PATIENCE, client.execute(request)).await.unwrap().unwrap();
    class(&called.attempts[0].told.what)
}
