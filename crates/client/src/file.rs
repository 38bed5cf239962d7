//! Files that settings name: certificates, keys, credentials.

use std::fmt;
use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Why a file has nothing to say.
#[derive(Debug)]
pub enum Unread {
    /// Something that is not a regular file, called so.
    Is(&'static str),
    /// It has more than this many bytes.
    Larger(u64),
    /// It is not there, or not for us.
    Failed(io::Error),
}

/// What is wrong with a file, to be said behind its name.
impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Is(kind) => write!(f, "is {kind}, expected a regular file"),
            Unread::Larger(bytes_max) => write!(f, "has more than {bytes_max} bytes"),
            Unread::Failed(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

/// What stands in a regular file of at most this many bytes. It waits for the disk, and never for a writer: whoever
/// reads a pipe may wait for ever, and a device has no end.
///
/// # Errors
/// Something that is not a regular file, is larger, or cannot be read.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Unread> {
    // Opening a pipe waits already, so this is asked before.
    let kind = std::fs::metadata(path).map_err(Unread::Failed)?.file_type();
    if !kind.is_file() {
        return Err(Unread::Is(name_of(kind)));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Unread::Failed)?;
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(Unread::Failed)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(Unread::Larger(bytes_max));
    }
    Ok(bytes)
}

/// What a file is that is not regular.
fn name_of(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
