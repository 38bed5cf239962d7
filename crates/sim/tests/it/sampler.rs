//! What the sampler sees in the real tables of both databases.

use rusqlite::Connection;
use samekey_sim::history::{Attempt, CallKind, Evidence, History, Limits, Sample};
use samekey_sim::proxy::http::Target;
use samekey_sim::{FreshDatabase, HttpProxy, Sampler, fresh_database};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::Client;

const BOUND: Duration = Duration::from_secs(30);
const POSTGRES: &str = include_str!("../../../store/sql/postgres/migrations/0001_keys.sql");
const SQLITE: &str = include_str!("../../../store/sql/sqlite/migrations/0001_keys.sql");

async fn postgres() -> (FreshDatabase, Client) {
    let database = fresh_database().await;
    let client = database.client().await.unwrap();
    client.batch_execute(POSTGRES).await.unwrap();
    (database, client)
}

/// A running key, and one that is done, whose large body lies elsewhere.
async fn fill(client: &Client) {
    let sql = "
        create table samekey.answers_all partition of samekey.answers default;
        insert into samekey.keys
          (org_id, key, fence, revision, keep_until, since, lease_ends, state, holder)
        values ('a', 'k1', 3, 5, to_timestamp(1000), to_timestamp(9.5), to_timestamp(60), 'running', '\\x07');
        insert into samekey.open_claims values ('a', 'k1');
        insert into samekey.keys
          (org_id, key, fence, revision, keep_until, since, state, holder, answer_status,
           answer_headers, answer_day)
        values ('b', 'k2', 1, 2, to_timestamp(1000), to_timestamp(10), 'done', '\\x08', 201, 'h', '2026-01-01');
        insert into samekey.answers values ('2026-01-01', 'b', 'k2', 'body');";
    client.batch_execute(sql).await.unwrap();
}

fn is_as_filled(sample: &Sample) {
    let mut rows = sample.rows.clone();
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    let [running, done] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((running.fence, running.revision, running.status), (3, 5, None));
    assert_eq!(
        (running.since_micros, running.lease_ends_micros),
        (Some(9_500_000), Some(60_000_000))
    );
    assert_eq!((running.holder[0], running.keep_until_micros), (7, 1_000_000_000));
    assert!(running.is_open() && !done.is_open());
    assert_eq!((done.org.as_str(), done.row().status), ("b", Some(201)));
    let year_2026 = 1_767_225_600_000_000;
    assert!(sample.clock_micros > year_2026, "{}", sample.clock_micros);
}

#[tokio::test]
async fn sampler_reads_the_ledger_of_postgres() {
    let (database, client) = postgres().await;
    let mut sampler = Sampler::postgres(database.url(), &History::default());
    let empty = sampler.sample().await.unwrap();
    assert!(empty.rows.is_empty() && empty.clock_micros > 0);
    fill(&client).await;
    let sample = sampler.sample().await.unwrap();
    is_as_filled(&sample);
    assert_eq!(sampler.open_claims().await.unwrap(), [("a".to_owned(), "k1".to_owned())]);
    let answer = |sample: &Sample| {
        sample.rows.iter().find(|row| row.key == "k2").map(|row| row.answer_sha).unwrap()
    };
    // The same answer in the row itself is the same; another one is not.
    let inline = "delete from samekey.answers;
        update samekey.keys set answer_body = 'body', answer_day = null where key = 'k2'";
    client.batch_execute(inline).await.unwrap();
    assert_eq!(answer(&sampler.sample().await.unwrap()), answer(&sample));
    client.batch_execute("update samekey.keys set answer_body = 'x'").await.unwrap();
    assert_ne!(answer(&sampler.sample().await.unwrap()), answer(&sample));
}

#[tokio::test]
async fn sampler_sees_open_transactions_and_waits_of_postgres() {
    let (database, client) = postgres().await;
    let mut sampler = Sampler::postgres(database.url(), &History::default());
    assert!(sampler.activity().await.unwrap().transactions.is_empty());
    client.batch_execute("begin; lock table samekey.keys").await.unwrap();
    let other = database.client().await.unwrap();
    let waits =
        tokio::spawn(
            async move { other.batch_execute("begin; lock table samekey.keys; commit").await },
        );
    let deadline = Instant::now() + BOUND;
    let met = loop {
        let activity = sampler.activity().await.unwrap();
        if activity.waiting == 1 {
            break activity;
        }
        assert!(Instant::now() < deadline, "{activity:?}");
    };
    let idle = met.transactions.iter().find(|open| open.state == "idle in transaction").unwrap();
    assert!(idle.age > Duration::ZERO && idle.pid > 0);
    assert!(idle.held > Duration::ZERO && idle.held <= idle.age, "{idle:?}");
    let works = met.transactions.iter().find(|open| open.state == "active").unwrap();
    assert!(works.age > Duration::ZERO && works.held == Duration::ZERO, "{works:?}");
    assert!(idle.statement.contains("lock table"), "{}", idle.statement);
    client.batch_execute("commit").await.unwrap();
    waits.await.unwrap().unwrap();
    assert!(met.moment < met.until);
}

#[tokio::test]
async fn sampler_reads_the_ledger_of_sqlite_and_sees_who_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.db");
    let mut sampler = Sampler::sqlite(&path, &History::default());
    assert!(sampler.sample().await.is_err(), "it must not make the file");
    assert!(!path.exists());
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(&format!("pragma journal_mode = wal; {SQLITE}")).unwrap();
    let rows = "
        insert into samekey_keys (org_id, key, fence, revision, keep_until, since, lease_ends,
          run_ends, state, holder, request_version, request_sha, frame_sha)
        values ('a', 'k1', 3, 5, 1000000000, 9500000, 60000000, 60000000, 'running',
          x'07000000000000000000000000000000', 1, zeroblob(32), zeroblob(32));
        insert into samekey_open_claims values ('a', 'k1');
        insert into samekey_keys (org_id, key, fence, revision, keep_until, since, state, holder,
          request_version, request_sha, frame_sha, answer_status, answer_headers, answer_body)
        values ('b', 'k2', 1, 2, 1000000000, 10000000, 'done',
          x'08000000000000000000000000000000', 1, zeroblob(32), zeroblob(32), 201, x'01', x'02');";
    connection.execute_batch(rows).unwrap();
    is_as_filled(&sampler.sample().await.unwrap());
    assert_eq!(sampler.open_claims().await.unwrap(), [("a".to_owned(), "k1".to_owned())]);
    assert!(sampler.activity().await.unwrap().transactions.is_empty());
    connection.execute_batch("begin immediate").unwrap();
    let first = sampler.activity().await.unwrap();
    let second = sampler.activity().await.unwrap();
    assert!(first.transactions[0].age < second.transactions[0].age);
    connection.execute_batch("rollback").unwrap();
    assert!(sampler.activity().await.unwrap().transactions.is_empty());
}

#[tokio::test]
async fn sampler_watches_until_it_is_stopped_and_outlives_a_lost_connection() {
    let (database, client) = postgres().await;
    let history = History::default();
    let watch = Sampler::postgres(database.url(), &history).watch(Duration::from_millis(1));
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'samekey-sim-sampler'";
    let deadline = Instant::now() + BOUND;
    while client.query(kill, &[]).await.unwrap().is_empty() {
        assert!(Instant::now() < deadline, "the sampler never came");
    }
    fill(&client).await;
    let mut watched = watch.stop().await.unwrap();
    is_as_filled(&watched.sampler.sample().await.unwrap());
    assert!(
        watched.samples.len() <= 3,
        "an unchanged ledger was kept {} times",
        watched.samples.len()
    );
}

/// How long a call has lasted when a transaction that is older is taken for its own.
const LASTED: Duration = Duration::from_millis(50);

/// A service that calls its counterparty with no transaction, or within one.
async fn calls(is_inside: bool) -> Evidence {
    let (database, client) = postgres().await;
    let history = History::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (answer, may_answer) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        may_answer.await.unwrap();
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        // Nothing is closed before the answer was read.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let proxy = HttpProxy::before(&url, &history).unwrap();
    let mut sampler = Sampler::postgres(database.url(), &history);
    let called = async {
        if is_inside {
            client.batch_execute("begin; select 1").await.unwrap();
        }
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        let request = "POST /pay HTTP/1.1\r\nIdempotency-Key: out\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let looked = sampled_within_a_call(&proxy, &mut sampler).await;
        answer.send(()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        client.batch_execute(if is_inside { "commit" } else { "select 1" }).await.unwrap();
        looked
    };
    let activity = called.await;
    history.add(Attempt {
        org: "a".to_owned(),
        key: "k".to_owned(),
        reference: "r".to_owned(),
        began: history.now(),
        ended: history.now(),
        answer: None,
    });
    let sent = proxy.sent(Target::EVERY);
    let calls = sent.iter().filter_map(|sent| sent.call("a", "r", 0, CallKind::Command)).collect();
    let limits = Limits { transaction_max: LASTED, ..Limits::default() };
    let evidence = Evidence { calls, activity, limits, ..Evidence::default() };
    let found = history.audit(&evidence);
    assert_eq!(found.iter().any(|violation| violation.rule == "S11"), is_inside, "{found:?}");
    evidence
}

/// Looks again and again while the answer is on its way, until that has lasted.
async fn sampled_within_a_call(
    proxy: &HttpProxy,
    sampler: &mut Sampler,
) -> Vec<samekey_sim::history::Activity> {
    let deadline = Instant::now() + BOUND;
    let mut activity = Vec::new();
    loop {
        assert!(Instant::now() < deadline, "the request never passed, or no look was late enough");
        let look = sampler.activity().await.unwrap();
        let sent = proxy.sent(Target::EVERY).first().and_then(|sent| sent.sent);
        let has_lasted = sent.is_some_and(|sent| look.moment.when >= sent.when + LASTED);
        activity.push(look);
        if has_lasted {
            break;
        }
    }
    activity
}

#[tokio::test]
async fn s11_a_call_within_a_transaction_is_seen_from_outside() {
    assert_eq!(calls(false).await.calls.len(), 1);
    assert_eq!(calls(true).await.calls.len(), 1);
}
