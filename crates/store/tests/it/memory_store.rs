//! The conformance suite on the ledger in memory.

use crate::conformance::{Aging, Fresh, conformance};
use crate::outbox::outbox_conformance;
use samekey_core::time::Time;
use samekey_store::memory::{HandClock, MemoryLedger};
use std::sync::Arc;
use std::time::Duration;

impl Aging for HandClock {
    async fn age(&self, by: Duration) {
        self.advance(by);
    }

    fn tick(&self) {
        self.advance(Duration::from_micros(1));
    }
}

async fn start() -> Fresh<MemoryLedger, HandClock, ()> {
    let clock = HandClock::at(Time::from_micros(1_700_000_000_000_000));
    Fresh { ledger: Arc::new(MemoryLedger::with_clock(&clock)), aging: clock, keep: () }
}

conformance!(start);
outbox_conformance!(super::start);
