//! The rules of the house that a machine can check, on the text of this repository alone.
//!
//! Every check is a pure function from what it reads to a list of sentences, one for each thing
//! that is wrong; each has a test that plants what it must find. Checks on files that are not
//! written yet become real when the files appear.

// clippy.toml allows these in test functions; their helpers need it said here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod arrows;
mod cases;
mod crash_points;
mod features;
mod manifests;
mod purity;
mod repository;
mod rules;
mod sizes;
mod slang;
mod sql;

/// Fails with one line for each problem.
#[track_caller]
fn hold(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n- {}", problems.len(), problems.join("\n- "));
}

/// Fails unless exactly one problem was found and its sentence contains `part`.
#[track_caller]
fn finds(problems: &[String], part: &str) {
    assert!(problems.len() == 1 && problems[0].contains(part), "{problems:?}, not: {part}");
}
