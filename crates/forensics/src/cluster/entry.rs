//! What is kept of every record while all are read: 32 bytes, enough to see which records may
//! belong together. Only those are looked at again in full.

use crate::value::words::{Effect, Stage};

/// One record under one signature, packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Of the signature. Records with equal hashes are looked at together; the texts themselves
    /// are compared then, so a collision costs time and never a wrong answer.
    pub(crate) hash: u64,
    /// Nanoseconds since 1970; for keys the hash of the reference, for returns the amount.
    pub(crate) value: i64,
    mark: u64,
    /// The line, from 1; a file with more lines than this holds shows the last number it can.
    pub(crate) line: u32,
    /// Of the payment's id; 0 where there is none that proves anything.
    pub(crate) tag: u32,
}

/// Files in one run: eight bits of the mark.
pub(crate) const FILES_MAX: usize = 256;

const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

impl Entry {
    /// Its size in a file and in memory.
    pub(crate) const BYTES: usize = 32;

    #[expect(clippy::too_many_arguments, reason = "a plain record of numbers, built in one place")]
    pub(crate) fn new(
        hash: u64,
        value: i64,
        file: u32,
        offset: u64,
        line: u64,
        tag: u32,
        stage: Stage,
        effect: Effect,
        clock_repeated: bool,
    ) -> Self {
        let mark = (u64::from(file) & 0xff) << 56
            | u64::from(stage.code()) << 53
            | u64::from(effect.code()) << 51
            | u64::from(clock_repeated) << 50
            | offset & OFFSET_MASK;
        Self { hash, value, mark, line: u32::try_from(line).unwrap_or(u32::MAX), tag }
    }

    /// Number of the file, from 0.
    pub(crate) fn file(&self) -> u32 {
        (self.mark >> 56) as u32
    }

    /// Where the record starts in the decoded text.
    pub(crate) fn offset(&self) -> u64 {
        self.mark & OFFSET_MASK
    }

    /// File and offset: names the record.
    pub(crate) fn place(&self) -> u64 {
        self.mark & (0xff << 56 | OFFSET_MASK)
    }

    pub(crate) fn stage(&self) -> Stage {
        let code = (self.mark >> 53 & 0x7) as usize;
        Stage::ALL.get(code).copied().unwrap_or(Stage::Other)
    }

    pub(crate) fn effect(&self) -> Effect {
        let code = (self.mark >> 51 & 0x3) as usize;
        Effect::ALL.get(code).copied().unwrap_or(Effect::Open)
    }

    /// Whether the local clock showed this time twice.
    pub(crate) fn clock_repeated(&self) -> bool {
        self.mark >> 50 & 1 == 1
    }

    /// Whether money was taken or held by it.
    pub(crate) fn moved(&self) -> bool {
        match self.effect() {
            Effect::Moved | Effect::Returned => true,
            Effect::Failed | Effect::Open => false,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let parts = [
            self.hash,
            self.value as u64,
            self.mark,
            u64::from(self.line) << 32 | u64::from(self.tag),
        ];
        for (to, part) in bytes.chunks_exact_mut(8).zip(parts) {
            to.copy_from_slice(&part.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let part = |number: usize| {
            let mut word = [0; 8];
            if let Some(from) = bytes.get(number * 8..number * 8 + 8) {
                word.copy_from_slice(from);
            }
            u64::from_le_bytes(word)
        };
        let last = part(3);
        Self {
            hash: part(0),
            value: part(1) as i64,
            mark: part(2),
            line: (last >> 32) as u32,
            tag: last as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_in_packing() {
        let offset = (1 << 48) - 7;
        for stage in Stage::ALL {
            for effect in Effect::ALL {
                let entry = Entry::new(
                    u64::MAX - 1,
                    -5,
                    255,
                    offset,
                    4_000_000_000,
                    7,
                    stage,
                    effect,
                    true,
                );
                let back = Entry::from_bytes(&entry.to_bytes());
                assert_eq!(back, entry);
                assert_eq!(
                    (
                        back.file(),
                        back.offset(),
                        back.stage(),
                        back.effect(),
                        back.clock_repeated()
                    ),
                    (255, offset, stage, effect, true)
                );
                assert_eq!((back.line, back.tag, back.value), (4_000_000_000, 7, -5));
            }
        }
    }
}
