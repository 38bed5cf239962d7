//! The search: shelf by shelf, part by part, on all cores, with bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::entry::Entry;
use super::examine::{Spans, examine};
use super::partition::{PARTS, Shelf};
use super::suspect::{
    GROUP_ROWS_MAX, close_runs, crosses_references, first_place, groups, may_hold_several,
};
use super::{Cluster, Explained, Signature};
use crate::error::Error;
use crate::options::{Breadth, Options, nanos};
use crate::read::fetch::{Fetcher, Row};
use crate::read::layout::Layout;
use crate::read::problem::Place;
use crate::read::scan::{Shelves, id_hash};
use crate::read::source::Store;
use crate::value::time::Grain;
use crate::value::words::Stage;

/// Records looked at together: bounds memory however many are suspect.
const BATCH_ROWS: usize = 20_000;

/// Members of clusters that are kept to be shown; at some 200 bytes each a fifth of a gigabyte.
/// Clusters beyond are counted with their money and not listed.
pub(crate) const MEMBERS_KEPT_MAX: usize = 1_000_000;

/// Entries of keys that cross references, kept until the references are looked at.
const CROSSING_MAX: usize = 200_000;

/// What the search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) explained: Explained,
    /// A record of a reference that stands on too many.
    pub(crate) overloaded_example: Option<Place>,
    /// Clusters that were not kept.
    pub(crate) beyond: Beyond,
    members: usize,
    held: Vec<Vec<Entry>>,
}

/// Clusters that were counted and not kept.
#[derive(Debug, Default, Clone)]
pub(crate) struct Beyond {
    pub(crate) clusters: u64,
    pub(crate) payments: u64,
    /// By currency code, empty where none is known: surplus and stake in minor units.
    pub(crate) money: BTreeMap<String, (i64, i64)>,
    /// Keys over several references that were too many to compare.
    pub(crate) crossing_left: u64,
}

impl Found {
    fn keep(&mut self, clusters: Vec<Cluster>, limit: usize) {
        for cluster in clusters {
            if self.members + cluster.members.len() <= limit {
                self.members += cluster.members.len();
                self.clusters.push(cluster);
                continue;
            }
            self.beyond.clusters += 1;
            self.beyond.payments += cluster.payments().count() as u64;
            let money = cluster.money().unwrap_or_default();
            let code = cluster.currency.map(|currency| currency.as_str().to_owned());
            let sum = self.beyond.money.entry(code.unwrap_or_default()).or_default();
            sum.0 = sum.0.saturating_add(money.surplus_minor);
            sum.1 = sum.1.saturating_add(money.at_stake_minor);
        }
    }

    fn merge(&mut self, other: Self) {
        self.clusters.extend(other.clusters);
        self.explained.add(other.explained);
        self.overloaded_example =
            self.overloaded_example.into_iter().chain(other.overloaded_example).min();
        self.beyond.clusters += other.beyond.clusters;
        self.beyond.payments += other.beyond.payments;
        self.beyond.crossing_left += other.beyond.crossing_left;
        for (code, (surplus, stake)) in other.beyond.money {
            let sum = self.beyond.money.entry(code).or_default();
            *sum = (sum.0.saturating_add(surplus), sum.1.saturating_add(stake));
        }
        self.members += other.members;
        self.held.extend(other.held);
    }
}

/// What all parts of the search share.
pub(crate) struct Search<'a> {
    pub(crate) stores: &'a [Store],
    pub(crate) layouts: &'a [Layout],
    pub(crate) finest: &'a [Grain],
    pub(crate) options: &'a Options,
    pub(crate) threads: usize,
}

impl Search<'_> {
    /// Finds the clusters of all shelves.
    pub(crate) fn run(&self, shelves: &Shelves<'_>) -> Result<Found, Error> {
        let (crossing, crossing_left) = self.crossing(&shelves.key)?;
        let mut places: HashMap<u64, usize> = HashMap::new();
        for (number, group) in crossing.iter().enumerate() {
            places.extend(group.iter().map(|entry| (entry.place(), number)));
        }
        let mut found = self.shelf(&shelves.reference, Signature::Reference, &places)?;
        found.beyond.crossing_left = crossing_left;
        let signature = match self.options.breadth {
            Breadth::Strict => Signature::Payer,
            Breadth::Fuzzy => Signature::Fuzzy,
        };
        // Records that share a key are compared under it, not under their payer as well.
        found.merge(self.shelf(&shelves.payer, signature, &places)?);
        self.join_crossing(crossing, &mut found)?;
        give_back(&shelves.returns, &mut found)?;
        found.clusters.sort_by(|a, b| {
            let start = |cluster: &Cluster| cluster.members.first().map(|member| member.ns);
            (start(a), &a.label, a.signature).cmp(&(start(b), &b.label, b.signature))
        });
        Ok(found)
    }

    fn spans(&self) -> Spans {
        Spans { pause_ns: nanos(self.options.pause), window_ns: nanos(self.options.window) }
    }

    fn fetcher(&self) -> Result<Fetcher<'_>, Error> {
        Fetcher::new(self.stores, self.layouts, self.finest, self.options)
    }

    /// Groups of records with one key and several references.
    fn crossing(&self, shelf: &Shelf<'_>) -> Result<(Vec<Vec<Entry>>, u64), Error> {
        let (mut crossing, mut count, mut left) = (Vec::new(), 0, 0);
        for part in 0..PARTS {
            let mut entries = shelf.take(part)?;
            entries.sort_unstable();
            for group in groups(&entries).filter(|group| crosses_references(group)) {
                if group.len() > GROUP_ROWS_MAX || count + group.len() > CROSSING_MAX {
                    left += 1;
                } else {
                    count += group.len();
                    crossing.push(group.to_vec());
                }
            }
        }
        Ok((crossing, left))
    }

    fn shelf(
        &self,
        shelf: &Shelf<'_>,
        signature: Signature,
        crossing: &HashMap<u64, usize>,
    ) -> Result<Found, Error> {
        if shelf.is_empty() {
            return Ok(Found::default());
        }
        let next = AtomicUsize::new(0);
        let mut all = Found::default();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads)
                .map(|_| scope.spawn(|| self.parts(shelf, signature, crossing, &next)))
                .collect();
            for worker in workers {
                match worker.join() {
                    Ok(found) => all.merge(found?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(all)
        })
    }

    fn parts(
        &self,
        shelf: &Shelf<'_>,
        signature: Signature,
        crossing: &HashMap<u64, usize>,
        next: &AtomicUsize,
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut fetcher = self.fetcher()?;
        let finest: Vec<i64> = self.finest.iter().map(|grain| grain.ns()).collect();
        let window_ns = self.spans().window_ns;
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= PARTS {
                return Ok(found);
            }
            let mut entries = shelf.take(part)?;
            entries.sort_unstable();
            let mut batch: Vec<Vec<Entry>> = Vec::new();
            let mut rows = 0;
            for group in groups_and_singles(&entries, !crossing.is_empty()) {
                if group.len() > GROUP_ROWS_MAX && signature == Signature::Reference {
                    found.explained.overloaded_references += 1;
                    found.overloaded_example =
                        found.overloaded_example.into_iter().chain(first_place(group)).min();
                    continue;
                }
                let crosses = |entry: &Entry| crossing.contains_key(&entry.place());
                match signature {
                    Signature::Key | Signature::Reference => {
                        if !crossing.is_empty() && group.iter().any(crosses) {
                            found.held.push(group.to_vec());
                        } else if may_hold_several(group, &finest, &mut found.explained) {
                            batch.push(group.to_vec());
                        }
                    }
                    Signature::Payer | Signature::Fuzzy => {
                        let kept: Vec<Entry> =
                            group.iter().filter(|entry| !crosses(entry)).copied().collect();
                        let runs = close_runs(&kept, window_ns, &mut found.explained);
                        batch.extend(runs.into_iter().filter(|run| run.len() <= GROUP_ROWS_MAX));
                    }
                }
                rows += batch.last().map_or(0, Vec::len);
                if rows >= BATCH_ROWS {
                    self.batch(signature, std::mem::take(&mut batch), &mut fetcher, &mut found)?;
                    rows = 0;
                }
            }
            self.batch(signature, batch, &mut fetcher, &mut found)?;
        }
    }

    fn batch(
        &self,
        signature: Signature,
        batch: Vec<Vec<Entry>>,
        fetcher: &mut Fetcher<'_>,
        found: &mut Found,
    ) -> Result<(), Error> {
        let entries: Vec<Entry> = batch.iter().flatten().copied().collect();
        let mut rows = fetcher.rows(&entries)?.into_iter();
        for group in batch {
            let rows: Vec<Row> = rows.by_ref().take(group.len()).collect();
            let clusters = examine(signature, rows, self.spans(), &mut found.explained);
            found.keep(clusters, MEMBERS_KEPT_MAX / self.threads.max(1));
        }
        Ok(())
    }

    /// Records that share a key or, through it, a reference are one group.
    fn join_crossing(&self, crossing: Vec<Vec<Entry>>, found: &mut Found) -> Result<(), Error> {
        if crossing.is_empty() {
            return Ok(());
        }
        let mut fetcher = self.fetcher()?;
        let held = std::mem::take(&mut found.held);
        let mut union = Union::default();
        let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
        let mut owner: HashMap<(u64, Box<str>), u64> = HashMap::new();
        for group in crossing {
            for row in fetcher.rows(&group)? {
                // Keys with one hash and two texts are told apart here.
                let text = row.key.clone().unwrap_or_default();
                let hash = group.first().map_or(0, |entry| entry.hash);
                let first = *owner.entry((hash, text)).or_insert(row.mark);
                union.join(first, row.mark);
                rows.insert(row.mark, row);
            }
        }
        for group in held {
            for row in fetcher.rows(&group)? {
                let text = row.reference.proof().map(Box::from).unwrap_or_default();
                let hash = group.first().map_or(0, |entry| entry.hash);
                let first = *owner.entry((!hash, text)).or_insert(row.mark);
                union.join(first, row.mark);
                rows.insert(row.mark, row);
            }
        }
        let mut joined: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
        for (mark, row) in rows {
            joined.entry(union.root(mark)).or_default().push(row);
        }
        for (_, rows) in joined {
            let clusters = examine(Signature::Key, rows, self.spans(), &mut found.explained);
            found.keep(clusters, MEMBERS_KEPT_MAX);
        }
        Ok(())
    }
}

/// Groups of two and more; where keys cross references, a record alone under its reference may
/// still belong to one.
fn groups_and_singles(sorted: &[Entry], singles: bool) -> Box<dyn Iterator<Item = &[Entry]> + '_> {
    if singles {
        Box::new(sorted.chunk_by(|a, b| a.hash == b.hash))
    } else {
        Box::new(groups(sorted))
    }
}

/// Refunds and voids that name a payment and no reference reach it here.
fn give_back(shelf: &Shelf<'_>, found: &mut Found) -> Result<(), Error> {
    if shelf.is_empty() {
        return Ok(());
    }
    let mut by_id: HashMap<u64, (usize, usize)> = HashMap::new();
    for (at, cluster) in found.clusters.iter().enumerate() {
        for (member_at, member) in cluster.members.iter().enumerate() {
            if let (Some(id), false) = (&member.id, member.id_lossy) {
                by_id.insert(id_hash(id.as_bytes()), (at, member_at));
            }
        }
    }
    for part in 0..PARTS {
        for entry in shelf.take(part)? {
            let member = by_id.get(&entry.hash).and_then(|(at, member_at)| {
                found.clusters.get_mut(*at)?.members.get_mut(*member_at)
            });
            let Some(member) = member else { continue };
            let whole = member.amount.unwrap_or(0);
            let amount = if entry.stage() == Stage::Void { whole } else { entry.value };
            member.returned = member.returned.saturating_add(amount).min(whole);
        }
    }
    Ok(())
}

/// Which records belong together, by joining pairs.
#[derive(Debug, Default)]
struct Union {
    parent: HashMap<u64, u64>,
}

impl Union {
    fn root(&mut self, mut mark: u64) -> u64 {
        while let Some(parent) = self.parent.get(&mark).copied().filter(|parent| *parent != mark) {
            if let Some(above) = self.parent.get(&parent).copied() {
                self.parent.insert(mark, above);
            }
            mark = parent;
        }
        mark
    }

    fn join(&mut self, a: u64, b: u64) {
        let (a, b) = (self.root(a), self.root(b));
        let (low, high) = (a.min(b), a.max(b));
        self.parent.insert(high, low);
    }
}
