//! How SQLite goes along its indexes.

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
        let statement = connection.prepare(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let parameters = vec![None::<i64>; statement.parameter_count()];
        let mut plan = connection.prepare(&format!("explain query plan {text}")).expect("a plan");
        let steps: Vec<String> = plan
            .query_map(params_from_iter(parameters), |row| row.get(3))
            .expect("steps")
            .collect::<Result<_, _>>()
            .expect("steps");
        for step in &steps {
            let one_small_table = name.starts_with("schema_");
            let statement = name.trim_end_matches(".sql");
            // What a statement made itself, and looks at from end to end.
            let own = ["SCAN orgs", "SCAN first", "SCAN (subquery", "SCAN CONSTANT ROW"]
                .iter()
                .any(|own| step.starts_with(own));
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
        let no_search = name.starts_with("schema_")
            || ["free_find.sql", "count_commands.sql"].contains(&name.as_str());
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
            "samekey_finished_finished_at",
            "samekey_keys_keep_until",
            "samekey_open_claims_due",
            "samekey_outbox_due",
            "sqlite_autoindex_samekey_attempts_1",
            "sqlite_autoindex_samekey_command_decisions_1",
            "sqlite_autoindex_samekey_commands_1",
            "sqlite_autoindex_samekey_commands_2",
            "sqlite_autoindex_samekey_decisions_1",
            "sqlite_autoindex_samekey_finished_1",
            "sqlite_autoindex_samekey_keys_1",
            "sqlite_autoindex_samekey_outbox_1",
        ]
    );
}
