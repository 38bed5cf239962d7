//! What each part of a keyed command costs the server, statement by statement.
//!
//! `SAMEKEY_TEST_POSTGRES=postgres://… cargo run --release -p samekey-store --example statement_cost`
//! makes a database of its own there, and sends the statements of one atomic command over one connection, in several
//! shapes that take turns every few commands. It counts the processor time of that connection's server process, which is
//! read from `/proc`, so the server has to run on this machine, on Linux. What is printed is the median over all turns of the
//! ratio to the same work without a key.

use bytes::BytesMut;
use futures_util::TryStreamExt;
use futures_util::future::{join, join_all};
use samekey_sim::FreshDatabase;
use samekey_store::postgres::{connect_with, migrate};
use std::error::Error;
use std::time::SystemTime;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, Row, Statement};

/// Commands of one shape before the next one has its turn: a machine's speed changes within seconds.
const TURN: u64 = 40;
const ROUNDS: usize = 300;

const LOCK: &str = include_str!("../sql/postgres/lock.sql");
const LOOK: &str = include_str!("../sql/postgres/look.sql");
const SETTLE: &str = include_str!("../sql/postgres/settle_new.sql");
const CHECK: &str = "check ((state = 'running') = coalesce(lease_ends > since, false))";
const SAVEPOINT: &str = "savepoint of_the_handler";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Cell<'a> = &'a (dyn ToSql + Sync);

/// One way of running a command.
struct Shape {
    name: &'static str,
    way: Way,
    /// What is sent behind the begin, in one go.
    claim: Vec<String>,
    settle: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Without a key.
    Plain,
    /// With the few columns of a table made by hand, claimed before the work and updated behind it.
    ByHand,
    /// With all of our columns, written once.
    Ours,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let database = FreshDatabase::create().await?;
    measure(database.url()).await
}

fn shapes() -> Vec<Shape> {
    let ours = |name, table: &str, claim: &[&str]| Shape {
        name,
        way: Way::Ours,
        claim: claim.iter().map(|one| one.replace("samekey.keys", table)).collect(),
        // The store says what types its parameters are of; here the server has to guess them.
        settle: SETTLE.replace("samekey.keys", table).replace("$3 /", "$3::bigint /"),
    };
    vec![
        Shape { name: "without a key", way: Way::Plain, claim: Vec::new(), settle: String::new() },
        Shape {
            name: "a bare key by hand",
            way: Way::ByHand,
            claim: vec![
                "insert into by_hand (org_id, key, request_sha, keep_until)
                 values ($1, $2, $3, now() + interval '30 days')
                 on conflict (org_id, key) do nothing"
                    .to_owned(),
            ],
            settle: "update by_hand set answer_status = $3, answer_body = $4
                     where org_id = $1 and key = $2"
                .to_owned(),
        },
        ours("ours", "samekey.keys", &[LOCK, LOOK]),
        ours("with a savepoint", "samekey.keys", &[LOCK, LOOK, SAVEPOINT]),
        ours("with a check constraint", "samekey.checked", &[LOCK, LOOK]),
        ours("without an index for the sweep", "samekey.bare", &[LOCK, LOOK]),
    ]
}

async fn measure(url: &str) -> Outcome<()> {
    migrate(&connect_with(url, 1)?).await?;
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let tables = format!(
        "create table orders (id text primary key, org_id text not null, amount bigint not null);
         create table by_hand (
           org_id text not null, key text not null, request_sha bytea not null,
           keep_until timestamptz not null, answer_status smallint, answer_body bytea,
           primary key (org_id, key)
         ) with (fillfactor = 90);
         create table samekey.checked (like samekey.keys including all) with (fillfactor = 90);
         alter table samekey.checked add constraint leased {CHECK};
         create table samekey.bare (like samekey.keys including all) with (fillfactor = 90);
         drop index samekey.bare_keep_until_idx;
         set synchronous_commit = off"
    );
    client.batch_execute(&tables).await?;
    let server: i32 = client.query_one("select pg_backend_pid()", &[]).await?.try_get(0)?;
    let insert = client.prepare("insert into orders values ($1, $2, $3)").await?;
    let shapes = shapes();
    let mut prepared = Vec::new();
    for shape in &shapes {
        let mut claim = Vec::new();
        for one in &shape.claim {
            claim.push(client.prepare(one).await?);
        }
        prepared.push((claim, client.prepare(&shape.settle).await?));
    }
    let mut spent: Vec<Vec<f64>> = vec![Vec::new(); shapes.len()];
    let mut number = 0_u64;
    for round in 0..=ROUNDS {
        for ((shape, statements), spent) in shapes.iter().zip(&prepared).zip(&mut spent) {
            let before = processor_time(server)?;
            for _ in 0..TURN {
                number += 1;
                command(&client, shape.way, statements, &insert, number).await?;
            }
            // The first round makes the plans.
            if round > 0 {
                spent.push((processor_time(server)? - before) as f64);
            }
        }
    }
    let base = spent.first().cloned().unwrap_or_default();
    for (shape, spent) in shapes.iter().zip(spent) {
        let mut ratios: Vec<f64> = spent.iter().zip(&base).map(|(one, base)| one / base).collect();
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN);
        println!("{:36} {median:.2}", shape.name);
    }
    Ok(())
}

/// Nanoseconds on a processor of a process that has one thread.
fn processor_time(process: i32) -> Outcome<u64> {
    let told = std::fs::read_to_string(format!("/proc/{process}/schedstat"))?;
    Ok(told.split(' ').next().ok_or("an empty schedstat")?.parse()?)
}

/// Begin and claim, the handler's insert, settlement and commit: three round trips.
async fn command(
    client: &Client,
    way: Way,
    (claim, settle): &(Vec<Statement>, Statement),
    insert: &Statement,
    number: u64,
) -> Outcome<()> {
    let (org, key, sha) = ("bench", format!("{number:032x}"), [7_u8; 32]);
    let (body, headers) = ([b'x'; 200], [b'h'; 40]);
    if way == Way::Plain {
        client.batch_execute("begin").await?;
        client.execute(insert, &[&key, &org, &1200_i64]).await?;
        client.batch_execute("commit").await?;
        return Ok(());
    }
    let (sha, body, headers) = (sha.as_slice(), body.as_slice(), headers.as_slice());
    let by_hand: [Cell<'_>; 3] = [&org, &key, &sha];
    let claims = claim.iter().map(|one| {
        let of_the_key = if way == Way::ByHand { 3 } else { 2 };
        let parameters = by_hand.iter().take(of_the_key.min(one.params().len())).copied();
        async move {
            let rows = client.query_raw(one, parameters).await?;
            rows.try_collect::<Vec<Row>>().await
        }
    });
    let (begun, claimed) = join(client.batch_execute("begin"), join_all(claims)).await;
    begun?;
    let claimed = claimed.into_iter().collect::<Result<Vec<_>, _>>()?;
    client.execute(insert, &[&key, &org, &1200_i64]).await?;
    let told = claimed.first().and_then(|rows| rows.first());
    let now = match told {
        Some(row) => row.try_get(0)?,
        None => SystemTime::now(),
    };
    let until = now + std::time::Duration::from_micros(30 * DAY);
    let (fence, holder, revision, version) = (1_i64, [1_u8; 16], 2_i64, 1_i16);
    let (holder, nobody) = (holder.as_slice(), None::<Vec<u8>>);
    let (status, done, day) = (201_i16, "done", None::<Absent>);
    let settled: Vec<Cell<'_>> = match way {
        Way::Ours => vec![
            &org, &key, &fence, &holder, &now, &revision, &until, &done, &now, &version, &sha,
            &sha, &nobody, &status, &headers, &body, &day,
        ],
        Way::Plain | Way::ByHand => vec![&org, &key, &status, &body],
    };
    let (settled, committed) =
        join(client.execute(settle, &settled), client.batch_execute("commit")).await;
    settled?;
    committed?;
    Ok(())
}

/// Microseconds of a day.
const DAY: u64 = 86_400_000_000;

/// A value that is not there, of any type.
#[derive(Debug)]
struct Absent;

impl ToSql for Absent {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Outcome<IsNull> {
        Ok(IsNull::Yes)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
