//! What stands between an address and a ledger, and the sentence for each.

use super::bench::with_effects;
use super::file::File;
use super::processes::child;
use crate::records::{intent, offer, running, scope};
use samekey_core::time::Time;
use samekey_store::row::Row;
use samekey_store::sqlite::rusqlite::{Connection, params};
use samekey_store::sqlite::{MIGRATIONS, SqliteLedger};
use samekey_store::{Arrived, Kind, Ledger, StoreError};
use std::os::unix::fs::PermissionsExt;

/// The kind of a refusal whose text tells nothing of where the file lies.
fn refused<T>(result: Result<T, StoreError>) -> (Kind, String) {
    let Err(error) = result else { panic!("it opened") };
    let text = format!("{error}");
    assert!(!text.contains("orders.db") && !text.contains('/'), "{text}");
    (error.kind(), text)
}

#[test]
fn an_address_that_leads_nowhere_says_why() {
    let file = File::missing();
    let (kind, text) = refused(SqliteLedger::open(&file.address()));
    assert_eq!(kind, Kind::Address);
    assert!(text.contains("there is no database file"), "{text}");
    assert!(!file.path().exists(), "opening makes no file");

    let nowhere = format!("sqlite:{}/no/orders.db", file.directory().display());
    for result in
        [SqliteLedger::open(&nowhere).map(drop), SqliteLedger::migrate(&nowhere).map(drop)]
    {
        let (kind, text) = refused(result);
        assert_eq!(kind, Kind::Address);
        assert!(text.contains("directory") && text.contains("does not exist"), "{text}");
    }

    let directory = format!("sqlite:{}", file.directory().display());
    let (kind, text) = refused(SqliteLedger::migrate(&directory));
    assert_eq!(kind, Kind::Address);
    assert!(text.contains("names a directory"), "{text}");
}

#[test]
fn a_file_of_another_kind_is_left_alone() {
    let file = File::missing();
    let letter =
        "Dear Anna, this is no database, but it is long enough to be looked at. ".repeat(20);
    std::fs::write(file.path(), &letter).expect("a file");
    for result in [
        SqliteLedger::open(&file.address()).map(drop),
        SqliteLedger::migrate(&file.address()).map(drop),
    ] {
        let (kind, text) = refused(result);
        assert_eq!(kind, Kind::Address);
        assert!(text.contains("not an SQLite database"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(file.path()).expect("a file"), letter);
}

#[test]
fn the_schema_has_to_be_the_one_that_is_known() {
    let file = File::missing();
    file.raw().execute_batch("create table orders (id integer primary key)").expect("a table");
    let (kind, text) = refused(SqliteLedger::open(&file.address()));
    assert_eq!(kind, Kind::Schema);
    assert!(text.contains("samekey migrate"), "{text}");
    assert_eq!(SqliteLedger::migrate(&file.address()), Ok(MIGRATIONS.list), "beside other tables");
    assert_eq!(SqliteLedger::migrate(&file.address()), Ok(&[][..]), "once");
    assert!(SqliteLedger::open(&file.address()).is_ok());

    let tomorrow = MIGRATIONS.newest() + 1;
    let sql =
        format!("insert into samekey_migrations (number, name) values ({tomorrow}, 'of tomorrow')");
    file.raw().execute_batch(&sql).expect("a row");
    for result in [
        SqliteLedger::open(&file.address()).map(drop),
        SqliteLedger::migrate(&file.address()).map(drop),
    ] {
        let (kind, text) = refused(result);
        assert_eq!(kind, Kind::Schema);
        assert!(text.contains("newer samekey"), "{text}");
    }
}

#[test]
fn a_table_of_migrations_that_was_emptied_is_told() {
    let file = File::migrated();
    file.raw().execute_batch("delete from samekey_migrations").expect("a statement");
    for result in [
        SqliteLedger::open(&file.address()).map(drop),
        SqliteLedger::migrate(&file.address()).map(drop),
    ] {
        let (kind, text) = refused(result);
        assert_eq!(kind, Kind::Schema);
        assert!(text.contains("samekey_migrations is there and empty"), "{text}");
    }
}

#[test]
fn what_print_says_makes_the_same_schema() {
    let schema = |connection: &Connection| -> Vec<(String, Option<String>)> {
        let mut statement =
            connection.prepare("select name, sql from sqlite_schema order by name").expect("sql");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    };
    let printed = File::missing();
    printed.raw().execute_batch(&MIGRATIONS.print()).expect("a schema");
    assert_eq!(schema(&printed.raw()), schema(&File::migrated().raw()));
    assert!(SqliteLedger::open(&printed.address()).is_ok());
}

#[test]
fn a_migration_that_fails_leaves_nothing() {
    let file = File::missing();
    file.raw().execute_batch("create table samekey_open_claims (a integer)").expect("a table");
    let (kind, _) = refused(SqliteLedger::migrate(&file.address()));
    assert_eq!(kind, Kind::Other);
    let sql = "select count(*) from sqlite_schema where name = 'samekey_keys'";
    assert_eq!(file.count(sql), 0);
}

/// The superuser may write everything, so that the refusal is looked for as somebody else.
#[test]
fn a_file_that_can_only_be_read_is_refused() {
    let file = File::migrated();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("rights");
    };
    mode(&file.path(), 0o444);
    mode(file.directory(), 0o555);
    let told = child("open", &file, 65_534).finish();
    mode(file.directory(), 0o755);
    assert!(told.contains(&"refused ReadOnly".to_owned()), "{told:?}");
    mode(file.directory(), 0o777);
    let told = child("open", &file, 65_534).finish();
    mode(file.directory(), 0o755);
    assert!(told.contains(&"refused ReadOnly".to_owned()), "the directory does not help: {told:?}");
    mode(&file.path(), 0o000);
    let told = child("open", &file, 65_534).finish();
    assert!(told.contains(&"refused Forbidden".to_owned()), "{told:?}");
}

#[tokio::test]
async fn a_file_that_is_locked_for_too_long_is_told_and_not_for_ever() {
    let file = File::migrated();
    let ledger = file.open();
    let other = file.raw();
    other.execute_batch("begin immediate").expect("a lock");
    let (key, claim, beside) = (scope("org", "key"), offer(1), intent());
    let (claim, migrated) = tokio::join!(
        ledger.insert_or_load(&key, &claim, &beside),
        tokio::task::spawn_blocking({
            let address = file.address();
            move || SqliteLedger::migrate(&address)
        })
    );
    let (kind, text) = refused(claim);
    assert_eq!(kind, Kind::LockTimeout);
    assert!(text.contains("another process"), "{text}");
    assert_eq!(refused(migrated.expect("a task")).0, Kind::LockTimeout);
    assert!(ledger.load(&key).await.is_ok(), "reads go on");
    other.execute_batch("rollback").expect("unlocked");
    assert!(matches!(
        ledger.insert_or_load(&key, &offer(1), &intent()).await,
        Ok(Arrived::Inserted(_))
    ));
}

#[tokio::test]
async fn b11_a_file_that_is_locked_for_a_moment_is_waited_for() {
    let file = File::migrated();
    let ledger = file.open();
    let other = file.raw();
    other.execute_batch("begin immediate").expect("a lock");
    let (key, claim, beside) = (scope("org", "key"), offer(1), intent());
    let mut claims = std::pin::pin!(ledger.insert_or_load(&key, &claim, &beside));
    // Nothing is answered while the lock is held; without a wait, an error would come at once.
    let moment = std::time::Duration::from_millis(300);
    assert!(tokio::time::timeout(moment, &mut claims).await.is_err(), "an answer under the lock");
    other.execute_batch("rollback").expect("unlocked");
    assert!(matches!(claims.await, Ok(Arrived::Inserted(_))));
}

/// A process goes on writing to a file that is gone, and everything that it said would be lost.
#[tokio::test]
async fn p16_a_file_that_is_deleted_or_replaced_takes_no_more_writes() {
    type Harm = fn(&File);
    let log = |file: &File| file.directory().join("orders.db-wal");
    let cases: [(&str, Harm); 4] = [
        ("deleted", |file| std::fs::remove_file(file.path()).expect("deleted")),
        ("moved", |file| {
            std::fs::rename(file.path(), file.directory().join("old.db")).expect("moved");
        }),
        ("replaced", |file| {
            let backup = file.directory().join("backup.db");
            std::fs::copy(file.path(), &backup).expect("a copy");
            std::fs::rename(&backup, file.path()).expect("replaced");
        }),
        ("without its log", |file| {
            std::fs::remove_file(file.directory().join("orders.db-wal")).expect("deleted");
        }),
    ];
    for (name, harm) in cases {
        let file = File::migrated();
        let ledger = file.open();
        assert!(log(&file).exists());
        assert!(
            ledger.insert_or_load(&scope("org", "before"), &offer(1), &intent()).await.is_ok(),
            "{name}"
        );
        harm(&file);
        for key in ["first", "second"] {
            let told = ledger.insert_or_load(&scope("org", key), &offer(1), &intent()).await;
            let error = told.map(drop).expect_err(name);
            assert_eq!(error.kind(), Kind::Unreachable, "{name}");
            assert!(error.to_string().contains("deleted or replaced"), "{name}: {error}");
        }
    }
}

#[tokio::test]
async fn the_settings_hold() {
    let file = File::migrated();
    let ledger = with_effects(&file).await;
    let settings = ledger
        .read(|connection| {
            ["journal_mode", "foreign_keys"].map(|name| {
                connection.pragma_query_value(None, name, |row| {
                    Ok(format!("{:?}", row.get_ref(0)?.data_type())
                        + &format!("{:?}", row.get_ref(0)?))
                })
            })
        })
        .await
        .expect("an answer");
    assert!(settings[0].as_ref().is_ok_and(|mode| mode.contains("Text")), "{settings:?}");
    let of_writer = ledger
        .write(|connection| {
            let number =
                |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            let mode =
                connection.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
            samekey_store::sqlite::AtomicEnd::RollBack((
                mode,
                number("synchronous"),
                number("foreign_keys"),
            ))
        })
        .await;
    assert_eq!(of_writer, Ok((Ok("wal".to_owned()), Ok(2), Ok(1))));
}

/// B25: no row without the end of its lease, and none of the other rows that no state has.
#[test]
fn b25_rows_that_no_state_has_are_refused_by_the_schema() {
    let file = File::migrated();
    let connection = file.raw();
    let insert = include_str!("../../../sql/sqlite/insert_or_load.sql");
    let put = |key: &str, row: &Row| {
        connection.execute(
            insert,
            params![
                "org",
                key,
                row.fence,
                row.holder,
                row.revision,
                row.keep_until,
                row.state,
                row.since,
                row.request_version,
                row.request_sha,
                row.frame_sha,
                row.principal_sha,
                row.lease_ends,
                row.run_ends,
                row.life,
                row.reason,
                row.last_send,
                row.asked,
                row.not_found,
                row.ask_after,
                row.answer_status,
                row.answer_headers,
                row.answer_body,
            ],
        )
    };
    let whole = Row::of(&running(Time::from_micros(1_000), 2));
    assert_eq!(put("whole", &whole), Ok(1));
    let broken: Vec<(&str, Row)> = vec![
        ("no lease end", Row { lease_ends: None, ..whole.clone() }),
        ("no run end", Row { run_ends: None, ..whole.clone() }),
        ("lease of length zero", Row { lease_ends: whole.since, ..whole.clone() }),
        ("lease beyond the run", Row { run_ends: whole.since, ..whole.clone() }),
        ("no start", Row { since: None, ..whole.clone() }),
        ("no request", Row { request_sha: None, ..whole.clone() }),
        ("no frame", Row { frame_sha: None, ..whole.clone() }),
        ("no version", Row { request_version: None, ..whole.clone() }),
        ("short hash", Row { request_sha: Some(vec![1; 31]), ..whole.clone() }),
        ("short owner", Row { holder: vec![1; 15], ..whole.clone() }),
        ("another state", Row { state: "RUNNING".into(), ..whole.clone() }),
        ("free, with a request", Row { state: "free".into(), ..whole.clone() }),
        ("done, with a lease", Row { state: "done".into(), ..whole.clone() }),
        ("running, with an answer", Row { answer_status: Some(200), ..whole.clone() }),
        ("running, with a reason", Row { reason: Some("restored".into()), ..whole.clone() }),
        ("running, with questions", Row { asked: Some(1), ..whole.clone() }),
        ("never written to", Row { revision: 0, ..whole.clone() }),
        ("a fence below none", Row { fence: -1, ..whole.clone() }),
    ];
    for (what, row) in &broken {
        let error = put(what, row).expect_err(what);
        let text = StoreError::from(error).to_string();
        assert!(text.contains("samekey_keys_"), "{what}: the constraint is named: {text}");
    }
    let closed = Row { lease_ends: None, run_ends: None, state: "closed".into(), ..whole.clone() };
    assert_eq!(put("closed", &closed), Ok(1));
    let done = Row { state: "done".into(), ..closed.clone() };
    assert!(put("done without an answer", &done).is_err());
    let review = Row { state: "review".into(), life: Some(1), ..closed.clone() };
    assert!(put("review without a reason", &review).is_err());
    let reason = |code: &str| Row { reason: Some(code.into()), ..review.clone() };
    assert!(put("review for no known reason", &reason("weather")).is_err());
    for (_, code) in samekey_core::record::Reason::ALL {
        assert_eq!(put(code, &reason(code)), Ok(1), "{code}");
    }
}

/// Who deletes by hand what is open is stopped by the table of open claims.
#[tokio::test]
async fn s15_an_open_row_cannot_be_deleted_by_hand() {
    let file = File::migrated();
    let ledger = file.open();
    assert!(ledger.insert_or_load(&scope("org", "key"), &offer(1), &intent()).await.is_ok());
    let by_hand = file.raw();
    by_hand.pragma_update(None, "foreign_keys", "on").expect("a setting");
    assert!(by_hand.execute_batch("delete from samekey_keys").is_err());
}
