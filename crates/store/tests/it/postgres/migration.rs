//! A database of the first version of the schema, with rows in it.

use super::Fixture;
use crate::migrating::{rows_of_version_1, what_was_open_before_is_open_still};
use samekey_core::record::Record;
use samekey_sim::fresh_database;
use samekey_store::Kind;
use samekey_store::postgres::{MIGRATIONS, Options, PostgresLedger, connect, migrate};
use samekey_store::row::Row;
use tokio_postgres::Client;

async fn put(client: &Client, key: &str, record: &Record) {
    let row = Row::of(record);
    let at = |micros: Option<i64>| {
        micros.map_or("null".to_owned(), |micros| {
            format!("timestamptz '1970-01-01 00:00+00' + interval '{micros} microseconds'")
        })
    };
    let text = format!(
        "insert into samekey.keys (org_id, key, fence, holder, revision, keep_until, state, since, \
         request_version, request_sha, frame_sha, principal_sha, lease_ends, run_ends, \
         answer_status, answer_headers, answer_body) \
         values ('old', $1, $2, $3, $4, {}, $5, {}, $6, $7, $8, $9, {}, {}, $10, $11, $12)",
        at(Some(row.keep_until)),
        at(row.since),
        at(row.lease_ends),
        at(row.run_ends)
    );
    let inserted = client
        .execute(
            &text,
            &[
                &key,
                &row.fence,
                &row.holder,
                &row.revision,
                &row.state,
                &row.request_version,
                &row.request_sha,
                &row.frame_sha,
                &row.principal_sha,
                &row.answer_status,
                &row.answer_headers,
                &row.answer_body,
            ],
        )
        .await
        .unwrap();
    assert_eq!(inserted, 1);
}

#[tokio::test]
async fn p35_a_database_of_version_1_keeps_its_open_records() {
    let database = fresh_database().await;
    let outside = database.client().await.unwrap();
    let first = &MIGRATIONS.list[0];
    outside.batch_execute(first.sql).await.unwrap();
    outside.batch_execute(&MIGRATIONS.record(first)).await.unwrap();
    let [open, done] = rows_of_version_1();
    put(&outside, "open", &open).await;
    put(&outside, "done", &done).await;
    outside
        .batch_execute("insert into samekey.open_claims (org_id, key) values ('old', 'open')")
        .await
        .unwrap();

    let pool = connect(database.url()).unwrap();
    let refused = PostgresLedger::open(pool.clone(), Options::default()).await;
    assert_eq!(refused.map(drop).map_err(|error| error.kind()), Err(Kind::Schema));
    assert_eq!(migrate(&pool).await, Ok(3));
    let ledger = PostgresLedger::open(pool, Options::default()).await.unwrap();
    let fixture = Fixture { ledger: ledger.clone(), outside, database };
    what_was_open_before_is_open_still(&ledger, &fixture).await;
}
