//! Line m: what the service needs at the most while many large bodies arrive at once.

use crate::forms::Service;
use crate::load::{self, Failure};
use crate::table::Table;
use samekey_sim::{Cluster, Options};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The largest body of the default policy, less what the JSON around it needs.
const BODY_BYTES: usize = (1 << 20) - 64;
/// The bar, in MiB.
const BAR: f64 = 80.0;
/// How long the bodies keep coming.
const LENGTH: Duration = Duration::from_secs(10);

/// Sends bodies of almost 1 MiB over 64 connections and reads the service's high-water mark.
pub async fn large_bodies(table: &mut Table) -> Result<(), Failure> {
    let cluster = Cluster::start(Options::default())?;
    let url = cluster.create_database("memory")?;
    let service = Service::start(&url)?;
    let filling = "x".repeat(BODY_BYTES);
    let body = format!(r#"{{"amount": 1200, "note": "{filling}"}}"#);
    let run = std::process::id();
    let compose: load::Compose = Arc::new(move |number| {
        format!(
            "POST /keyed HTTP/1.1\r\nhost: bench\r\nidempotency-key: {run:08x}-large-{number:017x}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    });
    let numbers = Arc::new(AtomicU64::new(0));
    let round = load::run(service.address(), compose, numbers, 201, LENGTH).await?;
    let peak = peak_mib(service.process.id())?;
    table.add(
        "m",
        &format!("peak memory, 64 connections, {} bodies of 1 MiB", round.answered),
        format!("{peak:.0} MiB"),
        format!("below {BAR:.0} MiB"),
    );
    Ok(())
}

/// The high-water mark of a process's resident memory.
pub fn peak_mib(id: u32) -> Result<f64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse().ok())
        .ok_or("this system does not tell a process's peak memory")?;
    Ok(kib / 1024.0)
}
