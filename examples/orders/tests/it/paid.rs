//! Orders that are paid by a courier: order, key and command are one transaction, and the command's end is
//! the result.

use super::client::{Reply, order, send};
use super::on_both;
use super::program::{Database, Service, Which, orders};
use super::provider::{lab, posts};
use futures_util::future::join_all;
use samekey_lab::Lab;
use samekey_sim::process::END_BOUND;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;
use uuid::Uuid;

on_both!(
    a_hundred_orders_are_a_hundred_payments_though_every_second_answer_is_late,
    a_hundred_orders_are_a_hundred_payments_where_sending_again_is_the_question,
    an_order_is_paid_once_under_its_key,
    a_declined_payment_of_an_order_stays_declined,
    t73_b80_what_was_not_committed_is_never_sent,
    b80_what_was_committed_is_sent_after_a_crash,
    b62_a_courier_that_is_asked_to_stop_lets_its_call_end,
    b62_a_courier_that_may_not_wait_leaves_a_question,
    t83_after_a_restore_every_payment_is_asked_about_first,
    an_order_stays_paid_when_its_command_is_swept,
);

const BODY: &str = r#"{"amount": 1200, "pay": true}"#;
/// A provider that loses answers is waited for no longer than this; all times go down together.
const FAST: [&str; 6] =
    ["--call-timeout-ms", "200", "--payment-lease-ms", "1000", "--retry-wait-ms", "50"];
const BOUND: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// The id of an order that is paid, as it is made of its key. Whoever changes how it is made pays twice after
/// a restore.
pub fn order_id(org: &str, key: &str) -> String {
    let namespace = Uuid::from_u128(0x6b1d_7f1e_7b0c_4f5e_9a57_20c1_4d8e_6a11);
    Uuid::new_v5(&namespace, format!("{org}\n{key}").as_bytes()).to_string()
}

/// How the payment of an order stands; null where there is no such order, or no payment.
pub async fn payment(address: SocketAddr, org: &str, id: &str) -> serde_json::Value {
    let authorization = format!("Bearer {org}-token");
    let headers = [("authorization", authorization.as_str())];
    let reply = send(address, "GET", &format!("/orders/{id}"), &headers, "").await;
    assert!([200, 404].contains(&reply.status), "{reply:?}");
    reply.json()["payment"].clone()
}

/// The same, when it has ended.
pub async fn ended(address: SocketAddr, org: &str, id: &str) -> serde_json::Value {
    let deadline = Instant::now() + BOUND;
    loop {
        let payment = payment(address, org, id).await;
        let state = payment["state"].as_str().unwrap_or("missing");
        if !["waiting", "sending", "unknown"].contains(&state) {
            return payment;
        }
        assert!(Instant::now() < deadline, "the payment of {id} never ended: {payment}");
        tokio::time::sleep(POLL).await;
    }
}

fn serve(database: &Database, lab: &Lab, more: &[&str]) -> Service {
    database.serve(&[&["--provider", &lab.url("")], &FAST[..], more].concat())
}

async fn place(address: SocketAddr, key: &str) -> Reply {
    let reply = order(address, "alpha-token", key, BODY).await;
    assert!([200, 201].contains(&reply.status), "{reply:?}");
    reply
}

async fn a_hundred_orders_are_a_hundred_payments_though_every_second_answer_is_late(which: Which) {
    let plan = r#"{"keys": {"dedup": false}, "late": {"every": 2, "ms": 1000}}"#;
    let lab = hundred(which, plan, &[]).await;
    // A provider that does not deduplicate got each of them once.
    assert_eq!(posts(&lab).len(), 100);
}

/// Each retry under its key costs a part of the budget, and a success gives a fifth of one back: a provider that
/// is late with one in four stays within it.
async fn a_hundred_orders_are_a_hundred_payments_where_sending_again_is_the_question(which: Which) {
    let plan = r#"{"late": {"every": 4, "ms": 1000}}"#;
    let lab = hundred(which, plan, &["--counterparty", "dedups"]).await;
    let posts = posts(&lab);
    assert!(posts.len() > 100, "nothing was late");
    let mut by_key = std::collections::HashMap::new();
    for post in &posts {
        let bytes = &post.arrived.body_sha256;
        assert_eq!(by_key.entry(post.arrived.key.clone()).or_insert(bytes), &bytes, "other bytes");
    }
    assert_eq!(by_key.len(), 100, "another key");
}

async fn hundred(which: Which, plan: &str, flags: &[&str]) -> Lab {
    let database = Database::fresh(which).await;
    let lab = lab(plan).await;
    let shop = serve(&database, &lab, flags);
    let callers = (0..10).map(|caller| {
        let address = shop.address;
        async move {
            for number in 0..10 {
                place(address, &format!("k-{caller}-{number}")).await;
            }
        }
    });
    join_all(callers).await;
    let mut ids = BTreeSet::new();
    for number in 0..100 {
        let id = order_id("alpha", &format!("k-{}-{}", number / 10, number % 10));
        let payment = ended(shop.address, "alpha", &id).await;
        assert_eq!(payment["state"], "succeeded", "{payment}");
        ids.insert(payment["id"].as_str().expect("an id").to_owned());
    }
    let recorded = lab.payments().unwrap();
    assert_eq!((recorded.len(), ids.len()), (100, 100));
    assert!(recorded.iter().all(|payment| ids.contains(&payment.id)), "{recorded:?}");
    lab
}

async fn an_order_is_paid_once_under_its_key(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"keys": {"dedup": false}}"#).await;
    let shop = serve(&database, &lab, &[]);
    let first = place(shop.address, "k-1").await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    let id = order_id("alpha", "k-1");
    assert_eq!(first.json()["id"], id.as_str());
    // The first write wins, with and without a payment.
    for body in [BODY, r#"{"amount": 1200}"#, r#"{"amount": 7, "pay": true}"#] {
        let again = order(shop.address, "alpha-token", "k-1", body).await;
        assert_eq!((again.status, again.is_replay(), &again.body), (200, true, &first.body));
    }
    let paid = ended(shop.address, "alpha", &id).await;
    assert_eq!((paid["state"].as_str(), paid["id"].is_string()), (Some("succeeded"), true));
    // Another organisation's order under the same key is its own, and nobody else's is shown.
    assert!(payment(shop.address, "beta", &id).await.is_null());
    order(shop.address, "beta-token", "k-1", BODY).await;
    assert_ne!(order_id("beta", "k-1"), id);
    let other = ended(shop.address, "beta", &order_id("beta", "k-1")).await;
    assert_ne!(other["id"], paid["id"]);
    // A plain order has no payment.
    let plain = order(shop.address, "alpha-token", "k-2", r#"{"amount": 1200}"#).await;
    let plain_id = plain.json()["id"].as_str().unwrap().to_owned();
    assert!(payment(shop.address, "alpha", &plain_id).await.is_null());
    assert_eq!((lab.counts().payments, posts(&lab).len()), (2, 2));
}

/// Commands are swept, orders are not. How a payment ended is told ever after, also of an order that nobody has
/// read in between.
async fn an_order_stays_paid_when_its_command_is_swept(which: Which) {
    let database = Database::fresh(which).await;
    let lab =
        lab(r#"{"rules": [{"when": {"fields": {"amount": 13}}, "process": "declined"}]}"#).await;
    let shop = serve(&database, &lab, &[]);
    for (key, amount) in [("k-1", 1_200), ("k-2", 1_200), ("k-3", 13)] {
        let body = format!(r#"{{"amount": {amount}, "pay": true}}"#);
        let placed = order(shop.address, "alpha-token", key, &body).await;
        assert_eq!(placed.status, 201);
    }
    let [read, unread, declined] = ["k-1", "k-2", "k-3"].map(|key| order_id("alpha", key));
    let before = ended(shop.address, "alpha", &read).await;
    assert_eq!((before["state"].as_str(), before["id"].is_string()), (Some("succeeded"), true));
    // All of them are entered by themselves; only then is there nothing left to enter.
    let deadline = Instant::now() + BOUND;
    while database.payments_to_enter().await > 0 {
        assert!(Instant::now() < deadline, "the end of a payment is not entered");
        tokio::time::sleep(POLL).await;
    }
    assert_eq!(database.sweep_all_commands().await, 3);
    assert_eq!(payment(shop.address, "alpha", &read).await, before);
    let paid = payment(shop.address, "alpha", &unread).await;
    assert_eq!((paid["state"].as_str(), paid["id"].is_string()), (Some("succeeded"), true));
    let declined = payment(shop.address, "alpha", &declined).await;
    assert_eq!(declined, serde_json::json!({ "state": "refused" }));
}

async fn a_declined_payment_of_an_order_stays_declined(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"rules": [{"process": "declined", "times": 1},
        {"process": "declined", "wire": "close", "times": 1}]}"#)
    .await;
    let shop = serve(&database, &lab, &[]);
    for key in ["k-1", "k-2"] {
        place(shop.address, key).await;
        let paid = ended(shop.address, "alpha", &order_id("alpha", key)).await;
        assert_eq!(paid, serde_json::json!({ "state": "refused" }));
    }
    assert_eq!((lab.counts().payments, posts(&lab).len()), (0, 2));
}

/// A command of a transaction that was not committed was never there.
async fn t73_b80_what_was_not_committed_is_never_sent(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"keys": {"dedup": false}}"#).await;
    // Killed with the command written and not committed.
    for (number, point) in ["outbox.enqueued", "settle.before-commit"].iter().enumerate() {
        let shop = armed(&database, &lab, point, "abort");
        let key = format!("k-{number}");
        let told = try_order(shop.address, &key).await;
        assert!(told.is_none(), "{told:?}");
        block_in_place(|| shop.process.wait(END_BOUND)).unwrap();
    }
    // Rolled back, since its transaction fails.
    let shop = armed(&database, &lab, "outbox.enqueued", "panic");
    assert_eq!(try_order(shop.address, "k-9").await.map(|reply| reply.status), Some(500));
    // Rolled back, since the business refuses: that cart is sold.
    let cart = r#"{"amount": 1200, "cart": "c-1", "pay": true}"#;
    assert_eq!(order(shop.address, "alpha-token", "k-10", cart).await.status, 201);
    assert_eq!(order(shop.address, "alpha-token", "k-11", cart).await.status, 409);
    let paid = ended(shop.address, "alpha", &order_id("alpha", "k-10")).await;
    assert_eq!(paid["state"], "succeeded");
    // What comes after them is sent, so they would have been.
    place(shop.address, "k-12").await;
    ended(shop.address, "alpha", &order_id("alpha", "k-12")).await;
    for key in ["k-0", "k-1", "k-9", "k-11"] {
        assert!(payment(shop.address, "alpha", &order_id("alpha", key)).await.is_null(), "{key}");
    }
    assert_eq!((lab.counts().payments, posts(&lab).len()), (2, 2));
    // Sent again they are orders as any other.
    place(shop.address, "k-0").await;
    let paid = ended(shop.address, "alpha", &order_id("alpha", "k-0")).await;
    assert_eq!((paid["state"].as_str(), lab.counts().payments), (Some("succeeded"), 3));
}

fn armed(database: &Database, lab: &Lab, point: &str, action: &str) -> Service {
    let mut process = orders()
        .args(["--listen", "127.0.0.1:0", "--database", &database.address()])
        .args(["--provider", &lab.url("")])
        .args(FAST)
        .env("SAMEKEY_CRASH_POINT", format!("{point}={action}"))
        .start()
        .unwrap();
    let address = process.address().unwrap();
    Service { process, address }
}

async fn try_order(address: SocketAddr, key: &str) -> Option<Reply> {
    super::client::try_post(address, "/orders", "alpha-token", key, BODY).await
}

/// Nobody sends the order again: the commit alone is what makes it happen.
async fn b80_what_was_committed_is_sent_after_a_crash(which: Which) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"keys": {"dedup": false}, "rules": [{"process": "never", "wire": "reset", "times": 1}]}"#)
        .await;
    // Where nothing is delivered in the first process, as its provider is away.
    let away = ["--provider", "http://127.0.0.1:1"];
    let shop = database.serve(&[&away[..], &FAST].concat());
    place(shop.address, "k-0").await;
    block_in_place(|| shop.process.kill()).unwrap();
    let shop = armed(&database, &lab, "settle.after-commit", "abort");
    assert!(try_order(shop.address, "k-1").await.is_none());
    block_in_place(|| shop.process.wait(END_BOUND)).unwrap();
    let shop = serve(&database, &lab, &["--not-found-after-ms", "1000"]);
    for key in ["k-0", "k-1"] {
        let paid = ended(shop.address, "alpha", &order_id("alpha", key)).await;
        assert_eq!(paid["state"], "succeeded", "{key}: {paid}");
    }
    assert_eq!(lab.counts().payments, 2);
}

async fn b62_a_courier_that_is_asked_to_stop_lets_its_call_end(which: Which) {
    let (database, lab, shop) = in_mid_send(which, &["--grace-ms", "30000"]).await;
    shop.process.terminate().unwrap();
    let over = block_in_place(|| shop.process.wait(END_BOUND)).unwrap();
    assert_eq!((over.code(), over.stderr.as_str()), (Some(0), ""));
    let shop = serve(&database, &lab, &[]);
    let id = order_id("alpha", "k-1");
    assert_eq!(payment(shop.address, "alpha", &id).await["state"], "succeeded");
    assert_eq!((lab.counts().payments, lab.requests().unwrap().len()), (1, 1));
}

async fn b62_a_courier_that_may_not_wait_leaves_a_question(which: Which) {
    let (database, lab, shop) = in_mid_send(which, &["--grace-ms", "50"]).await;
    shop.process.terminate().unwrap();
    let over = block_in_place(|| shop.process.wait(END_BOUND)).unwrap();
    assert_eq!(over.code(), Some(0));
    assert!(over.stderr.contains("their payments are asked about"), "{}", over.stderr);
    let shop = serve(&database, &lab, &[]);
    let id = order_id("alpha", "k-1");
    // The lease of the one that has stopped still runs.
    assert_eq!(payment(shop.address, "alpha", &id).await["state"], "sending");
    assert_eq!(ended(shop.address, "alpha", &id).await["state"], "succeeded");
    assert_eq!((lab.counts().payments, posts(&lab).len()), (1, 1));
}

/// A service whose courier has sent one payment and waits for the answer, for more than a second still.
async fn in_mid_send(which: Which, grace: &[&str]) -> (Database, Lab, Service) {
    let database = Database::fresh(which).await;
    let lab = lab(r#"{"keys": {"dedup": false}, "rules": [{"when": {"op": ["pay"]}, "answer": {"late_ms": 1200}}]}"#).await;
    let limits = ["--call-timeout-ms", "2500", "--payment-lease-ms", "3500"];
    let shop = database.serve(&[&["--provider", &lab.url("")], &limits[..], grace].concat());
    place(shop.address, "k-1").await;
    assert!(lab.until(BOUND, |lab| lab.counts().payments == 1).await);
    (database, lab, shop)
}

/// The database is set back to before its payments, and marked so. What waits there and what is ordered
/// again is asked about; nobody is charged twice.
async fn t83_after_a_restore_every_payment_is_asked_about_first(which: Which) {
    let lab = lab(r#"{"keys": {"dedup": false}}"#).await;
    let database = Database::fresh(which).await;
    // One command waits in the state that is kept; another order comes after it.
    let shop = database.serve(&[&["--provider", "http://127.0.0.1:1"][..], &FAST].concat());
    place(shop.address, "k-1").await;
    block_in_place(|| shop.process.kill()).unwrap();
    let restored = copy_of(&database).await;
    // Who was killed in the middle of an attempt left a question.
    let shop = serve(&database, &lab, &["--not-found-after-ms", "1000"]);
    place(shop.address, "k-2").await;
    for key in ["k-1", "k-2"] {
        let paid = ended(shop.address, "alpha", &order_id("alpha", key)).await;
        assert_eq!(paid["state"], "succeeded");
    }
    block_in_place(|| shop.process.kill()).unwrap();
    assert_eq!(posts(&lab).len(), 2);

    let marked = block_in_place(|| {
        samekey_sim::Program::built("samekey")
            .unwrap()
            .args(["restore-mark", "--lost-since", "2026-01-01T00:00:00Z"])
            .args(["--database", &restored.address()])
            .run(END_BOUND)
            .unwrap()
    });
    assert_eq!(marked.code(), Some(0), "{marked:?}");
    let shop = serve(&restored, &lab, &["--not-found-after-ms", "1000"]);
    // Its caller comes back with the key of which nobody here knows any more.
    place(shop.address, "k-2").await;
    for key in ["k-1", "k-2"] {
        let paid = ended(shop.address, "alpha", &order_id("alpha", key)).await;
        assert_eq!((paid["state"].as_str(), paid["id"].is_string()), (Some("succeeded"), true));
    }
    assert_eq!((lab.counts().payments, posts(&lab).len()), (2, 2), "charged again");
    // A new one is asked about, and paid when it is proved that it was not.
    place(shop.address, "k-3").await;
    let paid = ended(shop.address, "alpha", &order_id("alpha", "k-3")).await;
    assert_eq!(paid["state"], "succeeded");
    assert_eq!((lab.counts().payments, posts(&lab).len()), (3, 3));
}

/// A copy of the database as it lies there, with nobody at work in it.
async fn copy_of(database: &Database) -> Database {
    match database {
        Database::Sqlite(folder) => {
            let copy = tempfile::tempdir().unwrap();
            for file in std::fs::read_dir(folder.path()).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
            }
            Database::Sqlite(copy)
        }
        Database::Postgres(original) => Database::Postgres(original.copy().await.unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_database_in_another_environment_sends_nothing() {
    let database = Database::fresh(Which::Sqlite).await;
    let lab = lab("{}").await;
    let shop = serve(&database, &lab, &["--environment", "production"]);
    block_in_place(|| shop.process.kill()).unwrap();
    let refused = orders()
        .args(["--listen", "127.0.0.1:0", "--database", &database.address()])
        .args(["--provider", &lab.url(""), "--environment", "staging"])
        .run(END_BOUND)
        .unwrap();
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("belongs to the environment `production`"), "{refused:?}");
}
