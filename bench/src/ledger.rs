//! Line f: grouped claims and settlements through the ledger, without HTTP.

use crate::Plan;
use crate::load::Failure;
use crate::processor::{Measured, Ratios, Spenders, Spent};
use crate::table::Table;
use samekey::core::fingerprint::{Digest, V1};
use samekey::core::key::{Key, Org, Scope};
use samekey::core::lease::Owner;
use samekey::core::policy::Policy;
use samekey::core::receipt::{Answer, Receipt};
use samekey::core::record::{Identity, Record};
use samekey::core::step::{Arrival, Claim, Input, step};
use samekey::core::time::Time;
use samekey::store::postgres::{self, Options, Pool, PostgresLedger};
use samekey::store::{Arrived, Intent, Ledger, OutboundKey, Swap};
use samekey_sim::Cluster;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Callers at a time.
const CALLERS: usize = 64;
/// Both sides alternate this often within a round, so that what else the machine does hits both.
pub const SLICE: Duration = Duration::from_millis(250);
const INSERT: &str = "insert into plain (id, org_id, body) values ($1, $2, $3)";

/// Measures claim and settle by groups against bare single-row inserts.
pub async fn grouped(plan: Plan, table: &mut Table) -> Result<(), Failure> {
    let cluster = Cluster::start(samekey_sim::Options::default())?;
    let url = cluster.create_database("ledger")?;
    let pool = postgres::connect(&url)?;
    postgres::migrate(&pool).await?;
    crate::sql::execute(
        &url,
        "create table plain (id text primary key, org_id text not null, body bytea not null)",
    )
    .await?;
    let ledger = Arc::new(PostgresLedger::open(pool.clone(), Options::default()).await?);
    let numbers = Arc::new(AtomicU64::new(0));
    let spenders = Spenders::of(std::process::id()).with(&cluster)?;
    let mut ratios = Ratios::default();
    commands(&ledger, &numbers, Duration::from_secs(1)).await?;
    inserts(&pool, &numbers, Duration::from_secs(1)).await?;
    let slices = plan.round.as_millis().div_ceil(SLICE.as_millis());
    for _ in 0..plan.rounds {
        let (mut mine, mut theirs) = (Side::default(), Side::default());
        for _ in 0..slices {
            let before = spenders.spent()?;
            mine.add(commands(&ledger, &numbers, SLICE).await?, spenders.spent()?.since(before));
            let before = spenders.spent()?;
            theirs.add(inserts(&pool, &numbers, SLICE).await?, spenders.spent()?.since(before));
        }
        ratios.add(mine.measured(), theirs.measured());
    }
    table.ratio("f", "grouped claim + settle / a bare single-row insert", &ratios, Some(1.50));
    Ok(())
}

/// One side's slices of a round.
#[derive(Default)]
pub struct Side {
    done: u64,
    took: Duration,
    spent: Spent,
}

impl Side {
    pub fn add(&mut self, (done, took): (u64, Duration), spent: Spent) {
        self.done += done;
        self.took += took;
        self.spent = self.spent.plus(spent);
    }

    pub fn measured(&self) -> Measured {
        let rate = self.done as f64 / self.took.as_secs_f64();
        Measured { rate, each: self.spent.each(self.done) }
    }
}

async fn commands(
    ledger: &Arc<PostgresLedger>,
    numbers: &Arc<AtomicU64>,
    length: Duration,
) -> Result<(u64, Duration), Failure> {
    let ledger = Arc::clone(ledger);
    run(numbers, length, move |number| {
        let ledger = Arc::clone(&ledger);
        async move { command(&ledger, number).await }
    })
    .await
}

pub async fn inserts(
    pool: &Pool,
    numbers: &Arc<AtomicU64>,
    length: Duration,
) -> Result<(u64, Duration), Failure> {
    let pool = pool.clone();
    run(numbers, length, move |number| {
        let pool = pool.clone();
        async move {
            let client = pool.get().await?;
            let insert = client.prepare_cached(INSERT).await?;
            client
                .execute(&insert, &[&format!("{number:032x}"), &"bench", &[b'x'; 200].as_slice()])
                .await?;
            Ok(())
        }
    })
    .await
}

/// One external command, as the engine will do it: claim, settle.
async fn command(ledger: &PostgresLedger, number: u64) -> Result<(), Failure> {
    let scope = Scope { org: Org::new("bench")?, key: Key::new(&format!("{number:032x}"))? };
    let policy = Policy::default();
    let mut token = [0; 16];
    token[..8].copy_from_slice(&number.to_be_bytes());
    let claim = Claim {
        request: Identity {
            version: V1.version,
            digest: Digest { request_sha: [1; 32], frame_sha: [2; 32] },
            principal_sha: None,
        },
        owner: Owner::from_bytes(token),
        arrival: Arrival::Ordinary,
    };
    let (offer, _) = step(Record::ABSENT, Input::Claim(claim), Time::EPOCH, &policy);
    let outbound_key = OutboundKey::from_bytes(token);
    let intent = Intent { route: "bench".into(), outbound_key, request: None };
    let Arrived::Inserted(seen) = ledger.insert_or_load(&scope, &offer, &intent).await? else {
        return Err("a new key was found".into());
    };
    let receipt =
        Receipt::Kept(Answer { status: 201, headers: Vec::new(), body: vec![b'x'; 200].into() });
    let input = Input::Settle(seen.record.hold(), receipt);
    let (next, _) = step(seen.record.clone(), input, seen.now, &policy);
    match ledger.swap(&scope, &seen.record, &next).await? {
        Swap::Written => Ok(()),
        Swap::Changed(_) => Err("a claim changed under its owner".into()),
    }
}

/// How many [`CALLERS`] callers get done, and how long that took.
async fn run<F, W>(
    numbers: &Arc<AtomicU64>,
    length: Duration,
    work: W,
) -> Result<(u64, Duration), Failure>
where
    W: Fn(u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Failure>> + Send,
{
    let work = Arc::new(work);
    let began = Instant::now();
    let ends = began + length;
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let (work, numbers) = (Arc::clone(&work), Arc::clone(numbers));
        callers.push(tokio::spawn(async move {
            let mut done = 0u64;
            while Instant::now() < ends {
                work(numbers.fetch_add(1, Ordering::Relaxed)).await?;
                done += 1;
            }
            Ok::<u64, Failure>(done)
        }));
    }
    let mut done = 0;
    for caller in callers {
        done += caller.await??;
    }
    Ok((done, began.elapsed()))
}
