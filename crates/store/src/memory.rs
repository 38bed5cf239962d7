//! The ledger in memory: the oracle of the other two in tests, and what the examples run on.
//!
//! It keeps the port's promises but one: its records end with the process. A service that moves
//! money needs one of the databases.

use crate::error::StoreError;
use crate::row::{check_offer, check_swap};
use crate::{Arrived, LIST_PAGE_MAX, Ledger, OpenRecord, SWEEP_BATCH_MAX, Seen, Swap, SweepPass};
use samekey_core::key::Scope;
use samekey_core::policy::Policy;
use samekey_core::record::Record;
use samekey_core::step::{Input, Verdict, step};
use samekey_core::time::Time;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that stands still until somebody moves it, so that no test has to sleep. Clones are the
/// same clock.
#[derive(Clone, Debug)]
pub struct HandClock(Arc<AtomicI64>);

impl HandClock {
    /// A clock that shows this moment.
    pub fn at(now: Time) -> HandClock {
        HandClock(Arc::new(AtomicI64::new(now.micros())))
    }

    /// What it shows.
    pub fn now(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::SeqCst))
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        let next = self.now().plus(by);
        self.0.store(next.micros(), Ordering::SeqCst);
    }
}

/// The host's clock. It is what a store without a server of its own has to go by.
///
/// When it goes back, leases end later than they should and never earlier; when it jumps ahead,
/// a lease may end under an owner that still works, which its fence makes harmless: the row is
/// unknown then, and nobody runs it again.
pub(crate) fn host_now() -> Time {
    // Before 1970 there is nothing that this program could have written.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Time::EPOCH.plus(since_epoch)
}

#[derive(Debug)]
enum Clock {
    Host,
    Hand(HandClock),
}

/// A ledger whose records end with the process.
#[derive(Debug)]
pub struct MemoryLedger {
    rows: Mutex<BTreeMap<Scope, Record>>,
    clock: Clock,
}

impl Default for MemoryLedger {
    fn default() -> MemoryLedger {
        MemoryLedger::new()
    }
}

impl MemoryLedger {
    /// An empty ledger that goes by the host's clock.
    pub fn new() -> MemoryLedger {
        MemoryLedger { rows: Mutex::default(), clock: Clock::Host }
    }

    /// An empty ledger that goes by this clock.
    pub fn with_clock(clock: &HandClock) -> MemoryLedger {
        MemoryLedger { rows: Mutex::default(), clock: Clock::Hand(clock.clone()) }
    }

    fn now(&self) -> Time {
        match &self.clock {
            Clock::Host => host_now(),
            Clock::Hand(clock) => clock.now(),
        }
    }

    /// The rows, locked, and the clock read while they are. Every change of a row is one insert or
    /// remove, so that a panic in between leaves nothing half done.
    fn lock(&self) -> (MutexGuard<'_, BTreeMap<Scope, Record>>, Time) {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        (rows, now)
    }
}

impl Ledger for MemoryLedger {
    async fn insert_or_load(&self, scope: &Scope, offer: &Record) -> Result<Arrived, StoreError> {
        check_offer(offer)?;
        let (mut rows, now) = self.lock();
        if let Some(record) = rows.get(scope) {
            return Ok(Arrived::Found(Seen { record: record.clone(), now }));
        }
        let record = offer.clone().counted_from(now);
        rows.insert(scope.clone(), record.clone());
        Ok(Arrived::Inserted(Seen { record, now }))
    }

    async fn load(&self, scope: &Scope) -> Result<Seen, StoreError> {
        let (rows, now) = self.lock();
        Ok(Seen { record: rows.get(scope).cloned().unwrap_or(Record::ABSENT), now })
    }

    async fn swap(&self, scope: &Scope, seen: &Record, next: &Record) -> Result<Swap, StoreError> {
        check_swap(seen, next)?;
        let (mut rows, now) = self.lock();
        let Some(row) = rows.get_mut(scope) else {
            return Ok(Swap::Changed(Seen { record: Record::ABSENT, now }));
        };
        if row.hold() != seen.hold() || row.revision != seen.revision {
            return Ok(Swap::Changed(Seen { record: row.clone(), now }));
        }
        *row = next.clone();
        Ok(Swap::Written)
    }

    async fn sweep(&self, batch: u32) -> Result<SweepPass, StoreError> {
        let batch = usize::try_from(batch.clamp(1, SWEEP_BATCH_MAX)).unwrap_or(usize::MAX);
        let (mut rows, now) = self.lock();
        let policy = Policy::default();
        let mut over: Vec<(Time, Scope)> = rows
            .iter()
            .filter(|(_, record)| {
                matches!(step((*record).clone(), Input::Sweep, now, &policy).1, Verdict::Swept)
            })
            .map(|(scope, record)| (record.keep_until, scope.clone()))
            .collect();
        over.sort_unstable();
        over.truncate(batch);
        for (_, scope) in &over {
            rows.remove(scope);
        }
        Ok(SweepPass {
            removed: u64::try_from(over.len()).unwrap_or(u64::MAX),
            more: over.len() == batch,
        })
    }

    async fn list_open(
        &self,
        after: Option<&Scope>,
        limit: u32,
    ) -> Result<Vec<OpenRecord>, StoreError> {
        let limit = usize::try_from(limit.min(LIST_PAGE_MAX)).unwrap_or(usize::MAX);
        let (rows, now) = self.lock();
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(rows
            .range((start, Bound::Unbounded))
            .filter(|(_, record)| record.is_open())
            .take(limit)
            .map(|(scope, record)| OpenRecord {
                scope: scope.clone(),
                seen: Seen { record: record.clone(), now },
            })
            .collect())
    }
}
