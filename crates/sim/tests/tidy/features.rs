//! Each feature that a user may choose is built alone by `scripts/test`.

use crate::manifests::{Manifest, all};
use crate::repository::{File, files};
use crate::{finds, hold};
use std::collections::BTreeSet;

const LIST: &str = "scripts/features";

/// The packages that users add to their own programs.
const CHOSEN_FROM: [&str; 6] = [
    "samekey-core",
    "samekey-store",
    "samekey",
    "samekey-client",
    "samekey-lab",
    "samekey-forensics",
];

fn problems(files: &[File], packages: &[Manifest]) -> Vec<String> {
    let list = files.iter().find(|f| f.path == LIST).map_or("", |f| f.text.as_str());
    let listed: BTreeSet<(String, String)> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(package, feature)| (package.to_owned(), feature.trim().to_owned()))
        .collect();
    let there: BTreeSet<(String, String)> = packages
        .iter()
        .filter(|package| CHOSEN_FROM.contains(&package.name.as_str()))
        .flat_map(|package| {
            let chosen = package.features.iter().filter(|feature| *feature != "default");
            let features = chosen.cloned().chain(["-".to_owned()]);
            features.map(|feature| (package.name.clone(), feature))
        })
        .collect();
    let missing = there.difference(&listed).map(|(p, f)| format!("{LIST} lacks the line {p} {f}"));
    let stale =
        listed.difference(&there).map(|(p, f)| format!("{LIST} has {p} {f}, which is gone"));
    missing.chain(stale).collect()
}

#[test]
fn every_feature_is_on_the_list_that_is_built() {
    hold(&problems(&files(), &all()));
}

#[test]
fn planted_features_are_missed() {
    let text =
        "[package]\nname = \"samekey\"\n[features]\ndefault = [\"postgres\"]\npostgres = []\n";
    let package = [crate::manifests::read(&File::new("crates/server/Cargo.toml", text)).unwrap()];
    let world = |list: &str| problems(&[File::new(LIST, list)], &package);
    hold(&world("# a list\nsamekey -\nsamekey postgres\n"));
    finds(&world("samekey -\n"), "lacks the line samekey postgres");
    finds(&world("samekey -\nsamekey postgres\nsamekey sqlite\n"), "samekey sqlite, which is gone");
}
