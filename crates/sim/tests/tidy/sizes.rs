//! A file has one subject, so it is short; and a crate says first what it is.

use crate::repository::{File, files};
use crate::{finds, hold};

/// Aim at 200; above this a file has two subjects.
const LINES_MAX: usize = 500;

/// Files that may be longer, each with its reason. None so far.
const LONGER: [(&str, &str); 0] = [];

fn too_long(files: &[File]) -> Vec<String> {
    let rust = files.iter().filter(|f| f.has_extension("rs"));
    rust.filter(|f| !LONGER.iter().any(|(path, _)| *path == f.path))
        .map(|f| (f, f.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(f, lines)| format!("{} has {lines} lines, more than {LINES_MAX}", f.path))
        .collect()
}

fn silent_roots(files: &[File]) -> Vec<String> {
    let is_root = |path: &str| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let roots = files.iter().filter(|f| is_root(&f.path));
    roots
        .filter(|f| !f.text.starts_with("//!"))
        .map(|f| format!("{} does not start with //! and what it is", f.path))
        .collect()
}

#[test]
fn no_file_is_too_long() {
    hold(&too_long(&files()));
}

#[test]
fn every_crate_says_first_what_it_is() {
    hold(&silent_roots(&files()));
}

#[test]
fn planted_long_and_silent_files_are_found() {
    let lines = |count| vec![File::new("crates/x/tests/it/y.rs", &"x\n".repeat(count))];
    hold(&too_long(&lines(LINES_MAX)));
    finds(&too_long(&lines(LINES_MAX + 1)), "y.rs has 501 lines");
    let root = |text| vec![File::new("crates/x/src/lib.rs", text)];
    hold(&silent_roots(&root("//! What this is.\n")));
    finds(&silent_roots(&root("#![allow(x)]\n//! What this is.\n")), "does not start with");
}
