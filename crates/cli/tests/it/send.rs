//! `samekey send`: one command, executed once, whatever happens on the way.

use crate::database::Database;
use crate::world::{
    ANSWERS, DEDUPS, FIRST_ANSWER_LOST, OPAQUE, WELL, World, assert_silent, charge,
};
use samekey_lab::faults::Plan;
use samekey_sim::process::{END_BOUND, LINE_BOUND};

on_both!(
    it_is_executed_once_however_often_it_is_sent,
    killed_in_the_middle_it_goes_on_under_its_key,
    two_at_once_are_one_command,
    p64_another_environment_sends_nothing,
);

async fn it_is_executed_once_however_often_it_is_sent(database: Database) {
    let world = World::new(database, DEDUPS, WELL).await;
    let first = world.charge("ORD-1", &[]);
    assert_eq!(first.code(), Some(0), "{first:?}");
    assert!(first.stdout.contains(": succeeded, status 201, attempts 1\n"), "{first:?}");
    assert!(first.stdout.contains("ORD-1"), "the answer is shown: {first:?}");
    assert_eq!(first.stderr, "", "what ends within a second is not talked about");
    let again = world.charge("ORD-1", &[]);
    assert_eq!((again.code(), &again.stdout), (Some(0), &first.stdout));
    assert_eq!((world.lab.counts().payments, world.attempts()), (1, 1));
    // The same action with other content is refused, and nothing is sent.
    let other = world.samekey(&[
        "send",
        "psp",
        "--operation",
        "charge",
        "--reference",
        "ORD-1",
        "--path",
        "/payments",
        "--json",
        "{\"order_id\":\"ORD-1\",\"amount\":1300}",
    ]);
    assert_eq!(other.code(), Some(1), "{other:?}");
    assert!(other.stderr.contains("with another request"), "{other:?}");
    // Another organisation has actions of its own.
    assert_eq!(world.charge("ORD-1", &["--org", "beta"]).code(), Some(0));
    assert_eq!(world.attempts(), 2);
    let end = world.charge("ORD-1", &["--format", "json"]);
    let end: serde_json::Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!(
        (&end["state"], &end["status"], &end["attempts"]),
        (&"succeeded".into(), &201.into(), &1.into())
    );
}

async fn killed_in_the_middle_it_goes_on_under_its_key(database: Database) {
    let held = r#"{"rules":[{"times":1,"answer":{"held":true}}]}"#;
    let world = World::new(database, DEDUPS, held).await;
    let words = charge("ORD-1");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let killed = world.start(&words);
    assert!(world.lab.until(LINE_BOUND, |lab| lab.counts().payments == 1).await);
    killed.kill().unwrap();
    let again = world.charge("ORD-1", &[]);
    assert_eq!(again.code(), Some(0), "{again:?}");
    assert!(again.stdout.contains("succeeded"), "{again:?}");
    assert!(again.stderr.contains("in the outbox already; attempt 1 is on its way"), "{again:?}");
    assert_eq!((world.lab.counts().payments, world.attempts()), (1, 2));
    let page = world.json(&[
        "commands",
        "show",
        "default",
        world.only("succeeded")["id"].as_str().unwrap(),
    ]);
    let came_to: Vec<&str> = page["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["came_to"].as_str().unwrap())
        .collect();
    assert_eq!(came_to, ["lease-lapsed", "done"], "{page}");
}

async fn two_at_once_are_one_command(database: Database) {
    let slow = r#"{"rules":[{"answer":{"late_ms":300}}]}"#;
    let world = World::new(database, DEDUPS, slow).await;
    let words = charge("ORD-1");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let both = [world.start(&words), world.start(&words)];
    for one in both {
        let ended = one.wait(END_BOUND).unwrap();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert!(ended.stdout.contains("succeeded"), "{ended:?}");
    }
    assert_eq!((world.lab.counts().payments, world.attempts()), (1, 1));
}

async fn p64_another_environment_sends_nothing(database: Database) {
    let world = World::new(database, DEDUPS, WELL).await;
    assert_eq!(world.charge("ORD-1", &["--enqueue-only"]).code(), Some(0));
    world.configure(&world.config(DEDUPS).replace("\"test\"", "\"production\""));
    for arguments in [vec!["worker"], charge("ORD-2").iter().map(String::as_str).collect()] {
        let ended = world.samekey(&arguments);
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains("belongs to the environment `test`"), "{ended:?}");
    }
    assert_eq!(world.attempts(), 0);
}

/// A world on SQLite, for what does not depend on the database.
async fn world(declared: &str, faults: &str) -> World {
    World::new(Database::fresh(false).await, declared, faults).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_an_end_of_its_own() {
    let world = world(DEDUPS, r#"{"rules":[{"process":"declined"}]}"#).await;
    let ended = world.charge("ORD-1", &[]);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stdout.contains(": refused, status 402, attempts 1\n"), "{ended:?}");
    assert_eq!(world.charge("ORD-1", &[]).code(), Some(1));
    assert_eq!(world.attempts(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_ends_as_the_counterparty_allows() {
    let dedups = world(DEDUPS, FIRST_ANSWER_LOST).await;
    let ended = dedups.charge("ORD-1", &[]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stdout.contains(": succeeded, status 201, attempts 2\n"), "{ended:?}");
    assert_eq!((dedups.lab.counts().payments, dedups.attempts()), (1, 2));

    let answers = world(ANSWERS, FIRST_ANSWER_LOST).await;
    let ended = answers.charge("ORD-1", &["--wait-s", "30"]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stdout.contains(": succeeded, status 200, attempts 1\n"), "{ended:?}");
    let id = answers.only("succeeded")["id"].as_str().unwrap().to_owned();
    let page = answers.samekey(&["commands", "show", "default", &id]).stdout;
    assert!(page.contains("question 1: executed, status 200"), "{page}");
    assert_eq!((answers.lab.counts().payments, answers.attempts()), (1, 1));

    let opaque = world(OPAQUE, FIRST_ANSWER_LOST).await;
    let ended = opaque.charge("ORD-1", &[]);
    assert_eq!(ended.code(), Some(4), "{ended:?}");
    assert!(ended.stdout.contains(": undecided (connection-lost), attempts 1\n"), "{ended:?}");
    assert!(ended.stdout.contains("find out at the counterparty"), "{ended:?}");
    assert_eq!(opaque.charge("ORD-1", &[]).code(), Some(4), "it is not sent again");
    assert_eq!((opaque.lab.counts().payments, opaque.attempts()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_down_is_told_of_and_given_up_in_time() {
    let world = world(OPAQUE, WELL).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    world.configure(&world.config(OPAQUE).replace(&world.lab.url(""), &nobody));
    let ended = world.charge("ORD-1", &[]);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stdout.contains(": failed (time-over, not-connected), attempts "), "{ended:?}");
    assert!(ended.stdout.contains("samekey commands retry"), "{ended:?}");
    let told: Vec<&str> =
        ended.stderr.lines().filter(|line| line.starts_with("samekey: in the outbox; ")).collect();
    assert!(told.iter().any(|line| line.contains("(not-connected)")), "{ended:?}");
    assert!(told.windows(2).all(|two| two[0] != two[1]), "once for each change: {told:?}");
    // Who does not wait so long is told that it goes on.
    let slow = r#"{"rules":[{"answer":{"late_ms":3500}}]}"#;
    world.lab.set_plan(Plan::from_json("slow", slow.as_bytes()).unwrap()).unwrap();
    let long = world.config(OPAQUE).replace("time_max_ms = 2000", "time_max_ms = 8000");
    world.configure(
        &long.replace("lease_ms = 2500", "lease_ms = 9000").replace("max_s = 4", "max_s = 9"),
    );
    let late = world.charge("ORD-3", &["--wait-s", "1"]);
    assert_eq!(late.code(), Some(0), "it ends meanwhile: {late:?}");
    assert!(late.stderr.contains("so that its end is written down"), "{late:?}");
    world.configure(&world.config(OPAQUE).replace(&world.lab.url(""), &nobody));
    let early = world.charge("ORD-2", &["--wait-s", "0"]);
    assert_eq!(early.code(), Some(4), "{early:?}");
    assert!(early.stdout.contains("It goes on"), "{early:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p56_a_credential_that_is_not_accepted_is_told_and_burns_nothing() {
    let refused = r#"{"rules":[{"process":"never","answer":{"status":401}}]}"#;
    let world = world(DEDUPS, refused).await;
    let ended = world.charge("ORD-1", &["--wait-s", "1"]);
    assert_eq!(ended.code(), Some(4), "{ended:?}");
    assert!(ended.stdout.contains(": waiting (not-accepted), attempts "), "{ended:?}");
    assert!(ended.stdout.contains("does not accept the credential"), "{ended:?}");
    assert!(ended.stderr.contains("result=\"not-accepted\""), "{ended:?}");
    world.lab.set_plan(Plan::default()).unwrap();
    assert_eq!(world.charge("ORD-1", &[]).code(), Some(0));
    assert_eq!(world.lab.counts().payments, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_credential_is_named_before_anything_is_written() {
    let world = world(DEDUPS, WELL).await;
    for (value, part) in [(None, "PAY_TOKEN is not set"), (Some(" "), "PAY_TOKEN has is empty")] {
        for arguments in [vec!["worker"], charge("ORD-1").iter().map(String::as_str).collect()] {
            let program = world.program(&arguments).env("PAY_TOKEN", value.unwrap_or_default());
            let program = match value {
                Some(_) => program,
                // It is in the environment of none of our processes.
                None => {
                    let config = world.config(DEDUPS).replace("PAY_TOKEN", "NO_SUCH_PAY_TOKEN");
                    world.configure(&config);
                    program
                }
            };
            let ended = program.run(END_BOUND).unwrap();
            assert_silent(&ended);
            assert_eq!(ended.code(), Some(2), "{arguments:?}: {ended:?}");
            assert!(ended.stderr.contains(part), "{arguments:?}: {ended:?}");
            assert!(ended.stderr.contains("destination `psp`"), "{ended:?}");
            world.configure(&world.config(DEDUPS));
        }
    }
    let list = world.json(&["commands", "list"]);
    assert_eq!(list["commands"].as_array().unwrap().len(), 0, "{list}");
    // Who only writes it down needs none.
    let program = charge("ORD-1");
    let words: Vec<&str> = program.iter().map(String::as_str).chain(["--enqueue-only"]).collect();
    let ended = world.program(&words).env("PAY_TOKEN", "").run(END_BOUND).unwrap();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stdout.contains(": in the outbox; a worker delivers it\n"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_to_stop_it_lets_end_what_is_on_its_way() {
    let held = r#"{"rules":[{"answer":{"late_ms":700}}]}"#;
    let world = world(OPAQUE, held).await;
    let words = charge("ORD-1");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let process = world.start(&words);
    assert!(world.lab.until(LINE_BOUND, |lab| lab.counts().payments == 1).await);
    process.terminate().unwrap();
    let ended = process.wait(END_BOUND).unwrap();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("asked to stop; what is on its way is waited for"), "{ended:?}");
    assert!(ended.stdout.contains("succeeded"), "{ended:?}");
}
