//! How often the diagnosis is right, measured on made-up payments whose truth is known.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Cursor;

use crate::analyse::analyse;
use crate::cause::Cause;
use crate::error::Error;
use crate::generate::{Plan, generate};
use crate::options::Options;
use crate::read::source::Input;

/// Columns of a confusion matrix: the causes, then "ambiguous", then "not found".
const COLUMNS: usize = Cause::ALL.len() + 2;
const AMBIGUOUS: usize = Cause::ALL.len();
const MISSED: usize = Cause::ALL.len() + 1;

/// What was made of duplicates whose cause is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    /// Under which conditions.
    pub title: String,
    /// True cause by what was said: the causes in the order of [`Cause::ALL`], then ambiguous, then
    /// not found.
    pub counts: [[u64; COLUMNS]; Cause::ALL.len()],
    /// Clusters reported where there is no duplicate.
    pub false_alarms: u64,
    /// Clusters reported with another number of payments than there are.
    pub miscounted: u64,
}

impl Confusion {
    /// Of the duplicates there are, the share that was found.
    pub fn found_share(&self) -> f64 {
        let all: u64 = self.counts.iter().flatten().sum();
        let missed: u64 = self.counts.iter().filter_map(|row| row.get(MISSED)).sum();
        share(all - missed, all)
    }

    /// Of the duplicates reported, the share that are some.
    pub fn true_share(&self) -> f64 {
        let all: u64 = self.counts.iter().flatten().sum();
        let missed: u64 = self.counts.iter().filter_map(|row| row.get(MISSED)).sum();
        share(all - missed, all - missed + self.false_alarms)
    }

    fn empty(title: &str) -> Self {
        let counts = [[0; COLUMNS]; Cause::ALL.len()];
        Self { title: title.to_owned(), counts, false_alarms: 0, miscounted: 0 }
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().flatten().zip(other.counts.iter().flatten()) {
            *mine += theirs;
        }
        self.false_alarms += other.false_alarms;
        self.miscounted += other.miscounted;
    }

    fn at(&self, cause: Cause, column: usize) -> u64 {
        self.counts.get(cause.number()).and_then(|row| row.get(column)).copied().unwrap_or(0)
    }

    /// Of those said to have this cause, the share that has it.
    pub fn precision(&self, cause: Cause) -> f64 {
        let said = Cause::ALL.into_iter().map(|truth| self.at(truth, cause.number())).sum();
        share(self.at(cause, cause.number()), said)
    }

    /// Of those that have this cause, the share that is said to.
    pub fn recall(&self, cause: Cause) -> f64 {
        let has = (0..COLUMNS).map(|column| self.at(cause, column)).sum();
        share(self.at(cause, cause.number()), has)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// Confusion matrices under several conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// One for each condition.
    pub matrices: Vec<Confusion>,
}

/// A world so small that each source has about two duplicates, and how many such worlds are made.
const SMALL_ROWS: u64 = 500;
const SMALL_WORLDS: u64 = 40;

/// Made-up payments and their truth.
struct World {
    payments: String,
    truth: BTreeMap<String, (Cause, u64)>,
}

impl World {
    fn make(seed: u64, rows: u64) -> Result<Self, Error> {
        let plan = Plan { seed, rows, duplicates_per_mille: 100 };
        let (mut payments, mut truth) = (Vec::new(), Vec::new());
        generate(&plan, &mut payments, &mut truth)
            .map_err(|cause| Error::machine("made-up payments cannot be kept", &cause))?;
        Ok(Self {
            payments: String::from_utf8_lossy(&payments).into_owned(),
            truth: read_truth(&String::from_utf8_lossy(&truth)),
        })
    }
}

/// Makes about `rows` payments from `seed`, examines them under several conditions, and compares
/// with the truth.
///
/// # Errors
/// What [`analyse`](crate::analyse()) fails with.
pub fn evaluate(seed: u64, rows: u64) -> Result<Evaluation, Error> {
    let usual = Options::default();
    let mut one_source = Options::default();
    // A column of one value stands for none: every record then has the same source.
    one_source.columns.insert(crate::Field::Source, "currency".to_owned());
    one_source.columns.insert(crate::Field::Currency, "currency".to_owned());
    let world = World::make(seed, rows)?;
    let mut matrices = vec![confusion("milliseconds, source known", &world, &usual)?];
    let payments = world.payments.lines().map(|line| whole_seconds(line) + "\n").collect();
    let seconds = World { payments, truth: world.truth.clone() };
    matrices.push(confusion("whole seconds, source known", &seconds, &usual)?);
    matrices.push(confusion("milliseconds, all sources in one", &world, &one_source)?);
    let mut small = Confusion::empty("milliseconds, about two duplicates for each source");
    for number in 1..=SMALL_WORLDS {
        let world = World::make(seed.wrapping_add(number), SMALL_ROWS)?;
        small.add(&confusion("", &world, &usual)?);
    }
    matrices.push(small);
    Ok(Evaluation { matrices })
}

/// `…T10:00:05.123Z,…` without the fraction.
fn whole_seconds(line: &str) -> String {
    let (Some(point), Some(end)) = (line.find('.'), line.find("Z,")) else {
        return line.to_owned();
    };
    format!("{}{}", line.get(..point).unwrap_or_default(), line.get(end..).unwrap_or_default())
}

fn read_truth(text: &str) -> BTreeMap<String, (Cause, u64)> {
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split(',');
            let (order, cause, payments) = (fields.next()?, fields.next()?, fields.next()?);
            let cause = Cause::ALL.into_iter().find(|known| known.short() == cause)?;
            Some((order.to_owned(), (cause, payments.parse().ok()?)))
        })
        .collect()
}

fn confusion(title: &str, world: &World, options: &Options) -> Result<Confusion, Error> {
    let truth = &world.truth;
    let bytes = Box::new(Cursor::new(world.payments.as_bytes().to_vec()));
    let input = Input::Stream { name: "made-up payments".to_owned(), bytes };
    let report = analyse(vec![input], options, &|_| {})?;
    let mut said: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    let (mut false_alarms, mut miscounted) = (0, 0);
    for cluster in &report.clusters {
        let column = match cluster.causes.first() {
            _ if cluster.ambiguous => AMBIGUOUS,
            Some(one) => one.cause.number(),
            None => AMBIGUOUS,
        };
        match truth.get(&cluster.label) {
            Some((_, payments)) => miscounted += u64::from(*payments != cluster.payments),
            None => false_alarms += 1,
        }
        said.insert(&cluster.label, (column, cluster.payments));
    }
    let mut confusion = Confusion { false_alarms, miscounted, ..Confusion::empty(title) };
    for (order, (cause, _)) in truth {
        let column = said.get(order.as_str()).map_or(MISSED, |(column, _)| *column);
        let row = confusion.counts.get_mut(cause.number());
        if let Some(slot) = row.and_then(|row| row.get_mut(column)) {
            *slot += 1;
        }
    }
    Ok(confusion)
}

impl Evaluation {
    /// As tables for a document.
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        for matrix in &self.matrices {
            // Writing to a String cannot fail.
            let _ = matrix.write_markdown(&mut text);
        }
        text.trim_end().to_owned()
    }
}

impl Confusion {
    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        writeln!(
            out,
            "**{}**: {} of the duplicated purchases found, {} of those reported are some \
             (false alarms: {}, wrong number of payments: {}).\n",
            self.title,
            percent(self.found_share()),
            percent(self.true_share()),
            self.false_alarms,
            self.miscounted
        )?;
        let names: Vec<&str> = Cause::ALL.into_iter().map(Cause::short).collect();
        writeln!(
            out,
            "| true cause | {} | ambiguous | not found | precision | recall |",
            names.join(" | ")
        )?;
        writeln!(out, "|---|{}", "---:|".repeat(COLUMNS + 2))?;
        for cause in Cause::ALL {
            let cells: Vec<String> =
                (0..COLUMNS).map(|column| self.at(cause, column).to_string()).collect();
            writeln!(
                out,
                "| {} | {} | {} | {} |",
                cause.short(),
                cells.join(" | "),
                percent(self.precision(cause)),
                percent(self.recall(cause))
            )?;
        }
        writeln!(out)
    }
}

/// Marks the place for the tables in a document.
const MARK_START: &str = "<!-- evaluation -->";
const MARK_END: &str = "<!-- /evaluation -->";

/// The document with the tables between its markers; `None` if it has no markers.
pub fn update_section(document: &str, tables: &str) -> Option<String> {
    let (before, rest) = document.split_once(MARK_START)?;
    let (_, after) = rest.split_once(MARK_END)?;
    Some(format!("{before}{MARK_START}\n\n{tables}\n\n{MARK_END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_markers_changes() {
        let document = "a\n<!-- evaluation -->old<!-- /evaluation -->\nb";
        let updated = update_section(document, "new").unwrap();
        assert_eq!(updated, "a\n<!-- evaluation -->\n\nnew\n\n<!-- /evaluation -->\nb");
        assert_eq!(update_section("no markers", "new"), None);
    }

    #[test]
    fn the_fraction_is_cut_and_nothing_else() {
        assert_eq!(
            whole_seconds("pay_1,ORD-1,2026-03-01T00:00:05.123Z,3.50,EUR"),
            "pay_1,ORD-1,2026-03-01T00:00:05Z,3.50,EUR"
        );
        assert_eq!(whole_seconds("payment_id,order_id"), "payment_id,order_id");
    }
}
