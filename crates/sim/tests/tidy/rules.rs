//! Every numbered rule of the protocol has a test that bears its number, and no test bears a number
//! that is not a rule.

use crate::repository::{File, files};
use crate::{finds, hold};
use std::collections::BTreeSet;

const PROTOCOL: &str = "docs/protocol.md";

/// The number of each `P07` of the protocol's text.
fn rules_in(text: &str) -> impl Iterator<Item = String> {
    text.match_indices('P').filter_map(|(at, mark)| {
        let starts_a_word = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        let number = leading_digits(&text[at + mark.len()..]);
        (starts_a_word && number.len() >= 2).then_some(number)
    })
}

/// The number in the name of each test such as `p07_…`. A function without a test's attribute is no
/// test: `p99_of` in a bench tells a percentile. A name in the list of `on_both!` is one a database.
fn tested_in(text: &str) -> BTreeSet<String> {
    let mut numbers = BTreeSet::new();
    let (mut marked, mut listed) = (false, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            marked |= line.contains("test");
        } else if !line.starts_with("//") {
            let list = line.strip_prefix("on_both!(");
            listed |= list.is_some();
            let name = line.trim_start_matches("pub ").trim_start_matches("async ");
            let function = name.strip_prefix("fn ").filter(|_| marked);
            let names = if listed { list.unwrap_or(line) } else { function.unwrap_or_default() };
            numbers.extend(names.split(',').filter_map(|name| number_of(name.trim())));
            listed &= !line.contains(')');
            marked = false;
        }
    }
    numbers
}

fn number_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix('p')?;
    let number = leading_digits(rest);
    (number.len() >= 2 && rest[number.len()..].starts_with('_')).then_some(number)
}

fn leading_digits(text: &str) -> String {
    text.chars().take_while(char::is_ascii_digit).collect()
}

fn problems(files: &[File]) -> Vec<String> {
    let Some(protocol) = files.iter().find(|f| f.path == PROTOCOL) else { return Vec::new() };
    let rules: BTreeSet<String> = rules_in(&protocol.text).collect();
    let rust = files.iter().filter(|f| f.has_extension("rs"));
    let tests: BTreeSet<String> = rust.flat_map(|f| tested_in(&f.text)).collect();
    let none = rules.is_empty().then(|| format!("{PROTOCOL} has no rule numbered as in P07"));
    let untested = rules
        .difference(&tests)
        .map(|rule| format!("rule P{rule} of {PROTOCOL} has no test named p{rule}_…"));
    let unknown = tests
        .difference(&rules)
        .map(|test| format!("a test is named p{test}_…, and {PROTOCOL} has no rule P{test}"));
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
    let waits = "#[tokio::test(flavor = \"current_thread\")]\n// Why.\nasync fn p07_waits() {}\n";
    hold(&world("**P07** wait.\n", waits));
    finds(&world("**P07** wait. P08 go.\n", waits), "P08");
    let flies = format!("{waits}#[test]\nfn p09_flies() {{}}\n");
    finds(&world("P07\n", &flies), "no rule P09");
    let percentile = format!("{waits}\nfn p99_of(times: &[u64]) {{}}\n");
    hold(&world("P07 and HTTP200, PG15\n", &percentile));
    hold(&world("P07 P08\n", "on_both!(p07_waits,\n    p08_goes,\n);\nfn p09_of() {}\n"));
    finds(&world("P07\n", "fn p07_no_test() {}"), "rule P07");
    finds(&world("P07\n", "#[test]\nfn p07waits() {}"), "rule P07");
    finds(&world("nothing\n", ""), "has no rule");
    hold(&problems(&[File::new("crates/x/tests/it/y.rs", waits)]));
}
