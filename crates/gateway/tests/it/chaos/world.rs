//! Gateways on one PostgreSQL database, the API behind them, callers before them, and a record of everything.

use super::Counterparty;
use super::upstream::Upstream;
use crate::client::Ask;
use samekey_sim::history::{
    Answer, Attempt, Booking, Call, CallKind, Captured, Evidence, History, LastAnswer, Limits,
    SeenRow, Violation,
};
use samekey_sim::sampler::Watch;
use samekey_sim::{HttpProxy, Process, Program, Sampler};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, block_in_place};

/// How long anything is waited for.
pub const BOUND: Duration = Duration::from_secs(120);
/// The pause of a caller before it sends again. `Retry-After` is in seconds; a test has no time.
const AGAIN: Duration = Duration::from_millis(100);
/// The pause between two looks into the database.
const LOOK: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_millis(10);
/// How long one attempt of a caller may take.
const ATTEMPT: Duration = Duration::from_secs(20);
/// The gateway's credential at the API.
const UPSTREAM_TOKEN: &str = "OURS-AT-THE-UPSTREAM";
/// What stands in no answer and no log.
const SECRETS: [&str; 3] = [UPSTREAM_TOKEN, "a1-secret", "b1-secret"];
/// The headers that a replay keeps, and the API sends.
const KEPT: [&str; 2] = ["content-type", "location"];
const CALLERS: usize = 6;

/// How long things may take, in milliseconds.
#[derive(Clone, Copy)]
pub struct Times {
    pub call: u64,
    pub lease: u64,
    pub run_max: u64,
}

const SETTINGS: &str = r#"
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
[[token]]
sha256 = "{ALPHA}"
org = "alpha"
[[token]]
sha256 = "{BETA}"
org = "beta"
[limits]
grace_ms = 20000
[[route]]
name = "payments"
path = "/payments"
timeout_ms = {CALL}
lease_ms = {LEASE}
run_max_ms = {RUN_MAX}
"#;

const ANSWERS: &str = r#"
counterparty = "answers"
credential = { environment = "UPSTREAM_TOKEN" }
[route.ask]
by_key = "/payments/by-key/{key}"
not_found = { pointer = "/error", value = "not_found" }
{NOT_FOUND_AFTER}
[route.answer]
status = "/status"
succeeded = ["succeeded"]
refused = ["declined"]
pending = ["pending"]
amount = { ours = "/amount", theirs = "/amount" }
reference = { ours = "/order_id", theirs = "/order_id" }
[route.recovered]
status = 201
body = ""
"#;

const BOUND_SETTING: &str = "not_found_after_s = {SECONDS}";

const DEDUPS: &str = r#"
counterparty = "dedups"
credential = { environment = "UPSTREAM_TOKEN" }
key_life_s = 86400
stored_refusals = [402]
in_progress = { status = 409, pointer = "/error", value = "in_progress" }
"#;

/// A payment as its caller repeats it. Both organisations use the same keys.
#[derive(Clone, Debug)]
pub struct Payment {
    org: &'static str,
    number: usize,
}

impl Payment {
    fn key(&self) -> String {
        format!("k-{}", self.number)
    }

    fn order(&self) -> String {
        format!("{}-{}", self.org, self.number)
    }

    fn amount(&self) -> u64 {
        1_000 + u64::try_from(self.number).unwrap()
    }

    fn ask(&self) -> Ask {
        let body = format!(r#"{{"order_id":"{}","amount":{}}}"#, self.order(), self.amount());
        let token = if self.org == "alpha" { SECRETS[1] } else { SECRETS[2] };
        Ask::post("/payments", &self.key(), &body).header(&format!("Authorization: Bearer {token}"))
    }
}

/// Where callers find the gateways now.
#[derive(Clone, Default)]
pub struct Door(Arc<Mutex<Vec<SocketAddr>>>);

impl Door {
    fn nth(&self, n: usize) -> Option<SocketAddr> {
        let open = self.0.lock().unwrap();
        open.get(n % open.len().max(1)).copied()
    }
}

/// A gateway's process.
pub struct Node {
    pub process: Process,
    pub address: SocketAddr,
    admin: SocketAddr,
}

/// Callers that go on until they are told to end.
pub struct Load {
    stop: Arc<AtomicBool>,
    ended: Arc<AtomicUsize>,
    callers: Vec<JoinHandle<Vec<(Payment, Answer)>>>,
}

impl Load {
    /// Waits until so many more payments have ended.
    pub async fn until_more_end(&self, more: usize) {
        let wanted = self.ended.load(Ordering::SeqCst) + more;
        let deadline = Instant::now() + BOUND;
        while self.ended.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < deadline, "the load stands still");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Lets every payment end that has begun; gives how each did.
    pub async fn end(self) -> Vec<(Payment, Answer)> {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Vec::new();
        for caller in self.callers {
            all.extend(caller.await.unwrap());
        }
        all
    }
}

/// Dropped in this order: processes before what they need.
pub struct World {
    pub nodes: Vec<Node>,
    pub upstream: Upstream,
    pub proxy: HttpProxy,
    history: History,
    door: Door,
    watch: Option<Watch>,
    logs: Vec<Captured>,
    counterparty: Counterparty,
    times: Times,
    database: String,
    folder: tempfile::TempDir,
}

/// What an audit found, and what the run was like.
pub struct Judged {
    pub violations: Vec<Violation>,
    pub log: String,
    /// How many payments the API recorded.
    pub recorded: usize,
    /// Requests that it got for the order that got the most.
    pub most_sent: usize,
    pub questions: usize,
}

impl World {
    /// Two gateways on this database.
    pub async fn new(database: &str, counterparty: Counterparty, times: Times) -> World {
        let (upstream, history) = (Upstream::new(counterparty), History::default());
        let proxy = HttpProxy::before(&format!("http://{}", upstream.address), &history).unwrap();
        let mut world = World {
            nodes: Vec::new(),
            upstream,
            proxy,
            history,
            door: Door::default(),
            watch: None,
            logs: Vec::new(),
            counterparty,
            times,
            database: database.to_owned(),
            folder: tempfile::tempdir().unwrap(),
        };
        world.start();
        world.start();
        let sampler = Sampler::postgres(database, &world.history);
        world.watch = Some(sampler.watch(LOOK));
        world
    }

    /// Starts a gateway, and opens the door to it.
    pub fn start(&mut self) {
        let hash = |token: &str| {
            use sha2::Digest;
            let bytes = sha2::Sha256::digest(token.as_bytes());
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let more = match self.counterparty {
            Counterparty::Opaque => "",
            Counterparty::Answers | Counterparty::AnswersUnbounded => ANSWERS,
            Counterparty::Dedups => DEDUPS,
        };
        let bound = match self.counterparty {
            Counterparty::AnswersUnbounded => "",
            Counterparty::Opaque | Counterparty::Answers | Counterparty::Dedups => BOUND_SETTING,
        };
        let Times { call, lease, run_max } = self.times;
        let mut text = format!("{SETTINGS}{more}");
        for (blank, filled) in [
            ("{NOT_FOUND_AFTER}", bound.to_owned()),
            ("{ALPHA}", hash(SECRETS[1])),
            ("{BETA}", hash(SECRETS[2])),
            ("{CALL}", call.to_string()),
            ("{LEASE}", lease.to_string()),
            ("{RUN_MAX}", run_max.to_string()),
            // Longer than anything here stands still.
            ("{SECONDS}", (run_max.div_ceil(1_000) + 1).to_string()),
        ] {
            text = text.replace(blank, &filled);
        }
        let file = self.folder.path().join("samekey.toml");
        std::fs::write(&file, text).unwrap();
        let program = Program::built("samekey")
            .unwrap()
            .args(["gateway", "--config"])
            .arg(&file)
            .env("SAMEKEY_UPSTREAM", self.proxy.url())
            .env("SAMEKEY_DATABASE", &self.database)
            .env("UPSTREAM_TOKEN", UPSTREAM_TOKEN)
            .env("SAMEKEY_LOG", "warn,samekey=debug");
        let node = block_in_place(|| {
            let mut process = program.start().unwrap();
            let address = process.address().unwrap();
            let admin = process.wait_for_line("where its metrics are", |line| {
                line.split_once("metrics on http://")?.1.parse().ok()
            });
            Node { process, address, admin: admin.unwrap() }
        });
        self.door.0.lock().unwrap().push(node.address);
        self.nodes.push(node);
    }

    /// Nobody is sent to the first gateway any more.
    pub fn close_first(&self) {
        let address = self.nodes[0].address;
        self.door.0.lock().unwrap().retain(|open| *open != address);
    }

    /// Kills the first gateway.
    pub fn kill_first(&mut self) {
        self.close_first();
        let finished = block_in_place(|| self.nodes.remove(0).process.kill()).unwrap();
        self.keep_log(finished.stderr);
    }

    /// Asks the first gateway to end, and waits for it; gives its exit code.
    pub fn stop_first(&mut self) -> Option<i32> {
        self.close_first();
        let node = self.nodes.remove(0);
        let finished = block_in_place(|| {
            node.process.terminate().unwrap();
            node.process.wait(BOUND).unwrap()
        });
        self.keep_log(finished.stderr.clone());
        finished.code()
    }

    /// Stops the first gateway for longer than its leases, while it stays open to callers.
    pub async fn pause_first(&mut self, time: Duration) {
        block_in_place(|| self.nodes[0].process.freeze()).unwrap();
        tokio::time::sleep(time).await;
        block_in_place(|| self.nodes[0].process.thaw()).unwrap();
        // The next one is the other's.
        self.nodes.rotate_left(1);
    }

    /// Stops the API. What it was sent meanwhile runs when it wakes up.
    pub async fn pause_upstream(&self, time: Duration) {
        let process = self.upstream.process.as_ref().unwrap();
        block_in_place(|| process.freeze()).unwrap();
        tokio::time::sleep(time).await;
        block_in_place(|| process.thaw()).unwrap();
    }

    fn keep_log(&mut self, stderr: String) {
        let place = format!("the log of process {}", self.logs.len() + 1);
        self.logs.push(Captured { place, bytes: stderr.into_bytes() });
    }

    /// A caller that sends one payment until it ends.
    pub fn pay(&self) -> JoinHandle<(Payment, Answer)> {
        let (door, history) = (self.door.clone(), self.history.clone());
        tokio::spawn(async move {
            let payment = Payment { org: "alpha", number: 0 };
            let (org, reference) = (payment.org.to_owned(), payment.order());
            history.ask(Booking { org, reference, amount: payment.amount() });
            let answer = until_it_ends(&door, &history, &payment).await;
            (payment, answer)
        })
    }

    /// Callers that send one payment after another, each until it ends.
    pub fn load(&self) -> Load {
        let (stop, ended) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let callers = (0..CALLERS).map(|caller| {
            let (stop, ended) = (Arc::clone(&stop), Arc::clone(&ended));
            let (door, history) = (self.door.clone(), self.history.clone());
            tokio::spawn(async move {
                let org = if caller % 2 == 0 { "alpha" } else { "beta" };
                let mut told = Vec::new();
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let payment = Payment { org, number: number * CALLERS + caller / 2 };
                    let (org, reference) = (org.to_owned(), payment.order());
                    history.ask(Booking { org, reference, amount: payment.amount() });
                    let answer = until_it_ends(&door, &history, &payment).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                    told.push((payment, answer));
                }
                told
            })
        });
        let callers = callers.collect();
        Load { stop, ended, callers }
    }

    /// Sends every payment once more to every gateway, ends them all, and judges the run.
    pub async fn audit(mut self, told: &[(Payment, Answer)], limits: Limits) -> Judged {
        let mut last_round = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for (payment, _) in told {
                let attempt = attempt(node.address, &self.history, payment).await;
                last_round.push(LastAnswer { node: number.to_string(), attempt });
            }
        }
        while !self.nodes.is_empty() {
            let metrics = Ask::new("GET", "/metrics").send(self.nodes[0].admin).await;
            assert!(metrics.text().contains("samekey_commands_total"), "{}", metrics.text());
            let place = format!("the metrics of {}", self.nodes[0].address);
            self.logs.push(Captured { place, bytes: metrics.body });
            self.kill_first();
        }
        let watched = self.watch.take().unwrap().stop().await.unwrap();
        let (mut samples, mut sampler) = (watched.samples, watched.sampler);
        let at_rest = sampler.at_rest(BOUND).await.unwrap();
        let last = sampler.sample().await.unwrap();
        let rows = last.rows.iter().map(SeenRow::row).collect();
        samples.push(last);
        let (calls, bookings) = (self.calls(), self.upstream.bookings().await);
        let mut sent: HashMap<&str, usize> = HashMap::new();
        for call in calls.iter().filter(|call| call.kind == CallKind::Command) {
            *sent.entry(&call.reference).or_default() += 1;
        }
        let most_sent = sent.values().copied().max().unwrap_or_default();
        let questions = calls.iter().filter(|call| call.kind == CallKind::Question).count();
        let recorded = bookings.len();
        let log: Vec<_> =
            self.logs.iter().map(|log| String::from_utf8_lossy(&log.bytes).into_owned()).collect();
        let evidence = Evidence {
            bookings,
            rows,
            limits,
            samples,
            open_claims: sampler.open_claims().await.unwrap(),
            activity: watched.activity,
            at_rest: Some(at_rest),
            calls,
            secrets: SECRETS.map(str::to_owned).to_vec(),
            captured: std::mem::take(&mut self.logs),
            last_round,
            ..Evidence::default()
        };
        let violations = self.history.audit(&evidence);
        Judged { violations, log: log.concat(), recorded, most_sent, questions }
    }

    /// Everything that reached the API. Questions are told by the key of a payment that was sent.
    fn calls(&self) -> Vec<Call> {
        let exchanges = self.proxy.exchanges();
        let paid = exchanges.iter().filter_map(|it| Some((it.key.clone()?, it.order()?)));
        let orders: HashMap<String, String> = paid.collect();
        let calls = exchanges.iter().filter_map(|exchange| {
            let (kind, key) = match exchange.path.strip_prefix("/payments/by-key/") {
                Some(key) => (CallKind::Question, key),
                None => (CallKind::Command, exchange.key.as_deref()?),
            };
            let order = orders.get(key)?;
            exchange.call(order.split('-').next()?, order, 0, kind)
        });
        calls.collect()
    }
}

impl Judged {
    /// How often the logs tell of this result.
    pub fn said(&self, result: &str) -> usize {
        self.log.matches(&format!("\"{result}\"")).count()
    }

    /// Fails where anything is wrong, and shows the log then.
    pub fn hold(&self, what: &str) {
        let lines: Vec<_> = self.log.lines().rev().take(200).collect();
        assert!(self.violations.is_empty(), "{what}: {:#?}\n{lines:#?}", self.violations);
    }
}

async fn until_it_ends(door: &Door, history: &History, payment: &Payment) -> Answer {
    let deadline = Instant::now() + BOUND;
    let mut sent = 0;
    loop {
        if let Some(address) = door.nth(payment.number + sent) {
            let attempt = attempt(address, history, payment).await;
            history.add(attempt.clone());
            if let Some(answer) = attempt.answer.filter(Answer::ends_the_caller) {
                return answer;
            }
        }
        sent += 1;
        assert!(Instant::now() < deadline, "{} never ended", payment.order());
        tokio::time::sleep(AGAIN).await;
    }
}

async fn attempt(address: SocketAddr, history: &History, payment: &Payment) -> Attempt {
    let began = history.now();
    let sent = tokio::time::timeout(ATTEMPT, payment.ask().try_send(address)).await;
    let answer = sent.ok().flatten().map(|reply| {
        let json: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let word = |name: &str| json[name].as_str().map(str::to_owned);
        let kept = KEPT
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), reply.one(name)?.as_bytes().to_vec())));
        Answer {
            status: reply.status,
            code: word("code"),
            headers: kept.collect(),
            is_replay: reply.is_replay(),
            told: word("order_id"),
            body: reply.body.clone(),
        }
    });
    let (org, reference) = (payment.org.to_owned(), payment.order());
    Attempt { org, key: payment.key(), reference, began, ended: history.now(), answer }
}
