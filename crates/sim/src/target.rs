//! Where the build puts things: found from the running program, so that every worktree and every
//! `CARGO_TARGET_DIR` has its own.

use std::path::{Path, PathBuf};

/// The `target` folder that the running program was built into.
pub(crate) fn target_dir() -> PathBuf {
    // Cargo marks its target folder with this file; nothing else above a test binary has one.
    let marked = std::env::current_exe().ok().and_then(|exe| {
        exe.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(Path::to_path_buf)
    });
    marked.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"))
}

/// The folder that holds the built programs of the running program's own profile, such as
/// `target/debug`.
pub(crate) fn programs_dir() -> PathBuf {
    let folder = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
    match folder {
        // Test binaries live one folder deeper, in `deps` (benches and examples likewise).
        Some(folder) if folder.ends_with("deps") || folder.ends_with("examples") => {
            folder.parent().map(Path::to_path_buf).unwrap_or(folder)
        }
        Some(folder) => folder,
        None => target_dir().join("debug"),
    }
}
