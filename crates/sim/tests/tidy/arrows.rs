//! Which crate may depend on which: the map in ARCHITECTURE.md, arrows only ever up.

use crate::manifests::{Dependency, Manifest, Use, all};
use crate::{finds, hold};

const LIBRARIES: [&str; 7] = [
    "samekey-core",
    "samekey-store",
    "samekey",
    "samekey-client",
    "samekey-gateway",
    "samekey-lab",
    "samekey-forensics",
];
/// What an unpublished bench may use.
const BENCH: [&str; 5] =
    ["samekey-client", "samekey-core", "samekey-store", "samekey", "samekey-sim"];
const SIM: &str = "samekey-sim";
const LAB: &str = "samekey-lab";
const CLI: &str = "samekey-cli";

/// What the code of a package may depend on; `None` for a package that has no place in the map.
fn allowed(package: &Manifest) -> Option<&'static [&'static str]> {
    match package.name.as_str() {
        "samekey-core" => Some(&[]),
        "samekey-store" | "samekey-lab" | "samekey-forensics" => Some(&["samekey-core"]),
        "samekey" | "samekey-client" => Some(&["samekey-core", "samekey-store"]),
        "samekey-gateway" => Some(&["samekey-core", "samekey-store", "samekey", "samekey-client"]),
        CLI | SIM => Some(&LIBRARIES),
        _ if package.path.starts_with("crates/") => None,
        // Benches are unpublished too, and measure against clusters of sim's.
        "samekey-bench" => Some(&BENCH),
        // Examples are users like any other.
        _ => Some(&LIBRARIES),
    }
}

fn problems(packages: &[Manifest]) -> Vec<String> {
    packages.iter().flat_map(wrong_arrows).collect()
}

fn wrong_arrows(package: &Manifest) -> Vec<String> {
    let Some(allowed) = allowed(package) else {
        let sentence = "is not on the map; a crate earns its place as a dependency firewall or by \
                        having its own public";
        return vec![format!("{} ({}) {sentence}", package.name, package.path)];
    };
    let ours = package.dependencies.iter().filter(|d| is_ours(&d.name));
    ours.filter(|dependency| !permitted(allowed, dependency))
        .map(|dependency| {
            let Dependency { name, used_by, .. } = dependency;
            format!("{} must not depend on {name} (for {used_by:?})", package.path)
        })
        .collect()
}

/// Tests may use sim and the lab everywhere, but by path alone: publishing drops a dev-dependency
/// without a version, so no user ever meets it.
fn permitted(allowed: &[&str], dependency: &Dependency) -> bool {
    let in_tests = dependency.used_by == Use::Tests;
    match dependency.name.as_str() {
        SIM if in_tests => !dependency.has_version,
        LAB if in_tests && !dependency.has_version => true,
        name => allowed.contains(&name),
    }
}

fn is_ours(name: &str) -> bool {
    name == SIM || name == CLI || LIBRARIES.contains(&name) || name.starts_with("samekey-")
}

#[test]
fn arrows_between_crates_only_go_up_the_map() {
    hold(&problems(&all()));
}

#[test]
fn planted_arrows_are_found() {
    let package = |name: &str, path: &str, on: &str, used_by, has_version| Manifest {
        path: path.to_owned(),
        name: name.to_owned(),
        is_published: true,
        takes_lints: true,
        features: Vec::new(),
        dependencies: vec![Dependency { name: on.to_owned(), used_by, has_version }],
    };
    let code = |name: &str, on: &str| {
        problems(&[package(name, "crates/x/Cargo.toml", on, Use::Code, true)])
    };
    hold(&code("samekey-store", "samekey-core"));
    hold(&code("samekey-gateway", "samekey-client"));
    hold(&code("samekey-client", "samekey-store"));
    hold(&code("samekey-cli", "samekey-client"));
    hold(&code("samekey-cli", "samekey-lab"));
    finds(&code("samekey-core", "samekey-store"), "must not depend on samekey-store");
    finds(&code("samekey", "samekey-client"), "must not depend on samekey-client");
    finds(&code("samekey-client", "samekey"), "must not depend on samekey ");
    finds(&code("samekey-client", "samekey-lab"), "must not depend on samekey-lab");
    finds(&code("samekey-store", "samekey-client"), "must not depend on samekey-client");
    finds(&code("samekey-cli", "samekey-sim"), "must not depend on samekey-sim");
    finds(&code("samekey-sim", "samekey-cli"), "must not depend on samekey-cli");
    finds(&code("samekey-common", "serde"), "is not on the map");
    let tests = |on, version| {
        problems(&[package("samekey-store", "crates/store/Cargo.toml", on, Use::Tests, version)])
    };
    for on in ["samekey-sim", "samekey-lab"] {
        hold(&tests(on, false));
        finds(&tests(on, true), "for Tests");
    }
    let example =
        |on| problems(&[package("orders", "examples/orders/Cargo.toml", on, Use::Code, true)]);
    hold(&example("samekey"));
    finds(&example("samekey-sim"), "must not depend");
}
