//! The list of crash points is the list of places: a test that goes through it misses none.
//!
//! The compiler holds that each place is on the list; this holds the other direction, as soon as
//! there is a first place.

use crate::repository::{File, files};
use crate::{finds, hold};
use std::collections::BTreeSet;

const LIST: &str = "crates/store/src/crash.rs";

/// The name in every `crash_point!("…"`, also where the line is broken after the parenthesis.
fn places_in(text: &str) -> impl Iterator<Item = &str> {
    let arguments = text.split("crash_point!(").skip(1);
    arguments.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
}

fn problems(files: &[File]) -> Vec<String> {
    let Some(list) = files.iter().find(|f| f.path == LIST) else { return Vec::new() };
    let begun = list.text.split("CRASH_POINTS: &[&str] = &[").nth(1).unwrap_or_default();
    let inside = begun.split("];").next().unwrap_or_default();
    let listed: Vec<&str> = inside.split('"').skip(1).step_by(2).collect();
    let sources = files
        .iter()
        .filter(|f| f.has_extension("rs") && f.path.contains("/src/") && f.path != LIST);
    let places: BTreeSet<&str> = sources.flat_map(|f| places_in(&f.text)).collect();
    if places.is_empty() {
        return Vec::new();
    }
    let lost = listed.iter().filter(|name| !places.contains(*name));
    lost.map(|name| format!("crash point {name} of {LIST} has no place in the code")).collect()
}

#[test]
fn every_listed_crash_point_has_its_place() {
    hold(&problems(&files()));
}

#[test]
fn planted_lost_crash_points_are_found() {
    let list = "pub const CRASH_POINTS: &[&str] = &[\n    \"a.before\",\n    \"a.after\",\n];\nx(\"no\");\n";
    let world = |code: &str| {
        problems(&[File::new(LIST, list), File::new("crates/server/src/claim.rs", code)])
    };
    hold(&world(""));
    hold(&world("crash_point!(\"a.before\"); crash_point!(\n  \"a.after\", return Err(x));"));
    finds(&world("samekey_store::crash_point!(\"a.before\");"), "a.after");
}
