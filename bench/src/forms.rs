//! The service in several forms, each against another, over HTTP.

use crate::Plan;
use crate::load::{self, CONNECTIONS, Compose, Connection, Failure};
use crate::processor::{Measured, Ratios, Spenders};
use crate::sql;
use crate::table::Table;
use samekey_sim::{Cluster, Options, Process, Program};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Keys that replays go round.
const REPLAYED_KEYS: u64 = 10_000;
/// How long a form runs before it is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// Rounds over which the table must not grow while the sweep works.
const SWEEP_ROUNDS: usize = 10;

/// A service of the bench, started as a process of its own.
pub struct Service {
    address: SocketAddr,
    pub process: Process,
    spenders: Spenders,
    numbers: Arc<AtomicU64>,
}

impl Service {
    pub fn start(database: &str) -> Result<Service, Failure> {
        Service::of(Program::at(std::env::current_exe()?).arg("serve").arg(database))
    }

    /// One that runs external commands.
    pub fn with_provider(database: &str, provider: &str) -> Result<Service, Failure> {
        let program = Program::at(std::env::current_exe()?).arg("serve").arg(database);
        Service::of(program.arg("--provider").arg(provider))
    }

    fn of(program: Program) -> Result<Service, Failure> {
        let mut process = program.start()?;
        let address = process.address()?;
        let spenders = Spenders::of(process.id());
        Ok(Service { address, process, spenders, numbers: Arc::new(AtomicU64::new(0)) })
    }

    /// The processor time of this database server counts as the service's own.
    pub fn counted_with(mut self, cluster: &Cluster) -> Result<Service, Failure> {
        self.spenders = self.spenders.with(cluster)?;
        Ok(self)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// One round of one form.
    async fn round(&self, form: &Form, length: Duration) -> Result<Measured, Failure> {
        let numbers = match form.keys {
            Keys::New => Arc::clone(&self.numbers),
            Keys::Replayed => Arc::new(AtomicU64::new(0)),
        };
        let before = self.spenders.spent()?;
        let round = load::run(self.address, form.compose(), numbers, 201, length).await?;
        let each = self.spenders.spent()?.since(before).each(round.answered);
        Ok(Measured { rate: round.rate(), each })
    }

    async fn tell(&self, path: &str, word: &str) -> Result<(), Failure> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: {}\r\n\r\n{word}",
            word.len()
        );
        Connection::open(self.address).await?.exchange(request.as_bytes(), 200).await
    }
}

/// Which keys a form's requests have.
#[derive(Clone, Copy)]
pub enum Keys {
    /// A new one each time.
    New,
    /// Finished ones.
    Replayed,
}

/// One form of the handler.
#[derive(Clone, Copy)]
pub struct Form {
    /// Where it is sent.
    pub path: &'static str,
    /// With which keys.
    pub keys: Keys,
}

const KEYED: Form = Form { path: "/keyed", keys: Keys::New };
const PLAIN: Form = Form { path: "/plain", keys: Keys::New };
const BY_HAND: Form = Form { path: "/by-hand", keys: Keys::New };
const AUTOCOMMIT: Form = Form { path: "/autocommit", keys: Keys::New };
const REPLAY: Form = Form { path: "/keyed", keys: Keys::Replayed };
const SELECT: Form = Form { path: "/select", keys: Keys::Replayed };

impl Form {
    /// A request with a key of 32 characters.
    fn compose(self) -> Compose {
        let run = std::process::id();
        Arc::new(move |number| {
            let key = match self.keys {
                Keys::New => format!("{run:08x}-new-{number:019x}"),
                Keys::Replayed => replayed_key(number),
            };
            request(self.path, &key)
        })
    }
}

fn replayed_key(number: u64) -> String {
    format!("replayed-{:023x}", number % REPLAYED_KEYS)
}

fn request(path: &str, key: &str) -> Vec<u8> {
    let body = r#"{"amount": 1200}"#;
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\nidempotency-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Rounds of two forms that alternate, and the ratio of each pair.
pub async fn compare(
    plan: Plan,
    one: (&Service, Form),
    other: (&Service, Form),
) -> Result<Ratios, Failure> {
    one.0.round(&one.1, WARM_UP.min(plan.round)).await?;
    other.0.round(&other.1, WARM_UP.min(plan.round)).await?;
    let mut ratios = Ratios::default();
    for round in 0..plan.rounds {
        // Who goes first alternates too, so that a slow drift favours nobody.
        let (mine, theirs) = if round % 2 == 0 {
            let mine = one.0.round(&one.1, plan.round).await?;
            (mine, other.0.round(&other.1, plan.round).await?)
        } else {
            let theirs = other.0.round(&other.1, plan.round).await?;
            (one.0.round(&one.1, plan.round).await?, theirs)
        };
        ratios.add(mine, theirs);
    }
    Ok(ratios)
}

/// Lines a to d.
pub async fn on_postgres(
    plan: Plan,
    wanted: &dyn Fn(&str) -> bool,
    table: &mut Table,
) -> Result<(), Failure> {
    if !["a", "b", "c", "d"].iter().any(|letter| wanted(letter)) {
        return Ok(());
    }
    let cluster = Cluster::start(Options::default())?;
    let url = cluster.create_database("bench")?;
    let service = Service::start(&url)?.counted_with(&cluster)?;
    if wanted("a") {
        let ratios = compare(plan, (&service, KEYED), (&service, PLAIN)).await?;
        table.ratio("a", "POST keyed / begin, insert, commit", &ratios, Some(0.70));
        let ratios = compare(plan, (&service, KEYED), (&service, AUTOCOMMIT)).await?;
        table.ratio("a", "POST keyed / one autocommit insert", &ratios, None);
    }
    if wanted("b") {
        prepare_replays(&service, &url).await?;
        let ratios = compare(plan, (&service, REPLAY), (&service, SELECT)).await?;
        table.ratio("b", "replay / one primary-key select", &ratios, Some(0.90));
    }
    if wanted("c") {
        let full = cluster.create_database("full")?;
        let full_service = Service::start(&full)?.counted_with(&cluster)?;
        full_service.round(&KEYED, WARM_UP).await?;
        fill(&full, plan.live, "now() + interval '30 days'").await?;
        let ratios = compare(plan, (&full_service, KEYED), (&service, KEYED)).await?;
        let what = format!("POST keyed with {} live keys / with few", plan.live);
        table.ratio("c", &what, &ratios, Some(0.80));
    }
    if wanted("d") {
        sweeping(plan, &cluster, &service, table).await?;
    }
    Ok(())
}

/// Line d: the sweep deletes about as fast as orders come.
async fn sweeping(
    plan: Plan,
    cluster: &Cluster,
    still: &Service,
    table: &mut Table,
) -> Result<(), Failure> {
    let url = cluster.create_database("swept")?;
    let service = Service::start(&url)?.counted_with(cluster)?;
    service.round(&KEYED, WARM_UP).await?;
    fill(&url, plan.old, "now() - interval '1 hour'").await?;
    service.tell("/sweep", "start").await?;
    let ratios = compare(plan, (&service, KEYED), (still, KEYED)).await?;
    let what = format!("POST keyed while the sweep removes {} old rows / without", plan.old);
    table.ratio("d", &what, &ratios, Some(0.80));
    let mut sizes = Vec::new();
    for _ in 0..SWEEP_ROUNDS {
        // Every key that a round made is made old, so that the sweep has as much to do as orders come.
        service.round(&KEYED, plan.round).await?;
        sql::execute(&url, "update samekey.keys set keep_until = now() - interval '1 hour'")
            .await?;
        sizes
            .push(sql::number(&url, "select pg_total_relation_size('samekey.keys')").await? as f64);
    }
    service.tell("/sweep", "stop").await?;
    let (first, last) =
        (sizes.first().copied().unwrap_or(1.0), sizes.last().copied().unwrap_or(1.0));
    table.add(
        "d",
        "size of the keys' table after ten rounds / after the first",
        format!("{:.2}", last / first),
        "does not grow".to_owned(),
    );
    Ok(())
}

/// Line e.
pub async fn on_sqlite(plan: Plan, table: &mut Table) -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let address = format!("sqlite:{}", directory.path().join("bench.db").display());
    let service = Service::start(&address)?;
    let ratios = compare(plan, (&service, KEYED), (&service, BY_HAND)).await?;
    table.ratio("e", "SQLite: POST keyed / begin, insert, commit", &ratios, Some(0.75));
    // A harder comparison: the other side has samekey's grouped commits too, and no key.
    let ratios = compare(plan, (&service, KEYED), (&service, PLAIN)).await?;
    table.ratio("e", "SQLite: POST keyed / an insert through the same writer", &ratios, None);
    Ok(())
}

async fn prepare_replays(service: &Service, url: &str) -> Result<(), Failure> {
    let mut senders = Vec::new();
    for lane in 0..CONNECTIONS as u64 {
        let address = service.address;
        senders.push(tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut number = lane;
            while number < REPLAYED_KEYS {
                connection.exchange(&request("/keyed", &replayed_key(number)), 201).await?;
                number += CONNECTIONS as u64;
            }
            Ok::<(), Failure>(())
        }));
    }
    for sender in senders {
        sender.await??;
    }
    // The other side selects an order by an id that is the key.
    sql::execute(
        url,
        "insert into orders (id, org_id, amount)
         select key, org_id, 1200 from samekey.keys where key like 'replayed-%'",
    )
    .await
}

/// Fills a ledger with finished keys like those that the bench itself makes.
async fn fill(url: &str, rows: u64, keep_until: &str) -> Result<(), Failure> {
    eprintln!("   filling a ledger with {rows} keys");
    let columns = "fence, holder, revision, state, since, request_version, request_sha, frame_sha, answer_status, answer_headers, answer_body";
    // One finished row is the pattern, so that this knows nothing of how a row is written.
    sql::execute(
        url,
        &format!(
            "insert into samekey.keys (org_id, key, keep_until, {columns})
             select 'bench', 'filled-' || md5(n::text), {keep_until}, {columns}
             from generate_series(1, {rows}) n,
                  (select {columns} from samekey.keys where state = 'done' limit 1) pattern"
        ),
    )
    .await?;
    sql::execute(url, "vacuum analyze samekey.keys").await
}
