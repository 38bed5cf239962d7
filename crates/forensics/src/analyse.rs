//! The whole run: open, scan, search, report.

use std::io::Cursor;
use std::io::Read;

use crate::cluster::entry::FILES_MAX;
use crate::cluster::partition::Budget;
use crate::cluster::search::Search;
use crate::error::Error;
use crate::options::Options;
use crate::read::block::Blocks;
use crate::read::layout::Layout;
use crate::read::scan::{Shelves, scan};
use crate::read::source::{Input, encoding_by_name, open};
use crate::report::Report;
use crate::report::build::{Named, build};
use crate::value::time::Grain;

/// How far a run is, for a progress bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of decoded text read so far.
    pub bytes: u64,
    /// Bytes in all, where every input has a known size.
    pub bytes_total: Option<u64>,
}

/// More threads than this wait for the disk and for each other.
const THREADS_MAX: usize = 16;

/// Reads the inputs as one set of records and reports the payments that were made more than once,
/// with their cause. The inputs are only read.
///
/// # Errors
/// A wrong option, an input that is not a CSV, or one without usable columns
/// ([`Usage`](crate::ErrorKind::Usage)); a machine that fails to read or to write a temporary file
/// ([`Machine`](crate::ErrorKind::Machine)).
pub fn analyse(
    inputs: Vec<Input>,
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Report, Error> {
    if inputs.is_empty() {
        return Err(Error::usage("no input; give the path of a CSV file, or - for standard input"));
    }
    if inputs.len() > FILES_MAX {
        return Err(Error::usage(format!(
            "{} inputs are too many at once; give at most {FILES_MAX}",
            inputs.len()
        )));
    }
    let encoding = options.encoding.as_deref().map(encoding_by_name).transpose()?;
    let (mut named, mut layouts, mut stores, mut blocks) = (vec![], vec![], vec![], vec![]);
    let mut bytes_total = Some(0);
    for (number, input) in inputs.into_iter().enumerate() {
        let opened = open(input, encoding)?;
        let layout = Layout::find(&opened.name, &opened.sample, options)?;
        let start = layout.start;
        let body: Box<dyn Read + Send> = {
            let mut sample = Cursor::new(opened.sample);
            sample.set_position(start as u64);
            Box::new(sample.chain(opened.rest))
        };
        blocks.push(Blocks::new(
            number as u32,
            opened.name.clone(),
            body,
            layout.shape,
            start as u64,
            layout.start_line,
        ));
        bytes_total = bytes_total.zip(opened.bytes_total).map(|(sum, more): (u64, u64)| sum + more);
        named.push(Named { name: opened.name, encoding: opened.encoding, packed: opened.packed });
        layouts.push(layout);
        stores.push(opened.store);
    }
    let threads = options
        .threads
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1)
        .clamp(1, THREADS_MAX);
    let budget = Budget::new(options.memory_bytes);
    let shelves = Shelves::new(&budget);
    let report = |bytes| progress(Progress { bytes, bytes_total });
    let scanned = scan(blocks, &layouts, options, &shelves, threads, &report)?;
    if scanned.rows() == 0 {
        let name = named.first().map_or("", |named| named.name.as_str());
        return Err(Error::usage(format!(
            "{name}: holds a header and no record; expected at least one payment"
        )));
    }
    if scanned.problems.left_out() == scanned.rows() {
        let first = scanned.problems.iter().find(|(kind, _)| kind.is_left_out());
        let detail = first.map_or(String::new(), |(kind, problem)| {
            let example = problem.examples.first();
            let line = example.map_or(0, |example| example.place.line);
            let found = example.map_or("", |example| example.found.as_str());
            format!("; line {line}: found '{found}': {}", kind.explanation())
        });
        return Err(Error::usage(format!(
            "none of the {} rows can be used{detail}",
            scanned.rows()
        )));
    }
    let finest: Vec<Grain> = scanned.files.iter().map(|file| file.finest).collect();
    let search = Search { stores: &stores, layouts: &layouts, finest: &finest, options, threads };
    let found = search.run(&shelves)?;
    Ok(build(&named, &layouts, &scanned, found, options, threads))
}
