//! What every statement has to look like, in both dialects.

#[cfg(feature = "sqlite")]
mod plans;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Statements that serve requests, where a dialect has them. They have to go to one org's rows,
/// whatever the database is.
const HOT: [&str; 41] = [
    "insert_or_load.sql",
    "insert_open.sql",
    "look.sql",
    "load.sql",
    "swap.sql",
    "settle.sql",
    "settle_new.sql",
    "claim_group.sql",
    "offer_group.sql",
    "settle_group.sql",
    "swap_group.sql",
    "answer_load.sql",
    "open_insert.sql",
    "open_keep.sql",
    "open_move.sql",
    "open_delete.sql",
    "intent.sql",
    "due.sql",
    "decision_insert.sql",
    "decisions.sql",
    "enqueue.sql",
    "enqueue_next.sql",
    "enqueue_group.sql",
    "outbox_insert.sql",
    "order_key_insert.sql",
    "order_key_delete.sql",
    "order_turn_delete.sql",
    "command.sql",
    "latest.sql",
    "delivery.sql",
    "take_find.sql",
    "take_turns.sql",
    "take_commands.sql",
    "advance.sql",
    "advance_group.sql",
    "outbox_delete.sql",
    "finished_insert.sql",
    "attempt_insert.sql",
    "attempts.sql",
    "command_decision_insert.sql",
    "command_decisions.sql",
];

/// Statements that read all of a table, and why that may be.
const READS_ALL: [(&str, &str); 3] = [
    // It is asked by operators and for metrics, and there is nothing to count but every row.
    ("count_open", "open_claims"),
    ("count_commands", "outbox"),
    // It is run after a restore only, and no index on the state is worth that.
    ("free_find", "keys"),
];

/// Whether a statement may read all of the table that a step of its plan names.
pub fn may_read_all(statement: &str, step: &str) -> bool {
    READS_ALL.iter().any(|(name, table)| *name == statement && step.contains(table))
}

/// What a person runs, not the program: it may hold several statements.
const SCRIPTS: [&str; 1] = ["roles.sql"];

/// What starts a line of its own.
const CLAUSES: [&str; 8] =
    ["from", "where", "order by", "limit", "values", "on conflict", "returning", "group by"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")
}

fn dialects() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("the folder of statements")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    names
}

/// Every file below a folder of a dialect, by its path in it.
fn files(dialect: &str) -> BTreeMap<String, String> {
    let root = folder().join(dialect);
    let mut files = BTreeMap::new();
    for (below, prefix) in [(root.clone(), ""), (root.join("migrations"), "migrations/")] {
        for entry in std::fs::read_dir(&below).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                let text = std::fs::read_to_string(&path).expect("text");
                files.insert(format!("{prefix}{name}"), text);
            }
        }
    }
    files
}

fn statements() -> Vec<(String, String)> {
    dialects()
        .iter()
        .flat_map(|dialect| {
            files(dialect).into_iter().map(move |(name, text)| (format!("{dialect}/{name}"), text))
        })
        .collect()
}

fn is_migration(name: &str) -> bool {
    name.contains("/migrations/")
}

fn file_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A statement without its comments and its quoted texts.
fn bare(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let code = line.split("--").next().unwrap_or_default();
        let mut quoted_by = None;
        for character in code.chars() {
            match quoted_by {
                Some(quote) if quote == character => quoted_by = None,
                Some(_) => {}
                None if matches!(character, '\'' | '"') => quoted_by = Some(character),
                None => out.push(character),
            }
        }
        out.push('\n');
    }
    out.trim_start().to_owned()
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect()
}

#[test]
fn keywords_are_lower_case_and_lines_are_plain() {
    for (name, text) in statements() {
        assert!(name.ends_with(".sql"), "{name} is no statement");
        assert!(!bare(&text).contains(|c: char| c.is_ascii_uppercase()), "{name}: upper case");
        assert!(text.is_ascii() && !text.contains('\t'), "{name}: tabs or other characters");
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{name}: its end");
        for line in text.lines() {
            assert!(line.len() <= 120 && line.trim_end() == line, "{name}: {line:?}");
        }
    }
}

#[test]
fn a_file_has_one_statement() {
    for (name, text) in statements() {
        if !is_migration(&name) && !SCRIPTS.contains(&file_of(&name)) {
            assert!(!bare(&text).contains(';'), "{name}: more than one statement, or a semicolon");
        }
    }
}

#[test]
fn a_line_has_one_clause() {
    for (name, text) in statements() {
        if is_migration(&name) || SCRIPTS.contains(&file_of(&name)) {
            continue;
        }
        for line in bare(&text).lines() {
            let spaced = format!(" {} ", words(line).join(" "))
                .replace(" distinct from ", " ")
                .replace(" select from ", " ");
            for clause in CLAUSES {
                let Some(at) = spaced.find(&format!(" {clause} ")) else { continue };
                assert!(
                    at == 0 || spaced.starts_with(" delete "),
                    "{name}: {clause:?} in {line:?}"
                );
            }
        }
    }
}

/// With the org first in every hot condition and every key, the ledger can be spread by org.
#[test]
fn hot_statements_go_by_the_org_first() {
    for (name, text) in statements() {
        if !HOT.contains(&file_of(&name)) {
            continue;
        }
        let bare = bare(&text);
        let lines: Vec<&str> = bare.lines().map(str::trim_start).collect();
        let before = std::iter::once("").chain(lines.iter().copied());
        let first = lines.iter().zip(before).find_map(|(line, before)| {
            // What was inserted a moment ago is no table to be searched.
            if before == "from inserted" {
                return None;
            }
            let condition = line.strip_prefix("where ").or_else(|| line.strip_prefix("on "))?;
            let no_table = ["conflict", "not exists ("];
            (!no_table.iter().any(|one| condition.starts_with(one))).then_some(condition)
        });
        if let Some(first) = first {
            let (column, _) = first.split_once('=').unwrap_or_default();
            let column = column.trim();
            assert!(column == "org_id" || column.ends_with(".org_id"), "{name}: {first:?}");
        } else {
            assert!(bare.contains("insert into"), "{name}: no condition");
        }
        for inserted in bare.split("insert into ").skip(1) {
            let (table, columns) = inserted.split_once(" (").unwrap_or_default();
            // Bodies go to the partition of their day.
            let first = if table.ends_with("answers") { "answer_day" } else { "org_id" };
            assert!(columns.trim_start().starts_with(first), "{name}: the org is not first");
        }
        for conflict in bare.split("on conflict").skip(1) {
            let target = conflict.trim_start();
            let any = target.starts_with("do nothing");
            assert!(any || target.starts_with("(org_id, "), "{name}: {target:?}");
        }
    }
}

#[test]
fn columns_are_listed() {
    for (name, text) in statements() {
        let bare = bare(&text).replace("count(*)", "");
        let free = is_migration(&name) || SCRIPTS.contains(&file_of(&name));
        assert!(!bare.contains('*') || free, "{name}: columns are not listed");
    }
}

/// What cannot be spread over servers, and what decides in place of the machine.
#[test]
fn nothing_stands_in_the_way_of_spreading_by_org() {
    // Where a lock does not reach, two commands of one key may run beside one another, and the key of the table lets one
    // of them commit. So nothing but speed hangs on these two.
    const LOCKS: [&str; 2] = ["lock.sql", "lock_wait.sql"];
    const NEVER: [&str; 15] = [
        "trigger",
        "sequence",
        "serial",
        "bigserial",
        "nextval",
        "listen",
        "notify",
        "pg_advisory_lock",
        "pg_advisory_xact_lock",
        "pg_try_advisory_lock",
        "pg_try_advisory_xact_lock",
        "case",
        "random",
        "gen_random_uuid",
        "truncate",
    ];
    const CLOCKS: [&str; 6] = [
        "now",
        "clock_timestamp",
        "current_timestamp",
        "statement_timestamp",
        "unixepoch",
        "datetime",
    ];
    for (name, text) in statements() {
        let bare = bare(&text);
        for word in words(&bare) {
            let lock = word.contains("advisory") && LOCKS.contains(&file_of(&name));
            assert!(lock || !NEVER.contains(&word), "{name}: {word}");
        }
        if is_migration(&name) {
            for statement in bare.split(';').filter(|one| one.contains("create index")) {
                assert!(!statement.contains("where"), "{name}: a partial index");
                for column in ["state", "lease_ends", "revision", "fence", "since", "ask_after"] {
                    assert!(!words(statement).contains(&column), "{name}: an index on {column}");
                }
            }
            continue;
        }
        let hot = HOT.contains(&file_of(&name));
        let condition = bare.split_once("on conflict").map(|(_, rest)| rest);
        let update = bare.starts_with("update").then_some(bare.as_str());
        for part in [condition, update].into_iter().flatten() {
            // What an insert returns is no condition.
            let part = part.split("returning").next().unwrap_or_default();
            for word in words(part) {
                assert!(!CLOCKS.contains(&word), "{name}: {word} in a condition or an update");
            }
        }
        for line in bare.lines().map(str::trim_start).filter(|_| hot) {
            let condition =
                ["where ", "and ", "or ", "on "].iter().any(|one| line.starts_with(one));
            // What was inserted a moment ago is no table to be searched.
            let decides = words(line).contains(&"state") && !line.contains("inserted.state");
            assert!(!condition || !decides, "{name}: it decides by the state");
        }
    }
}

/// The columns of a key's row in both dialects, in any order.
#[test]
fn both_dialects_have_the_same_statements_on_a_row() {
    const TWINS: [&str; 39] = [
        "migrations/0001_keys.sql",
        "migrations/0002_intents.sql",
        "open_insert.sql",
        "open_move.sql",
        "open_delete.sql",
        "intent.sql",
        "due.sql",
        "orgs_with_open.sql",
        "count_open.sql",
        "decision_insert.sql",
        "decisions.sql",
        "shared.sql",
        "share_once.sql",
        "share.sql",
        "free_find.sql",
        "load.sql",
        "swap.sql",
        "sweep_find.sql",
        "sweep_delete.sql",
        "list_open.sql",
        "schema_version.sql",
        "migrations/0003_outbox.sql",
        "enqueue.sql",
        "command.sql",
        "latest.sql",
        "delivery.sql",
        "take_find.sql",
        "take_turns.sql",
        "orgs_with_due.sql",
        "next_due.sql",
        "attempt_insert.sql",
        "attempts.sql",
        "command_decision_insert.sql",
        "command_decisions.sql",
        "list_unfinished.sql",
        "list_finished.sql",
        "count_commands.sql",
        "sweep_commands_find.sql",
        "sweep_commands_delete.sql",
    ];
    for dialect in dialects() {
        let files = files(&dialect);
        for twin in TWINS {
            assert!(files.contains_key(twin), "{dialect} has no {twin}");
        }
        let load = words_of(&files["load.sql"]);
        let swap = words_of(&files["swap.sql"]);
        for column in [
            "fence",
            "holder",
            "revision",
            "keep_until",
            "state",
            "since",
            "request_version",
            "request_sha",
            "frame_sha",
            "principal_sha",
            "lease_ends",
            "run_ends",
            "life",
            "reason",
            "last_send",
            "asked",
            "not_found",
            "ask_after",
            "answer_status",
            "answer_headers",
            "answer_body",
        ] {
            assert!(load.contains(&column.to_owned()), "{dialect}/load.sql: no {column}");
            assert!(swap.contains(&column.to_owned()), "{dialect}/swap.sql: no {column}");
        }
    }
}

/// The columns of a delivery, wherever one is read or written.
#[test]
fn every_statement_on_a_delivery_has_all_of_it() {
    const COLUMNS: [&str; 19] = [
        "fence",
        "holder",
        "revision",
        "began",
        "gives_up",
        "sends",
        "attempts",
        "first_send",
        "last_send",
        "doubt",
        "last",
        "proof",
        "asked_by",
        "state",
        "since",
        "reason",
        "answer_status",
        "answer_headers",
        "answer_body",
    ];
    const HOT_COLUMNS: [&str; 4] = ["due", "grounds", "asked", "not_found"];
    let all = [
        "enqueue.sql",
        "enqueue_next.sql",
        "enqueue_group.sql",
        "outbox_insert.sql",
        "latest.sql",
        "delivery.sql",
        "take_find.sql",
        "advance.sql",
        "advance_group.sql",
        "list_unfinished.sql",
    ];
    for dialect in dialects() {
        let files = files(&dialect);
        for name in all.iter().chain(&["finished_insert.sql", "list_finished.sql"]) {
            // Some are one statement in one dialect, and several in the other.
            let Some(text) = files.get(*name) else { continue };
            let found = words_of(text);
            if dialect == "sqlite" && ["enqueue.sql", "latest.sql"].contains(name) {
                continue;
            }
            let hot = if all.contains(name) { HOT_COLUMNS.as_slice() } else { &[] };
            for column in COLUMNS.iter().chain(hot) {
                assert!(found.iter().any(|word| word == column), "{dialect}/{name}: no {column}");
            }
        }
    }
}

fn words_of(text: &str) -> Vec<String> {
    words(&bare(text)).into_iter().map(str::to_owned).collect()
}
