//! The whole grid: every state in its interesting variants, every input, every policy that the
//! machine looks at, as one page that a reviewer reads beside `docs/contract.md`.
//!
//! How to read it. The clock says 1000, in seconds. `A` claimed first; where somebody asked since,
//! `Q` asked first and `R`, the holder, after it. `O` held the fence in an earlier life of the key,
//! and `N` is new. Every variant of a state is a heading with its fields. Below it stands what
//! comes of it: the verdict, what changed (every change also moves the revision), and the inputs
//! that have this outcome, with who brings them. The first policy is shown whole; of every other
//! one only what differs from the first.

mod inputs;
mod policies;
mod print;
mod variants;

use inputs::Who;
use print::Outcome;
use samekey_core::policy::Policy;
use samekey_core::step::step;
use samekey_core::time::Time;
use std::fmt::Write;
use variants::Variant;

/// The moment at which every cell of the grid is decided.
const NOW: Time = at(1_000);

const fn at(seconds: i64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

type Cell = (Who, &'static str);
type Row = Vec<(Outcome, Vec<Cell>)>;

/// The outcomes of one variant under one policy, equal ones together, in the order of the inputs.
fn row(variant: &Variant, policy: &Policy) -> Row {
    let mut row = Row::new();
    for named in inputs::all(&variant.record) {
        let (next, verdict) = step(variant.record.clone(), named.input, NOW, policy);
        let outcome = print::outcome(&variant.record, &next, &verdict);
        let cell = (named.who, named.what);
        match row.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, cells)) => cells.push(cell),
            None => row.push((outcome, vec![cell])),
        }
    }
    row
}

/// What of `row` is not in `base`: an input is left out when its outcome is the same there.
fn differing(row: Row, base: &Row) -> Row {
    let same = |outcome: &Outcome, cell: &Cell| {
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

fn put_row(page: &mut String, row: &Row) {
    for (outcome, cells) in row {
        writeln!(page, "  => {outcome}").unwrap();
        print::cells(page, cells);
    }
}

#[test]
fn the_whole_grid() {
    let policies = policies::all();
    let variants = variants::all();
    let (base_name, base) = &policies[0];
    let mut page = format!("POLICY {base_name}\n");
    for variant in &variants {
        writeln!(page, "\n{}\n  {}", variant.name, print::record(&variant.record)).unwrap();
        put_row(&mut page, &row(variant, base));
    }
    for (name, policy) in &policies[1..] {
        writeln!(page, "\n\nPOLICY {name}; what differs from the first").unwrap();
        let mut last = Row::new();
        for variant in &variants {
            let differing = differing(row(variant, policy), &row(variant, base));
            if differing.is_empty() {
                continue;
            }
            writeln!(page, "\n{}", variant.name).unwrap();
            if differing == last {
                writeln!(page, "  => as above").unwrap();
            } else {
                put_row(&mut page, &differing);
            }
            last = differing;
        }
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("grid", page);
    });
}
