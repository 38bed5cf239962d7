//! Lines i, j, k and l: commands through the outbox, from enqueuing to their end.

use crate::Plan;
use crate::ledger::{SLICE, Side, inserts};
use crate::load::Failure;
use crate::memory::peak_mib;
use crate::processor::{Ratios, Spenders};
use crate::sql;
use crate::table::Table;
use samekey::core::key::Org;
use samekey::store::postgres::{self, Options, Pool, PostgresLedger};
use samekey_client::config::CourierConfig;
use samekey_client::store::outbox::Outbox;
use samekey_client::{Courier, HttpRequest, NewCommand, Running, Signal};
use samekey_sim::{Cluster, Process, Program};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Commands on their way at a time.
const IN_FLIGHT: usize = 64;
/// Finished commands of line k.
const FINISHED: u32 = 1_000_000;
/// Commands that wait in line l.
const PENDING: u32 = 100_000;
/// The bar of line l, in MiB.
const MEMORY_BAR: f64 = 80.0;
/// How long line l's worker is at it before its memory is read.
const MEMORY_LENGTH: Duration = Duration::from_secs(10);
/// The limit of waiting for a bench's commands to end; one that stands still is a failure.
const DRAIN: Duration = Duration::from_secs(60);

pub async fn on_postgres(
    plan: Plan,
    wanted: &dyn Fn(&str) -> bool,
    table: &mut Table,
) -> Result<(), Failure> {
    if !["i", "j", "k", "l"].iter().any(|letter| wanted(letter)) {
        return Ok(());
    }
    let cluster = Cluster::start(samekey_sim::Options::default())?;
    let mut echo = Program::at(std::env::current_exe()?).arg("echo").start()?;
    let provider = format!("http://{}", echo.address()?);
    if wanted("i") {
        let outbox = Outboxed::open(&cluster.create_database("courier")?, &provider, 1).await?;
        let ratios = against_inserts(plan, &cluster, &outbox).await?;
        let what = "command enqueued, delivered and settled / a bare single-row insert";
        table.ratio("i", what, &ratios, Some(0.25));
        outbox.end().await?;
    }
    if wanted("j") {
        let one = Outboxed::open(&cluster.create_database("one")?, &provider, 1).await?;
        let two = Outboxed::open(&cluster.create_database("two")?, &provider, 2).await?;
        let ratios = against(plan, &cluster, &two, &one).await?;
        table.ratio("j", "the same with two couriers / with one", &ratios, Some(1.00));
        one.end().await?;
        two.end().await?;
    }
    if wanted("k") {
        let few = Outboxed::open(&cluster.create_database("few")?, &provider, 1).await?;
        let url = cluster.create_database("many")?;
        let many = Outboxed::open(&url, &provider, 1).await?;
        finish(&url).await?;
        let ratios = against(plan, &cluster, &many, &few).await?;
        let what = format!("the same with {FINISHED} finished commands / with few");
        table.ratio("k", &what, &ratios, Some(0.90));
        few.end().await?;
        many.end().await?;
    }
    if wanted("l") {
        memory(&cluster.create_database("pending")?, &provider, table).await?;
    }
    Ok(())
}

/// A courier, or several, on one database, and the means to keep so many commands on their way.
struct Outboxed {
    courier: Courier<PostgresLedger>,
    pool: Pool,
    running: Vec<Running>,
    /// Commands that may still be enqueued.
    room: Arc<Semaphore>,
    ended: Arc<AtomicU64>,
    numbers: Arc<AtomicU64>,
}

/// What a courier to this provider is configured with.
fn config(provider: &str) -> Result<CourierConfig, Failure> {
    Ok(serde_json::from_value(serde_json::json!({
        "environment": "bench",
        "destinations": { "echo": {
            "concurrency": IN_FLIGHT,
            "http": { "base_url": provider, "allow_networks": ["127.0.0.0/8"], "key_life_s": 86_400 },
        } },
    }))?)
}

impl Outboxed {
    async fn open(url: &str, provider: &str, couriers: usize) -> Result<Outboxed, Failure> {
        let room = Arc::new(Semaphore::new(IN_FLIGHT));
        let ended = Arc::new(AtomicU64::new(0));
        let mut opened = Vec::new();
        for _ in 0..couriers {
            let pool = postgres::connect(url)?;
            postgres::migrate(&pool).await?;
            let ledger = PostgresLedger::open(pool.clone(), Options::default()).await?;
            let (room, ended) = (Arc::clone(&room), Arc::clone(&ended));
            let heed = move |_: &str, signal| {
                if signal == Signal::Succeeded {
                    ended.fetch_add(1, Ordering::Relaxed);
                    room.add_permits(1);
                }
            };
            let setup = config(provider)?.into_setup()?.listener(Arc::new(heed));
            opened.push((Courier::open(Arc::new(ledger), setup).await?, pool));
        }
        let running = opened.iter().map(|(courier, _)| courier.spawn()).collect();
        let (courier, pool) = opened.into_iter().next().ok_or("no courier was asked for")?;
        sql::execute(
            url,
            "create table plain (id text primary key, org_id text not null, body bytea not null)",
        )
        .await?;
        Ok(Outboxed { courier, pool, running, room, ended, numbers: Arc::default() })
    }

    /// How many commands end, and in what time, with [`IN_FLIGHT`] of them on their way.
    async fn run(&self, length: Duration) -> Result<(u64, Duration), Failure> {
        let began = Instant::now();
        let before = self.ended.load(Ordering::Relaxed);
        let ends = tokio::time::Instant::from_std(began + length);
        let mut enqueuers = Vec::new();
        // As many as a group of the store takes together.
        for _ in 0..IN_FLIGHT {
            let (courier, room) = (self.courier.clone(), Arc::clone(&self.room));
            let numbers = Arc::clone(&self.numbers);
            enqueuers.push(tokio::spawn(async move {
                // Where there is always room, waiting for it never takes as long as until the end.
                while tokio::time::Instant::now() < ends {
                    match tokio::time::timeout_at(ends, room.acquire()).await {
                        Ok(permit) => permit?.forget(),
                        Err(_) => break,
                    }
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    courier.enqueue(command(number)?).await?;
                }
                Ok::<(), Failure>(())
            }));
        }
        for enqueuer in enqueuers {
            enqueuer.await??;
        }
        self.all_ended().await?;
        let done = self.ended.load(Ordering::Relaxed) - before;
        Ok((done, began.elapsed()))
    }

    async fn all_ended(&self) -> Result<(), Failure> {
        let all = u32::try_from(IN_FLIGHT)?;
        match tokio::time::timeout(DRAIN, self.room.acquire_many(all)).await {
            Ok(permits) => drop(permits?),
            Err(_) => return Err("commands were enqueued that never ended".into()),
        }
        Ok(())
    }

    async fn end(mut self) -> Result<(), Failure> {
        for running in self.running.drain(..) {
            if !running.drain(DRAIN).await {
                return Err("a courier did not come to its end".into());
            }
        }
        Ok(())
    }
}

fn command(number: u64) -> Result<NewCommand, Failure> {
    let filling = "x".repeat(150);
    let body = format!(r#"{{"order_id":"{number:032x}","amount":1200,"note":"{filling}"}}"#);
    Ok(NewCommand {
        org: Org::new("bench")?,
        destination: "echo".to_owned(),
        operation: "charge".to_owned(),
        business_ref: format!("{number:032x}"),
        order_key: None,
        request: HttpRequest::post("/charges").json(body).encode()?,
        delay: Duration::ZERO,
    })
}

async fn against_inserts(
    plan: Plan,
    cluster: &Cluster,
    outbox: &Outboxed,
) -> Result<Ratios, Failure> {
    let inserted = Arc::new(AtomicU64::new(0));
    outbox.run(Duration::from_secs(1)).await?;
    inserts(&outbox.pool, &inserted, Duration::from_secs(1)).await?;
    let spenders = Spenders::of(std::process::id()).with(cluster)?;
    let mut ratios = Ratios::default();
    for _ in 0..plan.rounds {
        let (mut mine, mut theirs) = (Side::default(), Side::default());
        for _ in 0..slices(plan) {
            let before = spenders.spent()?;
            mine.add(outbox.run(SLICE).await?, spenders.spent()?.since(before));
            let before = spenders.spent()?;
            let done = inserts(&outbox.pool, &inserted, SLICE).await?;
            theirs.add(done, spenders.spent()?.since(before));
        }
        ratios.add(mine.measured(), theirs.measured());
    }
    Ok(ratios)
}

async fn against(
    plan: Plan,
    cluster: &Cluster,
    mine: &Outboxed,
    theirs: &Outboxed,
) -> Result<Ratios, Failure> {
    mine.run(Duration::from_secs(1)).await?;
    theirs.run(Duration::from_secs(1)).await?;
    let spenders = Spenders::of(std::process::id()).with(cluster)?;
    let mut ratios = Ratios::default();
    for _ in 0..plan.rounds {
        let (mut one, mut other) = (Side::default(), Side::default());
        for _ in 0..slices(plan) {
            let before = spenders.spent()?;
            one.add(mine.run(SLICE).await?, spenders.spent()?.since(before));
            let before = spenders.spent()?;
            other.add(theirs.run(SLICE).await?, spenders.spent()?.since(before));
        }
        ratios.add(one.measured(), other.measured());
    }
    Ok(ratios)
}

fn slices(plan: Plan) -> u128 {
    plan.round.as_millis().div_ceil(SLICE.as_millis())
}

/// A million commands that have succeeded within the last month.
async fn finish(url: &str) -> Result<(), Failure> {
    sql::execute(
        url,
        &format!(
            "insert into samekey.commands
                 (org_id, id, destination, operation, business_ref, generation, key, request, enqueued_at)
             select 'org-' || n % 100, decode(md5('id' || n), 'hex'), 'echo', 'charge', 'old-' || n, 1,
                 decode(md5('key' || n), 'hex'), decode(repeat(md5(n::text), 8), 'hex'),
                 now() - n % 2592000 * interval '1 second'
             from generate_series(1, {FINISHED}) n;
             insert into samekey.finished
                 (org_id, id, fence, revision, finished_at, began, gives_up, since, sends, attempts, asked_by,
                  state, holder, answer_status, answer_headers, answer_body)
             select org_id, id, 1, 3, enqueued_at, enqueued_at, enqueued_at, enqueued_at, 1, 1, 'key',
                 'succeeded', key, 201, '', request
             from samekey.commands where business_ref like 'old-%';
             insert into samekey.attempts (org_id, id, noted, fence, number, kind, began, came_to, status)
             select org_id, id, enqueued_at, 1, 1, 'send', enqueued_at, 'done', 201
             from samekey.commands where business_ref like 'old-%'"
        ),
    )
    .await?;
    for table in ["commands", "finished", "attempts"] {
        sql::execute(url, &format!("vacuum analyze samekey.{table}")).await?;
    }
    Ok(())
}

/// A worker process that finds a hundred thousand commands waiting.
async fn memory(url: &str, provider: &str, table: &mut Table) -> Result<(), Failure> {
    let pool = postgres::connect(url)?;
    postgres::migrate(&pool).await?;
    let ledger = Arc::new(PostgresLedger::open(pool, Options::default()).await?);
    let courier = Courier::open(Arc::clone(&ledger), config(provider)?.into_setup()?).await?;
    let mut enqueuers = Vec::new();
    for part in 0..u64::try_from(IN_FLIGHT)? {
        let courier = courier.clone();
        enqueuers.push(tokio::spawn(async move {
            for number in (part..u64::from(PENDING)).step_by(IN_FLIGHT) {
                courier.enqueue(command(number)?).await?;
            }
            Ok::<(), Failure>(())
        }));
    }
    for enqueuer in enqueuers {
        enqueuer.await??;
    }
    let worker = start_worker(url, provider)?;
    tokio::time::sleep(MEMORY_LENGTH).await;
    let left: u64 = ledger.count_commands().await?.iter().map(|count| count.count).sum();
    if left == 0 || left == u64::from(PENDING) {
        return Err(
            format!("{left} of {PENDING} commands wait, so the worker was not at work").into()
        );
    }
    let peak = peak_mib(worker.id())?;
    table.add(
        "l",
        &format!("peak memory of a worker that finds {PENDING} commands waiting"),
        format!("{peak:.0} MiB"),
        format!("below {MEMORY_BAR:.0} MiB"),
    );
    Ok(())
}

fn start_worker(url: &str, provider: &str) -> Result<Process, Failure> {
    Ok(Program::at(std::env::current_exe()?).arg("deliver").arg(url).arg(provider).start()?)
}

/// Delivers until it is ended from outside.
pub async fn deliver(url: &str, provider: &str) -> Result<(), Failure> {
    let ledger = PostgresLedger::open(postgres::connect(url)?, Options::default()).await?;
    let courier = Courier::open(Arc::new(ledger), config(provider)?.into_setup()?).await?;
    let _running = courier.spawn();
    std::future::pending().await
}
