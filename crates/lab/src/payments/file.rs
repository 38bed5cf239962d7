//! Keeps entries in an append-only file, one JSON line each, so that the ledger outlives a killed process.
//!
//! In memory stay only the lines of the request at work; how to find an effect again is in a table on disk. A line
//! is given to the operating system before the answer leaves: it survives `kill -9`, not a power cut.

use super::entry::{Effect, Entry};
use super::records::{Records, Tag, effect_of};
use super::table::Table;
use crate::error::{Error, Kind};
use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes read at once where the length of a line is not known; most lines are shorter.
const READ_BYTES: usize = 4096;
/// Bytes read at once when entries are listed.
const BATCH_BYTES: usize = 256 * 1024;
/// The longest line: headers and path of one request, with room for escapes.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The keeper in a file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    end_byte: u64,
    unwritten: Vec<u8>,
    table: Table,
}

impl Journal {
    /// Opens or makes the file and gives every entry in it to `replay`, with its position.
    ///
    /// A last line without its end (a disk that was full) is cut off; any other broken line is refused by number.
    pub fn open(
        path: &Path,
        mut replay: impl FnMut(&mut Self, u64, Entry) -> io::Result<()>,
    ) -> Result<Self, Error> {
        let broken = |what: String| Error::new(Kind::Ledger, format!("{}: {what}", path.display()));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(|error| broken(error.to_string()))?;
        // A device has no end, and keeps nothing.
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Err(broken("this is no ordinary file; name one that can be kept".to_owned()));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(broken(
                    "another process uses this ledger; stop it or name another file".to_owned(),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(broken(error.to_string())),
        }
        let index = options.open(index_path(path)).map_err(|error| broken(error.to_string()))?;
        let table = Table::new(index).map_err(|error| broken(error.to_string()))?;
        let lines = file.try_clone().map_err(|error| broken(error.to_string()))?;
        let mut journal = Self { file, end_byte: 0, unwritten: Vec::new(), table };
        let mut lines = BufReader::new(lines);
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            let room = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
            lines
                .by_ref()
                .take(room)
                .read_until(b'\n', &mut line)
                .map_err(|error| broken(error.to_string()))?;
            if line.len() > LINE_BYTES_MAX {
                return Err(broken(format!(
                    "line {number} is longer than any entry of a ledger; name another file"
                )));
            }
            if line.last() != Some(&b'\n') {
                break;
            }
            let entry = serde_json::from_slice(&line).map_err(|error| {
                broken(format!(
                    "line {number} is no entry of a ledger ({error}); name another file"
                ))
            })?;
            let position = journal.end_byte;
            journal.end_byte += line.len() as u64;
            replay(&mut journal, position, entry).map_err(|error| broken(error.to_string()))?;
        }
        journal.file.set_len(journal.end_byte).map_err(|error| broken(error.to_string()))?;
        Ok(journal)
    }

    /// Reads whole lines from `from`, `about` bytes of them, more where one line is longer.
    fn lines_at(&self, from: u64, about: usize) -> io::Result<Vec<u8>> {
        let mut wanted = about;
        loop {
            let mut bytes = vec![0; wanted];
            let mut filled = 0;
            while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match self.file.read_at(rest, from + filled as u64)? {
                    0 => break,
                    read => filled += read,
                }
            }
            bytes.truncate(filled);
            if let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
                bytes.truncate(last + 1);
                return Ok(bytes);
            }
            if filled < wanted {
                return Ok(Vec::new());
            }
            if wanted >= LINE_BYTES_MAX {
                return Err(io::Error::other("a line of the ledger is too long"));
            }
            wanted *= 4;
        }
    }
}

/// Where the index of a ledger lies. It may be deleted while the API is down.
fn index_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".index");
    PathBuf::from(name)
}

impl Records for Journal {
    fn next_position(&self) -> u64 {
        self.end_byte + self.unwritten.len() as u64
    }

    fn append(&mut self, entry: Entry) -> io::Result<()> {
        let before = self.unwritten.len();
        serde_json::to_writer(&mut self.unwritten, &entry)?;
        self.unwritten.push(b'\n');
        if self.unwritten.len() - before > LINE_BYTES_MAX {
            self.unwritten.truncate(before);
            return Err(io::Error::other("the request is too large to be logged"));
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(&self.unwritten, self.end_byte) {
            // Half a line must not stay: the next one would be glued to it.
            self.unwritten.clear();
            self.file.set_len(self.end_byte)?;
            return Err(error);
        }
        self.end_byte += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }

    fn effect_at(&self, position: u64) -> io::Result<Option<Effect>> {
        let bytes = self.lines_at(position, READ_BYTES)?;
        match bytes.split(|byte| *byte == b'\n').next() {
            Some(line) if !line.is_empty() => {
                Ok(effect_of(&serde_json::from_slice(line)?).cloned())
            }
            Some(_) | None => Ok(None),
        }
    }

    fn latest(&self, tag: Tag) -> io::Result<Option<u64>> {
        self.table.get(tag)
    }

    fn replace(&mut self, tag: Tag, position: u64) -> io::Result<Option<u64>> {
        self.table.replace(tag, position)
    }

    fn latest_of_payment(&self, number: u64) -> io::Result<Option<u64>> {
        self.table.get(Tag::payment(number))
    }

    fn replace_of_payment(&mut self, number: u64, position: u64) -> io::Result<Option<u64>> {
        self.table.replace(Tag::payment(number), position)
    }

    fn forget(&mut self) -> io::Result<()> {
        self.table.clear()
    }

    fn batch(&self, from: u64, max: usize) -> io::Result<(Vec<Entry>, u64)> {
        let bytes = self.lines_at(from, BATCH_BYTES)?;
        let mut position = from;
        let mut entries = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n').take(max) {
            entries.push(serde_json::from_slice(line)?);
            position += line.len() as u64;
        }
        Ok((entries, position))
    }
}
