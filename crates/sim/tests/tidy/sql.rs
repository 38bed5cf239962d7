//! Both databases have the same statements under the same names, or a file says why not.

use crate::repository::{File, files};
use crate::{finds, hold};

const DIALECTS: [&str; 2] = ["crates/store/sql/postgres/", "crates/store/sql/sqlite/"];

/// The first line of a statement that only one of the databases has; a reason must follow.
const ALONE: &str = "-- only here: ";

fn problems(files: &[File]) -> Vec<String> {
    let name = |file: &File, dialect: &str| {
        let name = file.path.strip_prefix(dialect)?;
        file.has_extension("sql").then(|| name.to_owned())
    };
    let lacks = |here: &str, there: &str| -> Vec<String> {
        files
            .iter()
            .filter_map(|file| Some((file, name(file, here)?)))
            .filter(|(file, _)| {
                let reason = file.text.lines().next().and_then(|l| l.strip_prefix(ALONE));
                reason.is_none_or(|reason| reason.trim().is_empty())
            })
            .filter(|(_, wanted)| !files.iter().any(|f| name(f, there).as_ref() == Some(wanted)))
            .map(|(file, wanted)| {
                format!(
                    "{} has no twin {there}{wanted}, nor a first line `{ALONE}REASON`",
                    file.path
                )
            })
            .collect()
    };
    let [postgres, sqlite] = DIALECTS;
    [lacks(postgres, sqlite), lacks(sqlite, postgres)].concat()
}

#[test]
fn every_statement_has_its_twin() {
    hold(&problems(&files()));
}

#[test]
fn planted_lonely_statements_are_found() {
    let file = |dialect: usize, name: &str, text: &str| {
        File::new(&format!("{}{name}", DIALECTS[dialect]), text)
    };
    let pair = [file(0, "claim.sql", "select 1"), file(1, "claim.sql", "select 1")];
    hold(&problems(&pair));
    finds(&problems(&pair[..1]), "no twin crates/store/sql/sqlite/claim.sql");
    finds(&problems(&pair[1..]), "no twin crates/store/sql/postgres/claim.sql");
    hold(&problems(&[file(0, "group.sql", "-- only here: one writer needs no groups\n")]));
    finds(&problems(&[file(0, "group.sql", "-- only here: \nselect 1")]), "nor a first line");
}
