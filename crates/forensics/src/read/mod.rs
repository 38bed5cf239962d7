//! From files and streams to records: encodings, separators, columns, and a second look at single
//! rows by their place in the file.

pub(crate) mod block;
pub(crate) mod columns;
pub(crate) mod fetch;
pub(crate) mod layout;
pub(crate) mod problem;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod source;
pub(crate) mod split;
