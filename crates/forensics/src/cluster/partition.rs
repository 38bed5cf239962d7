//! Entries by their hash in 256 parts: in memory as long as they fit, in a temporary file beyond.
//! Later one part at a time is sorted, so memory is bounded whatever the input.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::entry::Entry;
use crate::error::Error;

/// A part of ten million records then is a megabyte and sorts in cache.
pub(crate) const PARTS: usize = 256;

/// Entries that a writer collects for a part before it hands them over.
const CHUNK_ENTRIES: usize = 512;

/// Bytes of entries in memory, shared by all shelves of a run.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    fn take(&self, bytes: usize) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used > self.limit {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Part {
    chunks: Vec<Vec<Entry>>,
    /// Offset and number of entries of each chunk in the file.
    spilled: Vec<(u64, usize)>,
}

/// All entries of one signature.
#[derive(Debug)]
pub(crate) struct Shelf<'b> {
    parts: Vec<Mutex<Part>>,
    budget: &'b Budget,
    spill: Mutex<Option<(File, u64)>>,
}

impl<'b> Shelf<'b> {
    pub(crate) fn new(budget: &'b Budget) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { parts, budget, spill: Mutex::new(None) }
    }

    fn put(&self, part: usize, chunk: Vec<Entry>) -> Result<(), Error> {
        let Some(slot) = self.parts.get(part) else { return Ok(()) };
        if self.budget.take(chunk.len() * Entry::BYTES) {
            slot.lock().unwrap_or_else(PoisonError::into_inner).chunks.push(chunk);
            return Ok(());
        }
        let broken = |cause| Error::machine("a temporary file cannot be written", &cause);
        let bytes: Vec<u8> = chunk.iter().flat_map(|entry| entry.to_bytes()).collect();
        let mut spill = self.spill.lock().unwrap_or_else(PoisonError::into_inner);
        if spill.is_none() {
            *spill = Some((tempfile::tempfile().map_err(broken)?, 0));
        }
        let Some((file, end)) = spill.as_mut() else { return Ok(()) };
        file.write_all(&bytes).map_err(broken)?;
        let offset = *end;
        *end += bytes.len() as u64;
        slot.lock().unwrap_or_else(PoisonError::into_inner).spilled.push((offset, chunk.len()));
        Ok(())
    }

    /// Takes one part out, unsorted.
    pub(crate) fn take(&self, part: usize) -> Result<Vec<Entry>, Error> {
        let Some(slot) = self.parts.get(part) else { return Ok(Vec::new()) };
        let part = std::mem::take(&mut *slot.lock().unwrap_or_else(PoisonError::into_inner));
        let spilled: usize = part.spilled.iter().map(|(_, count)| count).sum();
        let held: usize = part.chunks.iter().map(Vec::len).sum();
        let mut entries = Vec::with_capacity(held + spilled);
        for chunk in part.chunks {
            entries.extend_from_slice(&chunk);
        }
        self.budget.give_back(held * Entry::BYTES);
        if spilled > 0 {
            let broken = |cause| Error::machine("a temporary file cannot be read", &cause);
            let mut spill = self.spill.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((file, _)) = spill.as_mut() else { return Ok(entries) };
            for (offset, count) in part.spilled {
                let mut bytes = vec![0; count * Entry::BYTES];
                file.seek(SeekFrom::Start(offset)).map_err(broken)?;
                file.read_exact(&mut bytes).map_err(broken)?;
                entries.extend(bytes.chunks_exact(Entry::BYTES).map(Entry::from_bytes));
            }
        }
        Ok(entries)
    }

    /// Whether nothing was put on it, or all was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.chunks.is_empty() && part.spilled.is_empty()
        })
    }
}

/// One worker's pen: collects entries and hands them over in chunks.
#[derive(Debug)]
pub(crate) struct Pen<'s> {
    shelf: &'s Shelf<'s>,
    open: Vec<Vec<Entry>>,
}

impl<'s> Pen<'s> {
    pub(crate) fn new(shelf: &'s Shelf<'s>) -> Self {
        Self { shelf, open: vec![Vec::new(); PARTS] }
    }

    pub(crate) fn put(&mut self, entry: Entry) -> Result<(), Error> {
        let part = (entry.hash >> 56) as usize;
        let Some(open) = self.open.get_mut(part) else { return Ok(()) };
        open.push(entry);
        if open.len() == CHUNK_ENTRIES {
            let full = std::mem::replace(open, Vec::with_capacity(CHUNK_ENTRIES));
            self.shelf.put(part, full)?;
        }
        Ok(())
    }

    /// Hands over what is left.
    pub(crate) fn finish(self) -> Result<(), Error> {
        for (part, mut chunk) in self.open.into_iter().enumerate() {
            if !chunk.is_empty() {
                chunk.shrink_to_fit();
                self.shelf.put(part, chunk)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::words::{Effect, Stage};

    #[test]
    fn what_was_put_is_taken_whether_it_fitted_or_not() {
        for limit in [0, 40_000, usize::MAX] {
            let budget = Budget::new(limit);
            let shelf = Shelf::new(&budget);
            let mut pen = Pen::new(&shelf);
            for number in 0..5_000_u64 {
                let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let entry =
                    Entry::new(hash, 0, 0, number, number, 0, Stage::Charge, Effect::Moved, false);
                pen.put(entry).unwrap();
            }
            pen.finish().unwrap();
            let mut offsets: Vec<u64> = (0..PARTS)
                .flat_map(|part| shelf.take(part).unwrap())
                .map(|entry| entry.offset())
                .collect();
            offsets.sort_unstable();
            assert_eq!(offsets, (0..5_000).collect::<Vec<_>>());
            assert!(shelf.is_empty());
        }
    }
}
