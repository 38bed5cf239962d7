//! How the whole grid of a machine is written down, for either of the two: states against inputs, one
//! policy in full and of every other one what differs.

use samekey_core::lease::{Hold, Owner};
use samekey_core::receipt::Receipt;
use samekey_core::time::Time;
use std::fmt::{self, Write};

/// How wide a line of inputs may grow; a reviewer reads two windows side by side.
const LINE_MAX: usize = 100;

/// The moment at which every cell of a grid is decided.
pub(super) const NOW: Time = at(1_000);

pub(super) const fn at(seconds: i64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

/// Who brings an input.
pub(super) trait Bringer: Copy + Ord {
    fn name(self) -> &'static str;
    /// How many things somebody can bring; who brings all of them with one outcome is told in a word.
    fn whole(self) -> Option<usize>;
}

/// A verdict, and what changed.
#[derive(PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) verdict: String,
    pub(super) change: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.verdict, self.change)
    }
}

type Cell<W> = (W, &'static str);
/// The outcomes of one variant under one policy, equal ones together, in the order of the inputs.
pub(super) type Row<W> = Vec<(Outcome, Vec<Cell<W>>)>;

/// Gathers what comes of every input.
pub(super) fn row<W>(outcomes: impl Iterator<Item = (Outcome, Cell<W>)>) -> Row<W> {
    let mut row = Row::new();
    for (outcome, cell) in outcomes {
        match row.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, cells)) => cells.push(cell),
            None => row.push((outcome, vec![cell])),
        }
    }
    row
}

/// What of `row` is not in `base`: an input is left out when its outcome is the same there.
fn differing<W: Bringer>(row: Row<W>, base: &Row<W>) -> Row<W> {
    let same = |outcome: &Outcome, cell: &Cell<W>| {
        base.iter().any(|(known, cells)| known == outcome && cells.contains(cell))
    };
    row.into_iter()
        .map(|(outcome, mut cells)| {
            cells.retain(|cell| !same(&outcome, cell));
            (outcome, cells)
        })
        .filter(|(_, cells)| !cells.is_empty())
        .collect()
}

fn put_row<W: Bringer>(page: &mut String, row: &Row<W>) {
    for (outcome, cells) in row {
        writeln!(page, "  => {outcome}").unwrap();
        put_cells(page, cells);
    }
}

/// The inputs of one outcome: a line for everybody who brings the same ones.
fn put_cells<W: Bringer>(page: &mut String, cells: &[Cell<W>]) {
    let mut lines: Vec<(Vec<&'static str>, Vec<&'static str>)> = Vec::new();
    let mut people: Vec<W> = cells.iter().map(|(who, _)| *who).collect();
    people.sort_unstable();
    people.dedup();
    for who in people {
        let mut whats: Vec<_> =
            cells.iter().filter(|(other, _)| *other == who).map(|(_, what)| *what).collect();
        if who.whole() == Some(whats.len()) {
            whats = vec!["everything"];
        }
        match lines.iter_mut().find(|(_, known)| *known == whats) {
            Some((names, _)) => names.push(who.name()),
            None => lines.push((vec![who.name()], whats)),
        }
    }
    for (names, whats) in lines {
        let names = names.join(", ");
        let mut line = if names.is_empty() { String::new() } else { format!("{names}: ") };
        for (index, what) in whats.iter().enumerate() {
            let comma = if index + 1 < whats.len() { ", " } else { "" };
            if line.len() + what.len() > LINE_MAX {
                writeln!(page, "       {}", line.trim_end()).unwrap();
                line = String::from("  ");
            }
            write!(line, "{what}{comma}").unwrap();
        }
        writeln!(page, "       {line}").unwrap();
    }
}

/// How much of a variant is shown under the first policy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of it.
    Whole,
    /// All of the first variant of a state; of the others what differs from that one. The state is the
    /// first word of a variant's name.
    OncePerState,
}

/// The page: every variant, each with its name and its fields, under every policy, of which `word` says
/// what it is called.
pub(super) fn page<W: Bringer, V, P>(
    word: &str,
    shown: Shown,
    policies: &[(&'static str, P)],
    variants: &[(&'static str, V)],
    fields: impl Fn(&V) -> String,
    row: impl Fn(&V, &P) -> Row<W>,
) -> String {
    let (base_name, base) = &policies[0];
    let mut page = format!("{word} {base_name}\n");
    let mut first: Option<(&str, Row<W>)> = None;
    for (name, variant) in variants {
        writeln!(page, "\n{name}\n  {}", fields(variant)).unwrap();
        let state = name.split(',').next().unwrap_or(name);
        let whole = row(variant, base);
        match &first {
            Some((known, of_first)) if *known == state => {
                writeln!(page, "  what differs from the first one that is {state}:").unwrap();
                put_row(&mut page, &differing(whole, of_first));
            }
            _ => {
                put_row(&mut page, &whole);
                first = (shown == Shown::OncePerState).then_some((state, whole));
            }
        }
    }
    for (name, policy) in &policies[1..] {
        writeln!(page, "\n\n{word} {name}; what differs from the first").unwrap();
        let mut last = Row::new();
        for (name, variant) in variants {
            let differing = differing(row(variant, policy), &row(variant, base));
            if differing.is_empty() {
                continue;
            }
            writeln!(page, "\n{name}").unwrap();
            if differing == last {
                writeln!(page, "  => as above").unwrap();
            } else {
                put_row(&mut page, &differing);
            }
            last = differing;
        }
    }
    page
}

/// The fields of what a machine keeps, each under the name by which a change of it is told.
pub(super) type Fields = Vec<(&'static str, String)>;

pub(super) fn all_fields(fields: &Fields) -> String {
    fields.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// What changed from one to the other, given by how much the revision grew.
pub(super) fn change(before: &Fields, after: Fields, writes: u64) -> String {
    // Every write moves the revision by at least one; only the odd step of two is worth a word.
    let told = |field: &(&'static str, String)| {
        !(before.contains(field) || writes == 1 && field.0 == "revision")
    };
    all_fields(&after.into_iter().filter(told).collect())
}

pub(super) fn time(time: Time) -> String {
    if time.micros() % 1_000_000 == 0 {
        (time.micros() / 1_000_000).to_string()
    } else {
        format!("{}us", time.micros())
    }
}

pub(super) fn owner(owner: Owner) -> String {
    match owner.bytes()[0] {
        0 => "nobody".to_owned(),
        letter => char::from(letter).to_string(),
    }
}

pub(super) fn hold(hold: Hold) -> String {
    format!("{} with fence {}", owner(hold.owner), hold.fence)
}

pub(super) fn receipt(receipt: &Receipt) -> String {
    match receipt {
        Receipt::Kept(answer) => format!("kept {}", answer.status),
        Receipt::Fact { status, location: None } => format!("fact {status}"),
        Receipt::Fact { status, location: Some(_) } => format!("fact {status} with location"),
    }
}
