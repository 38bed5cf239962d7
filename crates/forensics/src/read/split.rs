//! Records out of bytes. Most lines of an export hold no quote and are cut where they lie; the
//! others go through the rules of RFC 4180 as spreadsheets apply them: a quote opens a field only
//! at its start, a doubled quote is one, and what follows a closing quote belongs to the field.

use memchr::{memchr, memchr_iter, memchr2, memrchr};

/// The two bytes that structure a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Between fields.
    pub(crate) separator: u8,
    /// Between records: a line feed, or a carriage return in files of old spreadsheets.
    pub(crate) terminator: u8,
}

/// One record; its fields lie in the block, or in a scratch copy where quotes had to be undone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    text: &'a [u8],
    ends: &'a [(u32, u32)],
}

impl<'a> Record<'a> {
    /// The bytes of one field.
    pub(crate) fn get(&self, place: usize) -> Option<&'a [u8]> {
        let (start, end) = self.ends.get(place)?;
        self.text.get(*start as usize..*end as usize)
    }

    /// How many fields there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        let text = self.text;
        self.ends.iter().filter_map(move |(start, end)| text.get(*start as usize..*end as usize))
    }
}

/// How far a record reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where the next record starts.
    pub(crate) next: usize,
    /// How many lines the record takes.
    pub(crate) lines: u32,
}

/// Cuts blocks into records; keeps its buffers from record to record.
#[derive(Debug)]
pub(crate) struct Splitter {
    shape: Shape,
    ends: Vec<(u32, u32)>,
    scratch: Vec<u8>,
}

impl Splitter {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, ends: Vec::new(), scratch: Vec::new() }
    }

    /// The record at `at`, or `None` at the end of the block. A blank line is a record of one
    /// empty field, so that the caller can count it.
    pub(crate) fn next<'a>(
        &'a mut self,
        block: &'a [u8],
        at: usize,
    ) -> Option<(Record<'a>, Extent)> {
        let rest = block.get(at..).filter(|rest| !rest.is_empty())?;
        self.ends.clear();
        let end = memchr(self.shape.terminator, rest).unwrap_or(rest.len());
        let line = rest.get(..end)?;
        if memchr(b'"', line).is_none() {
            let mut start = 0;
            for separator in memchr_iter(self.shape.separator, line) {
                self.ends.push((start, separator as u32));
                start = separator as u32 + 1;
            }
            self.ends.push((start, line.len() as u32));
            let extent = Extent { next: (at + end + 1).min(block.len()), lines: 1 };
            return Some((Record { text: line, ends: &self.ends }, extent));
        }
        self.scratch.clear();
        let used = unquote(rest, self.shape, &mut self.scratch, &mut self.ends);
        let lines = memchr_iter(self.shape.terminator, rest.get(..used)?).count().max(1) as u32;
        let extent = Extent { next: at + used, lines };
        Some((Record { text: &self.scratch, ends: &self.ends }, extent))
    }
}

/// Copies the fields of the first record of `rest` without their quotes; returns its length with
/// the terminator.
fn unquote(rest: &[u8], shape: Shape, out: &mut Vec<u8>, ends: &mut Vec<(u32, u32)>) -> usize {
    let mut at = 0;
    loop {
        let start = out.len() as u32;
        if rest.get(at) == Some(&b'"') {
            at += 1;
            loop {
                let inside = rest.get(at..).unwrap_or_default();
                let Some(quote) = memchr(b'"', inside) else {
                    out.extend_from_slice(inside);
                    at = rest.len();
                    break;
                };
                out.extend_from_slice(inside.get(..quote).unwrap_or_default());
                at += quote + 1;
                if rest.get(at) == Some(&b'"') {
                    out.push(b'"');
                    at += 1;
                } else {
                    break;
                }
            }
        }
        let plain = rest.get(at..).unwrap_or_default();
        let stop = memchr2(shape.separator, shape.terminator, plain).unwrap_or(plain.len());
        out.extend_from_slice(plain.get(..stop).unwrap_or_default());
        ends.push((start, out.len() as u32));
        at += stop + 1;
        match plain.get(stop) {
            Some(byte) if *byte == shape.separator => {}
            Some(_) => return at,
            None => return rest.len(),
        }
    }
}

/// Where the last whole record of a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boundary {
    /// Behind the last terminator that ends a record, if there is one.
    pub(crate) end: Option<usize>,
    /// Where a quote was opened that the block does not close.
    pub(crate) open_quote: Option<usize>,
}

/// Finds the last record boundary of a block that starts at one.
pub(crate) fn boundary(block: &[u8], shape: Shape) -> Boundary {
    if memchr(b'"', block).is_none() {
        let end = memrchr(shape.terminator, block).map(|at| at + 1);
        return Boundary { end, open_quote: None };
    }
    let (mut at, mut end, mut field_start) = (0, None, true);
    while let Some(byte) = block.get(at) {
        if field_start && *byte == b'"' {
            let opened = at;
            at += 1;
            loop {
                let Some(quote) = memchr(b'"', block.get(at..).unwrap_or_default()) else {
                    return Boundary { end, open_quote: Some(opened) };
                };
                at += quote + 1;
                if block.get(at) != Some(&b'"') {
                    break;
                }
                at += 1;
            }
            field_start = false;
            continue;
        }
        let rest = block.get(at..).unwrap_or_default();
        let Some(stop) = memchr2(shape.separator, shape.terminator, rest) else { break };
        at += stop + 1;
        field_start = true;
        if rest.get(stop) == Some(&shape.terminator) {
            end = Some(at);
        }
    }
    Boundary { end, open_quote: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COMMA: Shape = Shape { separator: b',', terminator: b'\n' };

    fn records(block: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut splitter = Splitter::new(COMMA);
        let (mut at, mut all) = (0, Vec::new());
        while let Some((record, extent)) = splitter.next(block, at) {
            all.push(record.fields().map(<[u8]>::to_vec).collect());
            at = extent.next;
        }
        all
    }

    #[test]
    fn quotes_and_line_breaks_in_them() {
        let block = b"a,\"b, \"\"c\"\"\nd\",e\nf,g,h\n";
        let expected: Vec<Vec<&[u8]>> =
            vec![vec![b"a", b"b, \"c\"\nd", b"e"], vec![b"f", b"g", b"h"]];
        assert_eq!(records(block), expected);
        let mut splitter = Splitter::new(COMMA);
        let (_, extent) = splitter.next(block, 0).unwrap();
        assert_eq!(extent.lines, 2);
    }

    #[test]
    fn a_boundary_is_never_inside_quotes() {
        assert_eq!(
            boundary(b"a,b\nc,\"d\ne", COMMA),
            Boundary { end: Some(4), open_quote: Some(6) }
        );
        assert_eq!(boundary(b"a,b\nc,5\" pipe\ne", COMMA).end, Some(14));
        assert_eq!(boundary(b"a,b", COMMA), Boundary { end: None, open_quote: None });
    }

    proptest! {
        /// The `csv` crate is the oracle: same records, whatever the bytes.
        #[test]
        fn the_same_records_as_the_csv_crate(text in "[ab\",\n]{0,40}") {
            let ours: Vec<_> = records(text.as_bytes())
                .into_iter()
                .filter(|record| record.as_slice() != [Vec::<u8>::new()] )
                .collect();
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .terminator(csv::Terminator::Any(b'\n'))
                .from_reader(text.as_bytes());
            let theirs: Vec<Vec<Vec<u8>>> = reader
                .byte_records()
                .map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect())
                .filter(|record: &Vec<Vec<u8>>| record.as_slice() != [Vec::<u8>::new()])
                .collect();
            prop_assert_eq!(ours, theirs);
        }

        /// Cutting at a boundary and reading both halves is the same as reading the whole.
        #[test]
        fn a_cut_at_the_boundary_changes_nothing(text in "[ab\",\n]{0,40}") {
            let block = text.as_bytes();
            if let Some(end) = boundary(block, COMMA).end {
                let (head, tail) = block.split_at(end);
                let mut halves = records(head);
                halves.extend(records(tail));
                prop_assert_eq!(halves, records(block));
            }
        }
    }
}
