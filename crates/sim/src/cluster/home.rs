//! The folder of one cluster and the account that runs it.
//!
//! PostgreSQL refuses to run as root, so a root caller hands the folder to `postgres` or `nobody`.
//! That account must be able to reach the folder, and the socket's path in it must be short.

use crate::error::{Error, ErrorKind, Result};
use crate::signals;
use crate::target::target_dir;
use nix::unistd::{Uid, User};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The accounts that may run a server for root, in order of preference.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// A unix socket's path may have 107 bytes; the name of the folder and of the socket need these.
const SOCKET_NAME_BYTES: usize = 48;
const SOCKET_PATH_BYTES_MAX: usize = 107;

const PREFIX: &str = "samekey-pg-";

/// The user and group that the server runs as, when they are not our own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Picks the other account when we are root; `None` means that the server runs as ourselves.
pub(crate) fn account() -> Result<Option<Account>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    ACCOUNTS
        .iter()
        .find_map(|name| User::from_name(name).ok().flatten())
        .map(|user| Some(Account { uid: user.uid.as_raw(), gid: user.gid.as_raw() }))
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Missing,
                "found no account to run PostgreSQL as; it refuses to run as root, so expected a \
                 user named postgres or nobody; create one, or run the tests as another user",
            )
        })
}

/// Creates an empty folder that belongs to the account that runs the server.
pub(crate) fn create(account: Option<Account>) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = base(account)?;
    sweep(&base);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
    let cannot = |cause| Error::system(format!("create {}", folder.display()), cause);
    // What a process with our id left behind, before the machine gave that id to us.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).map_err(cannot)?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).map_err(cannot)?;
    give(&folder, account)?;
    Ok(folder)
}

/// Hands `path` to the account that runs the server.
pub(crate) fn give(path: &Path, account: Option<Account>) -> Result<()> {
    match account {
        None => Ok(()),
        Some(Account { uid, gid }) => chown(path, Some(uid), Some(gid))
            .map_err(|cause| Error::system(format!("hand over {}", path.display()), cause)),
    }
}

/// Whether every user may pass through the folder `path` and all folders above it.
pub(crate) fn reachable(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| {
        path.ancestors().all(|folder| {
            folder.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
        })
    })
}

/// Copies the server's programs into the cluster's folder, for a checkout that only root can read.
pub(crate) fn copy_server(root: &Path, bin: &Path, folder: &Path) -> Result<PathBuf> {
    let copy = folder.join("server");
    let status = Command::new("cp")
        .arg("-R")
        .args([root, &copy])
        .status()
        .map_err(|cause| Error::system("run cp", cause))?;
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(&copy).status();
    match (status.success() && opened.is_ok_and(|s| s.success()), bin.strip_prefix(root)) {
        (true, Ok(rest)) => Ok(copy.join(rest)),
        (true, Err(cause)) => Err(Error::system("find the copied server", cause)),
        (false, _) => {
            Err(Error::system(format!("copy {} to {}", root.display(), copy.display()), status))
        }
    }
}

/// Below `target` where that works, else in the system's folder for temporary files.
fn base(account: Option<Account>) -> Result<PathBuf> {
    let ours = target_dir().join("clusters");
    std::fs::create_dir_all(&ours)
        .map_err(|cause| Error::system(format!("create {}", ours.display()), cause))?;
    let short = ours.as_os_str().len() + SOCKET_NAME_BYTES <= SOCKET_PATH_BYTES_MAX;
    let open = account.is_none() || reachable(&ours);
    Ok(if short && open { ours } else { std::env::temp_dir() })
}

/// Removes folders whose owner died before it could; a live owner's folder is left alone.
fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|rest| rest.split_once('-'))
            .and_then(|(owner, _)| owner.parse::<u32>().ok());
        let owner_is_gone = owner.is_some_and(|owner| !signals::runs(owner));
        if owner_is_gone && !server_runs(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the folder's server still runs, by the id in its lock file.
fn server_runs(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("data/postmaster.pid"))
        .ok()
        .and_then(|text| text.lines().next()?.trim().parse::<u32>().ok())
        .is_some_and(signals::runs)
}
