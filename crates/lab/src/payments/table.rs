//! A hash table on disk from tag to position, so that memory stays flat however many payments there are.
//!
//! Layers of doubling size lie one after the other in one file; entries are never moved. A look-up goes from the
//! newest layer to the oldest, a new tag goes into the newest. Ten million tags make nine layers. The file
//! only repeats what the ledger says and is made anew at each start.

use super::records::Tag;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Slots of the first layer: 1 MiB of a sparse file.
const FIRST_LAYER_SLOTS: u64 = 1 << 16;
/// Bytes of a slot: tag, then position plus one.
const SLOT_BYTES: u64 = 16;
/// Slots read at once; at half load nearly every probe ends within them.
const PROBE_SLOTS: usize = 8;

/// The table.
#[derive(Debug)]
pub struct Table {
    file: File,
    layers: Vec<Layer>,
}

#[derive(Debug, Clone, Copy)]
struct Layer {
    start_byte: u64,
    slots: u64,
    used: u64,
}

enum Probe {
    Found { byte: u64, position: u64 },
    Free { byte: u64 },
}

impl Table {
    /// An empty table in `file`, whose content is thrown away.
    pub fn new(file: File) -> io::Result<Self> {
        let mut table = Self { file, layers: Vec::new() };
        table.clear()?;
        Ok(table)
    }

    /// Forgets every tag.
    pub fn clear(&mut self) -> io::Result<()> {
        self.layers.clear();
        self.file.set_len(0)?;
        self.grow().map(|_| ())
    }

    /// The position under a tag.
    pub fn get(&self, tag: Tag) -> io::Result<Option<u64>> {
        for layer in self.layers.iter().rev() {
            if let Probe::Found { position, .. } = self.probe(*layer, tag)? {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// Puts a position under a tag; returns the one before.
    pub fn replace(&mut self, tag: Tag, position: u64) -> io::Result<Option<u64>> {
        let mut free = None;
        for layer in self.layers.iter().rev() {
            match self.probe(*layer, tag)? {
                Probe::Found { byte, position: before } => {
                    self.write(byte, tag, position)?;
                    return Ok(Some(before));
                }
                Probe::Free { byte } => free = free.or(Some(byte)),
            }
        }
        let full = self.layers.last().is_none_or(|layer| layer.used * 2 >= layer.slots);
        let byte = match free {
            Some(byte) if !full => byte,
            Some(_) | None => {
                let layer = self.grow()?;
                match self.probe(layer, tag)? {
                    Probe::Free { byte } | Probe::Found { byte, .. } => byte,
                }
            }
        };
        self.write(byte, tag, position)?;
        if let Some(layer) = self.layers.last_mut() {
            layer.used += 1;
        }
        Ok(None)
    }

    fn grow(&mut self) -> io::Result<Layer> {
        let layer = match self.layers.last() {
            None => Layer { start_byte: 0, slots: FIRST_LAYER_SLOTS, used: 0 },
            Some(last) => Layer {
                start_byte: last.start_byte + last.slots * SLOT_BYTES,
                slots: last.slots * 2,
                used: 0,
            },
        };
        self.file.set_len(layer.start_byte + layer.slots * SLOT_BYTES)?;
        self.layers.push(layer);
        Ok(layer)
    }

    fn write(&self, byte: u64, tag: Tag, position: u64) -> io::Result<()> {
        let slot = (u128::from(tag.0) << 64) | u128::from(position + 1);
        self.file.write_all_at(&slot.to_be_bytes(), byte)
    }

    /// Walks a layer from the tag's home slot. Layers are at most half full, so there is always a free slot.
    fn probe(&self, layer: Layer, tag: Tag) -> io::Result<Probe> {
        let mut window = [0u8; PROBE_SLOTS * SLOT_BYTES as usize];
        let mut slot = tag.0 & (layer.slots - 1);
        for _ in 0..layer.slots {
            let slots = (layer.slots - slot).min(PROBE_SLOTS as u64);
            let length = usize::try_from(slots * SLOT_BYTES).map_err(io::Error::other)?;
            let first_byte = layer.start_byte + slot * SLOT_BYTES;
            let read =
                window.get_mut(..length).ok_or_else(|| io::Error::other("window too small"))?;
            self.file.read_exact_at(read, first_byte)?;
            let (chunks, _) = read.as_chunks::<16>();
            for (byte, chunk) in (first_byte..).step_by(16).zip(chunks) {
                let value = u128::from_be_bytes(*chunk);
                if value == 0 {
                    return Ok(Probe::Free { byte });
                }
                if (value >> 64) as u64 == tag.0 {
                    return Ok(Probe::Found { byte, position: (value as u64) - 1 });
                }
            }
            slot = (slot + slots) & (layer.slots - 1);
        }
        Err(io::Error::other("the index has no free slot"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_through_several_layers_agrees_with_a_map() {
        let path = std::env::temp_dir().join(format!("samekey-lab-table-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let mut table = Table::new(file.unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut map = std::collections::HashMap::new();
        for step in 0..120_000u64 {
            // Every third step comes back to an old tag; the others share their home slot with three more.
            let tag =
                if step % 3 == 2 { Tag::order(&(step / 2).to_string()) } else { crowded(step) };
            assert_eq!(table.replace(tag, step).unwrap(), map.insert(tag, step), "step {step}");
        }
        assert!(table.layers.len() > 1);
        for (tag, position) in &map {
            assert_eq!(table.get(*tag).unwrap(), Some(*position));
        }
        assert_eq!(table.get(Tag::order("never put")).unwrap(), None);
    }

    fn crowded(step: u64) -> Tag {
        Tag(((step + 1) << 20) | (((step / 4) * 7) % (1 << 20)))
    }
}
