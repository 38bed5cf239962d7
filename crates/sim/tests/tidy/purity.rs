//! `core` decides and does nothing else: no IO, no async, no clock, no dice.

use crate::manifests::{Manifest, Use, all};
use crate::repository::{File, files};
use crate::{finds, hold};

/// Libraries that compute and do nothing else. A new one needs the same property.
const PURE_LIBRARIES: [&str; 14] = [
    "base64",
    "blake3",
    "bytes",
    "hex",
    "hmac",
    "http",
    "httpdate",
    "secrecy",
    "serde",
    "serde_json",
    "sfv",
    "sha2",
    "subtle",
    "thiserror",
];

/// What code that touches the world would have to say.
const WORLDLY: [&str; 14] = [
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::os",
    "Instant::now",
    "SystemTime::now",
    "RandomState",
    "async ",
    ".await",
    "println!",
    "static mut",
];

fn impure_dependencies(packages: &[Manifest]) -> Vec<String> {
    let core = packages.iter().filter(|package| package.name == "samekey-core");
    core.flat_map(|core| &core.dependencies)
        .filter(|d| d.used_by != Use::Tests && !PURE_LIBRARIES.contains(&d.name.as_str()))
        .map(|d| format!("samekey-core depends on {}, which is not known to be pure", d.name))
        .collect()
}

fn worldly_code(files: &[File]) -> Vec<String> {
    let sources = files.iter().filter(|f| f.path.starts_with("crates/core/src/"));
    let lines = sources.flat_map(|f| f.text.lines().enumerate().map(move |(n, line)| (f, n, line)));
    lines
        .filter(|(_, _, line)| !line.trim_start().starts_with("//"))
        .flat_map(|(f, n, line)| {
            let words = WORLDLY.iter().filter(move |word| line.contains(**word));
            words.map(move |word| format!("{}:{} says {word}", f.path, n + 1))
        })
        .collect()
}

#[test]
fn core_depends_on_nothing_that_touches_the_world() {
    hold(&impure_dependencies(&all()));
}

#[test]
fn core_says_nothing_that_touches_the_world() {
    hold(&worldly_code(&files()));
}

#[test]
fn planted_impurity_is_found() {
    let manifest = |table: &str| {
        let text = format!("[package]\nname = \"samekey-core\"\n[{table}]\ntokio = \"1\"\n");
        let file = File::new("crates/core/Cargo.toml", &text);
        vec![crate::manifests::read(&file).unwrap()]
    };
    finds(&impure_dependencies(&manifest("dependencies")), "depends on tokio");
    finds(&impure_dependencies(&manifest("build-dependencies")), "depends on tokio");
    hold(&impure_dependencies(&manifest("dev-dependencies")));
    let source =
        |path: &str| vec![File::new(path, "//! async is fine here\nlet x = Instant::now();\n")];
    finds(&worldly_code(&source("crates/core/src/x.rs")), "x.rs:2 says Instant::now");
    hold(&worldly_code(&source("crates/core/tests/it/x.rs")));
}
