//! Every package's manifest: what it is called, what it needs, and the rules for all of them.

use crate::repository::{File, files};
use crate::{finds, hold};
use toml::{Table, Value};

/// Which of a package's tables names a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Code,
    Build,
    Tests,
}

#[derive(Debug, Clone)]
pub struct Dependency {
    pub name: String,
    pub used_by: Use,
    pub has_version: bool,
}

#[derive(Debug, Clone)]
pub struct Manifest {
    pub path: String,
    pub name: String,
    pub is_published: bool,
    pub takes_lints: bool,
    pub features: Vec<String>,
    pub dependencies: Vec<Dependency>,
}

/// Reads one manifest; `None` for the workspace's own, which has no package.
pub fn read(file: &File) -> Option<Manifest> {
    let table: Table = file.text.parse().unwrap_or_else(|e| panic!("{}: {e}", file.path));
    let package = table.get("package")?.as_table().unwrap();
    let tables = |key: &str, used_by| {
        // A dependency for one system only is one all the same.
        let systems = table.get("target").and_then(Value::as_table);
        let per_system = systems.into_iter().flat_map(|t| t.values()).filter_map(|t| t.get(key));
        table
            .get(key)
            .into_iter()
            .chain(per_system)
            .filter_map(Value::as_table)
            .flatten()
            .map(move |(name, value)| dependency(name, value, used_by))
            .collect::<Vec<_>>()
    };
    Some(Manifest {
        path: file.path.clone(),
        name: package["name"].as_str().unwrap().to_owned(),
        is_published: package.get("publish").and_then(Value::as_bool) != Some(false),
        takes_lints: table.get("lints").and_then(|l| l.get("workspace")).is_some(),
        features: table
            .get("features")
            .and_then(Value::as_table)
            .map(|features| features.keys().cloned().collect())
            .unwrap_or_default(),
        dependencies: [
            tables("dependencies", Use::Code),
            tables("build-dependencies", Use::Build),
            tables("dev-dependencies", Use::Tests),
        ]
        .concat(),
    })
}

fn dependency(name: &str, value: &Value, used_by: Use) -> Dependency {
    let real_name = value.get("package").and_then(Value::as_str).unwrap_or(name);
    let inherits = value.get("workspace").and_then(Value::as_bool) == Some(true);
    Dependency {
        name: real_name.to_owned(),
        used_by,
        // The workspace's own list gives every entry a version.
        has_version: value.is_str() || value.get("version").is_some() || inherits,
    }
}

/// Every package of the workspace.
pub fn all() -> Vec<Manifest> {
    let manifests: Vec<Manifest> =
        files().iter().filter(|file| file.path.ends_with("/Cargo.toml")).filter_map(read).collect();
    assert!(manifests.iter().any(|manifest| manifest.name == "samekey-core"), "none was read");
    manifests
}

/// Only what breaks us on purpose and what shows us at work stays unpublished; all take the lints.
fn unpublished(manifests: &[Manifest]) -> Vec<String> {
    let stays = |path: &str| {
        path.starts_with("crates/sim/")
            || path.starts_with("examples/")
            || path.starts_with("bench")
    };
    let publish = manifests.iter().filter(|m| m.is_published == stays(&m.path)).map(|m| {
        let wanted = if m.is_published { "needs" } else { "must not say" };
        format!("{} {wanted} publish = false: only sim, examples and bench have it", m.path)
    });
    let lints = manifests
        .iter()
        .filter(|m| !m.takes_lints)
        .map(|m| format!("{} lacks [lints] workspace = true", m.path));
    publish.chain(lints).collect()
}

/// The feature changes how every program that links us reads numbers.
fn number_feature(files: &[File]) -> Vec<String> {
    let named = ["arbitrary", "precision"].join("_");
    let manifests = files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let found = manifests.filter(|file| file.text.contains(&named));
    found.map(|file| format!("{} names serde_json's feature {named}", file.path)).collect()
}

#[test]
fn only_the_unpublished_say_so_and_all_take_the_lints() {
    hold(&unpublished(&all()));
}

#[test]
fn no_manifest_changes_how_numbers_are_read() {
    hold(&number_feature(&files()));
}

#[test]
fn planted_manifests_are_found() {
    let manifest = |path: &str, rest: &str| {
        let text = format!("[package]\nname = \"x\"\n{rest}");
        read(&File::new(path, &text)).unwrap()
    };
    let lints = "[lints]\nworkspace = true\n";
    let secret = format!("publish = false\n{lints}");
    finds(&unpublished(&[manifest("crates/store/Cargo.toml", &secret)]), "must not say");
    finds(&unpublished(&[manifest("crates/sim/Cargo.toml", lints)]), "needs publish");
    finds(&unpublished(&[manifest("crates/store/Cargo.toml", "")]), "lacks [lints]");
    hold(&unpublished(&[manifest("examples/orders/Cargo.toml", &secret)]));
    let feature = format!("serde_json = {{ features = [\"{}_precision\"] }}", "arbitrary");
    finds(&number_feature(&[File::new("crates/x/Cargo.toml", &feature)]), "names serde_json's");
}

#[test]
fn dependencies_are_read_from_every_table() {
    let text = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\nb = { path = \"../b\", package = \"c\" }\n\
                [dev-dependencies]\nd.workspace = true\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n\
                [build-dependencies]\nf = { version = \"1\" }\n";
    let read = read(&File::new("crates/x/Cargo.toml", text)).unwrap();
    let seen: Vec<(&str, Use, bool)> =
        read.dependencies.iter().map(|d| (d.name.as_str(), d.used_by, d.has_version)).collect();
    let (code, tests, build) = (Use::Code, Use::Tests, Use::Build);
    let expected = [
        ("a", code, true),
        ("c", code, false),
        ("e", code, true),
        ("f", build, true),
        ("d", tests, true),
    ];
    assert_eq!(seen, expected);
}
