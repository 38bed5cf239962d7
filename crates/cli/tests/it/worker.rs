//! `samekey worker`: delivers what others have enqueued, and ends in an orderly way.

use crate::database::Database;
use crate::world::{DEDUPS, OPAQUE, WELL, World, assert_silent};
use samekey_sim::process::{END_BOUND, LINE_BOUND, Process};

on_both!(what_is_enqueued_is_delivered_once_by_two_workers);

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
