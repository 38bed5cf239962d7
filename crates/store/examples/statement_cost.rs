//! What each part of a keyed command costs the server, statement by statement.
//!
//! `SAMEKEY_TEST_POSTGRES=postgres://… cargo run --release -p samekey-store --example statement_cost`
//! makes a database of its own there, and sends the statements of one atomic command over one connection, in several
//! shapes that take turns every few commands. It counts the processor time of that connection's server process, which is
//! read from `/proc`, so the server has to run on this machine, on Linux. What is printed is the median over all turns of the
//! ratio to the same work without a key.

use bytes::BytesMut;
use futures_util::future::{join, join3};
use samekey_store::postgres::{connect_with, migrate};
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, Statement};

/// Commands of one shape before the next one has its turn: a machine's speed changes within seconds.
const TURN: u64 = 40;
const ROUNDS: usize = 300;

const CLAIM: &str = include_str!("../sql/postgres/insert_or_load.sql");
const SETTLE: &str = include_str!("../sql/postgres/settle.sql");
const CHECK: &str = "check ((state = 'running') = coalesce(lease_ends > since, false))";
const SAVEPOINT: &str = "savepoint of_the_handler";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Cell<'a> = &'a (dyn ToSql + Sync);

/// One way of running a command.
struct Shape {
    name: &'static str,
    /// The table of its keys; none without a key.
    table: Option<&'static str>,
    claim: String,
    settle: String,
    /// Whether it has all of our columns, or the few of a table made by hand.
    is_ours: bool,
    savepoint: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let url = std::env::var("SAMEKEY_TEST_POSTGRES")?;
    let name = format!("cost_{}", std::process::id());
    let admin = connect_with(&url, 1)?;
    admin.get().await?.batch_execute(&format!("create database {name}")).await?;
    let (server, _) = url.rsplit_once('/').ok_or("an address with a database")?;
    let result = measure(&format!("{server}/{name}")).await;
    admin.get().await?.batch_execute(&format!("drop database {name} with (force)")).await?;
    result
}

fn shapes() -> Vec<Shape> {
    let ours = |name, table: &'static str, claim: &str, settle: &str, savepoint| Shape {
        name,
        table: Some(table),
        // The store says what types its parameters are of; here the server has to guess them.
        claim: claim.replace("samekey.keys", table).replace("$3 /", "$3::bigint /"),
        settle: settle.replace("samekey.keys", table),
        is_ours: true,
        savepoint,
    };
    let unbound = CLAIM
        .replace("nullif($7, set_config('lock_timeout', $24, true))", "nullif($7, $24)")
        .replace("set_config('lock_timeout', $25, true)", "$25::text");
    let (_, update) = SETTLE.split_once("settled as (").unwrap_or_default();
    let (update, _) = update.split_once("returning revision").unwrap_or_default();
    let (_, sets) = update.split_once("set").unwrap_or_default();
    let (sets, held) = sets.split_once("where").unwrap_or_default();
    let merge = format!(
        "merge into samekey.keys using (select) as always on {held}
         when matched then update set {sets}
         when not matched then insert (org_id) values (null)"
    );
    vec![
        Shape {
            name: "without a key",
            table: None,
            claim: String::new(),
            settle: String::new(),
            is_ours: false,
            savepoint: false,
        },
        Shape {
            name: "a bare key by hand",
            table: Some("by_hand"),
            claim: "insert into by_hand (org_id, key, request_sha, keep_until)
                    values ($1, $2, $3, now() + interval '30 days')
                    on conflict (org_id, key) do nothing"
                .to_owned(),
            settle: "update by_hand set answer_status = $3, answer_body = $4
                     where org_id = $1 and key = $2"
                .to_owned(),
            is_ours: false,
            savepoint: false,
        },
        ours("ours", "samekey.keys", CLAIM, SETTLE, false),
        ours("with a check constraint", "samekey.checked", CLAIM, SETTLE, false),
        ours("with a savepoint", "samekey.keys", CLAIM, SETTLE, true),
        ours("with a settlement that merges", "samekey.keys", CLAIM, &merge, false),
        ours("with a settlement that cannot fail", "samekey.keys", CLAIM, update, false),
        ours("without bounding its wait", "samekey.keys", &unbound, SETTLE, false),
        ours("without an index for the sweep", "samekey.bare", CLAIM, SETTLE, false),
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
        prepared.push(match shape.table {
            Some(_) => {
                Some((client.prepare(&shape.claim).await?, client.prepare(&shape.settle).await?))
            }
            None => None,
        });
    }
    let mut spent: Vec<Vec<f64>> = vec![Vec::new(); shapes.len()];
    let mut number = 0_u64;
    for round in 0..=ROUNDS {
        for ((shape, statements), spent) in shapes.iter().zip(&prepared).zip(&mut spent) {
            let before = processor_time(server)?;
            for _ in 0..TURN {
                number += 1;
                command(&client, shape, statements.as_ref(), &insert, number).await?;
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
    shape: &Shape,
    statements: Option<&(Statement, Statement)>,
    insert: &Statement,
    number: u64,
) -> Outcome<()> {
    let (org, key, sha) = ("bench", format!("{number:032x}"), [7_u8; 32]);
    let (body, headers) = ([b'x'; 200], [b'h'; 40]);
    let Some((claim, settle)) = statements else {
        client.batch_execute("begin").await?;
        client.execute(insert, &[&key, &org, &1200_i64]).await?;
        client.batch_execute("commit").await?;
        return Ok(());
    };
    let (fence, revision, next, version) = (1_i64, 1_i64, 2_i64, 1_i16);
    let (holder, running, done, bound, unbound) = ([1_u8; 16], "running", "done", "5000", "0");
    let (month, zero, lease, run) = (Span(30 * DAY), Span(0), Span(30_000_000), Span(60_000_000));
    let (n2, n4, n8) = (None::<i16>, None::<i32>, None::<i64>);
    let (words, bytes, span) = (None::<&str>, None::<Vec<u8>>, None::<Span>);
    let (sha, holder) = (sha.as_slice(), holder.as_slice());
    let (body, headers) = (body.as_slice(), headers.as_slice());
    let claimed: Vec<Cell<'_>> = match shape.is_ours {
        true => vec![
            &org, &key, &fence, &holder, &revision, &month, &running, &zero, &version, &sha, &sha,
            &bytes, &lease, &run, &n8, &words, &span, &n4, &n4, &span, &n2, &bytes, &bytes, &bound,
            &unbound,
        ],
        false => vec![&org, &key, &sha],
    };
    let savepoint = async {
        match shape.savepoint {
            true => client.batch_execute(SAVEPOINT).await,
            false => Ok(()),
        }
    };
    let sent = join3(client.batch_execute("begin"), client.query_opt(claim, &claimed), savepoint);
    let (begun, row, kept) = sent.await;
    begun?;
    kept?;
    client.execute(insert, &[&key, &org, &1200_i64]).await?;
    let now = match row? {
        Some(row) => row.try_get::<_, std::time::SystemTime>(0)?,
        None => std::time::SystemTime::now(),
    };
    let until = now + std::time::Duration::from_micros(30 * DAY.unsigned_abs());
    let (status, day) = (201_i16, None::<Absent>);
    let settled: Vec<Cell<'_>> = match shape.is_ours {
        true => vec![
            &org, &key, &fence, &holder, &revision, &now, &next, &until, &done, &now, &version,
            &sha, &sha, &bytes, &status, &headers, &body, &day,
        ],
        false => vec![&org, &key, &status, &body],
    };
    let (settled, committed) =
        join(client.execute(settle, &settled), client.batch_execute("commit")).await;
    settled?;
    committed?;
    Ok(())
}

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// An interval in microseconds.
#[derive(Debug)]
struct Span(i64);

impl ToSql for Span {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Outcome<IsNull> {
        out.extend_from_slice(&self.0.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::INTERVAL
    }

    to_sql_checked!();
}

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
