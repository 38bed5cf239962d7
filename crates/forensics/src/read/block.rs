//! Blocks of whole records: big enough to be worth a thread's while, cut only where a record ends.

use std::io::Read;

use super::split::{Shape, boundary};
use crate::error::Error;

/// Some whole records of one file.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) file: u32,
    pub(crate) bytes: Vec<u8>,
    /// Where it starts in the decoded text.
    pub(crate) offset: u64,
    /// The line on which it starts, from 1.
    pub(crate) line: u64,
}

/// How much is read at a time: large against the cost of handing it over, small against memory.
const BLOCK_BYTES: usize = 1 << 20;

/// A record longer than this is no record but a quote that was never closed.
const RECORD_BYTES_MAX: usize = 4 << 20;

/// Reads a file block by block.
pub(crate) struct Blocks {
    file: u32,
    name: String,
    from: Box<dyn Read + Send>,
    shape: Shape,
    /// Bytes behind the last boundary.
    carry: Vec<u8>,
    offset: u64,
    line: u64,
    ended: bool,
}

impl Blocks {
    /// Blocks of what `from` gives, the first record of which stands at `offset` on `line`.
    pub(crate) fn new(
        file: u32,
        name: String,
        from: Box<dyn Read + Send>,
        shape: Shape,
        offset: u64,
        line: u64,
    ) -> Self {
        Self { file, name, from, shape, carry: Vec::new(), offset, line, ended: false }
    }

    /// The next block, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Block>, Error> {
        loop {
            if self.ended && self.carry.is_empty() {
                return Ok(None);
            }
            let mut bytes = std::mem::take(&mut self.carry);
            if !self.ended {
                bytes.reserve_exact(BLOCK_BYTES);
                let read = (&mut self.from)
                    .take(BLOCK_BYTES as u64)
                    .read_to_end(&mut bytes)
                    .map_err(|cause| self.broken(&cause))?;
                self.ended = read < BLOCK_BYTES;
            }
            let found = boundary(&bytes, self.shape);
            let end = match found.end {
                _ if self.ended => {
                    if let Some(quote) = found.open_quote {
                        return Err(self.open_quote(&bytes, quote));
                    }
                    bytes.len()
                }
                Some(end) => end,
                None if bytes.len() > RECORD_BYTES_MAX => {
                    return Err(self.open_quote(&bytes, found.open_quote.unwrap_or(0)));
                }
                None => {
                    self.carry = bytes;
                    continue;
                }
            };
            self.carry = bytes.get(end..).unwrap_or_default().to_vec();
            bytes.truncate(end);
            let block = Block { file: self.file, offset: self.offset, line: self.line, bytes };
            self.offset += end as u64;
            self.line += self.lines(&block.bytes);
            return Ok(Some(block));
        }
    }

    fn lines(&self, bytes: &[u8]) -> u64 {
        memchr::memchr_iter(self.shape.terminator, bytes).count() as u64
    }

    fn broken(&self, cause: &std::io::Error) -> Error {
        let text = format!("{}: reading failed after line {}", self.name, self.line);
        if cause.kind() == std::io::ErrorKind::InvalidInput
            || cause.kind() == std::io::ErrorKind::InvalidData
            || cause.kind() == std::io::ErrorKind::UnexpectedEof
        {
            return Error::usage(format!("{text}: {cause}; the packed file is damaged or cut off"));
        }
        Error::machine(&text, cause)
    }

    fn open_quote(&self, bytes: &[u8], at: usize) -> Error {
        let line = self.line + self.lines(bytes.get(..at).unwrap_or_default());
        let found = super::problem::snippet(bytes.get(at..).unwrap_or_default());
        Error::usage(format!(
            "{}: line {line}: a field starts with a quote that is never closed: {found}; expected a \
             closing quote before the next separator",
            self.name
        ))
    }
}
