//! Which file an address means.
//!
//! `sqlite:orders.db` and `sqlite://orders.db` name a file beside the working directory,
//! `sqlite:/var/lib/orders.db` and `sqlite:///var/lib/orders.db` one from the root. The path is taken
//! as it is written: no `%20`, no options after a `?`.
//!
//! A ledger in memory is refused: it would forget every key with the process, and the same action
//! would run again. Tests have [`crate::memory::MemoryLedger`] for that.

use crate::error::{Kind, StoreError};
use std::path::{Path, PathBuf};

const SCHEME: &str = "sqlite:";

/// The file of this address.
///
/// # Errors
/// [`Kind::Address`], with a sentence that does not repeat the address.
pub(super) fn path_of(address: &str) -> Result<PathBuf, StoreError> {
    let Some(rest) = address.strip_prefix(SCHEME) else {
        return refuse("the address does not start with `sqlite:`; write `sqlite:` and the file");
    };
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() {
        return refuse("the address names no file; write one after `sqlite:`");
    }
    if path.starts_with(":memory:") || path.starts_with("file:") {
        return refuse(
            "the address asks for a database that is no plain file; keys have to outlive the process, so name a file",
        );
    }
    if path.contains('?') {
        return refuse(
            "the address has options after a `?`; none are known, so name only the file",
        );
    }
    if path.chars().any(char::is_control) {
        return refuse("the address has a control character; name a plain file");
    }
    let path = Path::new(path);
    // SQLite reads some relative names as more than a name; with a directory in front it does not.
    Ok(if path.is_absolute() { path.to_owned() } else { Path::new(".").join(path) })
}

fn refuse<T>(sentence: &str) -> Result<T, StoreError> {
    Err(StoreError::new(Kind::Address, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_names_its_file() {
        for (address, path) in [
            ("sqlite:orders.db", "./orders.db"),
            ("sqlite://orders.db", "./orders.db"),
            ("sqlite:data/orders.db", "./data/orders.db"),
            ("sqlite:/var/orders.db", "/var/orders.db"),
            ("sqlite:///var/orders.db", "/var/orders.db"),
            ("sqlite:my orders.db", "./my orders.db"),
        ] {
            assert_eq!(path_of(address).as_deref(), Ok(Path::new(path)), "{address}");
        }
    }

    #[test]
    fn what_is_no_plain_file_is_refused_and_not_repeated() {
        for address in [
            "",
            "orders.db",
            "postgres://orders",
            "sqlite:",
            "sqlite://",
            "sqlite::memory:",
            "sqlite://:memory:",
            "sqlite:file:orders.db?mode=memory",
            "sqlite:orders.db?mode=ro",
            "sqlite:orders\n.db",
            "sqlite:orders\0.db",
        ] {
            let refusal = path_of(address).unwrap_err();
            assert_eq!(refusal.kind(), Kind::Address, "{address:?}");
            assert!(!refusal.to_string().contains("orders"), "{refusal}");
        }
    }
}
