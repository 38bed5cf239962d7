//! `samekey worker`: delivers what others have enqueued, and ends in an orderly way.

use crate::database::Database;
use crate::world::{DEDUPS, OPAQUE, WELL, World, assert_silent};
use samekey_sim::process::{END_BOUND, LINE_BOUND, Process};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

on_both!(what_is_enqueued_is_delivered_once_by_two_workers);

/// Status and body of a page.
fn page(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LINE_BOUND)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// What operators see of a worker: it lives, it is ready, what it counted; and that it stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p33_a_worker_shows_health_readiness_and_what_it_counts() {
    let held = r#"{"rules":[{"when":{"order_id":"ORD-2"},"answer":{"held":true}}]}"#;
    let world = World::new(Database::fresh(false).await, DEDUPS, held).await;
    world.configure(&world.config(DEDUPS).replace("time_max_s = 4", "time_max_s = 60"));
    let mut worker = world.start(&["worker", "--admin", "127.0.0.1:0"]);
    delivering(&mut worker);
    let shown = |line: &str| {
        line.strip_prefix("health, readiness and metrics on http://").map(|it| it.parse().unwrap())
    };
    let address: SocketAddr = worker.wait_for_line("where its pages are", shown).unwrap();
    assert_eq!(page(address, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(page(address, "/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(page(address, "/").0, 404);
    // Those that nobody else counts: what another process enqueued.
    for order in ["ORD-1", "ORD-2"] {
        assert_eq!(world.charge(order, &["--enqueue-only"]).code(), Some(0));
    }
    assert!(world.lab.until(LINE_BOUND, |lab| lab.counts().payments == 2).await);
    let counted = |result: &str, count: u32| {
        format!("samekey_deliveries_total{{destination=\"psp\",result=\"{result}\"}} {count}\n")
    };
    let deadline = std::time::Instant::now() + LINE_BOUND;
    let metrics = loop {
        let (status, metrics) = page(address, "/metrics");
        assert_eq!(status, 200);
        if metrics.contains(&counted("succeeded", 1)) || std::time::Instant::now() > deadline {
            break metrics;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(metrics.contains(&counted("succeeded", 1)), "{metrics}");
    assert!(metrics.contains(&counted("sent", 2)), "{metrics}");
    assert!(!metrics.contains("ORD-") && !metrics.contains(crate::world::TOKEN), "{metrics}");
    // While it lets its last one end, it takes no more, and says so.
    worker.terminate().unwrap();
    let asked = |line: &str| line.starts_with("asked to stop").then_some(());
    worker.wait_for_line("that it was asked to stop", asked).unwrap();
    assert_eq!(page(address, "/readyz"), (503, "stopping\n".to_owned()));
    assert_eq!(page(address, "/healthz").0, 200);
    world.lab.release();
    let ended = worker.wait(END_BOUND).unwrap();
    assert_silent(&ended);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(TcpStream::connect(address).is_err(), "the pages outlived the worker");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_pages_have_no_place_delivers_nothing() {
    let world = World::new(Database::fresh(false).await, DEDUPS, WELL).await;
    assert_eq!(world.charge("ORD-1", &["--enqueue-only"]).code(), Some(0));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = world.samekey(&["worker", "--admin", &address]);
    assert_eq!(ended.code(), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("choose another with --admin"), "{ended:?}");
    let ended = world.samekey(&["worker", "--admin", "here"]);
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert_eq!(world.lab.counts().payments, 0);
}

fn delivering(worker: &mut Process) {
    worker
        .wait_for_line("where it delivers", |line| (line == "delivering to psp").then_some(()))
        .unwrap();
}

async fn what_is_enqueued_is_delivered_once_by_two_workers(database: Database) {
    const COUNT: u64 = 6;
    let world = World::new(database, DEDUPS, WELL).await;
    for n in 1..=COUNT {
        let ended = world.charge(&format!("ORD-{n}"), &["--enqueue-only"]);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
    }
    assert_eq!(world.attempts(), 0);
    let mut workers = [world.start(&["worker"]), world.start(&["worker"])];
    workers.iter_mut().for_each(delivering);
    assert!(world.lab.until(LINE_BOUND, |lab| lab.counts().payments == COUNT).await);
    for worker in workers {
        worker.terminate().unwrap();
        let ended = worker.wait(END_BOUND).unwrap();
        assert_silent(&ended);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert!(ended.stdout.ends_with("all that was on its way is written down\n"), "{ended:?}");
    }
    let list = world.json(&["commands", "list", "--state", "succeeded"]);
    assert_eq!(list["commands"].as_array().unwrap().len(), 6, "{list}");
    assert_eq!(u64::try_from(world.attempts()).unwrap(), COUNT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once_and_the_next_one_clears_up() {
    let held = r#"{"rules":[{"times":1,"answer":{"held":true}}]}"#;
    let world = World::new(Database::fresh(false).await, DEDUPS, held).await;
    world.configure(&world.config(DEDUPS).replace("time_max_s = 4", "time_max_s = 30"));
    assert_eq!(world.charge("ORD-1", &["--enqueue-only"]).code(), Some(0));
    let mut worker = world.start(&["worker", "--grace-s", "600"]);
    delivering(&mut worker);
    assert!(world.lab.until(LINE_BOUND, |lab| lab.counts().payments == 1).await);
    worker.terminate().unwrap();
    let asked = |line: &str| line.starts_with("asked to stop").then_some(());
    worker.wait_for_line("that it was asked to stop", asked).unwrap();
    worker.terminate().unwrap();
    let ended = worker.wait(END_BOUND).unwrap();
    assert_eq!(ended.code(), Some(4), "{ended:?}");
    assert!(ended.stderr.contains("unknown when its lease ends"), "{ended:?}");
    let ended = world.charge("ORD-1", &[]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!((world.lab.counts().payments, world.attempts()), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_of_an_opaque_counterparty_that_was_cut_off_is_never_sent_again() {
    let held = r#"{"rules":[{"answer":{"held":true}}]}"#;
    let world = World::new(Database::fresh(false).await, OPAQUE, held).await;
    assert_eq!(world.charge("ORD-1", &["--enqueue-only"]).code(), Some(0));
    let worker = world.start(&["worker"]);
    assert!(world.lab.until(LINE_BOUND, |lab| lab.counts().payments == 1).await);
    worker.kill().unwrap();
    let ended = world.charge("ORD-1", &[]);
    assert_eq!(ended.code(), Some(4), "{ended:?}");
    assert!(ended.stdout.contains("undecided (lease-lapsed), attempts 1"), "{ended:?}");
    assert_eq!((world.lab.counts().payments, world.attempts()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_role_can_deliver_and_decide_and_no_more() {
    use samekey::store::postgres;
    let database = Database::fresh(true).await;
    let Database::Postgres(fresh) = &database else { panic!("no PostgreSQL") };
    let (owner, role) = (fresh.url().to_owned(), format!("{}_service", fresh.name()));
    let script = include_str!("../../../store/sql/postgres/roles.sql");
    let client = postgres::connect(&owner).unwrap().get().await.unwrap();
    client.batch_execute(&script.replace("samekey_service", &role)).await.unwrap();
    client.batch_execute(&format!("alter role {role} login password 'x'")).await.unwrap();
    let url = owner.replace("samekey:cluster-password", &format!("{role}:x"));
    assert_ne!(url, owner);
    let faults = r#"{"rules":[{"when":{"order_id":"ORD-2"},"wire":"close"}]}"#;
    let world = World::new(database, OPAQUE, faults).await;
    let as_role = |words: &[&str]| world.samekey(&[words, &["--database", &url]].concat());
    let charge =
        |order: &str, more: &[&str]| world.charge(order, &[more, &["--database", &url]].concat());
    let first = charge("ORD-1", &["--order-key", "o"]);
    assert_eq!(first.code(), Some(0), "{first:?}");
    assert_eq!(charge("ORD-2", &["--order-key", "o"]).code(), Some(4));
    assert_eq!(charge("ORD-3", &["--enqueue-only"]).code(), Some(0));
    for (state, words) in
        [("undecided", &["resolve", "--as", "executed"][..]), ("waiting", &["cancel"])]
    {
        let seen = world.only(state);
        let (id, view) = (seen["id"].as_str().unwrap(), seen["view"].as_str().unwrap());
        let views = ["--view", view];
        let view = if state == "waiting" { &[][..] } else { &views };
        let target = ["commands", words[0], "default", id];
        let done = as_role(&[&target, &words[1..], view, &crate::world::PERSON].concat());
        assert_eq!(done.code(), Some(0), "{done:?}");
    }
    let marked = as_role(&["restore-mark", "--lost-since", "2026-01-01T00:00:00Z"]);
    assert_eq!(marked.code(), Some(0), "{marked:?}");
    // Nobody can be asked, and so a new one waits for a person without having been sent.
    assert_eq!(charge("ORD-4", &[]).code(), Some(4));
    assert_eq!((world.lab.counts().payments, world.attempts()), (2, 2));
    let least = postgres::connect(&url).unwrap().get().await.unwrap();
    for forbidden in [
        "drop table samekey.outbox",
        "update samekey.commands set operation = 'refund'",
        "update samekey.finished set state = 'failed'",
        "update samekey.attempts set came_to = 'done'",
        "update samekey.command_decisions set person = 'nobody'",
    ] {
        let error = least.batch_execute(forbidden).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{forbidden}");
    }
    drop(least);
    client.batch_execute(&format!("drop owned by {role} cascade; drop role {role}")).await.unwrap();
}
