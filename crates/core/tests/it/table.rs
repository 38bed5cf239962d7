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

use crate::grid::{self, NOW, Row, Shown};
use inputs::Who;
use samekey_core::policy::Policy;
use samekey_core::record::Record;
use samekey_core::step::step;

fn row(record: &Record, policy: &Policy) -> Row<Who> {
    let all = inputs::all(record).into_iter();
    grid::row(all.map(|named| {
        let (next, verdict) = step(record.clone(), named.input, NOW, policy);
        (print::outcome(record, &next, &verdict), (named.who, named.what))
    }))
}

#[test]
fn the_whole_grid() {
    let page =
        grid::page("POLICY", Shown::Whole, &policies::all(), &variants::all(), print::record, row);
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("grid", page);
    });
}
