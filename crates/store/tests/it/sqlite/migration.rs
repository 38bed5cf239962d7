//! A file of the first version of the schema, with rows in it.

use super::file::File;
use crate::migrating::{rows_of_version_1, what_was_open_before_is_open_still};
use samekey_core::record::Record;
use samekey_store::row::Row;
use samekey_store::sqlite::rusqlite::{Connection, params};
use samekey_store::sqlite::{MIGRATIONS, SqliteLedger};
use samekey_store::{Kind, StoreError};

fn put(connection: &Connection, key: &str, record: &Record) {
    let row = Row::of(record);
    let insert = include_str!("../../../sql/sqlite/insert_or_load.sql");
    let columns = params![
        "old",
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
    ];
    assert_eq!(connection.execute(insert, columns), Ok(1));
}

#[tokio::test]
async fn p35_a_file_of_version_1_keeps_its_open_records() {
    let file = File::missing();
    let first = &MIGRATIONS.list[0];
    let by_hand = file.raw();
    by_hand.execute_batch(first.sql).unwrap();
    by_hand.execute_batch(&MIGRATIONS.record(first)).unwrap();
    let [open, done] = rows_of_version_1();
    put(&by_hand, "open", &open);
    put(&by_hand, "done", &done);
    let note = "insert into samekey_open_claims (org_id, key) values ('old', 'open')";
    by_hand.execute_batch(note).unwrap();
    drop(by_hand);

    let refused = SqliteLedger::open(&file.address()).map(drop);
    assert_eq!(refused.map_err(|error: StoreError| error.kind()), Err(Kind::Schema));
    assert_eq!(SqliteLedger::migrate(&file.address()), Ok(&MIGRATIONS.list[1..]));
    let ledger = file.open();
    what_was_open_before_is_open_still(&ledger, &file).await;
    ledger.close().await;
    let whole: String =
        file.raw().query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    let broken = file.count("select count(*) from pragma_foreign_key_check");
    assert_eq!(broken, 0);
}
