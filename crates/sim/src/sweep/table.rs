//! What came of every combination, as one table.

use super::{Combination, Outcome};
use std::fmt;
use std::time::Duration;

/// One line.
#[derive(Clone, Debug)]
struct Line {
    boundary: &'static str,
    action: &'static str,
    database: String,
    outcome: Outcome,
}

/// The outcomes of a sweep, in the order in which they came.
#[derive(Clone, Debug)]
pub struct Table {
    boundaries: Vec<&'static str>,
    lines: Vec<Line>,
    took: Duration,
}

impl Table {
    pub(super) fn of(boundaries: &[&'static str]) -> Self {
        Self { boundaries: boundaries.to_vec(), lines: Vec::new(), took: Duration::ZERO }
    }

    pub(super) fn add<D: fmt::Debug>(&mut self, combination: &Combination<D>, outcome: Outcome) {
        self.lines.push(Line {
            boundary: combination.boundary,
            action: combination.action.name(),
            database: format!("{:?}", combination.database),
            outcome,
        });
    }

    pub(super) fn took(&mut self, time: Duration) {
        self.took = time;
    }

    /// How many combinations there were.
    pub fn combinations(&self) -> usize {
        self.lines.len()
    }

    /// How many of them reached their place.
    pub fn reached(&self) -> usize {
        self.lines.iter().filter(|line| line.outcome.is_reached()).count()
    }

    /// Everything that went wrong: combinations, and places that nothing reached.
    pub fn failures(&self) -> Vec<String> {
        let wrong = self.lines.iter().filter(|line| !line.outcome.is_good()).map(|line| {
            format!("{}={} on {}: {}", line.boundary, line.action, line.database, line.outcome)
        });
        let missed = self.boundaries.iter().filter(|boundary| {
            !self.lines.iter().any(|line| line.boundary == **boundary && line.outcome.is_reached())
        });
        wrong.chain(missed.map(|boundary| format!("{boundary} was never reached"))).collect()
    }

    /// Prints the table, and fails where something went wrong.
    ///
    /// # Panics
    /// With every failure in its message.
    pub fn hold(&self) {
        println!("{self}");
        let failures = self.failures();
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Held(how) => write!(f, "held: {how}"),
            Outcome::NoError => f.write_str("reached; no error to give here"),
            Outcome::NotReached => f.write_str("NOT REACHED"),
            Outcome::Broken(what) => write!(f, "BROKEN: {what}"),
            Outcome::TimedOut => f.write_str("TIMED OUT"),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = |text: fn(&Line) -> &str| {
            self.lines.iter().map(|line| text(line).chars().count()).max().unwrap_or(0)
        };
        let boundary = longest(|line| line.boundary);
        let database = longest(|line| &line.database);
        for line in &self.lines {
            let first = line.outcome.to_string();
            let first = first.lines().next().unwrap_or_default();
            writeln!(
                f,
                "{:database$}  {:boundary$}  {:5}  {first}",
                line.database, line.boundary, line.action
            )?;
        }
        let (all, reached, took) = (self.combinations(), self.reached(), self.took);
        write!(f, "{all} combinations, {reached} reached, in {took:.1?}")
    }
}
