//! An outage as a whole: ten thousand commands on PostgreSQL, three couriers, and an API on a real socket that is
//! overloaded and says 503, then goes away, and comes back.
//!
//! All times of a command are those of the profile `durable`, divided by [`SCALE`], but for two: how long an
//! attempt may take, and how long ten thousand commands take in all, is the machine's affair. Budget and gate
//! keep their own times.

use crate::support::{LAB, PATIENCE, counterparty};
use futures_util::future::join_all;
use samekey_client::core::backoff::Backoff;
use samekey_client::core::delivery::State;
use samekey_client::core::key::Org;
use samekey_client::core::profile::Limits;
use samekey_client::store::outbox::{CommandId, Outbox, Show};
use samekey_client::store::postgres::outbox::enqueue;
use samekey_client::store::postgres::{Options, PostgresLedger, connect, migrate};
use samekey_client::{Courier, Destination, HttpRequest, NewCommand, Setup, Signal};
use samekey_lab::Lab;
use samekey_lab::faults::Plan;
use samekey_sim::database::{FreshDatabase, fresh_database};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// How many commands wait for the end of the outage.
const COMMANDS: usize = 10_000;
/// Ten minutes are twenty-five seconds.
const SCALE: u32 = 24;
const OUTAGE: Duration = Duration::from_secs(600 / SCALE as u64);
/// Before it has refused so many of each, it does not go away.
const TOLD_MIN: usize = 6;
/// For so long it is overloaded after that.
const OVERLOADED: Duration = Duration::from_secs(5);
/// What it asks for while it is overloaded.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Requests of one courier at a time: the default of a destination.
const CONCURRENCY: usize = 8;
/// What a budget begins with.
const BUDGET_START: usize = 10;
/// A budget gets one every so often.
const BUDGET_EVERY: Duration = Duration::from_secs(5);
/// More probes than fit into the outage.
const PROBES_MAX: usize = 12;
/// Gaps of two couriers that differ by less may be in step, on a busy machine.
const APART: Duration = Duration::from_millis(200);
/// Between two sends into an open gate there is less.
const PAUSE_MIN: Duration = Duration::from_millis(300);
/// Why nobody knows how a command ended; the last where a busy machine took longer than a lease.
const IN_DOUBT: [&str; 3] = ["timed-out", "connection-lost", "lease-lapsed"];
/// Commands that are written by one transaction.
const AT_A_TIME: usize = 250;
/// Callers that enqueue.
const CALLERS: usize = 4;
/// How long a command is tried: the whole run ends before that.
const TIME_MAX: Duration = Duration::from_secs(600);
/// As long as the rest may take once it works again, on a machine that has other things to do.
const BOUND: Duration = Duration::from_secs(240);
/// Three processes deliver.
const COURIERS: usize = 3;

/// When a courier sent, and when its gate shut for the first time.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<Instant>>>, Arc<OnceLock<Instant>>);

impl Sent {
    fn moments(&self) -> Vec<Instant> {
        self.0.lock().unwrap().clone()
    }

    /// The pauses that began in this time, between one send and the next; those that an open gate makes are none.
    fn pauses(&self, from: Instant, until: Instant) -> Vec<Duration> {
        let moments = self.moments();
        let begun = moments.windows(2).filter(|two| (from..until).contains(&two[0]));
        begun.map(|two| two[1] - two[0]).filter(|pause| *pause > PAUSE_MIN).collect()
    }
}

fn durable() -> Limits {
    let scaled =
        |backoff: Backoff| Backoff { base: backoff.base / SCALE, cap: backoff.cap / SCALE };
    Limits {
        attempt_time_max: Duration::from_secs(20),
        lease: Duration::from_secs(30),
        backoff: scaled(Limits::DURABLE.backoff),
        questions: scaled(Limits::DURABLE.questions),
        time_max: TIME_MAX,
        ..Limits::DURABLE
    }
}

struct Outage {
    lab: Lab,
    database: FreshDatabase,
    couriers: Vec<(Courier<PostgresLedger>, Sent)>,
}

async fn ledger(database: &FreshDatabase) -> PostgresLedger {
    let pool = connect(database.url()).unwrap();
    PostgresLedger::open(pool, Options::default()).await.unwrap()
}

impl Outage {
    /// Couriers that were not started.
    async fn begin(rest: &str, limits: Limits) -> Outage {
        let database = fresh_database().await;
        migrate(&connect(database.url()).unwrap()).await.unwrap();
        let lab = Lab::start(samekey_lab::Options::default()).await.unwrap();
        let mut couriers = Vec::new();
        for _ in 0..COURIERS {
            let psp = counterparty(&lab.url(""), rest);
            let psp = Destination::with_limits("psp", psp, limits).unwrap();
            let sent = Sent::default();
            let noted = sent.clone();
            let listener = Arc::new(move |_: &str, signal| {
                if signal == Signal::Sent {
                    noted.0.lock().unwrap().push(Instant::now());
                }
                if signal == Signal::GateShut {
                    noted.1.get_or_init(Instant::now);
                }
            });
            let setup = Setup::new("test").unwrap().destination(psp).listener(listener);
            let store = Arc::new(ledger(&database).await);
            couriers.push((Courier::open(store, setup).await.unwrap(), sent));
        }
        Outage { lab, database, couriers }
    }

    /// From here on connections are refused.
    async fn shut(&self) {
        self.turn(r#"{"connections": {"mode": "refuse"}}"#);
        let is_open = async || TcpStream::connect(self.lab.addr()).await.is_ok();
        let ends = Instant::now() + PATIENCE;
        while is_open().await {
            assert!(Instant::now() < ends, "the door stays open");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn turn(&self, plan: &str) {
        self.lab.set_plan(Plan::from_json("plan", plan.as_bytes()).unwrap()).unwrap();
    }

    /// Writes all commands down, as callers do it in transactions of their own.
    async fn enqueue_all(&self) {
        let courier = &self.couriers[0].0;
        let callers = (0..CALLERS).map(|caller| async move {
            let mine: Vec<usize> = (caller..COMMANDS).step_by(CALLERS).collect();
            for some in mine.chunks(AT_A_TIME) {
                let mut client = courier.store().pool().get().await.unwrap();
                let tx = client.transaction().await.unwrap();
                for number in some {
                    let prepared = courier.prepare(charge(*number)).await.unwrap();
                    let enqueued = enqueue(&*tx, &prepared.command, &prepared.delivery).await;
                    assert!(prepared.placed(enqueued.unwrap()).unwrap().is_new);
                }
                tx.commit().await.unwrap();
            }
        });
        join_all(callers).await;
    }

    /// How many commands are in each state that is not finished.
    async fn open(&self) -> BTreeMap<String, u64> {
        let counts = self.couriers[0].0.store().count_commands().await.unwrap();
        counts.into_iter().map(|count| (count.state, count.count)).collect()
    }

    async fn until_ended(&self) {
        let ends = Instant::now() + BOUND;
        loop {
            let open = self.open().await;
            if open.keys().all(|state| matches!(state.as_str(), "failed" | "undecided")) {
                return;
            }
            assert!(Instant::now() < ends, "{open:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn sent_before(&self, moment: Instant) -> usize {
        let early = |sent: &Sent| sent.moments().iter().filter(|at| **at < moment).count();
        self.couriers.iter().map(|(_, sent)| early(sent)).sum()
    }
}

fn org() -> Org {
    Org::new("shop").unwrap()
}

fn charge(number: usize) -> NewCommand {
    let body = format!(r#"{{"order_id":"ORD-{number}","amount":1200,"currency":"EUR"}}"#);
    NewCommand {
        org: org(),
        destination: "psp".to_owned(),
        operation: "charge".to_owned(),
        business_ref: format!("ORD-{number}"),
        order_key: None,
        request: HttpRequest::post("/payments").json(body).encode().unwrap(),
        delay: Duration::ZERO,
    }
}

/// Every command that is not finished, by its state and the reason of its end.
async fn how_they_ended(
    store: &PostgresLedger,
) -> BTreeMap<(&'static str, Option<&'static str>), u64> {
    let mut ends = BTreeMap::new();
    let mut after: Option<CommandId> = None;
    loop {
        let org = org();
        let page = store.list(&Show::default(), after.map(|id| (&org, id)), 1_000).await.unwrap();
        let Some(last) = page.last() else { return ends };
        after = Some(last.id);
        for listed in &page {
            let delivery = &listed.seen.delivery;
            let reason = match &delivery.state {
                State::Failed(ended) | State::Undecided(ended) => Some(ended.with.code()),
                State::Waiting(_)
                | State::Sending(_)
                | State::Unknown(_)
                | State::Succeeded(_)
                | State::Refused(_)
                | State::Cancelled(_)
                | State::Resolved(_) => None,
            };
            *ends.entry((delivery.state_name(), reason)).or_default() += 1;
        }
    }
}

/// Each gap is longer than the one before it, but for what a busy machine adds: the next one began when the last
/// probe had ended.
fn grow(gaps: &[Duration]) {
    let slack = Duration::from_millis(250);
    for two in gaps.windows(2) {
        assert!(two[1] + slack >= two[0], "{gaps:?}");
    }
    // Chance takes up to half of each, so that the last is not for certain twice as long as the first.
    assert!(gaps.len() >= 2 && gaps.last() > gaps.first(), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_p62_p67_t75_ten_thousand_commands_sit_out_an_outage() {
    let outage = Outage::begin(&format!("key_life_s = 86400\n{LAB}"), durable()).await;
    // At first somebody is there, and overloaded; then nobody is.
    outage.turn(&format!(
        r#"{{"rules": [{{"process": "never", "answer": {{"status": 503, "retry_after": "{}"}}}}]}}"#,
        RETRY_AFTER.as_secs()
    ));
    let began = Instant::now();
    let running: Vec<_> = outage.couriers.iter().map(|(courier, _)| courier.spawn()).collect();
    let goes_away = async {
        // Each of them has been told, and so their gates are shut.
        let told = |lab: &Lab| lab.requests().unwrap().len() >= COURIERS * TOLD_MIN;
        assert!(outage.lab.until(BOUND, told).await, "nothing is sent");
        tokio::time::sleep(OVERLOADED).await;
        let shut = Instant::now();
        outage.shut().await;
        shut
    };
    let ((), shut) = tokio::join!(outage.enqueue_all(), goes_away);
    let enqueued = began.elapsed();
    tokio::time::sleep(OUTAGE.saturating_sub(began.elapsed())).await;
    let healed = Instant::now();
    let refused = outage.lab.requests().unwrap();
    outage.turn("{}");
    outage.until_ended().await;
    let took = healed.elapsed();

    // All succeed, each once.
    assert_eq!(outage.open().await, BTreeMap::new());
    let payments = outage.lab.payments().unwrap();
    let orders: BTreeSet<&str> = payments.iter().map(|paid| paid.order_id.as_str()).collect();
    assert_eq!((payments.len(), orders.len()), (COMMANDS, COMMANDS));

    // Sends into the outage stay within what the gates and the budgets allow.
    let early = outage.sent_before(healed);
    let earned = usize::try_from(began.elapsed().as_secs() / BUDGET_EVERY.as_secs()).unwrap();
    let most = COURIERS * (CONCURRENCY + BUDGET_START + earned + PROBES_MAX);
    assert!(early <= most, "{early} sends into an outage, of {most}");

    // No second collapse: once it works, nothing is sent twice.
    let all = outage.lab.requests().unwrap();
    let late = all.len() - refused.len();
    assert!(late <= COMMANDS + CONCURRENCY, "{late} requests for {COMMANDS} commands");

    // Retry-After is never undercut: by a courier that was told it, nor for a command.
    let mut arrivals: BTreeMap<&str, Vec<(i64, Option<u16>)>> = BTreeMap::new();
    for seen in &all {
        let key = seen.arrived.key.as_deref().unwrap();
        arrivals.entry(key).or_default().push((seen.arrived.at_ms, seen.status));
    }
    let asked = i64::try_from(RETRY_AFTER.as_millis()).unwrap();
    let mut told = 0;
    for of_one in arrivals.values() {
        for two in of_one.windows(2).filter(|two| two[0].1 == Some(503)) {
            told += 1;
            // Both moments are cut to whole milliseconds.
            assert!(two[1].0 - two[0].0 >= asked - 1, "{of_one:?}");
        }
    }
    assert!(told >= COURIERS, "{told} were told to wait");
    for (_, sent) in &outage.couriers {
        let left_alone = *sent.1.get().expect("its gate shut");
        let told = sent.pauses(left_alone, shut);
        assert!(told.iter().all(|pause| *pause >= RETRY_AFTER), "{told:?}");
    }

    // Gaps grow, and no two runs share them.
    let since = |sent: &Sent| sent.1.get().copied().unwrap_or(began);
    let gaps: Vec<_> =
        outage.couriers.iter().map(|(_, sent)| sent.pauses(since(sent), healed)).collect();
    outage.couriers.iter().for_each(|(_, sent)| grow(&sent.pauses(shut, healed)));
    let apart = |one: &[Duration], other: &[Duration]| {
        let differences = one.iter().zip(other).map(|(one, other)| one.abs_diff(*other));
        differences.max().unwrap_or_default()
    };
    let pairs = [(0, 1), (1, 2), (2, 0)].map(|(one, other)| apart(&gaps[one], &gaps[other]));
    // Two of three may be alike by chance.
    assert!(pairs.iter().filter(|apart| **apart > APART).count() >= 2, "in step: {gaps:?}");
    println!(
        "{COMMANDS} enqueued in {enqueued:?}, {early} sent into an outage of {:?}, the rest delivered in {took:?}; gaps {gaps:?}",
        healed - began
    );
    for one in running {
        assert!(one.drain(Duration::from_secs(10)).await);
    }
    drop(outage.database);
}

/// It never comes back. What was sent and not answered is undecided, and the rest has failed; each says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_process_p54_t75_down_for_good_ten_thousand_commands_end_with_a_reason() {
    let time_max = Duration::from_secs(3600 / u64::from(SCALE) / 6);
    let limits = Limits {
        time_max,
        attempt_time_max: Duration::from_secs(1),
        lease: Duration::from_secs(2),
        ..durable()
    };
    // It takes connections and requests, and never answers. It cannot be asked.
    let outage = Outage::begin("allow_networks = [\"127.0.0.0/8\"]", limits).await;
    outage.turn(r#"{"rules": [{"wire": "hang"}]}"#);
    let began = Instant::now();
    let running: Vec<_> = outage.couriers.iter().map(|(courier, _)| courier.spawn()).collect();
    outage.enqueue_all().await;
    tokio::time::sleep(time_max / 4).await;
    outage.shut().await;
    outage.until_ended().await;
    let ends = how_they_ended(outage.couriers[0].0.store()).await;
    println!("{COMMANDS} ended in {:?}: {ends:?}", began.elapsed());
    assert_eq!(ends.values().sum::<u64>(), u64::try_from(COMMANDS).unwrap());
    // Failed means that nothing ran: its time was over. Of the others nobody knows: their answers never came, or
    // their connection broke when the door shut.
    let is_named = |(state, reason): &(&str, Option<&str>)| match *state {
        "failed" => *reason == Some("time-over"),
        "undecided" => reason.is_some_and(|reason| IN_DOUBT.contains(&reason)),
        _ => false,
    };
    assert!(ends.keys().all(is_named), "{ends:?}");
    let states: BTreeSet<&str> = ends.keys().map(|(state, _)| *state).collect();
    assert_eq!(states, BTreeSet::from(["failed", "undecided"]));
    // What may have run is what was sent, and no more.
    let doubted: u64 =
        ends.iter().filter(|((state, _), _)| *state == "undecided").map(|(_, n)| n).sum();
    let recorded = outage.lab.counts().payments;
    assert!(recorded <= doubted, "{recorded} ran, and of {doubted} it is said that they may have");
    for one in running {
        assert!(one.drain(Duration::from_secs(10)).await);
    }
    drop(outage.database);
}
