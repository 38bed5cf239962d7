//! The table of ratios.

use crate::processor::Ratios;
use std::fmt;

/// One line: what was compared, what came out, what the bar is, what it took of the processors.
struct Line {
    letter: &'static str,
    what: String,
    found: String,
    bar: String,
    processor: String,
}

/// The table.
pub struct Table(Vec<Line>);

impl Table {
    pub fn new() -> Table {
        Table(Vec::new())
    }

    /// Adds the medians of the rounds' ratios. They are printed at once too, since a bench is long.
    pub fn ratio(&mut self, letter: &'static str, what: &str, ratios: &Ratios, bar: Option<f64>) {
        let bar = bar.map_or(String::new(), |bar| format!("at least {bar:.2}"));
        self.line(letter, what, spread(&ratios.rates), bar, spread(&ratios.processor));
    }

    /// Adds a finding in words.
    pub fn add(&mut self, letter: &'static str, what: &str, found: String, bar: String) {
        self.line(letter, what, found, bar, String::new());
    }

    fn line(
        &mut self,
        letter: &'static str,
        what: &str,
        found: String,
        bar: String,
        processor: String,
    ) {
        eprintln!("{letter}  {what}: {found}  {bar}  processor {processor}");
        self.0.push(Line { letter, what: what.to_owned(), found, bar, processor });
    }
}

/// The median, the least and the most.
fn spread(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    let last = sorted.len().saturating_sub(1);
    format!("{:.2}  ({:.2} to {:.2})", at(sorted.len() / 2), at(0), at(last))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN);
        table.set_header([
            "",
            "compared",
            "median (least to most)",
            "bar",
            "processor time a command",
        ]);
        for line in &self.0 {
            table.add_row([line.letter, &line.what, &line.found, &line.bar, &line.processor]);
        }
        write!(f, "{table}")
    }
}
