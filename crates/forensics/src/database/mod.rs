//! Rows of a database as input. The database is only ever read: the session says so to the server
//! itself, so that even a query that would write is refused by it.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use crate::error::Error;
use crate::read::source::Input;

/// The rows of `query` on the database at `url`: `postgres://…` or `postgresql://…`, or
/// `sqlite:PATH` (also a bare path that ends in `.db`, `.sqlite` or `.sqlite3`).
///
/// # Errors
/// A URL of another kind, a query that the database refuses or that would write
/// ([`Usage`](crate::ErrorKind::Usage)); a database that does not answer
/// ([`Unreachable`](crate::ErrorKind::Unreachable)).
pub fn rows_of(url: &str, query: &str) -> Result<Input, Error> {
    let query = query.trim().trim_end_matches(';').trim_end();
    if query.is_empty() {
        return Err(Error::usage("--query is empty; expected one SELECT"));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return from_postgres(url, query);
    }
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"));
    let bare = [".db", ".sqlite", ".sqlite3"].iter().any(|end| url.ends_with(end));
    match path.or(bare.then_some(url)) {
        Some(path) => from_sqlite(path, query),
        None => Err(Error::usage(
            "--database begins with no scheme that is known here; expected postgres://USER@HOST/NAME or sqlite:PATH",
        )),
    }
}

#[cfg(feature = "postgres")]
fn from_postgres(url: &str, query: &str) -> Result<Input, Error> {
    // No part of the address is shown: a password may stand anywhere in it.
    postgres::rows(url, query, "the database")
}

#[cfg(not(feature = "postgres"))]
fn from_postgres(_url: &str, _query: &str) -> Result<Input, Error> {
    Err(Error::usage("this build cannot read PostgreSQL; build it with the feature postgres"))
}

#[cfg(feature = "sqlite")]
fn from_sqlite(path: &str, query: &str) -> Result<Input, Error> {
    sqlite::rows(path, query)
}

#[cfg(not(feature = "sqlite"))]
fn from_sqlite(_path: &str, _query: &str) -> Result<Input, Error> {
    Err(Error::usage("this build cannot read SQLite; build it with the feature sqlite"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "mysql://a:secret@h/d",
            "host=h password=secret",
            "postgres://a@127.0.0.1:1/d?password=secret",
            "postgres://a:secret@127.0.0.1:1/d",
        ] {
            let Err(error) = rows_of(url, "select 1") else { panic!("{url} was opened") };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
