//! Lays out the exercise in a folder, in one of three languages.

use crate::error::{Error, Kind};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The languages of the exercise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// English.
    English,
    /// Japanese.
    Japanese,
    /// Korean.
    Korean,
}

impl Language {
    /// Every language, with its code.
    pub const ALL: [(&'static str, Self); 3] =
        [("en", Self::English), ("ja", Self::Japanese), ("ko", Self::Korean)];

    fn text(self) -> &'static str {
        match self {
            Self::English => include_str!("../text/en.md"),
            Self::Japanese => include_str!("../text/ja.md"),
            Self::Korean => include_str!("../text/ko.md"),
        }
    }
}

/// The payment records that the exercise asks to look into.
const PAYMENTS: &str = include_str!("../text/payments.csv");

/// Writes the task (`README.md`) and `payments.csv` into a folder, which is made where it is missing. Nothing that
/// is there already is touched: where one of the two files exists, nothing is written at all.
pub fn lay_out(folder: &Path, language: Language) -> Result<Vec<PathBuf>, Error> {
    let failed = |path: &Path, error: &io::Error| {
        Error::new(Kind::Exercise, format!("{}: {error}", path.display()))
    };
    let files = [("README.md", language.text()), ("payments.csv", PAYMENTS)];
    for (name, _) in files {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            let advice = "is there already, so nothing was written; name another folder";
            return Err(Error::new(Kind::Exercise, format!("{} {advice}", path.display())));
        }
    }
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let mut written = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        File::create_new(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| failed(&path, &error))?;
        written.push(path);
    }
    Ok(written)
}
