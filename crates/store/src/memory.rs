//! The ledger and the outbox in memory: the oracle of the other two in tests, and what the examples run on.
//!
//! It keeps the ports' promises but one: what it holds ends with the process. A service that moves
//! money needs one of the databases.

mod outbox;

use crate::error::StoreError;
use crate::row::{check_offer, check_stays, check_swap, due_at, state_name};
use crate::{
    Arrived, Decided, Intent, LIST_PAGE_MAX, Ledger, OpenCount, OpenRecord, SWEEP_BATCH_MAX, Seen,
    Swap, SweepPass,
};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::policy::Policy;
use samekey_core::record::{Record, State};
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

/// A ledger whose records end with the process. It is an [`Outbox`](crate::outbox::Outbox) too.
#[derive(Debug)]
pub struct MemoryLedger {
    tables: Mutex<Tables>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Tables {
    keys: BTreeMap<Scope, Record>,
    /// Of the open records among them.
    intents: BTreeMap<Scope, Intent>,
    decisions: BTreeMap<Scope, Vec<Decided>>,
    shared: BTreeMap<String, Vec<u8>>,
    outbox: outbox::Tables,
}

impl Tables {
    fn swap(&mut self, scope: &Scope, seen: &Record, next: &Record, now: Time) -> Swap {
        let Some(row) = self.keys.get_mut(scope) else {
            return Swap::Changed(Seen { record: Record::ABSENT, now });
        };
        if row.hold() != seen.hold() || row.revision != seen.revision {
            return Swap::Changed(Seen { record: row.clone(), now });
        }
        *row = next.clone();
        if !next.is_open() {
            self.intents.remove(scope);
        }
        Swap::Written
    }

    fn remove(&mut self, over: &[(Time, Scope)]) {
        for (_, scope) in over {
            self.keys.remove(scope);
        }
    }
}

impl Default for MemoryLedger {
    fn default() -> MemoryLedger {
        MemoryLedger::new()
    }
}

impl MemoryLedger {
    /// An empty ledger that goes by the host's clock.
    pub fn new() -> MemoryLedger {
        MemoryLedger { tables: Mutex::default(), clock: Clock::Host }
    }

    /// An empty ledger that goes by this clock.
    pub fn with_clock(clock: &HandClock) -> MemoryLedger {
        MemoryLedger { tables: Mutex::default(), clock: Clock::Hand(clock.clone()) }
    }

    fn now(&self) -> Time {
        match &self.clock {
            Clock::Host => host_now(),
            Clock::Hand(clock) => clock.now(),
        }
    }

    /// The tables, locked, and the clock read while they are. Nothing in between can panic, so that
    /// nothing is left half done.
    fn lock(&self) -> (MutexGuard<'_, Tables>, Time) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        (tables, now)
    }
}

impl Ledger for MemoryLedger {
    async fn insert_or_load(
        &self,
        scope: &Scope,
        offer: &Record,
        intent: &Intent,
    ) -> Result<Arrived, StoreError> {
        check_offer(offer)?;
        let (mut tables, now) = self.lock();
        if let Some(record) = tables.keys.get(scope) {
            return Ok(Arrived::Found(Seen { record: record.clone(), now }));
        }
        let record = offer.clone().counted_from(now);
        tables.keys.insert(scope.clone(), record.clone());
        if record.is_open() {
            tables.intents.insert(scope.clone(), intent.clone());
        }
        Ok(Arrived::Inserted(Seen { record, now }))
    }

    async fn load(&self, scope: &Scope) -> Result<Seen, StoreError> {
        let (tables, now) = self.lock();
        Ok(Seen { record: tables.keys.get(scope).cloned().unwrap_or(Record::ABSENT), now })
    }

    async fn reclaim(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        intent: &Intent,
    ) -> Result<Swap, StoreError> {
        check_swap(seen, next)?;
        let (mut tables, now) = self.lock();
        let swap = tables.swap(scope, seen, next, now);
        if swap == Swap::Written && next.is_open() {
            tables.intents.insert(scope.clone(), intent.clone());
        }
        Ok(swap)
    }

    async fn swap(&self, scope: &Scope, seen: &Record, next: &Record) -> Result<Swap, StoreError> {
        check_stays(seen, next)?;
        let (mut tables, now) = self.lock();
        Ok(tables.swap(scope, seen, next, now))
    }

    async fn decide(
        &self,
        scope: &Scope,
        seen: &Record,
        next: &Record,
        decided: &Decided,
    ) -> Result<Swap, StoreError> {
        check_stays(seen, next)?;
        let (mut tables, now) = self.lock();
        let swap = tables.swap(scope, seen, next, now);
        if swap == Swap::Written {
            let account = Decided { at: now, ..decided.clone() };
            tables.decisions.entry(scope.clone()).or_default().push(account);
        }
        Ok(swap)
    }

    async fn decisions(&self, scope: &Scope) -> Result<Vec<Decided>, StoreError> {
        let (tables, _) = self.lock();
        let all = tables.decisions.get(scope).map(Vec::as_slice).unwrap_or_default();
        Ok(all.iter().take(page(LIST_PAGE_MAX)).cloned().collect())
    }

    async fn intent(&self, scope: &Scope) -> Result<Option<Intent>, StoreError> {
        Ok(self.lock().0.intents.get(scope).cloned())
    }

    async fn orgs_with_open(
        &self,
        route: &str,
        after: Option<&Org>,
        limit: u32,
    ) -> Result<Vec<Org>, StoreError> {
        let (tables, _) = self.lock();
        let mut orgs: Vec<Org> = tables
            .intents
            .iter()
            .filter(|(scope, intent)| {
                intent.route == route && after.is_none_or(|after| scope.org > *after)
            })
            .map(|(scope, _)| scope.org.clone())
            .collect();
        orgs.dedup();
        orgs.truncate(page(limit.min(LIST_PAGE_MAX)));
        Ok(orgs)
    }

    async fn due(&self, route: &str, org: &Org, limit: u32) -> Result<Vec<Key>, StoreError> {
        let (tables, now) = self.lock();
        let mut due: Vec<(Time, &Key)> = tables
            .intents
            .iter()
            .filter(|(scope, intent)| scope.org == *org && intent.route == route)
            .filter_map(|(scope, _)| Some((due_at(tables.keys.get(scope)?)?, &scope.key)))
            .filter(|(at, _)| *at <= now)
            .collect();
        due.sort_unstable();
        Ok(due
            .into_iter()
            .take(page(limit.min(LIST_PAGE_MAX)))
            .map(|(_, key)| key.clone())
            .collect())
    }

    async fn count_open(&self) -> Result<Vec<OpenCount>, StoreError> {
        let (tables, _) = self.lock();
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (scope, intent) in &tables.intents {
            let Some(record) = tables.keys.get(scope) else { continue };
            *counts.entry((&intent.route, state_name(&record.state))).or_default() += 1;
        }
        Ok(counts
            .into_iter()
            .map(|((route, state), count)| OpenCount {
                route: route.to_owned(),
                state: state.to_owned(),
                count,
            })
            .collect())
    }

    async fn shared(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().0.shared.get(name).cloned())
    }

    async fn share_once(&self, name: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (mut tables, _) = self.lock();
        Ok(tables.shared.entry(name.to_owned()).or_insert_with(|| bytes.to_vec()).clone())
    }

    async fn share(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.lock().0.shared.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    async fn drop_free(&self, batch: u32) -> Result<SweepPass, StoreError> {
        let batch = page(batch.clamp(1, SWEEP_BATCH_MAX));
        let (mut tables, _) = self.lock();
        let free: Vec<(Time, Scope)> = tables
            .keys
            .iter()
            .filter(|(_, record)| matches!(record.state, State::Free))
            .take(batch)
            .map(|(scope, record)| (record.keep_until, scope.clone()))
            .collect();
        tables.remove(&free);
        Ok(SweepPass { removed: count(free.len()), more: free.len() == batch })
    }

    async fn sweep(&self, batch: u32) -> Result<SweepPass, StoreError> {
        let batch = page(batch.clamp(1, SWEEP_BATCH_MAX));
        let (mut tables, now) = self.lock();
        let policy = Policy::default();
        let mut over: Vec<(Time, Scope)> = tables
            .keys
            .iter()
            .filter(|(_, record)| {
                matches!(step((*record).clone(), Input::Sweep, now, &policy).1, Verdict::Swept)
            })
            .map(|(scope, record)| (record.keep_until, scope.clone()))
            .collect();
        over.sort_unstable();
        over.truncate(batch);
        tables.remove(&over);
        Ok(SweepPass { removed: count(over.len()), more: over.len() == batch })
    }

    async fn list_open(
        &self,
        after: Option<&Scope>,
        limit: u32,
    ) -> Result<Vec<OpenRecord>, StoreError> {
        let (tables, now) = self.lock();
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(tables
            .keys
            .range((start, Bound::Unbounded))
            .filter(|(_, record)| record.is_open())
            .take(page(limit.min(LIST_PAGE_MAX)))
            .map(|(scope, record)| OpenRecord {
                scope: scope.clone(),
                route: tables.intents.get(scope).map(|it| it.route.clone()).unwrap_or_default(),
                seen: Seen { record: record.clone(), now },
            })
            .collect())
    }
}

fn page(limit: u32) -> usize {
    usize::try_from(limit.min(SWEEP_BATCH_MAX)).unwrap_or(usize::MAX)
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}
