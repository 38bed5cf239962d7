//! The second look: single records by their place, in full.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::layout::Layout;
use super::problem::Place;
use super::row::{Fact, RowReader};
use super::source::Store;
use super::split::{Shape, Splitter, boundary};
use crate::cluster::entry::Entry;
use crate::error::Error;
use crate::options::Options;
use crate::value::amount::Currency;
use crate::value::id::Id;
use crate::value::time::{Clock, Grain};
use crate::value::words::{Effect, Stage};

/// A record in full, owned.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) place: Place,
    /// File and offset; names the record.
    pub(crate) mark: u64,
    pub(crate) id: Text,
    pub(crate) reference: Text,
    pub(crate) parent: Option<Box<str>>,
    pub(crate) key: Option<Box<str>>,
    pub(crate) payer: Option<Box<str>>,
    pub(crate) payee: Option<Box<str>>,
    pub(crate) source: Option<Box<str>>,
    pub(crate) ns: i64,
    /// The step of its clock as far as the file shows it.
    pub(crate) grain: Grain,
    pub(crate) clock_repeated: bool,
    pub(crate) amount: Option<i64>,
    pub(crate) refunded: Option<i64>,
    pub(crate) currency: Option<Currency>,
    pub(crate) stage: Stage,
    pub(crate) effect: Effect,
    pub(crate) recurring: bool,
    /// Files in which the same record stands too.
    pub(crate) twins: Vec<u32>,
}

/// An id as text, and whether it proves anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    Missing,
    Whole(Box<str>),
    Lossy(Box<str>),
}

impl Text {
    fn of(id: Id<'_>) -> Self {
        match id {
            Id::Missing => Self::Missing,
            Id::Whole(text) => Self::Whole(owned(text)),
            Id::Lossy(text) => Self::Lossy(owned(text)),
        }
    }

    pub(crate) fn proof(&self) -> Option<&str> {
        match self {
            Self::Whole(text) => Some(text),
            Self::Missing | Self::Lossy(_) => None,
        }
    }

    pub(crate) fn shown(&self) -> Option<&str> {
        match self {
            Self::Whole(text) | Self::Lossy(text) => Some(text),
            Self::Missing => None,
        }
    }
}

fn owned(text: &[u8]) -> Box<str> {
    String::from_utf8_lossy(text).into_owned().into_boxed_str()
}

/// Looks records up again; one for each thread.
pub(crate) struct Fetcher<'a> {
    files: Vec<Lookup<'a>>,
}

struct Lookup<'a> {
    file: File,
    skip: u64,
    shape: Shape,
    reader: RowReader<'a>,
    finest: Grain,
    splitter: Splitter,
    window: Vec<u8>,
    window_at: u64,
}

/// One read where the next record is far: an ordinary record.
const FAR_BYTES: usize = 512;
/// One read where the next record is near: several records for one call. Copying what nobody needs
/// costs more than another call, so near is near.
const NEAR_BYTES: usize = 8 << 10;

impl<'a> Fetcher<'a> {
    pub(crate) fn new(
        stores: &[Store],
        layouts: &'a [Layout],
        finest: &[Grain],
        options: &'a Options,
    ) -> Result<Self, Error> {
        let mut files = Vec::new();
        for ((store, layout), finest) in stores.iter().zip(layouts).zip(finest) {
            let (file, skip) = store
                .reopen()
                .map_err(|cause| Error::machine("a file cannot be opened a second time", &cause))?;
            files.push(Lookup {
                file,
                skip,
                shape: layout.shape,
                reader: RowReader::new(layout, options),
                finest: *finest,
                splitter: Splitter::new(layout.shape),
                window: Vec::new(),
                window_at: 0,
            });
        }
        Ok(Self { files })
    }

    /// The records of these entries, in the same order.
    pub(crate) fn rows(&mut self, entries: &[Entry]) -> Result<Vec<Row>, Error> {
        let mut order: Vec<(u64, usize)> =
            entries.iter().enumerate().map(|(at, entry)| (entry.place(), at)).collect();
        order.sort_unstable();
        let mut rows: Vec<(usize, Row)> = Vec::with_capacity(entries.len());
        for (step, (_, at)) in order.iter().enumerate() {
            let Some(entry) = entries.get(*at) else { continue };
            let near =
                order.get(step + 1).and_then(|(_, next)| entries.get(*next)).is_some_and(|next| {
                    next.file() == entry.file()
                        && next.offset() - entry.offset() < (NEAR_BYTES / 4) as u64
                });
            let Some(lookup) = self.files.get_mut(entry.file() as usize) else { continue };
            if let Some(row) = lookup.row(entry, near)? {
                rows.push((*at, row));
            }
        }
        rows.sort_unstable_by_key(|(at, _)| *at);
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }
}

impl Lookup<'_> {
    fn row(&mut self, entry: &Entry, near: bool) -> Result<Option<Row>, Error> {
        let start = self.load(entry.offset(), near)?;
        let Some((record, _)) = self.splitter.next(&self.window, start) else { return Ok(None) };
        // It was read once already, so it can be read again, unless the file was changed meanwhile.
        let Ok(fact) = self.reader.read(record) else {
            return Err(Error::usage(format!(
                "line {}: the record reads differently the second time; the file must not change \
                 while it is examined",
                entry.line
            )));
        };
        let row = Row {
            place: Place { file: entry.file(), line: u64::from(entry.line) },
            mark: entry.place(),
            grain: fact.moment.grain.max(self.finest),
            ..owned_row(&fact)
        };
        Ok(Some(row))
    }

    /// Makes sure that the window holds the whole record at `offset`; returns where in it.
    fn load(&mut self, offset: u64, near: bool) -> Result<usize, Error> {
        let inside = offset.checked_sub(self.window_at).map(|at| at as usize);
        if let Some(at) = inside
            && let Some(rest) = self.window.get(at..)
            && !rest.is_empty()
            && holds_record(rest, self.shape)
        {
            return Ok(at);
        }
        let mut size = if near { NEAR_BYTES } else { FAR_BYTES };
        let broken = |cause| Error::machine("a record cannot be read a second time", &cause);
        loop {
            self.window.clear();
            self.window_at = offset;
            self.file.seek(SeekFrom::Start(self.skip + offset)).map_err(broken)?;
            let read =
                (&self.file).take(size as u64).read_to_end(&mut self.window).map_err(broken)?;
            if read < size || holds_record(&self.window, self.shape) {
                return Ok(0);
            }
            size *= 8;
        }
    }
}

fn holds_record(rest: &[u8], shape: Shape) -> bool {
    let end = memchr::memchr(shape.terminator, rest);
    match end.and_then(|end| rest.get(..end)) {
        Some(line) if memchr::memchr(b'"', line).is_none() => true,
        Some(_) | None => boundary(rest, shape).end.is_some(),
    }
}

fn owned_row(fact: &Fact<'_>) -> Row {
    let text = |field: &[u8]| (!field.is_empty()).then(|| owned(field));
    Row {
        place: Place { file: 0, line: 0 },
        mark: 0,
        id: Text::of(fact.id),
        reference: Text::of(fact.reference),
        parent: fact.parent.proof().map(owned),
        key: fact.key.proof().map(owned),
        payer: text(fact.payer),
        payee: text(fact.payee),
        source: text(fact.source),
        ns: fact.moment.ns,
        grain: fact.moment.grain,
        clock_repeated: fact.moment.clock == Clock::Repeated,
        amount: fact.amount,
        refunded: fact.refunded,
        currency: fact.currency,
        stage: fact.stage,
        effect: fact.effect,
        recurring: fact.recurring,
        twins: Vec::new(),
    }
}
