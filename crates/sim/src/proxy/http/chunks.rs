//! Chunked framing: what of it is body, and where it ends.

use super::message::Body;

/// A line of the framing longer than this is none.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Where the next byte belongs.
#[derive(Debug, Default)]
enum At {
    /// In the line with a chunk's size.
    #[default]
    Size,
    /// In a chunk, with so many bytes to come.
    Data(u64),
    /// In the line end behind a chunk.
    DataEnd,
    /// In the lines behind the last chunk.
    Trailer,
    Over,
}

/// A chunked body, as its bytes come in.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    at: At,
    line: Vec<u8>,
}

impl Chunks {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.at, At::Over)
    }

    /// Takes what belongs to the body, and says how many of the bytes that were.
    pub(super) fn take(&mut self, bytes: &[u8], body: &mut Body) -> Result<usize, &'static str> {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            used += match &mut self.at {
                At::Over => return Ok(used),
                At::Data(left) => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    body.take(rest.get(..count).unwrap_or_default());
                    *left -= u64::try_from(count).unwrap_or(0);
                    if *left == 0 {
                        self.at = At::DataEnd;
                    }
                    count
                }
                At::Size | At::DataEnd | At::Trailer => self.take_line(rest)?,
            };
        }
        Ok(used)
    }

    fn take_line(&mut self, rest: &[u8]) -> Result<usize, &'static str> {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(rest.len(), |end| end + 1);
        self.line.extend_from_slice(rest.get(..count).unwrap_or_default());
        if self.line.len() > LINE_BYTES_MAX {
            return Err("a line without an end in a chunked body");
        }
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.at = self.after(&line)?;
        }
        Ok(count)
    }

    /// What comes after this line, which is whole.
    fn after(&self, line: &[u8]) -> Result<At, &'static str> {
        let is_empty = line.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        match self.at {
            At::Size => match httparse::parse_chunk_size(line) {
                Ok(httparse::Status::Complete((_, 0))) => Ok(At::Trailer),
                Ok(httparse::Status::Complete((_, size))) => Ok(At::Data(size)),
                Ok(httparse::Status::Partial) | Err(_) => Err("no size of a chunk"),
            },
            At::DataEnd if is_empty => Ok(At::Size),
            At::DataEnd => Err("a chunk longer than its size"),
            At::Trailer if is_empty => Ok(At::Over),
            At::Trailer => Ok(At::Trailer),
            At::Data(_) | At::Over => Err("a line where none can be"),
        }
    }
}
