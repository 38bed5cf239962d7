//! Nothing of what is stored, and nothing of an address, is in the text of an error.

use super::Fixture;
use crate::records::{after, done, intent, offer, scope};
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::postgres::{Options, PostgresLedger, connect, connect_with};
use samekey_store::{Kind, Ledger, StoreError};
use std::time::Duration;

const CANARIES: [&str; 6] =
    ["canary", "4111111111111111", "cluster-password", "127.0.0.1", "samekey_test", "SELECT"];

fn clean(error: &StoreError) {
    let text = format!("{error} {error:?}");
    for canary in CANARIES {
        assert!(!text.contains(canary), "{canary} in {text}");
    }
}

async fn opening(url: &str) -> StoreError {
    let error = PostgresLedger::open(connect(url).unwrap(), Options::default())
        .await
        .expect_err("it cannot be opened");
    clean(&error);
    error
}

#[tokio::test]
async fn t101_no_connection_error_shows_an_address() {
    let fixture = Fixture::new().await;
    let url = fixture.database.url();
    let wrong_database = url.replace(fixture.database.name(), "canary_database");
    assert_eq!(opening(&wrong_database).await.kind(), Kind::Address);
    let wrong_role = url.replace("samekey:", "canary_role:");
    assert_eq!(opening(&wrong_role).await.kind(), Kind::Forbidden);
    let port = format!(":{}/", fixture.address().port());
    // Port 1 is reserved and nobody listens on it.
    assert_eq!(opening(&url.replace(&port, ":1/")).await.kind(), Kind::Unreachable);
    let nowhere = url.replace("127.0.0.1", "canary-host.invalid");
    assert_eq!(opening(&nowhere).await.kind(), Kind::Unreachable);
}

/// Whose server stands still has no pool that is too small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_not_called_a_full_pool() {
    let cluster = samekey_sim::Cluster::start(samekey_sim::Options::new()).unwrap();
    let url = cluster.url("postgres");
    cluster.freeze().unwrap();
    let error = opening(&url).await;
    cluster.thaw().unwrap();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
}

#[tokio::test]
async fn t101_a_wrong_password_is_not_repeated() {
    let mut cluster = samekey_sim::Cluster::start(samekey_sim::Options::new()).unwrap();
    cluster.execute("create role asked login password 'right-password'").unwrap();
    let hba = cluster.folder().join("data/pg_hba.conf");
    let hba = if hba.exists() { hba } else { find(cluster.folder(), "pg_hba.conf") };
    std::fs::write(
        &hba,
        "local all samekey trust\nhost all samekey all trust\nhost all asked all scram-sha-256\n",
    )
    .unwrap();
    cluster.restart().unwrap();
    let url = cluster.url("postgres").replace("samekey:cluster-password", "asked:canary-password");
    assert_eq!(opening(&url).await.kind(), Kind::Forbidden);
}

fn find(folder: &std::path::Path, name: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with(name) {
                return path;
            }
        }
    }
    panic!("no {name}")
}

#[tokio::test]
async fn t101_no_connection_left_is_told_without_a_name() {
    let fixture = Fixture::new().await;
    let name = fixture.database.name();
    fixture.execute(&format!("alter database {name} connection limit 0")).await;
    let role = format!("canary_{name}");
    fixture.execute(&format!("create role {role} login")).await;
    let url = fixture.database.url().replace("samekey:cluster-password", &format!("{role}:x"));
    let error = opening(&url).await;
    assert_eq!((error.kind(), error.sqlstate()), (Kind::PoolExhausted, Some("53300")));
    fixture.execute(&format!("drop role {role}")).await;
}

#[tokio::test]
async fn t101_no_statement_error_shows_a_key_or_a_value() {
    let fixture = Fixture::new().await;
    fixture.execute("create table payments (card text primary key, amount integer)").await;
    let key = scope("canary-org", "canary-4111111111111111");
    let begun = fixture.ledger.begin(&key, &offer(1), Duration::ZERO).await.unwrap();
    let Begun::Claimed(open, seen) = begun else { panic!("not claimed") };
    // 23505 at the commit, with the value in its detail.
    fixture.execute("create table cards (card text unique deferrable initially deferred)").await;
    let insert = "insert into cards values ('4111111111111111'), ('4111111111111111')";
    open.tx().batch_execute(insert).await.unwrap();
    let next = after(&seen.record, done(seen.now, 1));
    let error = open.settle(&key, &seen.record, &next).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("23505"));
    clean(&error);
    // 23514, with the whole row in its detail.
    fixture.execute("alter table samekey.keys add constraint keys_few check (fence > 1)").await;
    let error = fixture.ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("23514"));
    clean(&error);
    fixture.execute("alter table samekey.keys drop constraint keys_few").await;
    // 22P02, by a schema that was changed.
    fixture
        .execute("alter table samekey.keys add constraint canary check (key::integer > 0)")
        .await;
    let error = fixture.ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("22P02"));
    clean(&error);
    let begun = fixture.ledger.begin(&key, &offer(1), Duration::ZERO).await.unwrap();
    let Begun::Claimed(open, seen) = begun else { panic!("not claimed") };
    let next = after(&seen.record, done(seen.now, 1));
    let error = open.settle(&key, &seen.record, &next).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("22P02"));
    clean(&error);
}

#[tokio::test]
async fn a_pool_with_nothing_free_says_so_in_time() {
    let fixture = Fixture::new().await;
    let pool = connect_with(fixture.database.url(), 1).unwrap();
    let options = Options { acquire_max: Duration::from_millis(50), ..Options::default() };
    let ledger = PostgresLedger::open(pool, options).await.unwrap();
    let key = scope("org", "key");
    let Begun::Claimed(open, _) = ledger.begin(&key, &offer(1), Duration::ZERO).await.unwrap()
    else {
        panic!("not claimed")
    };
    let error = ledger.load(&key).await.unwrap_err();
    assert_eq!(error.kind(), Kind::PoolExhausted);
    clean(&error);
    open.roll_back().await.unwrap();
    ledger.load(&key).await.unwrap();
}
