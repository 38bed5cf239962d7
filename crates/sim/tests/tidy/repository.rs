//! Reads the repository once: paths relative to its root, with the text of what is text.

use std::path::{Path, PathBuf};

/// Folders that hold what programs wrote or fetched.
const SKIPPED: [&str; 4] = ["target", ".git", "node_modules", ".venv"];

/// A text file of the repository.
#[derive(Debug, Clone)]
pub struct File {
    /// Relative to the root, with `/` between the parts.
    pub path: String,
    pub text: String,
}

impl File {
    /// For planted files.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|e| e == extension)
    }
}

/// Every text file of the repository, in the order of the paths.
pub fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // A link would be read twice, or lead out of the repository.
            if SKIPPED.contains(&name.as_str()) || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Some(file) = read(&root, path) {
                found.push(file);
            }
        }
    }
    assert!(found.iter().any(|file| file.path == "Cargo.toml"), "this is not the root: {root:?}");
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn read(root: &Path, path: PathBuf) -> Option<File> {
    // What is not UTF-8 is not text: pictures, databases.
    let text = std::fs::read_to_string(&path).ok()?;
    let relative = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    Some(File { path: relative, text })
}
