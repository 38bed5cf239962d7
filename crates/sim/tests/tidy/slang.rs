//! The product speaks to its users: no word of how it was made, no address of where its parts were
//! fetched, no path of the machine it was written on.

use crate::repository::{File, files};
use crate::{finds, hold};

/// What must not be said, in lower case.
const FORBIDDEN: [(&str, &str); 12] = [
    ("issue #", "a user has no list of issues at hand; say what was wrong"),
    ("helper agent", "say what the code does"),
    ("/work/", "a path of one machine"),
    ("/root/", "a path of one machine"),
    ("crates.io", "a registry's host"),
    ("pypi.org", "a registry's host"),
    ("pythonhosted", "a registry's host"),
    ("npmjs", "a registry's host"),
    ("deb.debian.org", "a registry's host"),
    ("security.debian.org", "a registry's host"),
    ("proxy.golang.org", "a registry's host"),
    ("our session", "say what the code does"),
];

/// "Session" belongs to databases, poolers and browsers; these are the uses that are theirs.
const SESSIONS: [&str; 10] = [
    "session pooling",
    "session mode",
    "session-mode",
    "session cookie",
    "session variable",
    "session setting",
    "session state",
    "session lock",
    "database session",
    "= session",
];

/// Where every "session" is one of PostgreSQL's, one of the system's processes, or a type that holds one.
const THEIRS: [&str; 9] = [
    "crates/cli/tests/",
    "crates/forensics/",
    "crates/lab/",
    "crates/sim/src/",
    "crates/store/",
    "docs/decisions/",
    "docs/forensics.md",
    "docs/lab.md",
    "tests-interop/",
];

/// Where the words stand because they are the subject, or were written by programs.
const EXEMPT: [&str; 3] = ["crates/sim/tests/tidy/slang.rs", "Cargo.lock", "package-lock.json"];

fn problems(files: &[File]) -> Vec<String> {
    let product = files.iter().filter(|f| !EXEMPT.iter().any(|exempt| f.path.ends_with(exempt)));
    product
        .flat_map(|f| {
            let numbered = f.text.lines().enumerate();
            numbered.flat_map(move |(number, line)| {
                let at = format!("{}:{}", f.path, number + 1);
                let line = if THEIRS.iter().any(|place| f.path.starts_with(place)) {
                    line.to_lowercase().replace("session", "")
                } else {
                    line.to_owned()
                };
                wrong_words(&line).into_iter().map(move |wrong| format!("{at} says {wrong}"))
            })
        })
        .collect()
}

fn wrong_words(line: &str) -> Vec<String> {
    let line = line.to_lowercase();
    let forbidden = FORBIDDEN.iter().filter(|(word, _)| line.contains(word));
    let forbidden = forbidden.map(|(word, why)| format!("`{word}`: {why}"));
    let rest = SESSIONS.iter().fold(line.clone(), |line, phrase| line.replace(phrase, ""));
    // A name such as idle_in_transaction_session_timeout is one word.
    let mut words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let session = words.any(|word| word == "session" || word == "sessions");
    let session = session.then(|| "`session`: if a database's is meant, say which kind".to_owned());
    forbidden.chain(session).collect()
}

#[test]
fn the_product_does_not_talk_about_its_making() {
    hold(&problems(&files()));
}

#[test]
fn planted_slang_is_found() {
    let world = |line: &str| problems(&[File::new("docs/x.md", &format!("\n{line}\n"))]);
    finds(&world("as Issue #12 says"), "docs/x.md:2 says `issue #`");
    finds(&world("see /work/main"), "a path of one machine");
    finds(&world("from https://index.crates.io/x"), "a registry's host");
    finds(&world("written in a session of the project"), "`session`");
    hold(&world("pgbouncer in session mode; set idle_in_transaction_session_timeout; obsession"));
}
