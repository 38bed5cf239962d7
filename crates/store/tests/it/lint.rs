//! What every statement has to look like, in both dialects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Statements that serve requests, where a dialect has them. They have to go to one org's rows,
/// whatever the database is.
const HOT: [&str; 17] = [
    "insert_or_load.sql",
    "load.sql",
    "swap.sql",
    "settle.sql",
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
];

/// Statements that read all of a table, and why that may be.
const READS_ALL: [(&str, &str); 2] = [
    // It is asked by operators and for metrics, and there is nothing to count but every row.
    ("count_open", "open_claims"),
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
            (!condition.starts_with("conflict")).then_some(condition)
        });
        if let Some(first) = first {
            let (column, _) = first.split_once('=').unwrap_or_default();
            let column = column.trim();
            assert!(column == "org_id" || column.ends_with(".org_id"), "{name}: {first:?}");
        } else {
            assert!(bare.contains("insert into"), "{name}: no condition");
        }
        for table in ["samekey_keys", "samekey.keys", "samekey_open_claims", "samekey.open_claims"]
        {
            if let Some((_, columns)) = bare.split_once(&format!("insert into {table} (")) {
                assert!(columns.trim_start().starts_with("org_id"), "{name}: the org is not first");
            }
        }
        if let Some((_, conflict)) = bare.split_once("on conflict") {
            let target = conflict.trim_start();
            assert!(target.starts_with("(org_id, key"), "{name}: {target:?}");
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
    const NEVER: [&str; 14] = [
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
            assert!(!NEVER.contains(&word), "{name}: {word}");
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
        if hot && let Some((_, condition)) = bare.split_once("\nwhere ") {
            assert!(!words(condition).contains(&"state"), "{name}: it decides by the state");
        }
    }
}

/// The columns of a key's row in both dialects, in any order.
#[test]
fn both_dialects_have_the_same_statements_on_a_row() {
    const TWINS: [&str; 22] = [
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
        "insert_or_load.sql",
        "load.sql",
        "swap.sql",
        "sweep_find.sql",
        "sweep_delete.sql",
        "list_open.sql",
        "schema_version.sql",
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

fn words_of(text: &str) -> Vec<String> {
    words(&bare(text)).into_iter().map(str::to_owned).collect()
}

#[cfg(feature = "sqlite")]
mod plans {
    use super::files;
    use samekey_store::sqlite::rusqlite::{Connection, params_from_iter};

    fn fresh() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        for migration in samekey_store::sqlite::MIGRATIONS.list {
            connection.execute_batch(migration.sql).expect("a migration");
        }
        connection
    }

    /// Every statement is prepared against a fresh schema, and goes along an index.
    #[test]
    fn every_statement_goes_along_an_index() {
        let connection = fresh();
        for (name, text) in files("sqlite") {
            if name.starts_with("migrations/") {
                continue;
            }
            let statement =
                connection.prepare(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let parameters = vec![None::<i64>; statement.parameter_count()];
            let mut plan =
                connection.prepare(&format!("explain query plan {text}")).expect("a plan");
            let steps: Vec<String> = plan
                .query_map(params_from_iter(parameters), |row| row.get(3))
                .expect("steps")
                .collect::<Result<_, _>>()
                .expect("steps");
            for step in &steps {
                let one_small_table = name.starts_with("schema_");
                let statement = name.trim_end_matches(".sql");
                // What a statement made itself, and looks at from end to end.
                let own = step == "SCAN orgs";
                assert!(
                    !step.contains("SCAN")
                        || one_small_table
                        || own
                        || super::may_read_all(statement, step),
                    "{name}: {step}"
                );
            }
            let searches = steps.iter().any(|step| step.contains("SEARCH"));
            let inserts = text.contains("insert into");
            let no_search = name.starts_with("schema_") || name == "free_find.sql";
            assert!(searches || inserts || no_search, "{name}: {steps:?}");
        }
    }

    /// Recovery walks along its own index, not through every record of an organisation.
    #[test]
    fn recovery_goes_along_its_index() {
        let connection = fresh();
        for name in ["due.sql", "orgs_with_open.sql"] {
            let text = &files("sqlite")[name];
            let parameters = connection.prepare(text).expect("a statement").parameter_count();
            let steps: Vec<String> = connection
                .prepare(&format!("explain query plan {text}"))
                .expect("a plan")
                .query_map(params_from_iter(vec![None::<i64>; parameters]), |row| row.get(3))
                .expect("steps")
                .collect::<Result<_, _>>()
                .expect("steps");
            let tables: Vec<&String> = steps.iter().filter(|step| step.contains("INDEX")).collect();
            assert!(!tables.is_empty(), "{name}: {steps:?}");
            for step in tables {
                let bounds = ["route=? AND org_id>?", "route=? AND org_id=? AND due_at<?"];
                assert!(
                    step.contains("samekey_open_claims_due")
                        && bounds.iter().any(|bound| step.contains(bound)),
                    "{name}: {step}"
                );
            }
            assert!(
                !steps.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER BY"))
                    || name != "due.sql",
                "{name}: {steps:?}"
            );
        }
    }

    /// Settling writes no column that stands in an index, but the one that the sweep walks along.
    /// What else there is lies on the small table of open records, and under accounts.
    #[test]
    fn the_only_other_index_on_keys_is_the_sweeps() {
        let connection = fresh();
        let indexes: Vec<String> = connection
            .prepare("select name from sqlite_schema where type = 'index' order by name")
            .expect("a statement")
            .query_map([], |row| row.get(0))
            .expect("names")
            .collect::<Result<_, _>>()
            .expect("names");
        assert_eq!(
            indexes,
            [
                "samekey_keys_keep_until",
                "samekey_open_claims_due",
                "sqlite_autoindex_samekey_decisions_1",
                "sqlite_autoindex_samekey_keys_1",
            ]
        );
    }
}
