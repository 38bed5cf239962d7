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

/// What stands for user and password where an address is explained.
const PLACEHOLDER: &str = "USER:PASSWORD";

/// A text in which every address has lost its user and password: for messages that repeat what somebody
/// typed in the wrong place.
///
/// ```
/// let typed = "unexpected argument 'postgres://app:secret@db/shop'";
/// let shown = samekey_store::address::redacted(typed);
/// assert_eq!(shown, "unexpected argument 'postgres://…@db/shop'");
/// let typed = "postgres://db/shop?password=secret&a=b and host=db PASSWORD=secret";
/// let shown = samekey_store::address::redacted(typed);
/// assert_eq!(shown, "postgres://db/shop?password=…&a=b and host=db PASSWORD=…");
/// ```
pub fn redacted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        // A password may hold any sign but a blank, so the last @ of the word ends it.
        let (word, behind) = after.split_at(after.find(char::is_whitespace).unwrap_or(after.len()));
        match word.rsplit_once('@') {
            Some((PLACEHOLDER, host)) => {
                shown.push_str(PLACEHOLDER);
                shown.push('@');
                shown.push_str(host);
            }
            Some((_, host)) => {
                shown.push('…');
                shown.push('@');
                shown.push_str(host);
            }
            None => shown.push_str(word),
        }
        rest = behind;
    }
    shown.push_str(rest);
    without_passwords(&shown)
}

/// A text whose passwords by name (`password=…`, as an address's parameter or in the form of libpq) are hidden.
fn without_passwords(text: &str) -> String {
    const NAME: &str = "password=";
    // Letters outside ASCII stay as they are, so the places in both texts are the same.
    let lower = text.to_ascii_lowercase();
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = lower.get(at..).and_then(|rest| rest.find(NAME)) {
        let value = at.saturating_add(found).saturating_add(NAME.len());
        shown.push_str(text.get(at..value).unwrap_or_default());
        shown.push('…');
        // Where the text is quoted, the quote may belong to the password: only these end it.
        let rest = text.get(value..).unwrap_or_default();
        let end = rest.find(|sign: char| sign == '&' || sign.is_whitespace());
        at = value.saturating_add(end.unwrap_or(rest.len()));
    }
    shown.push_str(text.get(at..).unwrap_or_default());
    shown
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Address::Sqlite(_) => "Address::Sqlite(…)",
            Address::Postgres(_) => "Address::Postgres(…)",
        })
    }
}
