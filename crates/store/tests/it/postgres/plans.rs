//! How the server runs the statements, and what it writes for them.

use super::Fixture;
use crate::commands::command;
use crate::lint::may_read_all;
use crate::outbox::{NOW, put, taken};
use crate::records::{after, done, intent, offer, scope};
use samekey_store::postgres::Options;
use samekey_store::{Arrived, Ledger, Swap};
use std::path::Path;
use std::time::Duration;

fn statements() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/postgres");
    let mut statements: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .filter(|(name, _)| name != "roles")
        .collect();
    statements.sort();
    statements
}

/// What holds as many rows as there are keys or commands.
const TABLES: [&str; 10] = [
    "keys",
    "open_claims",
    "answers",
    "commands",
    "outbox",
    "order_keys",
    "order_turns",
    "finished",
    "attempts",
    "command_decisions",
];

/// Every statement on our tables goes along an index, whatever its parameters are.
#[tokio::test]
async fn every_statement_goes_along_an_index() {
    let fixture = Fixture::new().await;
    fixture.ledger.sweep(1).await.unwrap();
    fixture
        .execute(
            "insert into samekey.keys (org_id, key, fence, revision, keep_until, since, \
             request_version, request_sha, frame_sha, state, holder, answer_status) \
             select 'org-' || n % 7, 'key-' || n, 1, 2, now() + n * interval '1 minute', now(), \
             1, sha256(''), sha256(''), 'done', substr(sha256(''), 1, 16), 200 \
             from generate_series(1, 20000) as n; \
             insert into samekey.open_claims \
             select org_id, key, 'route-' || length(key), sha256(''), now() from samekey.keys \
             limit 2000; \
             insert into samekey.commands (org_id, id, destination, operation, business_ref, \
             generation, order_key, key, request) \
             select org_id, substr(sha256(key::bytea), 1, 16), 'bank', 'charge', key, 1, \
             nullif(length(key), 9)::text || key, '', '' from samekey.keys; \
             insert into samekey.outbox (org_id, id, fence, revision, began, gives_up, due, sends, \
             attempts, destination, order_key, asked_by, state, holder) \
             select org_id, id, 1, 1, now(), now(), now() - 0.1 * length(business_ref) * interval '1 s', \
             0, 0, destination, order_key, 'key', 'waiting', '' from samekey.commands limit 5000; \
             insert into samekey.order_keys \
             select org_id, destination, order_key, id from samekey.outbox where order_key is not null; \
             insert into samekey.order_turns select distinct on (org_id, destination, order_key) \
             org_id, destination, order_key, id from samekey.order_keys; \
             insert into samekey.finished (org_id, id, fence, revision, began, gives_up, since, sends, \
             attempts, asked_by, state, holder) \
             select org_id, id, 1, 1, now(), now(), now(), 0, 0, 'key', 'cancelled', '' \
             from samekey.commands offset 5000; \
             insert into samekey.attempts (org_id, id, fence, number, kind, began, came_to) \
             select org_id, id, 1, 1, 'send', now(), 'done' from samekey.commands; \
             insert into samekey.command_decisions (org_id, id, seen_fence, decision, person, note, \
             evidence) select org_id, id, 1, '', '', '', '' from samekey.commands; \
             analyze samekey.keys, samekey.open_claims, samekey.commands, samekey.outbox, \
             samekey.order_keys, samekey.order_turns, samekey.finished, samekey.attempts, \
             samekey.command_decisions; \
             set plan_cache_mode = force_generic_plan",
        )
        .await;
    let mut looked_at = 0;
    for (name, text) in statements() {
        if text.contains("\nalter table") {
            continue;
        }
        let parameters = fixture
            .outside
            .prepare(&text)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error:?}"))
            .params()
            .len();
        let nulls = vec!["null"; parameters].join(", ");
        let arguments = if parameters == 0 { String::new() } else { format!("({nulls})") };
        fixture.execute(&format!("prepare explained as {text}")).await;
        let plan: Vec<String> = fixture
            .outside
            .query(&format!("explain execute explained{arguments}"), &[])
            .await
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect();
        fixture.execute("deallocate explained").await;
        for step in &plan {
            let ours = step.contains("Seq Scan") && TABLES.iter().any(|table| step.contains(table));
            assert!(
                !ours || may_read_all(&name, step),
                "{name} reads a whole table:\n{}",
                plan.join("\n")
            );
        }
        looked_at += 1;
    }
    assert!(looked_at >= 54, "only {looked_at} statements");
}

/// Recovery walks along its own index: by organisation and time, never through all of a route.
#[tokio::test]
async fn recovery_goes_along_its_index() {
    let fixture = Fixture::new().await;
    fixture
        .execute(
            "insert into samekey.open_claims \
             select 'org-' || n % 50, 'key-' || n, 'route-' || n % 3, sha256(''), \
             now() + (n - 1500) * interval '1 second' from generate_series(1, 3000) as n; \
             analyze samekey.open_claims",
        )
        .await;
    for (name, arguments, condition) in [
        ("due", "'org-7', 'route-1', 10", "(route = $2) AND (org_id = $1) AND (due_at <= now())"),
        ("orgs_with_open", "'route-1', '', 10", "(route = $1) AND (org_id > orgs_1.org_id)"),
    ] {
        let text = statements().into_iter().find(|(one, _)| one == name).unwrap().1;
        fixture.execute("set plan_cache_mode = force_generic_plan").await;
        fixture.execute(&format!("prepare explained as {text}")).await;
        let explain = format!("explain execute explained({arguments})");
        let plan: Vec<String> = fixture
            .outside
            .query(&explain, &[])
            .await
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect();
        fixture.execute("deallocate explained").await;
        let plan = plan.join("\n");
        assert!(plan.contains("using open_claims_due"), "{name}:\n{plan}");
        assert!(!plan.contains("using open_claims_pkey"), "{name}:\n{plan}");
        assert!(!plan.contains("Seq Scan"), "{name}:\n{plan}");
        let spaced = plan.replace("::text", "");
        assert!(spaced.contains(condition), "{name}: {condition}\n{plan}");
    }
}

/// The plan of a group is kept, and may be made while the table is still empty: it must not be one
/// that reads the whole table later.
#[tokio::test]
async fn a_group_goes_along_the_index_from_the_first_row_on() {
    let fixture = Fixture::new().await;
    let scans = async || {
        for _ in 0..8 {
            let client = fixture.ledger.pool().get().await.unwrap();
            client.batch_execute("select pg_stat_force_next_flush()").await.unwrap();
        }
        fixture.number("select seq_scan from pg_stat_user_tables where relname = 'keys'").await
    };
    let before = scans().await;
    for number in 0..40 {
        let key = scope("org", &format!("key-{number}"));
        let Arrived::Inserted(seen) =
            fixture.ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap()
        else {
            panic!("it was there")
        };
        let next = after(&seen.record, done(seen.now, 1));
        assert_eq!(fixture.ledger.swap(&key, &seen.record, &next).await.unwrap(), Swap::Written);
    }
    assert_eq!(scans().await, before);
}

/// A plan that was made while there was hardly a command is made anew when there are many: on an empty table
/// all indexes cost the same, and one that was made then may read all commands of an organisation.
#[tokio::test]
async fn a_plan_of_an_empty_table_does_not_stay() {
    let fixture = Fixture::with(1, Options::default()).await;
    // The server itself would mend it when it has counted the rows, a minute later.
    fixture.execute("alter table samekey.commands set (autovacuum_enabled = off)").await;
    let read = async || {
        let client = fixture.ledger.pool().get().await.unwrap();
        client.batch_execute("select pg_stat_force_next_flush()").await.unwrap();
        drop(client);
        let read = "select idx_tup_fetch from pg_stat_user_tables where relname = 'commands'";
        fixture.number(read).await
    };
    let mut number = 0;
    let mut last = 0;
    for bulk in [0, 20_000] {
        fixture
            .execute(&format!(
                "insert into samekey.commands (org_id, id, destination, operation, business_ref, \
                 generation, key, request) select 'org', substr(sha256(n::text::bytea), 1, 16), 'bank', \
                 'charge', 'bulk-' || n, 1, '', '' from generate_series(1, {bulk}) n"
            ))
            .await;
        // More uses of the connection than there were before.
        for _ in 0..150 {
            number += 1;
            put(&fixture.ledger, &command("org", number), NOW).await;
            if number % 10 == 0 {
                assert_eq!(taken(&fixture.ledger, "org", 1).await.len(), 1);
            }
        }
        let before = read().await;
        for _ in 0..20 {
            assert_eq!(taken(&fixture.ledger, "org", 1).await.len(), 1);
        }
        last = read().await - before;
    }
    assert!(last <= 60, "20 commands were taken, and {last} rows were read for them");
}

/// What no check constraint holds is found by a statement for operators.
#[tokio::test]
async fn a_row_that_no_machine_makes_is_found() {
    let fixture = Fixture::new().await;
    let faults = statements().into_iter().find(|(name, _)| name == "row_faults").unwrap().1;
    super::everything(&fixture.ledger).await;
    let found = async || fixture.outside.query(&faults, &[&"", &"", &10_i64]).await.unwrap().len();
    assert_eq!(found().await, 0);
    for fault in [
        "state = 'finished'",
        "since = null",
        "request_sha = 'short'",
        "answer_status = null",
        "ask_after = now()",
        "revision = 0",
        "holder = ''",
        "answer_day = '2026-01-01'",
    ] {
        fixture.execute(&format!("begin; update samekey.keys set {fault}")).await;
        assert_eq!(found().await, 1, "{fault}");
        fixture.execute("rollback").await;
    }
}

/// Settling changes no indexed column, so that every update stays on its page.
#[tokio::test]
async fn every_update_stays_on_its_page() {
    let fixture = Fixture::new().await;
    for number in 0..300 {
        let key = scope("org", &format!("external-{number}"));
        let Arrived::Inserted(seen) =
            fixture.ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap()
        else {
            panic!("it was there")
        };
        let next = after(&seen.record, done(seen.now, 1));
        assert_eq!(fixture.ledger.swap(&key, &seen.record, &next).await.unwrap(), Swap::Written);
    }
    let flushed = async {
        loop {
            // Sessions tell their numbers when they are idle for a while, or asked.
            for _ in 0..8 {
                let client = fixture.ledger.pool().get().await.unwrap();
                client.batch_execute("select pg_stat_force_next_flush()").await.unwrap();
            }
            let updates = "select n_tup_upd from pg_stat_user_tables where relname = 'keys'";
            if fixture.number(updates).await == 300 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), flushed).await.expect("the statistics");
    let hot = "select n_tup_hot_upd from pg_stat_user_tables where relname = 'keys'";
    assert_eq!(fixture.number(hot).await, 300);
}
