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
/// Rounds before those, in which the table gets the room for dead rows that the server's vacuum leaves it:
/// a fifth of the table, by default.
const SETTLING_ROUNDS: usize = 5;
/// How often the server of line d looks for what to vacuum. By default it is a minute, in which a bench is
/// over; a table's size settles after a few of them, whatever they are.
const SWEPT_VACUUM: &str = "5s";

/// A service of the bench, started as a process of its own.
pub struct Service {
    address: SocketAddr,
    pub process: Process,
    spenders: Spenders,
    numbers: Arc<AtomicU64>,
    connections: usize,
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

    /// Any program that says where it listens.
    pub fn of(program: Program) -> Result<Service, Failure> {
        let mut process = program.start()?;
        let address = process.address()?;
        let spenders = Spenders::of(process.id());
        Ok(Service::at(address, process, spenders))
    }

    /// A process that listens there already.
    pub fn at(address: SocketAddr, process: Process, spenders: Spenders) -> Service {
        let numbers = Arc::new(AtomicU64::new(0));
        Service { address, process, spenders, numbers, connections: CONNECTIONS }
    }

    /// Takes its load over so many connections.
    pub fn over(mut self, connections: usize) -> Service {
        self.connections = connections;
        self
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
    pub async fn round(&self, form: &Form, length: Duration) -> Result<Measured, Failure> {
        let numbers = match form.keys {
            Keys::New | Keys::None => Arc::clone(&self.numbers),
            Keys::Replayed => Arc::new(AtomicU64::new(0)),
        };
        let before = self.spenders.spent()?;
        let (over, compose) = (self.connections, form.compose());
        let round = load::run_over(over, self.address, compose, numbers, 201, length).await?;
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
    /// None at all.
    None,
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
const BY_HAND_ONCE: Form = Form { path: "/by-hand-once", keys: Keys::New };
const AUTOCOMMIT: Form = Form { path: "/autocommit", keys: Keys::New };
const REPLAY: Form = Form { path: "/keyed", keys: Keys::Replayed };
const SELECT: Form = Form { path: "/select", keys: Keys::Replayed };

impl Form {
    /// A request with a key of 32 characters.
    fn compose(self) -> Compose {
        let run = std::process::id();
        Arc::new(move |number| {
            let key = match self.keys {
                Keys::New => Some(format!("{run:08x}-new-{number:019x}")),
                Keys::Replayed => Some(replayed_key(number)),
                Keys::None => None,
            };
            request(self.path, key.as_deref())
        })
    }
}

fn replayed_key(number: u64) -> String {
    format!("replayed-{:023x}", number % REPLAYED_KEYS)
}

fn request(path: &str, key: Option<&str>) -> Vec<u8> {
    let body = r#"{"amount": 1200}"#;
    let key = key.map_or(String::new(), |key| format!("idempotency-key: {key}\r\n"));
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\n{key}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
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
        // What a key's row costs on this machine whoever writes it, with nothing around it.
        let ratios = compare(plan, (&service, BY_HAND), (&service, PLAIN)).await?;
        table.ratio(
            "a",
            "a bare key by hand, claimed and settled / begin, insert, commit",
            &ratios,
            None,
        );
        let ratios = compare(plan, (&service, BY_HAND_ONCE), (&service, PLAIN)).await?;
        table.ratio(
            "a",
            "a bare key by hand, written once behind / begin, insert, commit",
            &ratios,
            None,
        );
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
        sweeping(plan, table).await?;
    }
    Ok(())
}

/// Line d: as many keys become old as orders come, and the sweep removes them.
///
/// Keys are inserted with the time at which they become old: to make them old by an update would leave a second
/// dead version of each row, and an entry in every index, that no service ever makes.
async fn sweeping(plan: Plan, table: &mut Table) -> Result<(), Failure> {
    let options = Options::default().setting("autovacuum_naptime", SWEPT_VACUUM);
    let cluster = Cluster::start(options)?;
    let url = cluster.create_database("swept")?;
    let service = Service::start(&url)?.counted_with(&cluster)?;
    let still_url = cluster.create_database("still")?;
    let still = Service::start(&still_url)?.counted_with(&cluster)?;
    still.round(&KEYED, WARM_UP).await?;
    service.round(&KEYED, WARM_UP).await?;
    let rate = service.round(&KEYED, WARM_UP).await?.rate;
    // The sweep rests while the other side is measured, so keys become old half as fast.
    let seconds = plan.round.as_secs_f64() * plan.rounds as f64;
    let removed = become_old(&url, rate * seconds, rate / 2.0).await?;
    fill(&still_url, removed, "now() + interval '30 days'").await?;
    let mut ratios = Ratios::default();
    for _ in 0..plan.rounds {
        service.tell("/sweep", "start").await?;
        let mine = service.round(&KEYED, plan.round).await?;
        service.tell("/sweep", "stop").await?;
        ratios.add(mine, still.round(&KEYED, plan.round).await?);
    }
    let what = format!("POST keyed while the sweep removes as many, {removed} in all / without");
    table.ratio("d", &what, &ratios, Some(0.80));

    let rounds = SETTLING_ROUNDS + SWEEP_ROUNDS;
    let seconds = plan.round.as_secs_f64() * rounds as f64;
    become_old(&url, rate * seconds, rate).await?;
    service.tell("/sweep", "start").await?;
    let mut sizes = Vec::new();
    for _ in 0..=rounds {
        let bytes = "select pg_total_relation_size('samekey.keys')";
        sizes.push(sql::number(&url, bytes).await? as f64);
        if sizes.len() <= rounds {
            service.round(&KEYED, plan.round).await?;
        }
    }
    service.tell("/sweep", "stop").await?;
    let (first, last) = (
        sizes.get(SETTLING_ROUNDS).copied().unwrap_or(f64::NAN),
        sizes.last().copied().unwrap_or(f64::NAN),
    );
    table.add(
        "d",
        "size of the keys' table after ten rounds of this / before",
        format!("{:.2}", last / first),
        "does not grow".to_owned(),
    );
    Ok(())
}

/// Adds so many finished keys, of which so many a second become old from now on.
async fn become_old(url: &str, keys: f64, rate: f64) -> Result<u64, Failure> {
    let keys = keys.max(1.0) as u64;
    let pace = 1e6 / rate.max(1.0);
    fill(url, keys, &format!("now() + n * {pace:.3} * interval '1 microsecond'")).await?;
    Ok(keys)
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
    finish_replayed(service, "/keyed").await?;
    // The other side selects an order by an id that is the key.
    sql::execute(
        url,
        "insert into orders (id, org_id, amount)
         select key, org_id, 1200 from samekey.keys where key like 'replayed-%'",
    )
    .await
}

/// Has every key that replays go round executed once.
pub async fn finish_replayed(service: &Service, path: &'static str) -> Result<(), Failure> {
    let mut senders = Vec::new();
    for lane in 0..CONNECTIONS as u64 {
        let address = service.address;
        senders.push(tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut number = lane;
            while number < REPLAYED_KEYS {
                let request = request(path, Some(&replayed_key(number)));
                connection.exchange(&request, 201).await?;
                number += CONNECTIONS as u64;
            }
            Ok::<(), Failure>(())
        }));
    }
    for sender in senders {
        sender.await??;
    }
    Ok(())
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
             select 'bench', 'filled-' || md5(clock_timestamp()::text || n), {keep_until}, {columns}
             from generate_series(1, {rows}) n,
                  (select {columns} from samekey.keys where state = 'done' limit 1) pattern"
        ),
    )
    .await?;
    sql::execute(url, "vacuum analyze samekey.keys").await
}
