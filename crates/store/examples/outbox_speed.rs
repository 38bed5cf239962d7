//! What a command in the outbox costs, and whether many finished ones or a transaction that is held open slow it.
//!
//! `SAMEKEY_TEST_POSTGRES=postgres://… cargo run --release -p samekey-store --example outbox_speed [COMMANDS]`
//! makes a database of its own there and prints ratios of one run. COMMANDS go through the outbox while another
//! session holds a snapshot from before the first of them, 50,000 unless another number is given.

use bytes::Bytes;
use samekey_core::delivery::{Delivery, Ended, State};
use samekey_core::key::Org;
use samekey_core::lease::Owner;
use samekey_core::plan::{Input, enqueued, plan};
use samekey_core::profile::{Declared, Limits, Profile};
use samekey_core::receipt::{Answer, Receipt};
use samekey_core::time::Time;
use samekey_sim::FreshDatabase;
use samekey_store::OutboundKey;
use samekey_store::outbox::{Action, Command, CommandId, Outbox};
use samekey_store::postgres::{Options, Pool, PostgresLedger, connect_with, migrate};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// More than eight were slower.
const CONNECTIONS: usize = 8;
/// Who enqueues and sends at once.
const WORKERS: u64 = 64;
/// How many commands a batch has between two looks at the clock.
const BATCH: u64 = 2_000;
const COMMANDS_DEFAULT: u64 = 50_000;

type Fault = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let commands = match std::env::args().nth(1) {
        Some(number) => number.parse()?,
        None => COMMANDS_DEFAULT,
    };
    let database = FreshDatabase::create().await?;
    measure(database.url(), commands).await
}

struct Bench {
    ledger: PostgresLedger,
    pool: Pool,
    org: Org,
    next: AtomicU64,
    profile: Profile,
}

async fn measure(url: &str, commands: u64) -> Result<(), Fault> {
    let pool = connect_with(url, CONNECTIONS)?;
    migrate(&pool).await?;
    let ledger = PostgresLedger::open(pool.clone(), Options::default()).await?;
    pool.get().await?.batch_execute("create table payments (amount bigint not null)").await?;
    let profile = Limits::DURABLE.check(Declared::OPAQUE)?;
    let next = AtomicU64::new(1);
    let bench = Arc::new(Bench { ledger, pool, org: Org::new("org")?, next, profile });
    let inserts = by_hand(&bench).await?;
    let enqueues = enqueue(&bench).await?;
    let lives = life(&bench).await?;
    println!("to one autocommit insert at {CONNECTIONS} connections:");
    println!("  enqueued in groups, at {WORKERS} callers  {:.2}", enqueues / inserts);
    println!("  sent and ended, at {WORKERS} callers      {:.2}", lives / inserts);
    probes(&bench, "nothing held").await?;

    let holder = connect_with(url, 1)?.get().await?;
    let hold = "begin isolation level repeatable read; select count(*) from samekey.outbox";
    holder.batch_execute(hold).await?;
    let mut first = None;
    let mut done = 0;
    while done < commands {
        enqueue(&bench).await?;
        let rate = life(&bench).await?;
        done += BATCH;
        let first = *first.get_or_insert(rate);
        if done % (5 * BATCH) == 0 {
            println!("held, {done} gone through: sent and ended {:.2} of the first", rate / first);
        }
    }
    probes(&bench, "held").await?;
    holder.batch_execute("rollback").await?;
    bench.pool.get().await?.batch_execute("vacuum samekey.outbox").await?;
    probes(&bench, "released and vacuumed").await
}

/// What a worker asks for when little is due: it pays for what lies in the way.
async fn probes(bench: &Arc<Bench>, when: &str) -> Result<(), Fault> {
    const ROUNDS: usize = 15;
    let (mut take, mut next, mut orgs, mut empty) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let command = command(bench);
        bench.ledger.enqueue(&command, &offered(bench)).await?;
        let start = Instant::now();
        bench.ledger.next_due("bank").await?;
        next.push(start.elapsed());
        let start = Instant::now();
        let due = bench.ledger.orgs_with_due("bank", None, 100).await?;
        orgs.push(start.elapsed());
        if due.len() != 1 {
            return Err("the organisation was not found".into());
        }
        let start = Instant::now();
        if take_and_end(bench, 16).await? != 1 {
            return Err("the command was not found".into());
        }
        take.push(start.elapsed());
        let start = Instant::now();
        take_and_end(bench, 16).await?;
        empty.push(start.elapsed());
    }
    println!(
        "{when}: next_due {:?}, orgs_with_due {:?}, take and end of one {:?}, empty take {:?} (medians)",
        median(next),
        median(orgs),
        median(take),
        median(empty)
    );
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn per_second(start: Instant) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a batch is small")]
    let batch = BATCH as f64;
    batch / start.elapsed().as_secs_f64()
}

async fn by_hand(bench: &Arc<Bench>) -> Result<f64, Fault> {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS as u64 {
        let bench = Arc::clone(bench);
        tasks.push(tokio::spawn(async move {
            let client = bench.pool.get().await?;
            let statement = client.prepare("insert into payments values ($1)").await?;
            for _ in 0..BATCH / CONNECTIONS as u64 {
                client.execute(&statement, &[&7_i64]).await?;
            }
            Ok::<(), Fault>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(per_second(start))
}

async fn enqueue(bench: &Arc<Bench>) -> Result<f64, Fault> {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for worker in 0..WORKERS {
        let bench = Arc::clone(bench);
        tasks.push(tokio::spawn(async move {
            for _ in 0..BATCH / WORKERS + u64::from(worker < BATCH % WORKERS) {
                bench.ledger.enqueue(&command(&bench), &offered(&bench)).await?;
            }
            Ok::<(), Fault>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(per_second(start))
}

/// Two workers take and end what there is.
async fn life(bench: &Arc<Bench>) -> Result<f64, Fault> {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let bench = Arc::clone(bench);
        tasks.push(tokio::spawn(async move {
            let mut ended = 0;
            loop {
                let found = take_and_end(&bench, 64).await?;
                ended += found;
                if found == 0 {
                    return Ok::<u64, Fault>(ended);
                }
            }
        }));
    }
    let mut ended = 0;
    for task in tasks {
        ended += task.await??;
    }
    if ended != BATCH {
        return Err(format!("{ended} of {BATCH} were taken").into());
    }
    Ok(per_second(start))
}

async fn take_and_end(bench: &Arc<Bench>, limit: u32) -> Result<u64, Fault> {
    let profile = bench.profile;
    let decide = move |delivery: Delivery, now: Time| {
        Some(plan(delivery, Input::Take(Owner::from_bytes([1; 16])), now, &profile).0)
    };
    let taken = bench.ledger.take(&bench.org, "bank", limit, decide).await?;
    let mut ends = Vec::with_capacity(taken.len());
    for one in taken {
        let bench = Arc::clone(bench);
        ends.push(tokio::spawn(async move {
            let seen = one.seen.delivery;
            let answer = Answer { status: 201, headers: Vec::new(), body: "{\"id\":1}".into() };
            let ended = Ended { since: one.seen.now, with: Receipt::Kept(answer) };
            let next = Delivery {
                revision: seen.revision + 1,
                state: State::Succeeded(ended),
                ..seen.clone()
            };
            bench.ledger.advance(&bench.org, one.command.id, &seen, &next, None).await
        }));
    }
    let mut ended = 0;
    for end in ends {
        end.await??;
        ended += 1;
    }
    Ok(ended)
}

fn command(bench: &Bench) -> Command {
    let number = bench.next.fetch_add(1, Ordering::Relaxed);
    let mut bits = [0; 16];
    if let Some(place) = bits.first_chunk_mut::<8>() {
        *place = number.to_be_bytes();
    }
    Command {
        id: CommandId::from_bytes(bits),
        action: Action {
            org: bench.org.clone(),
            destination: "bank".into(),
            operation: "charge".into(),
            business_ref: format!("order-{number}"),
        },
        generation: 1,
        order_key: None,
        key: OutboundKey::from_bytes(bits),
        request: Bytes::from_static(&[b'x'; 300]),
    }
}

fn offered(bench: &Bench) -> Delivery {
    enqueued(Time::EPOCH, Duration::ZERO, &bench.profile)
}
