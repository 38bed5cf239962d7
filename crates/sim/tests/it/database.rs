//! Each test has a database of its own, gone when the test ends.

use samekey_sim::{FreshDatabase, fresh_database, fresh_database_blocking};

async fn exists(asked: &FreshDatabase, name: &str) -> bool {
    let client = asked.client().await.unwrap();
    let query = "select count(*) from pg_database where datname = $1";
    client.query_one(query, &[&name]).await.unwrap().get::<_, i64>(0) == 1
}

#[tokio::test]
async fn two_fresh_databases_share_nothing() {
    let (one, other) = (fresh_database().await, fresh_database().await);
    one.client().await.unwrap().batch_execute("create table t ()").await.unwrap();
    let absent = other.client().await.unwrap().batch_execute("select from t").await;
    assert!(absent.unwrap_err().as_db_error().unwrap().message().contains("does not exist"));
}

#[tokio::test]
async fn a_dropped_database_is_gone_even_when_someone_is_connected() {
    let (kept, dropped) = (fresh_database().await, fresh_database().await);
    let name = dropped.name().to_owned();
    let connected = dropped.client().await.unwrap();
    assert!(exists(&kept, &name).await);
    drop(dropped);
    assert!(!exists(&kept, &name).await);
    assert!(connected.batch_execute("select 1").await.is_err());
}

#[test]
fn a_test_without_a_runtime_has_a_database_too() {
    let database = fresh_database_blocking();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert!(exists(&database, database.name()).await);
    });
}
