//! SQLite: opened read-only, told to refuse writes, and asked for one statement that reads.

use std::io::{Seek, SeekFrom};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::error::Error;
use crate::read::source::Input;

pub(super) fn rows(path: &str, query: &str) -> Result<Input, Error> {
    let refused = |error: &rusqlite::Error| Error::usage(format!("the query is refused: {error}"));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| {
        Error::unreachable(format!("{path}: the database cannot be opened: {error}"))
    })?;
    connection.pragma_update(None, "query_only", true).map_err(|error| refused(&error))?;
    let mut statement = connection.prepare(query).map_err(|error| refused(&error))?;
    if !statement.readonly() {
        return Err(Error::usage("the query would write; expected one SELECT"));
    }
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let width = names.len();
    let broken = |cause| Error::machine("a temporary file cannot be written", &cause);
    // Rows are copied out first: the database is free again before anything is examined.
    let mut copy = tempfile::tempfile().map_err(broken)?;
    let mut writer = csv::Writer::from_writer(std::io::BufWriter::new(&copy));
    let unwritten = |error: csv::Error| broken(std::io::Error::other(error));
    writer.write_record(&names).map_err(unwritten)?;
    let mut rows = statement.query([]).map_err(|error| refused(&error))?;
    while let Some(row) = rows.next().map_err(|error| refused(&error))? {
        for column in 0..width {
            let value = row.get_ref(column).map_err(|error| refused(&error))?;
            let text = match value {
                ValueRef::Null => Vec::new(),
                ValueRef::Integer(number) => number.to_string().into_bytes(),
                ValueRef::Real(number) => number.to_string().into_bytes(),
                ValueRef::Text(text) | ValueRef::Blob(text) => text.to_vec(),
            };
            writer.write_field(&text).map_err(unwritten)?;
        }
        writer.write_record(None::<&[u8]>).map_err(unwritten)?;
    }
    writer.flush().map_err(broken)?;
    drop(writer);
    copy.seek(SeekFrom::Start(0)).map_err(broken)?;
    Ok(Input::Stream { name: format!("{path} (query)"), bytes: Box::new(copy) })
}
