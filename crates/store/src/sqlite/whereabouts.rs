//! Whether the file that is open is still the one at its address.
//!
//! A process goes on writing to a file that was deleted or replaced, and everything that it
//! acknowledges is gone when it ends. So the writer looks before each group and again before it tells
//! anybody of the commit. That is two questions to the system each time, some microseconds beside a
//! commit's milliseconds.

use crate::error::{Kind, StoreError};
use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The files of a database that is open, as they were when it was opened.
#[derive(Debug)]
pub(super) struct Whereabouts {
    files: Vec<(PathBuf, Identity)>,
    gone: Cell<bool>,
}

/// What tells a file from another one at the same path.
type Identity = (u64, u64);

impl Whereabouts {
    /// Notes the database at `path`, which is open, and its write-ahead log.
    pub(super) fn of(path: &Path) -> Result<Whereabouts, StoreError> {
        // The process may change its directory later.
        let path = std::path::absolute(path).map_err(|_| gone())?;
        let mut log = OsString::from(path.as_os_str());
        log.push("-wal");
        let mut files = Vec::new();
        for path in [path, PathBuf::from(log)] {
            let identity = identity(&path).ok_or_else(gone)?;
            files.push((path, identity));
        }
        Ok(Whereabouts { files, gone: Cell::new(false) })
    }

    /// Refuses where a file is not the one that is open, and from then on: a file that is put back may
    /// lack what others wrote meanwhile.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let is_there = |(path, known): &(PathBuf, Identity)| identity(path) == Some(*known);
        if !self.gone.get() && !self.files.iter().all(is_there) {
            tracing::error!("{}", gone());
            self.gone.set(true);
        }
        if self.gone.get() { Err(gone()) } else { Ok(()) }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Elsewhere a file that is open cannot be replaced.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    path.exists().then_some((0, 0))
}

fn gone() -> StoreError {
    StoreError::new(
        Kind::Unreachable,
        "the database file, or the log beside it, was deleted or replaced while it was open, and what is written now would be lost; stop, put the right files in place, and start again",
    )
}
