//! The list of cases names tests that are there.

use crate::repository::{File, files};
use crate::{finds, hold};
use std::collections::BTreeSet;

const LIST: &str = "docs/cases.md";

fn problems(files: &[File]) -> Vec<String> {
    let functions: BTreeSet<&str> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .flat_map(|file| file.text.split("fn ").skip(1))
        .map(|after| after.split(|c: char| !is_of_a_name(c)).next().unwrap_or_default())
        .collect();
    let list = files.iter().find(|file| file.path == LIST).map_or("", |file| file.text.as_str());
    list.lines()
        .enumerate()
        .flat_map(|(number, line)| {
            // Every second piece stands between two backticks.
            let named = line.split('`').skip(1).step_by(2).filter(|name| is_path(name));
            let missing = named.filter(|name| {
                !name.rsplit("::").next().is_some_and(|test| functions.contains(test))
            });
            let place = number + 1;
            missing.map(move |name| format!("{LIST}:{place} names {name}, and there is none"))
        })
        .collect()
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

/// Whether this reads like the path of a test: a type or a macro has a capital or a sign, and a beginning alone
/// ends with an ellipsis.
fn is_path(text: &str) -> bool {
    text.contains("::") && text.chars().all(|c| is_of_a_name(c) || c == ':')
}

#[test]
fn every_test_that_a_case_names_is_there() {
    hold(&problems(&files()));
}

#[test]
fn planted_names_of_no_test_are_found() {
    let test = File::new("crates/core/tests/it/keys.rs", "#[test]\nfn t18_it() {}\n");
    let world = |line: &str| problems(&[test.clone(), File::new(LIST, line)]);
    hold(&world("| T-18 | `keys::t18_it`, `t04_…`, `Engine::atomic`, `tests/it` |\n"));
    finds(&world("| T-18 | a sentence | `keys::t18_is` |\n"), "docs/cases.md:1 names keys::t18_is");
}
