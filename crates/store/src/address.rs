//! The address of a database, as people write it: `sqlite:orders.db`, `postgres://…`.

use crate::error::{Kind, StoreError};
use std::fmt;
use std::path::PathBuf;

/// Where a database is. Its `Debug` shows the kind and nothing else, since a PostgreSQL address holds
/// a password.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// A file.
    Sqlite(PathBuf),
    /// A server: the whole address, credentials included.
    Postgres(String),
}

impl Address {
    /// Reads an address. Everything else than the two forms is refused with a sentence that shows
    /// them and nothing of what was given.
    pub fn parse(text: &str) -> Result<Address, StoreError> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Address::Postgres(text.to_owned()));
        }
        let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:"));
        match path {
            Some("") => Err(refused("it names no file")),
            Some(":memory:") => Err(refused(
                "a database in memory forgets its keys with the process, which cannot keep the promise",
            )),
            Some(path) => Ok(Address::Sqlite(PathBuf::from(path))),
            None => Err(refused("it begins with no scheme that is known here")),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Address::Sqlite(_) => "Address::Sqlite(…)",
            Address::Postgres(_) => "Address::Postgres(…)",
        })
    }
}

fn refused(why: &str) -> StoreError {
    StoreError::new(
        Kind::Address,
        format!(
            "the database address cannot be used: {why}; expected sqlite:FILE or postgres://USER:PASSWORD@HOST:PORT/DATABASE"
        ),
    )
}
