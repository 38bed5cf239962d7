//! How one file is laid out: separator, header, columns, decimal sign, order of dates. Found from
//! a sample, and said, so that a person can object.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use super::columns::{Columns, Field, plain};
use super::split::{Shape, Splitter};
use crate::error::Error;
use crate::options::{Header, Options};
use crate::value::amount::{AmountStyle, AmountUnit, Decimal, DecimalEvidence};
use crate::value::order::OrderEvidence;
use crate::value::time::{DateOrder, TimeStyle};
use crate::value::trimmed;

/// How one file is laid out.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    pub(crate) header: Vec<String>,
    pub(crate) columns: Columns,
    pub(crate) amount: AmountStyle,
    pub(crate) time: TimeStyle,
    /// Where the first record starts, in bytes of the decoded text.
    pub(crate) start: usize,
    /// The line on which it starts, from 1.
    pub(crate) start_line: u64,
    /// What had to be guessed, each a sentence with the flag that overrules it.
    pub(crate) guesses: Vec<String>,
}

/// Records of the sample that are looked at: enough for a habit to show.
const RECORDS_LOOKED_AT: usize = 5_000;

impl Layout {
    /// Finds the layout of the file that starts with `sample`.
    pub(crate) fn find(name: &str, sample: &[u8], options: &Options) -> Result<Self, Error> {
        let terminator =
            if !sample.contains(&b'\n') && sample.contains(&b'\r') { b'\r' } else { b'\n' };
        let (declared, skipped) = declared_separator(sample, terminator);
        let body = sample.get(skipped..).unwrap_or_default();
        refuse_json(name, body)?;
        let separator = options
            .separator
            .or(declared)
            .map_or_else(|| find_separator(body, terminator, options), Ok)
            .map_err(|()| not_a_csv(name, body, terminator))?;
        let shape = Shape { separator, terminator };
        let mut splitter = Splitter::new(shape);
        let mut header_at = 0;
        let mut header_line = if skipped > 0 { 2 } else { 1 };
        let (first, header_next, header_lines) = loop {
            let Some((record, extent)) = splitter.next(body, header_at) else {
                return Err(not_a_csv(name, body, terminator));
            };
            let fields: Vec<String> = record
                .fields()
                .map(|field| String::from_utf8_lossy(trimmed(field)).into_owned())
                .collect();
            // Some exports put blank lines before the header.
            if fields.iter().any(|field| !field.is_empty()) {
                break (fields, extent.next, extent.lines);
            }
            header_at = extent.next;
            header_line += u64::from(extent.lines);
        };
        let (header, start, start_line) = match options.header {
            Header::Named => (first, header_next, header_line + u64::from(header_lines)),
            Header::Absent => {
                let names = (1..=first.len()).map(|number| number.to_string()).collect();
                (names, header_at, header_line)
            }
        };
        let columns = Columns::choose(&header, options, name)?;
        let mut layout = Self {
            shape,
            columns,
            amount: AmountStyle { decimal: Decimal::Point, unit: AmountUnit::Major },
            time: TimeStyle { order: DateOrder::DayFirst, zone: zone(options)? },
            start: skipped + start,
            start_line,
            guesses: Vec::new(),
            header,
        };
        layout.look_at_values(sample, options);
        Ok(layout)
    }

    fn look_at_values(&mut self, sample: &[u8], options: &Options) {
        let (mut decimal, mut order) = (DecimalEvidence::default(), OrderEvidence::default());
        let (amount, time) = (self.columns.of(Field::Amount), self.columns.of(Field::Time));
        let mut splitter = Splitter::new(self.shape);
        let mut at = self.start;
        for _ in 0..RECORDS_LOOKED_AT {
            let Some((record, extent)) = splitter.next(sample, at) else { break };
            at = extent.next;
            // The last record of a sample may be cut short; it still says nothing wrong.
            if let Some(field) = amount.and_then(|place| record.get(place)) {
                decimal.see(trimmed(field));
            }
            if let Some(field) = time.and_then(|place| record.get(place)) {
                order.see(field);
            }
        }
        let (found, guessed) = decimal.verdict();
        self.amount.decimal = options.decimal.unwrap_or(found);
        if guessed && options.decimal.is_none() {
            self.guesses.push(
                "amounts such as 1,234 are taken as thousands; --decimal comma or point says \
                 otherwise"
                    .to_owned(),
            );
        }
        let (found, guessed) = order.verdict();
        self.time.order = options.date_order.unwrap_or(found);
        if guessed && options.date_order.is_none() {
            self.guesses.push(
                "dates such as 03/04/2026 are taken as day/month; --date-order mdy says otherwise"
                    .to_owned(),
            );
        }
        let name = amount.and_then(|place| self.header.get(place)).map(|name| plain(name));
        let minor = name.is_some_and(|name| name.contains("minor") || name.contains("cents"));
        self.amount.unit = options.amount_unit.unwrap_or(if minor {
            AmountUnit::Minor
        } else {
            AmountUnit::Major
        });
    }

    /// Which column is taken for what, for a person to check.
    pub(crate) fn taken(&self) -> BTreeMap<Field, String> {
        let name = |place: usize| self.header.get(place).cloned().unwrap_or_default();
        Field::ALL
            .into_iter()
            .filter_map(|field| {
                let mut text = name(self.columns.of(field)?);
                if let (Field::Time, Some(second)) = (field, self.columns.time_of_day) {
                    text = format!("{text} + {}", name(second));
                }
                Some((field, text))
            })
            .collect()
    }
}

fn zone(options: &Options) -> Result<Option<TimeZone>, Error> {
    let Some(name) = &options.zone else { return Ok(None) };
    if name.eq_ignore_ascii_case("utc") {
        return Ok(None);
    }
    TimeZone::get(name).map(Some).map_err(|_| {
        Error::usage(format!("--timezone {name}: not known; expected a name such as Europe/Berlin"))
    })
}

/// A spreadsheet's own line `sep=;` before the header.
fn declared_separator(sample: &[u8], terminator: u8) -> (Option<u8>, usize) {
    let end = memchr::memchr(terminator, sample).unwrap_or(sample.len());
    let line = sample.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.split_at_checked(4) {
        Some((word, [separator])) if word.eq_ignore_ascii_case(b"sep=") => {
            (Some(*separator), (end + 1).min(sample.len()))
        }
        Some(_) | None => (None, 0),
    }
}

fn refuse_json(name: &str, body: &[u8]) -> Result<(), Error> {
    match body.trim_ascii_start() {
        [b'{' | b'[', ..] => Err(Error::usage(format!(
            "{name}: starts like JSON; expected a CSV with a header line such as \
             payment_id,order_id,created_at"
        ))),
        [b'<', ..] => Err(Error::usage(format!(
            "{name}: starts like HTML or XML; expected a CSV with a header line"
        ))),
        _ => Ok(()),
    }
}

/// The separator under which the header names most usual columns; if none does, the one that gives
/// the most columns, the same in every record.
fn find_separator(body: &[u8], terminator: u8, options: &Options) -> Result<u8, ()> {
    const CANDIDATES: [u8; 4] = [b',', b';', b'\t', b'|'];
    const RECORDS: usize = 20;
    let mut best = None;
    for separator in CANDIDATES {
        let mut splitter = Splitter::new(Shape { separator, terminator });
        let (mut at, mut lengths, mut header) = (0, Vec::new(), Vec::new());
        while let Some((record, extent)) = splitter.next(body, at) {
            at = extent.next;
            if record.len() == 1 && record.get(0).is_some_and(|field| trimmed(field).is_empty()) {
                continue;
            }
            if lengths.is_empty() {
                header = record
                    .fields()
                    .map(|field| String::from_utf8_lossy(trimmed(field)).into_owned())
                    .collect::<Vec<_>>();
            }
            lengths.push(record.len());
            if lengths.len() == RECORDS {
                break;
            }
        }
        let Some(first) = lengths.first().copied().filter(|length| *length > 1) else { continue };
        let alike = lengths.iter().filter(|length| **length == first).count();
        let known = Columns::by_usual_names(&header).count()
            + header
                .iter()
                .filter(|name| options.columns.values().any(|wanted| wanted == *name))
                .count();
        let score = (known, alike * 100 / lengths.len(), first);
        if best.is_none_or(|(_, other)| score > other) {
            best = Some((separator, score));
        }
    }
    best.map(|(separator, _)| separator).ok_or(())
}

fn not_a_csv(name: &str, body: &[u8], terminator: u8) -> Error {
    let end = memchr::memchr(terminator, body).unwrap_or(body.len());
    let line = super::problem::snippet(body.get(..end).unwrap_or_default());
    Error::usage(format!(
        "{name}: line 1 holds one field, '{}'; expected column names with a separator between them, \
         such as payment_id,order_id,created_at (see --separator)",
        line.trim()
    ))
}
