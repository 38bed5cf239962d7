//! What a key costs: atomic commands with a key against the same commands without, by hand.
//!
//! `SAMEKEY_TEST_POSTGRES=postgres://… cargo run --release -p samekey-store --example postgres_speed`
//! makes a database of its own there and prints ratios of one run. Shapes take turns in short
//! rounds, so that what else the machine does falls on all of them.

use samekey_core::fingerprint::{Digest, Version};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::lease::{Fence, Owner};
use samekey_core::policy::Policy;
use samekey_core::receipt::{Answer, Receipt};
use samekey_core::record::{Identity, Record};
use samekey_core::step::{Arrival, Claim, Input, step};
use samekey_core::time::Time;
use samekey_sim::FreshDatabase;
use samekey_store::atomic::{AtomicLedger, Begun, OpenTransaction};
use samekey_store::postgres::{Options, Pool, PostgresLedger, connect_with, migrate};
use samekey_store::{Arrived, Intent, Ledger, OutboundKey};
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 8;
const ROUND: Duration = Duration::from_millis(1_500);
const ROUNDS: usize = 7;
const INSERT: &str = "insert into payments (org, amount, note) values ($1, $2, $3)";

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    let database = FreshDatabase::create().await?;
    measure(database.url()).await
}

struct Bench {
    ledger: PostgresLedger,
    pool: Pool,
    next: AtomicU64,
    policy: Policy,
}

async fn measure(url: &str) -> Outcome {
    let pool = connect_with(url, CONNECTIONS)?;
    migrate(&pool).await?;
    let table = "create table payments (id bigint generated always as identity primary key, \
                 org text not null, amount bigint not null, note text not null)";
    pool.get().await?.batch_execute(table).await?;
    let ledger = PostgresLedger::open(pool.clone(), Options::default()).await?;
    let next = AtomicU64::new(1);
    let bench = Arc::new(Bench { ledger, pool, next, policy: Policy::default() });

    let names = [
        "by hand",
        "keyed",
        "begun and committed",
        "replay by begin",
        "replay by load",
        "external",
    ];
    let mut rates = vec![Vec::new(); names.len()];
    for round in 0..=ROUNDS {
        let found = [
            rate(&bench, CONNECTIONS, |bench| async move { by_hand(&bench).await }).await?,
            rate(&bench, CONNECTIONS, |bench| async move { keyed(&bench).await }).await?,
            rate(&bench, CONNECTIONS, |bench| async move { unkeyed(&bench).await }).await?,
            rate(&bench, CONNECTIONS, |bench| async move { replay(&bench).await }).await?,
            rate(&bench, CONNECTIONS, |bench| async move { lookup(&bench).await }).await?,
            rate(&bench, 64, |bench| async move { external(&bench).await }).await?,
        ];
        if round == ROUNDS {
            println!("processor time of the server and of this process, in µs a command:");
            cost(&bench, "by hand", |bench| async move { by_hand(&bench).await }).await?;
            cost(&bench, "keyed", |bench| async move { keyed(&bench).await }).await?;
            cost(&bench, "begun and committed", |bench| async move { unkeyed(&bench).await })
                .await?;
            cost(&bench, "replay by begin", |bench| async move { replay(&bench).await }).await?;
            cost(&bench, "replay by load", |bench| async move { lookup(&bench).await }).await?;
        }
        // The first round only warms up.
        if round > 0 {
            for (rates, found) in rates.iter_mut().zip(found) {
                rates.push(found);
            }
        }
    }
    let base = rates.first().cloned().unwrap_or_default();
    for (name, rates) in names.iter().zip(&rates) {
        let mut ratios: Vec<f64> = rates.iter().zip(&base).map(|(one, base)| one / base).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |place: usize| ratios.get(place).copied().unwrap_or_default();
        println!(
            "{name:<20} {:.2} of by hand (median of {ROUNDS}; {:.2} to {:.2})",
            at(ROUNDS / 2),
            at(0),
            at(ROUNDS - 1)
        );
    }
    Ok(())
}

/// Commands a second, by so many callers at once.
async fn rate<W, F>(
    bench: &Arc<Bench>,
    callers: usize,
    work: W,
) -> Result<f64, Box<dyn Error + Send + Sync>>
where
    W: Fn(Arc<Bench>) -> F + Copy + Send + 'static,
    F: Future<Output = Outcome> + Send,
{
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..callers {
        let bench = bench.clone();
        tasks.push(tokio::spawn(async move {
            let mut done: u32 = 0;
            while start.elapsed() < ROUND {
                work(bench.clone()).await?;
                done += 1;
            }
            Ok::<u32, Box<dyn Error + Send + Sync>>(done)
        }));
    }
    let mut all = 0;
    for task in tasks {
        all += task.await??;
    }
    Ok(f64::from(all) / start.elapsed().as_secs_f64())
}

/// Processor time is what the machine's other work changes least.
async fn cost<W, F>(bench: &Arc<Bench>, name: &str, work: W) -> Outcome
where
    W: Fn(Arc<Bench>) -> F + Copy + Send + 'static,
    F: Future<Output = Outcome> + Send,
{
    const COMMANDS: u32 = 4_000;
    let mut pids: Vec<i32> = Vec::new();
    {
        let client = bench.pool.get().await?;
        let sessions = "select pid from pg_stat_activity where datname = current_database()";
        for row in client.query(sessions, &[]).await? {
            pids.push(row.get(0));
        }
    }
    let before = (ticks(&pids)?, ticks(&[std::process::id().cast_signed()])?);
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let bench = bench.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..COMMANDS / CONNECTIONS as u32 {
                work(bench.clone()).await?;
            }
            Ok::<(), Box<dyn Error + Send + Sync>>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let after = (ticks(&pids)?, ticks(&[std::process::id().cast_signed()])?);
    let each = |ticks: u64| ticks as f64 * 10_000.0 / f64::from(COMMANDS);
    println!(
        "{name:<20} server {:>5.0}  client {:>5.0}",
        each(after.0 - before.0),
        each(after.1 - before.1)
    );
    Ok(())
}

/// Processor time of some processes in hundredths of a second.
fn ticks(pids: &[i32]) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let mut all = 0;
    for pid in pids {
        // A session that has ended meanwhile was not one of the pool's.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let (_, fields) = stat.rsplit_once(')').ok_or("a process")?;
        for field in fields.split_whitespace().skip(11).take(2) {
            all += field.parse::<u64>()?;
        }
    }
    Ok(all)
}

async fn by_hand(bench: &Bench) -> Outcome {
    let client = bench.pool.get().await?;
    let insert = client.prepare_cached(INSERT).await?;
    client.batch_execute("begin").await?;
    client.execute(&insert, &[&"org-1", &100_i64, &"a payment"]).await?;
    client.batch_execute("commit").await?;
    Ok(())
}

async fn unkeyed(bench: &Bench) -> Outcome {
    let open = bench.ledger.begin_unkeyed().await?;
    handler(&open.tx()).await?;
    Ok(open.commit_unkeyed().await?)
}

async fn handler(tx: &samekey_store::postgres::Tx) -> Outcome {
    let insert = tx.prepare_cached(INSERT).await?;
    tx.execute(&insert, &[&"org-1", &100_i64, &"a payment"]).await?;
    Ok(())
}

async fn keyed(bench: &Bench) -> Outcome {
    let number = bench.next.fetch_add(1, Ordering::Relaxed);
    let (scope, offer) = (scope(number)?, offer(bench, number)?);
    let Begun::Claimed(open, seen) =
        bench.ledger.begin(&scope, &offer, Duration::from_millis(200)).await?
    else {
        return Err("a new key was not claimed".into());
    };
    handler(&open.tx()).await?;
    let next = settled(bench, &seen.record, seen.now);
    Ok(open.settle(&scope, &seen.record, &next).await?)
}

async fn external(bench: &Bench) -> Outcome {
    let number = bench.next.fetch_add(1, Ordering::Relaxed);
    let (scope, offer) = (scope(number)?, offer(bench, number)?);
    let Arrived::Inserted(seen) = bench.ledger.insert_or_load(&scope, &offer, &intent()).await?
    else {
        return Err("a new key was there".into());
    };
    let next = settled(bench, &seen.record, seen.now);
    bench.ledger.swap(&scope, &seen.record, &next).await?;
    Ok(())
}

async fn replay(bench: &Bench) -> Outcome {
    let scope = scope(1 + bench.next.load(Ordering::Relaxed) % 1_000)?;
    let offer = offer(bench, 1)?;
    match bench.ledger.begin(&scope, &offer, Duration::from_millis(200)).await? {
        Begun::Found(open, _) | Begun::Claimed(open, _) => Ok(open.roll_back().await?),
        Begun::Busy => Ok(()),
    }
}

async fn lookup(bench: &Bench) -> Outcome {
    let scope = scope(1 + bench.next.load(Ordering::Relaxed) % 1_000)?;
    bench.ledger.load(&scope).await?;
    Ok(())
}

fn scope(number: u64) -> Result<Scope, Box<dyn Error + Send + Sync>> {
    // Keys are as random as a UUID, as callers make them.
    let scattered = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let key = format!("{scattered:016x}-{number:016x}");
    Ok(Scope { org: Org::new(&format!("org-{}", number % 16))?, key: Key::new(&key)? })
}

fn intent() -> Intent {
    let outbound_key = OutboundKey::from_bytes([7; 16]);
    Intent { route: "speed".into(), outbound_key, request: None }
}

fn offer(bench: &Bench, number: u64) -> Result<Record, Box<dyn Error + Send + Sync>> {
    let mut owner = [0; 16];
    owner[..8].copy_from_slice(&number.to_le_bytes());
    let digest = Digest { request_sha: [number as u8; 32], frame_sha: [7; 32] };
    let request = Identity { version: Version(1), digest, principal_sha: None };
    let claim = Claim { request, owner: Owner::from_bytes(owner), arrival: Arrival::Ordinary };
    let (record, _) = step(Record::ABSENT, Input::Claim(claim), Time::EPOCH, &bench.policy);
    if record.fence == Fence::NONE { Err("the machine offers nothing".into()) } else { Ok(record) }
}

fn settled(bench: &Bench, record: &Record, now: Time) -> Record {
    let receipt = Receipt::Kept(Answer {
        status: 201,
        headers: vec![(Box::from("content-type"), bytes::Bytes::from_static(b"application/json"))],
        body: bytes::Bytes::from_static(&[b'x'; 200]),
    });
    step(record.clone(), Input::Settle(record.hold(), receipt), now, &bench.policy).0
}
