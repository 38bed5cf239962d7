//! Where entries are kept: the port, and the keeper in memory. The keeper in a file is in `file.rs`.

use super::entry::{Effect, Entry};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::io;

/// Entries that the keeper in memory holds at most: a million payments with their requests, about a gigabyte.
/// Who needs more gives a ledger file.
const MEMORY_ENTRIES_MAX: usize = 3_000_000;

/// What an entry can be found by, as a hash. Whoever looks up compares the text again: a hash is no proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u64);

impl Tag {
    /// By idempotency key.
    pub fn key(key: &str) -> Self {
        Self::of(b'k', key)
    }

    /// By order id.
    pub fn order(order: &str) -> Self {
        Self::of(b'o', order)
    }

    /// By payment number.
    pub fn payment(number: u64) -> Self {
        Self::of(b'p', &number.to_string())
    }

    fn of(kind: u8, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        text.hash(&mut hasher);
        // Zero marks an empty slot of the table on disk.
        Self(hasher.finish().max(1))
    }
}

/// A tag is a hash already; hashing it again would only cost time.
#[derive(Debug, Default)]
pub struct TagIsHash(u64);

impl Hasher for TagIsHash {
    fn write(&mut self, bytes: &[u8]) {
        // Tags write one u64; this is for completeness.
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A keeper of entries. Positions are its own numbering; they only grow.
pub trait Records: Send {
    /// The position that the next appended entry will have.
    fn next_position(&self) -> u64;
    /// Adds an entry; it is kept for good from the next `flush` on.
    fn append(&mut self, entry: Entry) -> io::Result<()>;
    /// Makes everything appended survive the end of this process, however it ends.
    fn flush(&mut self) -> io::Result<()>;
    /// The effect at a position that an index gave.
    fn effect_at(&self, position: u64) -> io::Result<Option<Effect>>;
    /// The position that was last put under a tag.
    fn latest(&self, tag: Tag) -> io::Result<Option<u64>>;
    /// Puts a position under a tag; returns the one before.
    fn replace(&mut self, tag: Tag, position: u64) -> io::Result<Option<u64>>;
    /// The position that was last put under a payment's number.
    fn latest_of_payment(&self, number: u64) -> io::Result<Option<u64>>;
    /// Puts a position under a payment's number; returns the one before.
    fn replace_of_payment(&mut self, number: u64, position: u64) -> io::Result<Option<u64>>;
    /// Forgets all tags and numbers (not the entries).
    fn forget(&mut self) -> io::Result<()>;
    /// Up to `max` entries from a position on, and the position after them.
    fn batch(&self, from: u64, max: usize) -> io::Result<(Vec<Entry>, u64)>;
}

/// Keeps everything in memory, for tests and for the exercise.
#[derive(Debug, Default)]
pub struct Memory {
    entries: Vec<Entry>,
    index: HashMap<Tag, u64, BuildHasherDefault<TagIsHash>>,
    /// By number, because numbers come in order: a position plus one, or 0.
    payments: Vec<u64>,
}

impl Records for Memory {
    fn next_position(&self) -> u64 {
        self.entries.len() as u64
    }

    fn append(&mut self, entry: Entry) -> io::Result<()> {
        if self.entries.len() >= MEMORY_ENTRIES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "{MEMORY_ENTRIES_MAX} entries are kept in memory; give a ledger file for more"
                ),
            ));
        }
        self.entries.push(entry);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn effect_at(&self, position: u64) -> io::Result<Option<Effect>> {
        let entry = usize::try_from(position).ok().and_then(|at| self.entries.get(at));
        Ok(entry.and_then(effect_of).cloned())
    }

    fn latest(&self, tag: Tag) -> io::Result<Option<u64>> {
        Ok(self.index.get(&tag).copied())
    }

    fn replace(&mut self, tag: Tag, position: u64) -> io::Result<Option<u64>> {
        Ok(self.index.insert(tag, position))
    }

    fn latest_of_payment(&self, number: u64) -> io::Result<Option<u64>> {
        let found = usize::try_from(number).ok().and_then(|at| self.payments.get(at));
        Ok(found.and_then(|position| position.checked_sub(1)))
    }

    fn replace_of_payment(&mut self, number: u64, position: u64) -> io::Result<Option<u64>> {
        let at = usize::try_from(number).map_err(io::Error::other)?;
        if at >= self.payments.len() {
            self.payments.resize(at + 1, 0);
        }
        let place = self.payments.get_mut(at).ok_or_else(|| io::Error::other("no such payment"))?;
        Ok(std::mem::replace(place, position + 1).checked_sub(1))
    }

    fn forget(&mut self) -> io::Result<()> {
        self.payments.clear();
        // Nothing before a reset is ever read again. The room is kept: what was needed once is needed again.
        self.entries.clear();
        self.index.clear();
        Ok(())
    }

    fn batch(&self, from: u64, max: usize) -> io::Result<(Vec<Entry>, u64)> {
        let start = usize::try_from(from).unwrap_or(usize::MAX).min(self.entries.len());
        let end = start.saturating_add(max).min(self.entries.len());
        let entries = self.entries.get(start..end).unwrap_or_default().to_vec();
        Ok((entries, end as u64))
    }
}

/// The effect in an entry, if it is one.
pub fn effect_of(entry: &Entry) -> Option<&Effect> {
    match entry {
        Entry::Effect(effect) => Some(effect),
        Entry::Arrived(_) | Entry::Answered(_) | Entry::Reset { .. } => None,
    }
}
