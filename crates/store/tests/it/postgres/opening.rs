//! What a database must be before it is used.

use super::Fixture;
use crate::records::{intent, offer, scope};
use samekey_sim::{Cluster, Options as ClusterOptions, fresh_database};
use samekey_store::postgres::{
    Durability, MIGRATIONS, Options, PostgresLedger, connect, connect_with, migrate,
};
use samekey_store::{Kind, Ledger};

async fn refusal(url: &str, options: Options) -> Kind {
    PostgresLedger::open(connect(url).unwrap(), options).await.expect_err("refused").kind()
}

#[tokio::test]
async fn a_database_without_the_schema_is_refused_and_says_what_to_do() {
    let database = fresh_database().await;
    let error = PostgresLedger::open(connect(database.url()).unwrap(), Options::default())
        .await
        .expect_err("refused");
    assert_eq!(error.kind(), Kind::Schema);
    assert!(error.to_string().contains("samekey migrate"), "{error}");
}

#[tokio::test]
async fn p35_a_newer_schema_is_refused_by_ledger_and_migrator() {
    let fixture = Fixture::new().await;
    fixture.execute("insert into samekey.migrations (number, name) values (99, 'later')").await;
    let url = fixture.database.url();
    assert_eq!(refusal(url, Options::default()).await, Kind::Schema);
    assert_eq!(migrate(&connect(url).unwrap()).await.unwrap_err().kind(), Kind::Schema);
}

#[tokio::test]
async fn p35_a_table_of_migrations_that_was_emptied_is_told() {
    let fixture = Fixture::new().await;
    fixture.execute("delete from samekey.migrations").await;
    let pool = connect(fixture.database.url()).unwrap();
    let opened = PostgresLedger::open(pool.clone(), Options::default()).await.map(drop);
    for refusal in [opened.unwrap_err(), migrate(&pool).await.unwrap_err()] {
        assert_eq!(refusal.kind(), Kind::Schema);
        assert!(refusal.to_string().contains("samekey.migrations is there and empty"), "{refusal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_migrators_at_once_are_safe() {
    let database = fresh_database().await;
    let migrations: Vec<_> = (0..4)
        .map(|_| {
            let pool = connect_with(database.url(), 1).unwrap();
            tokio::spawn(async move { migrate(&pool).await.unwrap() })
        })
        .collect();
    let mut applied = 0;
    for migration in migrations {
        applied += migration.await.unwrap();
    }
    assert_eq!(applied, u32::try_from(MIGRATIONS.list.len()).unwrap());
    PostgresLedger::open(connect(database.url()).unwrap(), Options::default()).await.unwrap();
}

#[tokio::test]
async fn p34_a_server_that_forgets_what_it_confirms_is_refused_unless_that_is_waived() {
    let fixture = Fixture::new().await;
    let name = fixture.database.name();
    fixture.execute(&format!("alter database {name} set synchronous_commit = off")).await;
    let url = fixture.database.url();
    assert_eq!(refusal(url, Options::default()).await, Kind::Unsafe);
    let waived = Options { durability: Durability::Waived, ..Options::default() };
    PostgresLedger::open(connect(url).unwrap(), waived).await.unwrap();

    for setting in ["fsync", "full_page_writes"] {
        let cluster = Cluster::start(ClusterOptions::new().setting(setting, "off")).unwrap();
        let url = cluster.create_database("unsafe").unwrap();
        migrate(&connect(&url).unwrap()).await.unwrap();
        let error = PostgresLedger::open(connect(&url).unwrap(), Options::default())
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), Kind::Unsafe);
        assert!(error.to_string().contains(setting), "{error}");
    }
}

#[tokio::test]
async fn a_database_that_takes_no_writes_is_refused() {
    let fixture = Fixture::new().await;
    let name = fixture.database.name();
    fixture.execute(&format!("alter database {name} set default_transaction_read_only = on")).await;
    assert_eq!(refusal(fixture.database.url(), Options::default()).await, Kind::ReadOnly);
}

#[tokio::test]
async fn another_default_isolation_level_is_refused() {
    let fixture = Fixture::new().await;
    let name = fixture.database.name();
    fixture
        .execute(&format!(
            "alter database {name} set default_transaction_isolation = 'repeatable read'"
        ))
        .await;
    assert_eq!(refusal(fixture.database.url(), Options::default()).await, Kind::Unsafe);
}

/// The role of a service needs no more than the roles' script gives it.
#[tokio::test]
async fn the_least_role_can_do_the_work_and_no_more() {
    let fixture = Fixture::new().await;
    let role = format!("{}_service", fixture.database.name());
    let script = include_str!("../../../sql/postgres/roles.sql").replace("samekey_service", &role);
    fixture.execute(&script).await;
    fixture.execute(&format!("alter role {role} login password 'service-password'")).await;
    let url = fixture.database.url().replace("samekey:cluster-password", &format!("{role}:x"));
    let ledger = PostgresLedger::open(connect(&url).unwrap(), Options::default()).await.unwrap();
    let key = scope("org", "key");
    ledger.insert_or_load(&key, &offer(1), &intent()).await.unwrap();
    super::everything(&ledger).await;
    super::beside(&ledger).await;
    super::outbox::everything(&ledger).await;
    let error = migrate(&connect(&url).unwrap()).await.map(|_| ());
    assert_eq!(error, Ok(()), "a schema in place needs nothing");
    let pool = connect(&url).unwrap();
    let client = pool.get().await.unwrap();
    for forbidden in [
        "drop table samekey.keys",
        "truncate samekey.keys",
        "create table samekey.mine ()",
        "update samekey.decisions set person = 'nobody'",
        "delete from samekey.decisions",
        "update samekey.commands set request = ''",
        "update samekey.finished set state = 'succeeded'",
        "update samekey.attempts set came_to = 'done'",
        "update samekey.command_decisions set person = 'nobody'",
    ] {
        let error = client.batch_execute(forbidden).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{forbidden}");
    }
    drop((client, pool, ledger));
    fixture.execute(&format!("drop owned by {role} cascade; drop role {role}")).await;
}
