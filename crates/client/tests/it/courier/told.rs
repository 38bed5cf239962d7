//! Couriers that are told the same moment to wait, on a real socket.

use super::world::limits;
use crate::support::{PATIENCE, counterparty, lab};
use samekey_client::core::key::Org;
use samekey_client::core::profile::Limits;
use samekey_client::store::memory::MemoryLedger;
use samekey_client::{Courier, Destination, HttpRequest, NewCommand, Setup};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const COURIERS: usize = 40;
/// Commands of each. There is always one that was not told anything: as its first attempt it is due at once.
const COMMANDS: usize = 3;
const RETRY_AFTER_MS: i64 = 1_000;
/// A fifth of what was asked, and half a second at the least, is by chance. Of that so much is to be seen.
const SPREAD_MS: i64 = 250;

fn charge(courier: usize, number: usize) -> NewCommand {
    let order = format!("ORD-{courier}-{number}");
    let body = format!(r#"{{"order_id":"{order}","amount":1200,"currency":"EUR"}}"#);
    NewCommand {
        org: Org::new("shop").unwrap(),
        destination: "psp".to_owned(),
        operation: "charge".to_owned(),
        business_ref: order,
        order_key: None,
        request: HttpRequest::post("/payments").json(body).encode().unwrap(),
        delay: Duration::ZERO,
    }
}

/// Forty processes with work to do are turned away together. None of them sends anything before `Retry-After`,
/// not even what was never sent, and they do not all come back at one moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p67_b22_couriers_that_are_told_to_wait_come_back_later_and_spread() {
    let plan = format!(
        r#"{{"rules":[{{"when":{{"to":{COURIERS}}},"process":"never","answer":{{"status":429,"retry_after":"1"}}}}]}}"#
    );
    let lab = lab(&plan).await;
    let limits = Limits {
        attempt_time_max: Duration::from_secs(5),
        lease: Duration::from_secs(6),
        time_max: Duration::from_secs(60),
        ..limits()
    };
    let mut running = Vec::new();
    for number in 0..COURIERS {
        let psp = counterparty(&lab.url(""), "allow_networks = [\"127.0.0.0/8\"]");
        let psp = Destination::with_limits("psp", psp, limits).unwrap().concurrency(1).unwrap();
        let setup = Setup::new("test").unwrap().destination(psp);
        let courier = Courier::open(Arc::new(MemoryLedger::new()), setup).await.unwrap();
        for one in 0..COMMANDS {
            courier.enqueue(charge(number, one)).await.unwrap();
        }
        running.push(courier);
    }
    let running: Vec<_> = running.iter().map(Courier::spawn).collect();
    let all = u64::try_from(COURIERS * COMMANDS).unwrap();
    assert!(lab.until(PATIENCE, |lab| lab.counts().payments == all).await, "{:?}", lab.counts());
    let mut arrivals: BTreeMap<String, Vec<(i64, Option<u16>)>> = BTreeMap::new();
    for seen in lab.requests().unwrap() {
        let order = seen.arrived.order_id.unwrap();
        let courier = order.rsplit_once('-').unwrap().0.to_owned();
        arrivals.entry(courier).or_default().push((seen.arrived.at_ms, seen.status));
    }
    let mut gaps = Vec::new();
    for (courier, at) in &arrivals {
        // Each was told once, by its first request, whichever of its commands came then.
        assert_eq!(at[0].1, Some(429), "{courier}: {at:?}");
        gaps.push(at[1].0 - at[0].0);
    }
    assert_eq!(gaps.len(), COURIERS);
    let (least, most) = (*gaps.iter().min().unwrap(), *gaps.iter().max().unwrap());
    // Both moments are cut to whole milliseconds.
    assert!(least >= RETRY_AFTER_MS - 1, "{gaps:?}");
    assert!(most - least >= SPREAD_MS, "they come back together: {gaps:?}");
    for one in running {
        assert!(one.drain(PATIENCE).await);
    }
}
