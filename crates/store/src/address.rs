//! The address of a database, as people write it: `sqlite:orders.db`, `postgres://…`.

use crate::error::{Kind, StoreError};
use std::fmt;

/// Which database an address names; whole, as it was written. Its `Debug` shows the kind and nothing
/// else, since a PostgreSQL address holds a password.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// `sqlite:` and a file.
    Sqlite(String),
    /// `postgres://` and a server, credentials included.
    Postgres(String),
}

impl Address {
    /// Tells the two forms apart. Everything else is refused with a sentence that shows them and
    /// nothing of what was given; what stands behind the scheme is read by the adapter.
    pub fn parse(text: &str) -> Result<Address, StoreError> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Address::Postgres(text.to_owned()));
        }
        if text.starts_with("sqlite:") {
            return Ok(Address::Sqlite(text.to_owned()));
        }
        Err(StoreError::new(
            Kind::Address,
            "the database address begins with no scheme that is known here; expected sqlite:FILE or postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        ))
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
