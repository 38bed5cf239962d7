//! The payments API of the lab as a process of its own, that can be killed and stopped and forgets nothing.

use super::Counterparty;
use samekey_sim::history::Booking;
use samekey_sim::{Process, Program};
use std::net::SocketAddr;
use tokio::task::block_in_place;

/// Every payment is recorded at once and answered a little later, so that something is on its way when a
/// process dies; every ninth answer is lost.
const RULES: &str =
    r#""rules": [{"when": {"every": 9}, "wire": "close"}, {"answer": {"late_ms": 150}}]"#;

pub struct Upstream {
    pub process: Option<Process>,
    pub address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Upstream {
    /// Deduplicates where the gateways are told so; else whatever is sent twice is paid twice.
    pub fn new(counterparty: Counterparty) -> Upstream {
        let folder = tempfile::tempdir().unwrap();
        let dedup = counterparty == Counterparty::Dedups;
        let plan = format!(r#"{{"keys": {{"dedup": {dedup}}}, {RULES}}}"#);
        std::fs::write(folder.path().join("plan.json"), plan).unwrap();
        let mut process = start(folder.path(), "127.0.0.1:0");
        let address = block_in_place(|| process.address()).unwrap();
        Upstream { process: Some(process), address, folder }
    }

    /// SIGKILL, and a new process at the same address.
    pub fn kill_and_restart(&mut self) {
        let process = self.process.take().unwrap();
        block_in_place(|| process.kill()).unwrap();
        let mut process = start(self.folder.path(), &self.address.to_string());
        assert_eq!(block_in_place(|| process.address()).unwrap(), self.address);
        self.process = Some(process);
    }

    /// What it has recorded, with the organisation that an order's name begins with.
    pub async fn bookings(&self) -> Vec<Booking> {
        let answer = crate::client::Ask::new("GET", "/payments").send(self.address).await;
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&answer.body).unwrap();
        let bookings = rows.iter().map(|row| {
            let reference = row["order_id"].as_str().unwrap().to_owned();
            let amount = row["amount"].to_string();
            Booking {
                org: reference.split('-').next().unwrap().to_owned(),
                amount: amount.trim_matches('"').parse().unwrap(),
                reference,
            }
        });
        bookings.collect()
    }
}

fn start(folder: &std::path::Path, listen: &str) -> Process {
    let program = Program::built("samekey")
        .unwrap()
        .args(["lab", "api", "--listen", listen, "--faults"])
        .arg(folder.join("plan.json"))
        .arg("--ledger")
        .arg(folder.join("ledger"));
    block_in_place(|| program.start()).unwrap()
}
