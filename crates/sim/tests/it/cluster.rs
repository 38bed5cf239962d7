//! A cluster keeps what was committed across its own violent death, and leaves nothing behind.

use samekey_sim::{Cluster, ErrorKind, Options};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;

async fn one_value(url: &str, query: &str) -> String {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.query_one(query, &[]).await.unwrap().get(0)
}

fn server_id(cluster: &Cluster) -> u32 {
    let lock = std::fs::read_to_string(cluster.folder().join("data/postmaster.pid")).unwrap();
    lock.lines().next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn own_cluster_keeps_committed_rows_across_a_kill() {
    let mut cluster = Cluster::start(Options::new()).unwrap();
    let url = cluster.create_database("orders").unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("create table t (n int); insert into t values (7)").await.unwrap();
    client.batch_execute("begin; insert into t values (8)").await.unwrap();

    cluster.kill_immediately().unwrap();

    assert!(connection.await.unwrap().is_err(), "a killed server cuts its connections");
    let refused = cluster.execute("select 1").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Database);
    cluster.restart().unwrap();
    assert_eq!(one_value(&url, "select string_agg(n::text, ',') from t").await, "7");
    let log = std::fs::read_to_string(cluster.folder().join("server.log")).unwrap();
    assert!(log.contains("automatic recovery in progress"), "not killed, but stopped: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_cluster_restarts_on_the_same_port_after_an_orderly_stop() {
    let mut cluster = Cluster::start(Options::new()).unwrap();
    let url = cluster.admin_url();
    cluster.stop().unwrap();
    assert!(tokio_postgres::connect(&url, NoTls).await.is_err());
    cluster.restart().unwrap();
    assert_eq!(one_value(&url, "select current_user::text").await, "samekey");
    let log = std::fs::read_to_string(cluster.folder().join("server.log")).unwrap();
    assert!(!log.contains("automatic recovery in progress"), "killed, not stopped: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_cluster_is_durable_unless_a_test_asks_for_less() {
    let durable = Cluster::start(Options::new()).unwrap();
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(one_value(&durable.admin_url(), &format!("show {setting}")).await, "on");
    }
    assert_eq!(one_value(&durable.admin_url(), "show max_connections").await, "100");
    let unsafe_one = Cluster::start(Options::new().setting("fsync", "off")).unwrap();
    assert_eq!(one_value(&unsafe_one.socket_url("postgres"), "show fsync").await, "off");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_cluster_frozen_answers_nothing_until_it_is_thawed() {
    let cluster = Cluster::start(Options::new()).unwrap();
    let (client, connection) = tokio_postgres::connect(&cluster.admin_url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("select 1").await.unwrap();
    cluster.freeze().unwrap();
    let mut query = std::pin::pin!(client.batch_execute("select 1"));
    // The bound is not a guess about speed: a frozen server never answers, so waiting longer would
    // show no more than this does.
    let answer = tokio::time::timeout(Duration::from_millis(300), query.as_mut()).await;
    assert!(answer.is_err(), "a frozen server answered");
    cluster.thaw().unwrap();
    query.await.unwrap();
}

#[test]
fn own_cluster_dropped_leaves_no_process_and_no_folder() {
    let cluster = Cluster::start(Options::new()).unwrap();
    let folder = cluster.folder().to_owned();
    let server = server_id(&cluster);
    assert!(Path::new(&format!("/proc/{server}")).exists());
    drop(cluster);
    assert!(!Path::new(&format!("/proc/{server}")).exists());
    assert!(!folder.exists());
}

#[test]
fn own_cluster_that_cannot_start_fails_at_once_and_shows_the_log() {
    let begun = Instant::now();
    let failure = Cluster::start(Options::new().setting("fsync", "perhaps")).unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::NotStarted);
    assert!(failure.to_string().contains("parameter \"fsync\""), "{failure}");
    assert!(begun.elapsed() < Duration::from_secs(30), "waited for a server that had ended");
}
