//! The first pass: every record once, on all cores, into packed entries.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::block::{Block, Blocks};
use super::layout::Layout;
use super::problem::{Place, ProblemKind, Problems};
use super::row::{Fact, RowReader};
use super::split::Splitter;
use crate::cluster::entry::Entry;
use crate::cluster::partition::{Budget, Pen, Shelf};
use crate::error::Error;
use crate::options::{Breadth, Options};
use crate::value::id::Id;
use crate::value::time::{Clock, Grain};
use crate::value::words::{Effect, Stage};

/// What two records may share; each has its own shelf of entries.
#[derive(Debug)]
pub(crate) struct Shelves<'b> {
    pub(crate) reference: Shelf<'b>,
    pub(crate) key: Shelf<'b>,
    pub(crate) payer: Shelf<'b>,
    /// Refunds and voids that name the payment they undo and no reference.
    pub(crate) returns: Shelf<'b>,
}

impl<'b> Shelves<'b> {
    pub(crate) fn new(budget: &'b Budget) -> Self {
        let shelf = || Shelf::new(budget);
        Self { reference: shelf(), key: shelf(), payer: shelf(), returns: shelf() }
    }
}

/// Counts of one file.
#[derive(Debug, Clone)]
pub(crate) struct FileCount {
    pub(crate) rows: u64,
    /// The finest time step that any record of the file shows.
    pub(crate) finest: Grain,
}

impl Default for FileCount {
    fn default() -> Self {
        Self { rows: 0, finest: Grain::Day }
    }
}

/// What the first pass learned beside the entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scanned {
    pub(crate) files: Vec<FileCount>,
    pub(crate) problems: Problems,
    /// Records that moved no money: failed, open, of nothing.
    pub(crate) without_effect: u64,
    pub(crate) first_ns: Option<i64>,
    pub(crate) last_ns: Option<i64>,
}

impl Scanned {
    pub(crate) fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    fn merge(&mut self, other: Self) {
        if self.files.len() < other.files.len() {
            self.files.resize_with(other.files.len(), FileCount::default);
        }
        for (mine, theirs) in self.files.iter_mut().zip(other.files) {
            mine.rows += theirs.rows;
            mine.finest = mine.finest.min(theirs.finest);
        }
        self.problems.merge(other.problems);
        self.without_effect += other.without_effect;
        self.first_ns = self.first_ns.into_iter().chain(other.first_ns).min();
        self.last_ns = self.last_ns.into_iter().chain(other.last_ns).max();
    }
}

/// Blocks in flight for each worker: enough that none waits, little against memory.
const BLOCKS_AHEAD: usize = 2;

/// Reads all files. `progress` is told the bytes read so far.
pub(crate) fn scan(
    files: Vec<Blocks>,
    layouts: &[Layout],
    options: &Options,
    shelves: &Shelves<'_>,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Scanned, Error> {
    let (sender, receiver) = sync_channel(threads * BLOCKS_AHEAD);
    let receiver = Mutex::new(receiver);
    let stopped = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let worked = Worker::new(layouts, options, shelves).work(&receiver, &done);
                    if worked.is_err() {
                        stopped.store(true, Ordering::Relaxed);
                    }
                    worked
                })
            })
            .collect();
        let fed = feed(files, sender, &stopped, &done, progress);
        let mut all = Scanned::default();
        let mut failed = None;
        for worker in workers {
            match worker.join() {
                Ok(Ok(scanned)) => all.merge(scanned),
                Ok(Err(error)) => failed = Some(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        fed?;
        failed.map_or(Ok(all), Err)
    })
}

fn feed(
    files: Vec<Blocks>,
    sender: SyncSender<Block>,
    stopped: &AtomicBool,
    done: &AtomicU64,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    for mut blocks in files {
        while let Some(block) = blocks.next()? {
            // A worker that failed has said why; feeding on would only wait on a full channel.
            if stopped.load(Ordering::Relaxed) || sender.send(block).is_err() {
                return Ok(());
            }
            progress(done.load(Ordering::Relaxed));
        }
    }
    drop(sender);
    Ok(())
}

struct Worker<'a> {
    readers: Vec<RowReader<'a>>,
    layouts: &'a [Layout],
    breadth: Breadth,
    reference: Pen<'a>,
    key: Pen<'a>,
    payer: Pen<'a>,
    returns: Pen<'a>,
    scanned: Scanned,
}

/// Seeds keep hashes of different kinds apart.
mod seed {
    pub(super) const REFERENCE: u64 = 1;
    pub(super) const KEY: u64 = 2;
    pub(super) const PAYER: u64 = 3;
    pub(super) const ID: u64 = 4;
}

/// The hash under which returns look for the payment with this id.
pub(crate) fn id_hash(id: &[u8]) -> u64 {
    xxh3_64_with_seed(id, seed::ID)
}

impl<'a> Worker<'a> {
    fn new(layouts: &'a [Layout], options: &'a Options, shelves: &'a Shelves<'a>) -> Self {
        Self {
            readers: layouts.iter().map(|layout| RowReader::new(layout, options)).collect(),
            layouts,
            breadth: options.breadth,
            reference: Pen::new(&shelves.reference),
            key: Pen::new(&shelves.key),
            payer: Pen::new(&shelves.payer),
            returns: Pen::new(&shelves.returns),
            scanned: Scanned {
                files: vec![FileCount::default(); layouts.len()],
                ..Scanned::default()
            },
        }
    }

    fn work(mut self, blocks: &Mutex<Receiver<Block>>, done: &AtomicU64) -> Result<Scanned, Error> {
        loop {
            let block = blocks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(block) = block else { break };
            self.block(&block)?;
            done.fetch_add(block.bytes.len() as u64, Ordering::Relaxed);
        }
        self.reference.finish()?;
        self.key.finish()?;
        self.payer.finish()?;
        self.returns.finish()?;
        Ok(self.scanned)
    }

    fn block(&mut self, block: &Block) -> Result<(), Error> {
        let number = block.file as usize;
        let (Some(layout), Some(reader), Some(count)) = (
            self.layouts.get(number),
            self.readers.get_mut(number),
            self.scanned.files.get_mut(number),
        ) else {
            return Ok(());
        };
        let mut splitter = Splitter::new(layout.shape);
        let (mut at, mut line) = (0, block.line);
        while let Some((record, extent)) = splitter.next(&block.bytes, at) {
            let place = Place { file: block.file, line };
            let offset = block.offset + at as u64;
            at = extent.next;
            line += u64::from(extent.lines);
            if record.len() == 1 && record.get(0).is_none_or(|field| field.trim_ascii().is_empty())
            {
                continue;
            }
            count.rows += 1;
            let fact = match reader.read(record) {
                Ok(fact) => fact,
                Err(left_out) => {
                    self.scanned.problems.add(left_out.kind, place, &left_out.found);
                    continue;
                }
            };
            count.finest = count.finest.min(grain_shown(&fact));
            for (kind, found) in fact.doubts.iter() {
                self.scanned.problems.add(kind, place, found);
            }
            let ns = fact.moment.ns;
            self.scanned.first_ns = Some(self.scanned.first_ns.map_or(ns, |first| first.min(ns)));
            self.scanned.last_ns = Some(self.scanned.last_ns.map_or(ns, |last| last.max(ns)));
            if !matches!(fact.effect, Effect::Moved | Effect::Returned) {
                self.scanned.without_effect += 1;
            }
            let filed = file_entries(
                &fact,
                place,
                offset,
                self.breadth,
                [&mut self.reference, &mut self.key, &mut self.payer, &mut self.returns],
            )?;
            if !filed {
                self.scanned.problems.add(
                    ProblemKind::NothingToCompare,
                    place,
                    fact.id.shown().unwrap_or_default(),
                );
            }
        }
        Ok(())
    }
}

/// A whole number of seconds may be a full second by chance; the file shows its grain only where
/// a record is finer.
fn grain_shown(fact: &Fact<'_>) -> Grain {
    fact.moment.grain.max(Grain::of_value(fact.moment.ns))
}

/// Writes the entries of one record; false if there is nothing to compare it by.
fn file_entries(
    fact: &Fact<'_>,
    place: Place,
    offset: u64,
    breadth: Breadth,
    [reference, key, payer, returns]: [&mut Pen<'_>; 4],
) -> Result<bool, Error> {
    let tag = fact.id.proof().map_or(0, |id| (id_hash(id) as u32).max(1));
    let entry = |hash: u64, value: i64| {
        let repeated = fact.moment.clock == Clock::Repeated;
        Entry::new(
            hash,
            value,
            place.file,
            offset,
            place.line,
            tag,
            fact.stage,
            fact.effect,
            repeated,
        )
    };
    let mut filed = false;
    let mut reference_hash = 0;
    if let Some(text) = fact.reference.proof() {
        reference_hash = xxh3_64_with_seed(text, seed::REFERENCE);
        reference.put(entry(reference_hash, fact.moment.ns))?;
        filed = true;
    }
    if let Some(text) = fact.key.proof() {
        key.put(entry(xxh3_64_with_seed(text, seed::KEY), reference_hash as i64))?;
        filed = true;
    }
    let has_reference = fact.reference.proof().is_some();
    if (!has_reference || breadth == Breadth::Fuzzy)
        && let (Some(amount), false) = (fact.amount, fact.payer.is_empty())
    {
        payer.put(entry(payer_hash(fact, amount, breadth), fact.moment.ns))?;
        filed = true;
    }
    if !has_reference && let Id::Whole(parent) = fact.parent {
        if matches!(fact.stage, Stage::Refund | Stage::Void) && fact.effect == Effect::Moved {
            returns.put(entry(id_hash(parent), fact.amount.unwrap_or(i64::MAX)))?;
        }
        filed = true;
    }
    Ok(filed)
}

fn payer_hash(fact: &Fact<'_>, amount: i64, breadth: Breadth) -> u64 {
    let currency = fact.currency.map_or(0, |currency| {
        currency.as_str().bytes().fold(0_u64, |all, byte| all << 8 | u64::from(byte))
    });
    let seed = seed::PAYER ^ (amount as u64).rotate_left(20) ^ currency.rotate_left(40);
    match breadth {
        Breadth::Strict => xxh3_64_with_seed(fact.payee, xxh3_64_with_seed(fact.payer, seed)),
        // Names are typed by people: case is no difference there.
        Breadth::Fuzzy => xxh3_64_with_seed(&fact.payer.to_ascii_lowercase(), seed),
    }
}
