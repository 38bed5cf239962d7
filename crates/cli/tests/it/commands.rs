//! `samekey commands`: what a person sees of commands on their way, and decides about them, on both databases.

use crate::database::Database;
use crate::world::{ANSWERS, DEDUPS, FIRST_ANSWER_LOST, OPAQUE, PERSON, WELL, World};
use samekey_lab::faults::Plan;
use serde_json::Value;

on_both!(
    what_waits_for_a_person_is_listed,
    p60_a_decision_names_what_was_seen_and_leaves_its_account,
    what_has_failed_is_tried_again_under_its_key,
    p61_only_what_was_never_sent_is_taken_back,
    p69_only_finished_commands_are_swept,
    p65_a_restored_database_doubts_its_commands,
);

async fn what_waits_for_a_person_is_listed(database: Database) {
    let world = World::new(database, OPAQUE, FIRST_ANSWER_LOST).await;
    let empty = world.samekey(&["commands", "inbox"]);
    assert_eq!((empty.code(), empty.stdout.as_str()), (Some(0), "Nothing waits for a person.\n"));
    assert_eq!(world.charge("ORD-1", &["--org", "alpha"]).code(), Some(4));
    world.lab.set_plan(Plan::default()).unwrap();
    assert_eq!(world.charge("ORD-2", &["--org", "beta"]).code(), Some(0));
    assert_eq!(world.charge("ORD-3", &["--org", "beta", "--enqueue-only"]).code(), Some(0));
    let inbox = world.samekey(&["commands", "inbox"]).stdout;
    let rows: Vec<Vec<&str>> =
        inbox.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(inbox.lines().next(), Some("psp: 1 undecided, 1 waiting"), "{inbox}");
    assert_eq!(
        rows[1],
        [
            "org",
            "id",
            "destination",
            "operation",
            "reference",
            "state",
            "since",
            "due",
            "reason",
            "attempts",
            "view"
        ]
    );
    let row = &rows[3];
    assert_eq!((row[0], &row[2..6]), ("alpha", &["psp", "charge", "ORD-1", "undecided"][..]));
    assert_eq!(row[7..9], ["connection-lost", "1"], "{inbox}");
    assert!(inbox.contains("find out at the counterparty"), "{inbox}");
    for (filter, shown) in [
        (&[][..], 3),
        (&["--org", "beta"], 2),
        (&["--state", "waiting", "--state", "undecided"], 2),
        (&["--state", "refused"], 0),
        (&["--destination", "fax"], 0),
        (&["--limit", "1"], 1),
    ] {
        let list = world.json(&[&["commands", "list"], filter].concat());
        assert_eq!(list["commands"].as_array().unwrap().len(), shown, "{filter:?}: {list}");
        assert_eq!(list["more"], filter == ["--limit", "1"]);
    }
    // The page has what the counterparty can be asked with, and the request only where it is asked for.
    let id = world.only("undecided")["id"].as_str().unwrap().to_owned();
    let page = world.samekey(&["commands", "show", "alpha", &id]).stdout;
    for part in ["outbound key", "ORD-1", "undecided", "connection-lost", "send 1: connection-lost"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("1200"), "{page}");
    let page = world.samekey(&["commands", "show", "alpha", &id, "--request"]).stdout;
    assert!(page.contains("  POST /payments\n  content-type: application/json\n  \n"), "{page}");
    assert!(page.contains("  {\"order_id\":\"ORD-1\",\"amount\":1200}\n"), "{page}");
    // In another organisation it is not there.
    let other = world.samekey(&["commands", "show", "beta", &id]);
    assert_eq!(other.code(), Some(1), "{other:?}");
    assert!(other.stderr.contains("no such command"), "{other:?}");
}

async fn p60_a_decision_names_what_was_seen_and_leaves_its_account(database: Database) {
    let world = World::new(database, OPAQUE, FIRST_ANSWER_LOST).await;
    assert_eq!(world.charge("ORD-1", &[]).code(), Some(4));
    let seen = world.only("undecided");
    let (id, view) = (seen["id"].as_str().unwrap(), seen["view"].as_str().unwrap());
    let resolve = |view: &str, what: &str| {
        let words = ["commands", "resolve", "default", id, "--view", view, "--as", what];
        world.samekey(&[&words[..], &PERSON].concat())
    };
    let stale = resolve("1.1-00000000", "executed");
    assert_eq!(stale.code(), Some(1), "{stale:?}");
    assert!(stale.stderr.contains("nothing was decided") && !stale.stderr.contains(view));
    let words = ["commands", "retry", "default", id, "--view", view];
    let blind = world.samekey(&[&words[..], &PERSON].concat());
    assert_eq!(blind.code(), Some(1), "{blind:?}");
    assert!(blind.stderr.contains("so it is not sent"), "nobody can be asked: {blind:?}");
    let failed = resolve(view, "not-executed");
    assert_eq!(failed.code(), Some(0), "{failed:?}");
    assert!(failed.stdout.contains("decided: the command is failed"), "{failed:?}");
    assert_eq!(resolve(view, "executed").code(), Some(1), "what was seen is no longer so");
    let seen = world.only("failed");
    let twice = resolve(seen["view"].as_str().unwrap(), "not-executed");
    assert_eq!(twice.code(), Some(1), "{twice:?}");
    assert!(twice.stderr.contains("has failed, which says already"), "{twice:?}");
    let done = resolve(seen["view"].as_str().unwrap(), "executed");
    assert_eq!(done.code(), Some(0), "{done:?}");
    assert!(done.stdout.contains("own tables"), "{done:?}");
    let page = world.samekey(&["commands", "show", "default", id]).stdout;
    for part in ["not-executed by M. Sato", "executed by M. Sato", "answer lost", "statement 7"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let decisions = &world.json(&["commands", "show", "default", id])["decisions"];
    assert_eq!(decisions.as_array().unwrap().len(), 2, "{decisions}");
    // It was executed, so whoever sends it again is told so.
    let again = world.charge("ORD-1", &[]);
    assert_eq!(again.code(), Some(0), "{again:?}");
    assert!(again.stdout.contains("resolved") && again.stdout.contains("A person decided"));
    assert_eq!(world.attempts(), 1);
}

async fn what_has_failed_is_tried_again_under_its_key(database: Database) {
    let down = r#"{"rules":[{"process":"never","answer":{"status":429}}]}"#;
    let world = World::new(database, OPAQUE, down).await;
    let failed = world.charge("ORD-1", &[]);
    assert_eq!(failed.code(), Some(1), "{failed:?}");
    assert!(failed.stdout.contains("failed (time-over, rate-limited)"), "{failed:?}");
    let inbox = world.samekey(&["commands", "inbox"]).stdout;
    assert!(inbox.contains("time-over (rate-limited)"), "{inbox}");
    world.lab.set_plan(Plan::default()).unwrap();
    let seen = world.only("failed");
    let words = ["commands", "retry", "default", seen["id"].as_str().unwrap(), "--view"];
    let retry = |view: &str| world.samekey(&[&words[..], &[view], &PERSON].concat());
    assert_eq!(retry("9.9-00000000").code(), Some(1));
    let ended = retry(seen["view"].as_str().unwrap());
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stdout.contains("done: the command is waiting"), "{ended:?}");
    let ended = world.charge("ORD-1", &[]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let keys: std::collections::HashSet<_> =
        world.lab.requests().unwrap().into_iter().map(|request| request.arrived.key).collect();
    assert_eq!(keys.len(), 1, "one key through all attempts");
    let page = world.json(&["commands", "show", "default", seen["id"].as_str().unwrap()]);
    assert_eq!(page["decisions"][0]["decision"], "retry");
}

async fn p61_only_what_was_never_sent_is_taken_back(database: Database) {
    let world = World::new(database, DEDUPS, WELL).await;
    assert_eq!(world.charge("ORD-1", &["--enqueue-only"]).code(), Some(0));
    let id = world.only("waiting")["id"].as_str().unwrap().to_owned();
    let cancel =
        |id: &str| world.samekey(&[&["commands", "cancel", "default", id][..], &PERSON].concat());
    let nameless = world.samekey(&["commands", "cancel", "default", &id]);
    assert_eq!(nameless.code(), Some(2), "who, why and on what evidence: {nameless:?}");
    assert_eq!(cancel(&id).code(), Some(0));
    let page = world.json(&["commands", "show", "default", &id]);
    assert_eq!(page["state"], "cancelled");
    assert_eq!(
        (&page["decisions"][0]["decision"], &page["decisions"][0]["person"]),
        (&"cancel".into(), &"M. Sato".into())
    );
    let again = world.charge("ORD-1", &[]);
    assert_eq!(again.code(), Some(1), "{again:?}");
    assert!(again.stdout.contains("taken back before it was sent"), "{again:?}");
    assert_eq!(world.charge("ORD-2", &[]).code(), Some(0));
    let sent = world.only("succeeded")["id"].as_str().unwrap().to_owned();
    let late = cancel(&sent);
    assert_eq!(late.code(), Some(1), "{late:?}");
    assert!(
        late.stderr.contains("the command is succeeded, and only what was never sent"),
        "{late:?}"
    );
    assert_eq!(world.attempts(), 1);
}

async fn p69_only_finished_commands_are_swept(database: Database) {
    let world = World::new(database, OPAQUE, FIRST_ANSWER_LOST).await;
    assert_eq!(world.charge("ORD-1", &[]).code(), Some(4));
    world.lab.set_plan(Plan::default()).unwrap();
    assert_eq!(world.charge("ORD-2", &[]).code(), Some(0));
    assert_eq!(world.charge("ORD-3", &["--enqueue-only"]).code(), Some(0));
    let count = || world.json(&["commands", "list"])["commands"].as_array().unwrap().len();
    let sweep = |days: &[&str]| world.samekey(&[&["sweep"], days].concat());
    for days in [&[][..], &["--commands-days", "1"]] {
        let ended = sweep(days);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.stdout, "removed: 0 records of keys, 0 commands\n", "none is old enough");
    }
    assert_eq!(sweep(&["--commands-days", "0"]).code(), Some(2));
    world.database.age_commands(31).await;
    let ended = sweep(&["--commands-days", "32"]);
    assert_eq!(ended.stdout, "removed: 0 records of keys, 0 commands\n");
    let ended = sweep(&[]);
    assert_eq!(ended.stdout, "removed: 0 records of keys, 1 commands\n", "30 days are the default");
    assert_eq!(count(), 2, "what waits, for its time or for a person, is kept");
    let states: Vec<Value> = world.json(&["commands", "list"])["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["state"].clone())
        .collect();
    assert_eq!(states, ["undecided", "waiting"]);
}

async fn p65_a_restored_database_doubts_its_commands(database: Database) {
    let world = World::new(database, ANSWERS, WELL).await;
    assert_eq!(world.charge("ORD-1", &["--enqueue-only"]).code(), Some(0));
    // What the restored database does not know: another command of the same order was executed.
    let before = Database::fresh(false).await;
    let program = world.program(&[]).args(crate::world::charge("ORD-1"));
    let lost = program.args(["--database", &before.url()]).run(samekey_sim::process::END_BOUND);
    assert_eq!(lost.unwrap().code(), Some(0));
    let marked = world.samekey(&["restore-mark", "--lost-since", "2026-01-01T00:00:00Z"]);
    assert_eq!(marked.code(), Some(0), "{marked:?}");
    let told = "Commands that are not finished: 1; the next courier that starts doubts them";
    assert!(marked.stdout.contains(told), "{marked:?}");
    let help = world.samekey(&["restore-mark", "--help"]).stdout;
    assert!(help.contains("samekey commands inbox"), "{help}");
    // It is asked about by its reference, found, and not sent a second time.
    let ended = world.charge("ORD-1", &["--wait-s", "30"]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stdout.contains("succeeded, status 200, attempts 0"), "{ended:?}");
    assert_eq!((world.lab.counts().payments, world.attempts()), (1, 1));
}
