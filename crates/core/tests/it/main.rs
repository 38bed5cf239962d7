//! The tests of the pure core that look at it from outside.

// Helpers beside the tests may panic as the tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod answers;
mod fingerprints;
mod grid;
mod keys;
mod laws;
mod load;
mod model;
mod plan_cases;
mod plan_laws;
mod plan_model;
mod plan_table;
mod policies;
mod receipts;
mod table;
