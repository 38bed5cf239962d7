//! Lines n to r: the gateway in front of an upstream that says back whatever it is sent.
//!
//! Everything runs on this machine, and shares its processors: load generator, gateway or nginx, upstream,
//! database. The gateway is the program `samekey` beside this one; it logs each request into a file, as nginx does.

use crate::Plan;
use crate::forms::{Form, Keys, Service, compare, finish_replayed};
use crate::load::Failure;
use crate::memory::peak_mib;
use crate::processor::Spenders;
use crate::table::Table;
use samekey_sim::{Cluster, Options, Program};
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// HTTP connections, as the bars of the gateway are stated.
const CONNECTIONS: usize = 256;
/// HTTP connections of line r.
const MANY: usize = 1_000;
/// The bar of line r, in MiB.
const MEMORY_BAR: f64 = 100.0;
/// How long the disk is asked how fast it is.
const DISK_TIME: Duration = Duration::from_secs(1);
/// What a database writes at a time.
const PAGE_BYTES: usize = 8 * 1024;
/// How long nginx may take to listen, and to end.
const NGINX_PATIENCE: Duration = Duration::from_secs(10);

const KEYED: Form = Form { path: "/charges", keys: Keys::New };
const REPLAY: Form = Form { path: "/charges", keys: Keys::Replayed };
const UNKEYED: Form = Form { path: "/charges", keys: Keys::None };

pub async fn on_both(
    plan: Plan,
    wanted: &dyn Fn(&str) -> bool,
    table: &mut Table,
) -> Result<(), Failure> {
    if !["n", "o", "p", "q", "r"].iter().any(|letter| wanted(letter)) {
        return Ok(());
    }
    let mut echo = Program::at(std::env::current_exe()?).arg("echo").start()?;
    let upstream = echo.address()?;
    let cluster = Cluster::start(Options::default())?;
    let folder = tempfile::tempdir()?;
    let on_postgres = gateway(&cluster.create_database("gateway")?, upstream, folder.path())?;
    let on_postgres = on_postgres.counted_with(&cluster)?.over(CONNECTIONS);
    if wanted("n") {
        let ratios = compare(plan, (&on_postgres, KEYED), (&on_postgres, UNKEYED)).await?;
        table.ratio("n", "gateway: POST keyed, on PostgreSQL / unkeyed", &ratios, Some(0.35));
        disk(cluster.folder(), "n", table)?;
    }
    if wanted("o") {
        let address = format!("sqlite:{}", folder.path().join("keys.db").display());
        let on_sqlite = gateway(&address, upstream, folder.path())?.over(CONNECTIONS);
        let ratios = compare(plan, (&on_sqlite, KEYED), (&on_sqlite, UNKEYED)).await?;
        table.ratio("o", "gateway: POST keyed, on SQLite / unkeyed", &ratios, Some(0.35));
        disk(folder.path(), "o", table)?;
    }
    if wanted("p") {
        finish_replayed(&on_postgres, REPLAY.path).await?;
        let ratios = compare(plan, (&on_postgres, REPLAY), (&on_postgres, UNKEYED)).await?;
        table.ratio("p", "gateway: replay, on PostgreSQL / unkeyed", &ratios, Some(0.70));
    }
    if wanted("q") {
        against_nginx(plan, upstream, folder.path(), table).await?;
    }
    if wanted("r") {
        let database = cluster.create_database("crowded")?;
        let crowded = gateway(&database, upstream, folder.path())?.over(MANY);
        let length = plan.round.saturating_mul(2);
        crowded.round(&KEYED, length).await?;
        crowded.round(&UNKEYED, length).await?;
        let peak = peak_mib(crowded.process.id())?;
        let what = format!("gateway: peak memory, {MANY} connections, keyed and unkeyed in turn");
        let bar = format!("below {MEMORY_BAR:.0} MiB");
        table.add("r", &what, format!("{peak:.0} MiB"), bar);
    }
    Ok(())
}

/// A gateway on this database in front of this upstream, with its log in this folder.
fn gateway(database: &str, upstream: SocketAddr, folder: &Path) -> Result<Service, Failure> {
    let samekey = std::env::current_exe()?.with_file_name("samekey");
    let run = Program::at("/bin/sh").args(["-c", "log=$1; shift; exec \"$@\" 2>>\"$log\"", "sh"]);
    Service::of(
        run.arg(folder.join("gateway.log"))
            .arg(samekey)
            .args(["gateway", "--listen", "127.0.0.1:0", "--database", database, "--upstream"])
            .arg(format!("http://{upstream}")),
    )
}

/// How long a write of a page takes until it is on the disk that a database of this bench lies on.
fn disk(folder: &Path, letter: &'static str, table: &mut Table) -> Result<(), Failure> {
    let mut file = File::create(folder.join("disk"))?;
    let mut took = Vec::new();
    let began = Instant::now();
    while began.elapsed() < DISK_TIME {
        let one = Instant::now();
        file.write_all(&[7; PAGE_BYTES])?;
        file.sync_data()?;
        took.push(one.elapsed());
    }
    took.sort();
    let at = |share: f64| {
        let place = (took.len() as f64 * share) as usize;
        took.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    };
    let found = format!("{:.2} ms  ({:.2} to {:.2})", at(0.5), at(0.05), at(0.95));
    table.add(
        letter,
        "the disk meanwhile: 8 KiB and fdatasync (of 100, the 5th to the 95th)",
        found,
        String::new(),
    );
    Ok(())
}

/// Line q. nginx as it comes opens a connection for each request, as the gateway does for what may change
/// something; with `keepalive` it does not, and promises less about what a closed connection means.
async fn against_nginx(
    plan: Plan,
    upstream: SocketAddr,
    folder: &Path,
    table: &mut Table,
) -> Result<(), Failure> {
    let Some(program) = nginx() else {
        let what = "gateway: unkeyed / nginx before the same upstream";
        table.add("q", what, "no nginx found".to_owned(), String::new());
        return Ok(());
    };
    let database = format!("sqlite:{}", folder.join("unkeyed.db").display());
    let ours = gateway(&database, upstream, folder)?.over(CONNECTIONS);
    let as_it_comes = start_nginx(&program, &folder.join("plain"), upstream, "", "").await?;
    let ratios = compare(plan, (&ours, UNKEYED), (&as_it_comes, UNKEYED)).await;
    ended(as_it_comes)?;
    let ratios = ratios?;
    table.ratio("q", "gateway: unkeyed / nginx before the same upstream", &ratios, Some(0.60));
    let pool = format!("keepalive {CONNECTIONS}; keepalive_requests 1000000000;");
    let kept = "proxy_http_version 1.1; proxy_set_header Connection \"\";";
    let keeping = start_nginx(&program, &folder.join("keeping"), upstream, &pool, kept).await?;
    let ratios = compare(plan, (&ours, UNKEYED), (&keeping, UNKEYED)).await;
    ended(keeping)?;
    let ratios = ratios?;
    table.ratio("q", "the same / nginx that keeps its connections to the upstream", &ratios, None);
    Ok(())
}

/// Has nginx end its workers: killed, it would leave them behind.
fn ended(nginx: Service) -> Result<(), Failure> {
    nginx.process.terminate()?;
    nginx.process.wait(NGINX_PATIENCE)?;
    Ok(())
}

fn nginx() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Debian puts it where not everybody looks.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("nginx")).find(|program| program.is_file())
}

/// nginx with a file of its own, on loopback; it ends with its handle.
async fn start_nginx(
    program: &Path,
    folder: &Path,
    upstream: SocketAddr,
    pool: &str,
    kept: &str,
) -> Result<Service, Failure> {
    std::fs::create_dir_all(folder)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let path = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {path}/{name};\n"))
        .collect();
    // One worker a processor, as Debian's own file says.
    let settings = format!(
        "daemon off; worker_processes auto; pid {path}/pid; error_log {path}/error.log;
         events {{ worker_connections 4096; }}
         http {{
             access_log {path}/access.log;
             keepalive_requests 1000000000;
             {temporary}
             upstream echo {{ server {upstream}; {pool} }}
             server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://echo; {kept} }} }}
         }}"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, settings)?;
    let process = Program::at(program).arg("-p").arg(folder).arg("-c").arg(&file).start()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let until = Instant::now() + NGINX_PATIENCE;
    while tokio::net::TcpStream::connect(address).await.is_err() {
        if Instant::now() > until {
            return Err(format!("nginx does not listen: {}", process.stderr()).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let spenders = Spenders::family(process.id());
    Ok(Service::at(address, process, spenders).over(CONNECTIONS))
}
