//! The table of ratios.

use std::fmt;

/// One line: what was compared, what came out, what the bar is.
struct Line {
    letter: &'static str,
    what: String,
    found: String,
    bar: String,
}

/// The table.
pub struct Table(Vec<Line>);

impl Table {
    pub fn new() -> Table {
        Table(Vec::new())
    }

    /// Adds the median of the rounds' ratios. It is printed at once too, since a bench is long.
    pub fn ratio(&mut self, letter: &'static str, what: &str, ratios: &[f64], bar: Option<f64>) {
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        let (least, most) = (
            sorted.first().copied().unwrap_or(f64::NAN),
            sorted.last().copied().unwrap_or(f64::NAN),
        );
        self.add(
            letter,
            what,
            format!("{median:.2}  ({least:.2} to {most:.2})"),
            bar.map_or(String::new(), |bar| format!("at least {bar:.2}")),
        );
    }

    /// Adds a finding in words.
    pub fn add(&mut self, letter: &'static str, what: &str, found: String, bar: String) {
        eprintln!("{letter}  {what}: {found}  {bar}");
        self.0.push(Line { letter, what: what.to_owned(), found, bar });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN);
        table.set_header(["", "compared", "median (least to most)", "bar"]);
        for line in &self.0 {
            table.add_row([line.letter, &line.what, &line.found, &line.bar]);
        }
        write!(f, "{table}")
    }
}
