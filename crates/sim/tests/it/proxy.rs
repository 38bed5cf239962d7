//! The proxy cuts where it is told to, and the server knows or does not know.

use samekey_sim::database::FreshDatabase;
use samekey_sim::fresh_database;
use samekey_sim::proxy::{Cut, Proxy, Target};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

const BOUND: Duration = Duration::from_secs(30);
const BATCH: &str = "begin; insert into t values (1)";

async fn world() -> (FreshDatabase, Client, Proxy) {
    let database = fresh_database().await;
    let direct = database.client().await.unwrap();
    direct.batch_execute("create table t (n integer)").await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    (database, direct, proxy)
}

async fn through(proxy: &Proxy) -> Client {
    let (client, connection) = tokio_postgres::connect(proxy.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn rows(direct: &Client) -> i64 {
    direct.query_one("select count(*) from t", &[]).await.unwrap().get(0)
}

/// Polls until there are so many rows.
async fn wait_for_rows(direct: &Client, wanted: i64) {
    let deadline = Instant::now() + BOUND;
    while rows(direct).await != wanted {
        assert!(Instant::now() < deadline, "there never were {wanted} rows");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn proxy_hands_everything_on_and_tells_what_travelled() {
    let (_database, direct, proxy) = world().await;
    let client = through(&proxy).await;
    client.execute("insert into t values ($1)", &[&7i32]).await.unwrap();
    assert_eq!(rows(&direct).await, 1);
    let requests = proxy.requests();
    let kinds: String = requests.iter().map(|request| request.kind).collect();
    // A statement is prepared in one round trip, executed in the next, and then forgotten.
    assert!(kinds.starts_with("PDSBES"), "{kinds}");
    assert!(requests.iter().any(|request| request.executes("insert into t values ($1)")));
    assert!(proxy.answers() > 4);
    proxy.forget();
    assert!(proxy.requests().is_empty());
}

#[tokio::test]
async fn proxy_cut_before_a_commit_leaves_nothing() {
    let (_database, direct, proxy) = world().await;
    let client = through(&proxy).await;
    client.batch_execute(BATCH).await.unwrap();
    proxy.arm(Target::Commit, 1, Cut::Before);
    assert!(client.batch_execute("commit").await.is_err());
    assert_eq!((proxy.fired(), rows(&direct).await), (1, 0));
}

#[tokio::test]
async fn proxy_cut_after_a_commit_leaves_it_standing() {
    let (_database, direct, proxy) = world().await;
    let client = through(&proxy).await;
    client.batch_execute(BATCH).await.unwrap();
    proxy.arm(Target::Commit, 1, Cut::After);
    let refused = client.batch_execute("commit").await.unwrap_err();
    assert!(refused.code().is_none(), "the client was told something: {refused}");
    assert_eq!((proxy.fired(), rows(&direct).await), (1, 1));
}

#[tokio::test]
async fn proxy_holds_a_commit_back_that_lands_later() {
    let (_database, direct, proxy) = world().await;
    let client = through(&proxy).await;
    client.batch_execute(BATCH).await.unwrap();
    proxy.arm(Target::Commit, 1, Cut::Held);
    assert!(client.batch_execute("commit").await.is_err());
    assert_eq!(rows(&direct).await, 0);
    proxy.deliver();
    wait_for_rows(&direct, 1).await;
}

#[tokio::test]
async fn proxy_loses_the_whole_server_with_a_commit() {
    let (_database, direct, proxy) = world().await;
    let (client, other) = (through(&proxy).await, through(&proxy).await);
    client.batch_execute(BATCH).await.unwrap();
    proxy.arm_last(Target::Commit, 1, Cut::After);
    assert!(client.batch_execute("commit").await.is_err());
    wait_for_rows(&direct, 1).await;
    assert!(other.batch_execute("select 1").await.is_err());
    assert!(tokio_postgres::connect(proxy.url(), NoTls).await.is_err());
    proxy.accept();
    through(&proxy).await.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn proxy_cuts_at_the_nth_answer() {
    let (_database, direct, proxy) = world().await;
    let client = through(&proxy).await;
    client.batch_execute("insert into t values (1)").await.unwrap();
    proxy.arm_answer(2);
    // A simple query is answered by its tag and by "ready"; without the second nobody knows.
    assert!(client.batch_execute("insert into t values (2)").await.is_err());
    wait_for_rows(&direct, 2).await;
    assert_eq!(proxy.fired(), 1);
}

#[tokio::test]
async fn proxy_delays_freezes_and_refuses() {
    let (_database, _direct, proxy) = world().await;
    let client = through(&proxy).await;
    let time = Duration::from_millis(60);
    proxy.delay(time);
    let begun = Instant::now();
    client.batch_execute("select 1").await.unwrap();
    assert!(begun.elapsed() >= time);
    proxy.delay(Duration::ZERO);
    proxy.freeze();
    let mut frozen = std::pin::pin!(client.batch_execute("select 1"));
    assert!(tokio::time::timeout(time, frozen.as_mut()).await.is_err());
    proxy.thaw();
    frozen.await.unwrap();
    proxy.refuse();
    assert!(client.batch_execute("select 1").await.is_err());
    assert!(tokio_postgres::connect(proxy.url(), NoTls).await.is_err());
    proxy.accept();
    through(&proxy).await.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn proxy_refuses_encryption_in_order() {
    let (_database, _direct, proxy) = world().await;
    let mut stream = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let request = [8u32.to_be_bytes(), 80_877_103u32.to_be_bytes()].concat();
    stream.write_all(&request).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'N');
}
