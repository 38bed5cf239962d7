//! Where bytes come from. A plain UTF-8 file is read where it lies, and rows are looked up in it
//! again; anything else (a pipe, a packed file, another encoding) is copied once, decoded, to a
//! temporary file that vanishes with the run. The source itself is only ever read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use tempfile::NamedTempFile;

use crate::error::Error;

/// One input of a run.
pub enum Input {
    /// A file; `.gz` is unpacked on the way.
    File(PathBuf),
    /// Anything that can be read once, such as standard input.
    Stream {
        /// What to call it in reports.
        name: String,
        /// The bytes.
        bytes: Box<dyn Read + Send>,
    },
}

impl std::fmt::Debug for Input {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Input").field(&self.name()).finish()
    }
}

impl Input {
    /// What to call it in reports.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stream { name, .. } => name.clone(),
        }
    }
}

/// How much is looked at before reading starts: enough to see the habits of an export.
pub(crate) const SAMPLE_BYTES: usize = 1 << 20;

/// An opened input: its first bytes, the rest, and where rows can be looked up later.
pub(crate) struct Opened {
    pub(crate) name: String,
    /// Decoded bytes from the start, up to [`SAMPLE_BYTES`].
    pub(crate) sample: Vec<u8>,
    /// The bytes after the sample.
    pub(crate) rest: Box<dyn Read + Send>,
    pub(crate) store: Store,
    /// Bytes in all, where known, for a progress bar.
    pub(crate) bytes_total: Option<u64>,
    /// What the encoding was taken for.
    pub(crate) encoding: &'static str,
    pub(crate) packed: bool,
}

/// Where the decoded bytes can be read again.
#[derive(Debug)]
pub(crate) enum Store {
    /// In the file itself, `skip` bytes (a byte order mark) further on.
    Direct { path: PathBuf, skip: u64 },
    /// In a temporary copy.
    Spool(NamedTempFile),
}

impl Store {
    /// A handle of its own, so that threads do not move each other's position.
    pub(crate) fn reopen(&self) -> io::Result<(File, u64)> {
        match self {
            Self::Direct { path, skip } => Ok((File::open(path)?, *skip)),
            Self::Spool(file) => Ok((file.reopen()?, 0)),
        }
    }
}

/// Opens an input and finds out how its text is encoded.
pub(crate) fn open(input: Input, encoding: Option<&'static Encoding>) -> Result<Opened, Error> {
    let name = input.name();
    let broken = |cause: &io::Error| Error::machine(&format!("{name}: reading failed"), cause);
    let (mut raw, path, size): (Box<dyn Read + Send>, Option<PathBuf>, Option<u64>) = match input {
        Input::File(path) => {
            let (file, size) = open_file(&path)?;
            (Box::new(file), size.map(|_| path), size)
        }
        Input::Stream { bytes, .. } => (bytes, None, None),
    };
    let mut head = read_up_to(&mut raw, SAMPLE_BYTES).map_err(|cause| broken(&cause))?;
    let packed = head.starts_with(&[0x1f, 0x8b]);
    if packed {
        let whole = io::Cursor::new(head).chain(raw);
        raw = Box::new(flate2::read::MultiGzDecoder::new(whole));
        head = read_up_to(&mut raw, SAMPLE_BYTES).map_err(|cause| {
            Error::usage(format!("{name}: starts like a gzip file but cannot be unpacked: {cause}"))
        })?;
    }
    let (encoding, mark) = recognise(&name, &head, encoding)?;
    let bytes_total = if packed { None } else { size };
    if encoding == UTF_8
        && !packed
        && let Some(path) = path
    {
        let sample = head.split_off(mark.min(head.len()));
        let store = Store::Direct { path, skip: mark as u64 };
        let encoding = encoding.name();
        return Ok(Opened { name, sample, rest: raw, store, bytes_total, encoding, packed });
    }
    let file = NamedTempFile::new()
        .map_err(|cause| Error::machine("a temporary file cannot be made", &cause))?;
    let copy = file
        .reopen()
        .map_err(|cause| Error::machine("a temporary file cannot be opened", &cause))?;
    let tail = head.split_off(mark.min(head.len()));
    let decoded: Box<dyn Read + Send> = if encoding == UTF_8 {
        Box::new(io::Cursor::new(tail).chain(raw))
    } else {
        Box::new(Decode::new(Box::new(io::Cursor::new(tail).chain(raw)), encoding))
    };
    let mut rest: Box<dyn Read + Send> = Box::new(Tee { from: decoded, to: copy });
    let sample = read_up_to(&mut rest, SAMPLE_BYTES).map_err(|cause| broken(&cause))?;
    let store = Store::Spool(file);
    Ok(Opened { name, sample, rest, store, bytes_total, encoding: encoding.name(), packed })
}

/// Opens a file; the size is known only of a regular one.
fn open_file(path: &Path) -> Result<(File, Option<u64>), Error> {
    let shown = path.display();
    let file = File::open(path).map_err(|cause| {
        Error::usage(format!("{shown}: cannot be opened: {cause}; give the path of a CSV file"))
    })?;
    let about = file
        .metadata()
        .map_err(|cause| Error::machine(&format!("{shown}: cannot be examined"), &cause))?;
    if about.is_dir() {
        return Err(Error::usage(format!("{shown}: is a folder; give the path of a CSV file")));
    }
    Ok((file, about.is_file().then_some(about.len())))
}

fn read_up_to(from: &mut dyn Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Which encoding, and how long its byte order mark is.
fn recognise(
    name: &str,
    head: &[u8],
    wanted: Option<&'static Encoding>,
) -> Result<(&'static Encoding, usize), Error> {
    if head.is_empty() {
        return Err(Error::usage(format!("{name}: is empty; expected a CSV with a header line")));
    }
    for (magic, what) in [
        (&b"PK\x03\x04"[..], "a zip archive or a spreadsheet (xlsx); save it as CSV first"),
        (b"%PDF", "a PDF; export the records as CSV"),
        (b"PAR1", "a Parquet file; export it as CSV"),
        (b"SQLite format 3", "a SQLite database; give it with --database and a --query"),
        (b"\xd0\xcf\x11\xe0", "an old spreadsheet (xls); save it as CSV first"),
    ] {
        if head.starts_with(magic) {
            return Err(Error::usage(format!("{name}: is {what}")));
        }
    }
    if let Some((marked, length)) = Encoding::for_bom(head) {
        return Ok((wanted.unwrap_or(marked), length));
    }
    if let Some(wanted) = wanted {
        return Ok((wanted, 0));
    }
    let zeros = |odd: usize| head.iter().skip(odd).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    let half = head.len() / 2;
    if odd > half / 2 && even < half / 8 {
        return Ok((UTF_16LE, 0));
    }
    if even > half / 2 && odd < half / 8 {
        return Ok((UTF_16BE, 0));
    }
    if even + odd > 0 {
        return Err(Error::usage(format!(
            "{name}: holds zero bytes, so it is not text; expected a CSV in UTF-8, UTF-16 or \
             Windows-1252"
        )));
    }
    match std::str::from_utf8(head) {
        Ok(_) => Ok((UTF_8, 0)),
        // A sample may end in the middle of a character.
        Err(error) if error.error_len().is_none() => Ok((UTF_8, 0)),
        Err(_) => Ok((WINDOWS_1252, 0)),
    }
}

/// An encoding by its usual name.
pub(crate) fn encoding_by_name(name: &str) -> Result<&'static Encoding, Error> {
    Encoding::for_label(name.as_bytes()).ok_or_else(|| {
        Error::usage(format!(
            "--encoding {name}: not known; expected a name such as utf-8, utf-16le, windows-1252 \
             or shift_jis"
        ))
    })
}

/// Decodes to UTF-8 on the way.
struct Decode {
    from: Box<dyn Read + Send>,
    decoder: encoding_rs::Decoder,
    raw: Vec<u8>,
    raw_at: usize,
    out: Vec<u8>,
    out_at: usize,
    ended: bool,
}

impl Decode {
    const BUFFER_BYTES: usize = 64 << 10;

    fn new(from: Box<dyn Read + Send>, encoding: &'static Encoding) -> Self {
        Self {
            from,
            decoder: encoding.new_decoder_without_bom_handling(),
            raw: Vec::new(),
            raw_at: 0,
            out: Vec::new(),
            out_at: 0,
            ended: false,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.raw_at == self.raw.len() && !self.ended {
            self.raw.clear();
            self.raw_at = 0;
            let limit = Self::BUFFER_BYTES as u64;
            self.ended = (&mut self.from).take(limit).read_to_end(&mut self.raw)? == 0;
        }
        self.out.resize(Self::BUFFER_BYTES * 3 + 16, 0);
        let raw = self.raw.get(self.raw_at..).unwrap_or_default();
        let (_, read, written, _) = self.decoder.decode_to_utf8(raw, &mut self.out, self.ended);
        self.raw_at += read;
        self.out.truncate(written);
        self.out_at = 0;
        Ok(())
    }
}

impl Read for Decode {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.out_at == self.out.len() {
            if self.ended && self.raw_at == self.raw.len() {
                return Ok(0);
            }
            self.fill()?;
        }
        let ready = self.out.get(self.out_at..).unwrap_or_default();
        let count = ready.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), ready.get(..count)) {
            to.copy_from_slice(from);
        }
        self.out_at += count;
        Ok(count)
    }
}

/// Copies what passes by.
struct Tee {
    from: Box<dyn Read + Send>,
    to: File,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.to.write_all(buffer.get(..count).unwrap_or_default())?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bytes: &[u8]) -> Result<(String, &'static str), Error> {
        let bytes = Box::new(io::Cursor::new(bytes.to_vec()));
        let opened = open(Input::Stream { name: "t".into(), bytes }, None)?;
        Ok((String::from_utf8(opened.sample).unwrap(), opened.encoding))
    }

    fn utf16(text: &str, mark: bool, big: bool) -> Vec<u8> {
        let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    #[test]
    fn every_encoding_arrives_as_the_same_text() {
        let text = "id,naïve\n1,ORD-1\n";
        for (bytes, name) in [
            (text.as_bytes().to_vec(), "UTF-8"),
            ([b"\xef\xbb\xbf", text.as_bytes()].concat(), "UTF-8"),
            (utf16(text, true, false), "UTF-16LE"),
            (utf16(text, true, true), "UTF-16BE"),
            (utf16(text, false, false), "UTF-16LE"),
            (utf16(text, false, true), "UTF-16BE"),
            (b"id,na\xefve\n1,ORD-1\n".to_vec(), "windows-1252"),
        ] {
            assert_eq!(sample(&bytes).unwrap(), (text.to_owned(), name), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_named() {
        for (bytes, word) in [
            (&b""[..], "empty"),
            (b"PK\x03\x04rest", "xlsx"),
            (b"SQLite format 3\0", "--database"),
            (b"abc\0def", "zero bytes"),
            (b"\x1f\x8bnot gzip at all", "gzip"),
        ] {
            let error = sample(bytes).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
