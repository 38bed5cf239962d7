//! A provider that answers late, a service that is killed again and again, and callers who keep sending:
//! no payment is made twice, and none that was answered is missing.

use super::client::{code, pay, pay_until_final};
use super::on_both;
use super::program::{Database, Service, Which};
use super::provider::{lab, posts};
use samekey_lab::Lab;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both!(
    b04_b25_no_payment_is_made_twice_while_the_service_is_killed,
    b04_where_nobody_can_be_asked_open_payments_wait_for_a_person,
);

/// The lesson's provider, ten times faster: every second answer is 600 ms late, and a call is given
/// 200 ms.
const LATE: &str = r#""late": {"every": 2, "ms": 600}"#;
const LIMITS: [&str; 4] = ["--call-timeout-ms", "200", "--payment-lease-ms", "1000"];
/// When the service is killed. Another seed kills at other moments.
const SEED: u64 = 20_261_130;
/// Callers at the same time.
const CALLERS: usize = 20;
/// The service is killed so often, unless the callers are done before.
const KILLS_MAX: u32 = 12;
/// Less would show nothing.
const KILLS_MIN: u32 = 3;

/// The moments of the kills: the same for the same seed.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(100 + (self.0 >> 33) % 900)
    }
}

/// How the payments ended, by key; and how often the service was killed.
struct Ended {
    answers: HashMap<usize, (u16, String, String)>,
    kills: u32,
    waits: usize,
}

/// A port that is free now; the service comes back on it each time.
fn port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

async fn storm(database: &Database, lab: &Lab, extra: &[&str], payments: usize) -> Ended {
    let address = port();
    let (listen, provider) = (address.to_string(), lab.url(""));
    let mut arguments = vec!["--listen", &listen, "--provider", &provider];
    arguments.extend(LIMITS.iter().chain(extra));
    let start = || -> Service { database.serve_on(&arguments) };
    let (left, done) = (Mutex::new(0..payments), AtomicBool::new(false));
    let answers = Mutex::new(HashMap::new());
    let waits = Mutex::new(0);
    let callers = (0..CALLERS).map(|_| async {
        loop {
            let Some(number) = left.lock().unwrap().next() else { return };
            let body = format!(r#"{{"order_id": "ORD-{number}", "amount": {}}}"#, number + 1);
            let key = format!("k-{number}");
            let (reply, codes) = pay_until_final(|| address, "alpha-token", &key, &body).await;
            *waits.lock().unwrap() += codes.len();
            let ended = (reply.status, code(&reply), reply.body);
            answers.lock().unwrap().insert(number, ended);
        }
    });
    let killer = async {
        let (mut service, mut moments, mut kills) = (start(), Moments(SEED), 0);
        while kills < KILLS_MAX && !done.load(Ordering::Relaxed) {
            tokio::time::sleep(moments.next()).await;
            service.process.kill().unwrap();
            kills += 1;
            service = start();
        }
        (service, kills)
    };
    let calling = async {
        futures_util::future::join_all(callers).await;
        done.store(true, Ordering::Relaxed);
    };
    let ((), (service, kills)) = tokio::join!(calling, killer);
    // Every final answer is given again, to the byte.
    let answers = answers.into_inner().unwrap();
    for (number, (status, _, body)) in &answers {
        let request = format!(r#"{{"order_id": "ORD-{number}", "amount": {}}}"#, number + 1);
        let again = pay(service.address, "alpha-token", &format!("k-{number}"), &request).await;
        assert_eq!((again.status, &again.body), (*status, body), "seed {SEED}, k-{number}");
    }
    Ended { answers, kills, waits: waits.into_inner().unwrap() }
}

/// How often each order was paid.
fn records(lab: &Lab) -> HashMap<String, usize> {
    let mut records = HashMap::new();
    for payment in lab.payments().unwrap() {
        *records.entry(payment.order_id).or_default() += 1;
    }
    records
}

async fn b04_b25_no_payment_is_made_twice_while_the_service_is_killed(which: Which) {
    const PAYMENTS: usize = 200;
    let database = Database::fresh(which).await;
    // It deduplicates nothing: whatever is sent twice is paid twice.
    let lab = lab(&format!(r#"{{{LATE}, "keys": {{"dedup": false}}}}"#)).await;
    // Nothing is on its way here for longer than a lease.
    let ended = storm(&database, &lab, &["--not-found-after-ms", "1000"], PAYMENTS).await;
    let records = records(&lab);
    assert_eq!(ended.answers.len(), PAYMENTS);
    for (number, (status, _, body)) in &ended.answers {
        let order = format!("ORD-{number}");
        assert_eq!(*status, 201, "seed {SEED}, {order}: {body}");
        assert_eq!(records.get(&order), Some(&1), "seed {SEED}, {order}");
        let answer: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&answer["order_id"], &answer["amount"]), (&order.into(), &(number + 1).into()));
    }
    assert_eq!(records.len(), PAYMENTS);
    assert!(ended.kills >= KILLS_MIN && ended.waits > 0, "it was killed {} times", ended.kills);
    assert!(posts(&lab).len() >= PAYMENTS);
}

async fn b04_where_nobody_can_be_asked_open_payments_wait_for_a_person(which: Which) {
    const PAYMENTS: usize = 60;
    let database = Database::fresh(which).await;
    let lab = lab(&format!(r#"{{{LATE}, "keys": {{"dedup": false}}}}"#)).await;
    let ended = storm(&database, &lab, &["--counterparty", "opaque"], PAYMENTS).await;
    let records = records(&lab);
    let mut waiting = 0;
    for (number, (status, code, body)) in &ended.answers {
        let paid = records.get(&format!("ORD-{number}")).copied().unwrap_or(0);
        match status {
            201 => assert_eq!(paid, 1, "seed {SEED}, ORD-{number}"),
            _ => {
                assert_eq!((*status, code.as_str()), (409, "samekey.outcome-unknown"), "{body}");
                assert!(paid <= 1, "seed {SEED}, ORD-{number} was paid {paid} times");
                waiting += 1;
            }
        }
    }
    assert!(waiting > 0 && ended.answers.len() == PAYMENTS);
    // Nobody was asked, and nothing was sent a second time.
    let requests = lab.requests().unwrap().len();
    assert_eq!(requests, posts(&lab).len());
}
