//! Every numbered rule of the protocol has a test that bears its number, and no test bears a number
//! that is not a rule.

use crate::repository::{File, files};
use crate::{finds, hold};
use std::collections::BTreeSet;

const PROTOCOL: &str = "docs/protocol.md";

/// The two digits after each `mark` in `text`, as in `P-07` or `fn p07_`.
fn numbers(text: &str, mark: &str, end: Option<char>) -> BTreeSet<String> {
    text.match_indices(mark)
        .filter_map(|(at, _)| {
            let rest = &text[at + mark.len()..];
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let follows = rest[digits.len()..].chars().next();
            let before = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
            let fits = before && digits.len() >= 2 && (end.is_none() || follows == end);
            fits.then_some(digits)
        })
        .collect()
}

fn problems(files: &[File]) -> Vec<String> {
    let Some(protocol) = files.iter().find(|f| f.path == PROTOCOL) else { return Vec::new() };
    let rules = numbers(&protocol.text, "P-", None);
    let rust = files.iter().filter(|f| f.has_extension("rs"));
    let tests: BTreeSet<String> = rust.flat_map(|f| numbers(&f.text, "fn p", Some('_'))).collect();
    let none = rules.is_empty().then(|| format!("{PROTOCOL} has no rule numbered as in P-07"));
    let untested = rules
        .difference(&tests)
        .map(|rule| format!("rule P-{rule} of {PROTOCOL} has no test named p{rule}_…"));
    let unknown = tests
        .difference(&rules)
        .map(|test| format!("a test is named p{test}_…, and {PROTOCOL} has no rule P-{test}"));
    none.into_iter().chain(untested).chain(unknown).collect()
}

#[test]
fn every_rule_of_the_protocol_has_a_test_with_its_number() {
    hold(&problems(&files()));
}

#[test]
fn planted_rules_without_tests_are_found() {
    let world = |protocol: &str, test: &str| {
        problems(&[File::new(PROTOCOL, protocol), File::new("crates/x/tests/it/y.rs", test)])
    };
    hold(&world("**P-07** wait.\n", "async fn p07_waits() {}"));
    finds(&world("**P-07** wait. P-08 go.\n", "fn p07_waits() {}"), "P-08");
    finds(&world("P-07\n", "fn p07_waits() {} fn p09_flies() {}"), "no rule P-09");
    finds(&world("P-07\n", "fn p07waits() {}"), "rule P-07");
    finds(&world("nothing\n", ""), "has no rule");
    hold(&problems(&[File::new("crates/x/tests/it/y.rs", "fn p07_waits() {}")]));
}
