//! A shop with its provider, whatever stands between them, its callers, and a record of everything.

use super::client::try_post;
pub use super::payment::Payment;
use super::program::{Database, Which, orders};
use super::provider::lab;
use samekey_lab::Lab;
use samekey_sim::history::sometimes;
use samekey_sim::history::{
    Answer, Attempt, Booking, Call, CallKind, Captured, EndedCommand, Evidence, History,
    LastAnswer, Limits, Rules, Sometimes, Violation,
};
use samekey_sim::proxy::http::Target;
use samekey_sim::sampler::Watch;
use samekey_sim::{Finished, HttpProxy, Process, Sampler};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, block_in_place};

/// A payment on its way to the provider.
pub const PAY: Target = Target::to("POST", "/payments");
/// How long anything is waited for.
pub const BOUND: Duration = Duration::from_secs(60);
/// How long a caller sends its payment again. A question that a busy machine does not answer in its third of a lease
/// is put again after a wait that doubles from two seconds, and all the service's other times are scaled down here:
/// five of them fit in.
const CALLER_BOUND: Duration = Duration::from_secs(130);
/// The pause of a caller before it sends again. `Retry-After` is in seconds; a test has no time.
const AGAIN: Duration = Duration::from_millis(100);
/// The pause between two looks into the database.
const LOOK: Duration = Duration::from_millis(40);
const POLL: Duration = Duration::from_millis(10);
/// The service's own credential at the provider.
const PROVIDER_TOKEN: &str = "OURS-AT-THE-PROVIDER";
/// What stands in no answer and no log.
const SECRETS: [&str; 4] = [PROVIDER_TOKEN, "cluster-password", "alpha-token", "beta-token"];
/// The headers that a replay keeps.
const KEPT: [&str; 2] = ["content-type", "location"];

/// Where callers find the service now; it moves when a process is started anew.
#[derive(Clone, Default)]
pub struct Door(Arc<Mutex<Vec<SocketAddr>>>);

impl Door {
    fn add(&self, address: SocketAddr) {
        self.0.lock().unwrap().push(address);
    }

    /// Nobody is sent there any more.
    pub fn close(&self, address: SocketAddr) {
        self.0.lock().unwrap().retain(|open| *open != address);
    }

    fn nth(&self, n: usize) -> Option<SocketAddr> {
        let open = self.0.lock().unwrap();
        open.get(n % open.len().max(1)).copied()
    }
}

/// A process of the service.
pub struct Node {
    pub process: Process,
    pub address: SocketAddr,
}

impl Node {
    /// Waits until the log says this word as the result of something.
    pub async fn until_it_says(&self, result: &str) {
        let deadline = Instant::now() + BOUND;
        while said(&self.process.stderr(), result) == 0 {
            assert!(Instant::now() < deadline, "no {result}: {}", self.process.stderr());
            tokio::time::sleep(POLL).await;
        }
    }
}

/// How often a log tells of this result.
fn said(log: &str, result: &str) -> u64 {
    u64::try_from(log.matches(&format!("\"{result}\"")).count()).unwrap()
}

/// Dropped in this order: processes before their database.
pub struct World {
    pub nodes: Vec<Node>,
    pub lab: Lab,
    /// Between the service and the provider.
    pub proxy: HttpProxy,
    pub history: History,
    pub door: Door,
    watch: Option<Watch>,
    payments: Mutex<Vec<Payment>>,
    flags: Vec<String>,
    logs: Vec<Captured>,
    address: String,
    _database: Option<Database>,
}

/// What an audit found, and what the run was like.
pub struct Judged {
    pub violations: Vec<Violation>,
    pub log: String,
    /// What each process said.
    pub logs: Vec<String>,
    /// Requests that the provider got for each order.
    pub sent: HashMap<String, usize>,
    /// Questions that it got.
    pub questions: usize,
    /// What everybody was told in the end, by order.
    pub told: HashMap<String, Vec<Answer>>,
}

impl World {
    /// On a fresh database, with a provider that has this fault plan, and these flags of the service.
    pub async fn new(which: Which, plan: &str, flags: &[&str]) -> World {
        let database = Database::fresh(which).await;
        let mut world = World::at(database.address(), plan, flags).await;
        world._database = Some(database);
        world
    }

    /// On the database of this address.
    pub async fn at(address: String, plan: &str, flags: &[&str]) -> World {
        let (lab, history) = (lab(plan).await, History::default());
        let proxy = HttpProxy::before(&lab.url(""), &history).unwrap();
        World {
            nodes: Vec::new(),
            lab,
            proxy,
            history,
            door: Door::default(),
            watch: None,
            payments: Mutex::default(),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            logs: Vec::new(),
            address,
            _database: None,
        }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Starts a process, with a crash point armed or none, and opens the door to it.
    pub fn start(&mut self, armed: Option<&str>) {
        self.start_at(&self.address.clone(), armed);
    }

    /// The same, reaching its database by another address.
    pub fn start_at(&mut self, database: &str, armed: Option<&str>) {
        let mut program = orders()
            .args(["--listen", "127.0.0.1:0", "--database", database])
            .args(["--provider", self.proxy.url(), "--provider-token", PROVIDER_TOKEN])
            .args(&self.flags)
            .env("RUST_LOG", "warn,samekey=debug");
        // A planted bug is in the program alone.
        if let Ok(bug) = std::env::var("SAMEKEY_BUG") {
            program = program.env("SAMEKEY_BUG", bug);
        }
        if let Some(armed) = armed {
            program = program.env("SAMEKEY_CRASH_POINT", armed);
        }
        let node = block_in_place(|| {
            let mut process = program.start().unwrap();
            let address = process.address().unwrap();
            Node { process, address }
        });
        self.door.add(node.address);
        self.nodes.push(node);
        if self.watch.is_none() {
            self.watch = Some(self.sampler().watch(LOOK));
        }
    }

    fn sampler(&self) -> Sampler {
        match self.address.strip_prefix("sqlite:") {
            Some(file) => Sampler::sqlite(file, &self.history),
            None => Sampler::postgres(&self.address, &self.history),
        }
    }

    /// Waits for the end of the first process, and keeps what it said.
    pub fn bury(&mut self) -> Finished {
        let node = self.nodes.remove(0);
        self.door.close(node.address);
        let finished = block_in_place(|| node.process.wait(BOUND)).unwrap();
        self.keep_log(finished.stderr.clone());
        finished
    }

    fn keep_log(&mut self, stderr: String) {
        let place = format!("the log of process {}", self.logs.len() + 1);
        self.logs.push(Captured { place, bytes: stderr.into_bytes() });
    }

    /// A caller that sends a payment until it has ended, wherever the door leads.
    pub fn call(&self, payment: &Payment) -> JoinHandle<Answer> {
        let (door, history, payment) = (self.door.clone(), self.history.clone(), payment.clone());
        self.note(&payment);
        tokio::spawn(async move { send_until_it_ends(&door, &history, &payment).await })
    }

    /// One that does so with several, one after another.
    pub fn call_all(&self, payments: Vec<Payment>) -> JoinHandle<Vec<Answer>> {
        let (door, history) = (self.door.clone(), self.history.clone());
        payments.iter().for_each(|payment| self.note(payment));
        tokio::spawn(async move {
            let mut answers = Vec::new();
            for payment in &payments {
                answers.push(send_until_it_ends(&door, &history, payment).await);
            }
            answers
        })
    }

    /// A caller that sends a payment once, to this process.
    pub fn send_to(&self, node: usize, payment: &Payment) -> JoinHandle<Option<Answer>> {
        let (address, history) = (self.nodes[node].address, self.history.clone());
        let payment = payment.clone();
        self.note(&payment);
        tokio::spawn(async move { send(address, &history, &payment).await })
    }

    fn note(&self, payment: &Payment) {
        let (org, reference) = (payment.org().to_owned(), payment.order());
        self.history.ask(Booking { org, reference, amount: payment.amount() });
        let mut payments = self.payments.lock().unwrap();
        if !payments.iter().any(|known| known.order() == payment.order()) {
            payments.push(payment.clone());
        }
    }

    /// How many payments the provider recorded.
    pub fn recorded(&self) -> u64 {
        self.lab.counts().payments
    }

    /// Sends every payment once more to every process, ends them all, and judges the run.
    pub async fn audit(self, limits: Limits) -> Judged {
        self.audit_with(limits, Rules::default(), Vec::new()).await
    }

    /// The same on a route with these rules, and with what became of the commands.
    pub async fn audit_with(
        mut self,
        limits: Limits,
        rules: Rules,
        commands: Vec<EndedCommand>,
    ) -> Judged {
        let last_round = self.last_round().await;
        for node in std::mem::take(&mut self.nodes) {
            let finished = block_in_place(|| node.process.kill()).unwrap();
            self.keep_log(finished.stderr);
        }
        let watched = self.watch.take().unwrap().stop().await.unwrap();
        let (mut samples, mut sampler) = (watched.samples, watched.sampler);
        let at_rest = sampler.at_rest(BOUND).await.unwrap();
        let last = sampler.sample().await.unwrap();
        let rows = last.rows.iter().map(samekey_sim::history::SeenRow::row).collect();
        samples.push(last);
        let calls = self.calls();
        let mut sent = HashMap::new();
        for call in calls.iter().filter(|call| call.kind == CallKind::Command) {
            *sent.entry(call.reference.clone()).or_default() += 1;
        }
        let questions = self.proxy.sent(Target::to("GET", "/payments/by-key/")).len();
        let mut told: HashMap<String, Vec<Answer>> = HashMap::new();
        for last in &last_round {
            let answers = told.entry(last.attempt.reference.clone()).or_default();
            answers.extend(last.attempt.answer.clone());
        }
        let evidence = Evidence {
            bookings: self.bookings(),
            rows,
            rules,
            commands,
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
        let said = |log: &Captured| String::from_utf8_lossy(&log.bytes).into_owned();
        let logs: Vec<String> = evidence.captured.iter().map(said).collect();
        let (violations, log) = (self.history.audit(&evidence), logs.concat());
        Judged { violations, log, logs, sent, questions, told }
    }

    /// Every payment of this run.
    pub fn payments(&self) -> Vec<Payment> {
        self.payments.lock().unwrap().clone()
    }

    /// Whose an order is.
    fn org_of(&self, order: &str) -> String {
        let payments = self.payments.lock().unwrap();
        let org = payments.iter().find(|payment| payment.order() == order).map(|known| known.org());
        org.unwrap_or_default().to_owned()
    }

    async fn last_round(&self) -> Vec<LastAnswer> {
        let payments = self.payments.lock().unwrap().clone();
        let mut round = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for payment in &payments {
                let attempt = attempt(node.address, &self.history, payment).await;
                round.push(LastAnswer { node: number.to_string(), attempt });
            }
        }
        round
    }

    /// The provider's own ledger.
    fn bookings(&self) -> Vec<Booking> {
        let payments = self.lab.payments().unwrap().into_iter();
        let bookings = payments.map(|payment| Booking {
            org: self.org_of(&payment.order_id),
            amount: payment.amount.map_or(0, |amount| amount.ten_thousandths() / 10_000),
            reference: payment.order_id,
        });
        bookings.collect()
    }

    /// Everything that reached the provider. Questions are told by the key of a payment that was sent; one
    /// about a payment that nobody ever sent belongs to no order.
    fn calls(&self) -> Vec<Call> {
        let exchanges = self.proxy.exchanges();
        let paid = exchanges.iter().filter_map(|it| Some((it.key.clone()?, it.order()?)));
        let orders: HashMap<String, String> = paid.collect();
        let calls = exchanges.iter().filter_map(|exchange| {
            let asked = exchange.path.strip_prefix("/payments/by-");
            let (kind, key) = match asked.and_then(|asked| asked.split_once('/')).map(|by| by.1) {
                Some(key) => (CallKind::Question, key),
                None => (CallKind::Command, exchange.key.as_deref()?),
            };
            // A question by reference names the order itself.
            let by_reference = exchange.path.strip_prefix("/payments/by-reference/");
            let order = by_reference.map(str::to_owned).or_else(|| orders.get(key).cloned())?;
            let order = &order;
            exchange.call(&self.org_of(order), order, 0, kind)
        });
        calls.collect()
    }
}

impl Judged {
    /// Notes the rare states that the logs tell of.
    pub fn note(&self, met: &Sometimes) {
        let times = |result| said(&self.log, result);
        let (fenced_out, evidence) = (times("lease-lost"), times("evidence-recorded"));
        met.saw_times(sometimes::FENCED_OUT, fenced_out);
        met.saw_times(sometimes::EVIDENCE, evidence);
        // Either was written, or was not, by an owner that lived when another had its key.
        met.saw_times(sometimes::TAKEN_OVER, fenced_out + evidence);
        met.saw_times(sometimes::REVIEW, times("handed-over"));
        met.saw_times(sometimes::RENEWED, times("renewed"));
    }

    /// How often the logs tell of this result.
    pub fn said(&self, result: &str) -> u64 {
        said(&self.log, result)
    }

    /// The one answer that everybody got in the end.
    pub fn answer(&self, payment: &Payment) -> &Answer {
        let told = &self.told[&payment.order()];
        assert!(told.iter().all(|answer| answer.body == told[0].body), "{told:?}");
        &told[0]
    }

    /// Fails where anything is wrong, and shows the log then.
    pub fn hold(&self, what: &str) {
        assert!(self.violations.is_empty(), "{what}: {:#?}\n{}", self.violations, self.log);
    }
}

async fn send_until_it_ends(door: &Door, history: &History, payment: &Payment) -> Answer {
    let deadline = Instant::now() + CALLER_BOUND;
    let mut sent = 0;
    let mut last = None;
    loop {
        if let Some(address) = door.nth(payment.number() + sent) {
            let answer = send(address, history, payment).await;
            if let Some(answer) = answer.as_ref().filter(|answer| answer.ends_the_caller()) {
                return answer.clone();
            }
            last = answer;
        }
        sent += 1;
        let order = payment.order();
        assert!(Instant::now() < deadline, "{order} never ended in {sent} times: {last:?}");
        tokio::time::sleep(AGAIN).await;
    }
}

async fn send(address: SocketAddr, history: &History, payment: &Payment) -> Option<Answer> {
    let attempt = attempt(address, history, payment).await;
    history.add(attempt.clone());
    attempt.answer
}

async fn attempt(address: SocketAddr, history: &History, payment: &Payment) -> Attempt {
    let (key, token, body) = (payment.key(), format!("{}-token", payment.org()), payment.body());
    let began = history.now();
    let reply = try_post(address, payment.path(), &token, &key, &body).await;
    let answer = reply.map(|reply| {
        let json: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_default();
        let word = |name: &str| json[name].as_str().map(str::to_owned);
        let kept = KEPT
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), reply.header(name)?.as_bytes().to_vec())));
        Answer {
            status: reply.status,
            code: word("code"),
            headers: kept.collect(),
            is_replay: reply.is_replay(),
            told: word(payment.told()),
            body: reply.body.into_bytes(),
        }
    });
    let (org, reference) = (payment.org().to_owned(), payment.order());
    Attempt { org, key, reference, began, ended: history.now(), answer }
}
