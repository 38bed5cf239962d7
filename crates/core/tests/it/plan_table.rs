//! The whole grid of the calling side: every state of a delivery in its interesting variants, every
//! input, and every kind of counterparty, as one page that a reviewer reads beside `docs/calling.md`.
//!
//! How to read it. The clock says 1000, in seconds, and chance gives its least. `A` made the last
//! attempt; `E` made one before it, and `Q` asks since or asked last. `N` is new. The right hold is the
//! *holder*'s. Every variant of a state is a heading with its fields; below it stands what comes of it:
//! the verdict, what changed (every change also moves the revision), and the inputs that have this
//! outcome, with who brings them. Of a state's first variant all is shown, of its others what differs from
//! that one; of every counterparty but the first, only what differs from the first.

mod inputs;
mod print;
mod profiles;
mod variants;

use crate::grid::{self, NOW, Row, Shown};
use inputs::Who;
use samekey_core::delivery::Delivery;
use samekey_core::plan::plan;
use samekey_core::profile::Profile;

fn row(delivery: &Delivery, profile: &Profile) -> Row<Who> {
    let all = inputs::all(delivery).into_iter();
    grid::row(all.map(|named| {
        let (next, verdict) = plan(delivery.clone(), named.input, NOW, profile);
        (print::outcome(delivery, &next, &verdict), (named.who, named.what))
    }))
}

#[test]
fn the_whole_grid_of_deliveries() {
    let page = grid::page(
        "COUNTERPARTY",
        Shown::OncePerState,
        &profiles::all(),
        &variants::all(),
        print::delivery,
        row,
    );
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("plan_grid", page);
    });
}
