//! Everything that is wrong with settings at once, for whoever writes them.

use super::source::Source;
use super::{Overrides, Settings};
use crate::error::Error;
use samekey_store::address::Address;
use samekey_store::{StoreError, postgres};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// How many faults are told; who has more begins with these.
const FAULTS_MAX: usize = 100;
/// Stands for an upstream that is missing or wrong while the rest is looked at.
const ANY_UPSTREAM: &str = "http://127.0.0.1:1";

impl Settings {
    /// Every fault of the settings, each with its place and a remedy; nothing where [`Settings::read`] and the
    /// ledger's address are good.
    ///
    /// What is found wrong is left out and the rest read again. So a fault that has to do with two settings may
    /// be told only when one of them is mended.
    pub fn faults(file: Option<(&str, &str)>, overrides: &Overrides) -> Vec<Error> {
        let mut overrides = overrides.clone();
        let mut faults = wrong_overrides(&mut overrides);
        let (name, text) = file.unwrap_or_default();
        let source = Source { name, text };
        let mut parsed = match source.parse() {
            Ok(parsed) => parsed,
            Err(error) => {
                faults.push(error);
                return faults;
            }
        };
        let names_upstream = |parsed: &Spanned<DeTable<'_>>| {
            parsed.get_ref().keys().any(|key| key.get_ref() == "upstream")
        };
        if overrides.upstream.is_none() && !names_upstream(&parsed) {
            faults.extend(Settings::read(None, &Overrides::default()).err());
            overrides.upstream = Some(ANY_UPSTREAM.to_owned());
        }
        // Tables that have lost a setting here: what they then lack is nobody's fault but ours.
        let mut maimed: Vec<Range<usize>> = Vec::new();
        while faults.len() < FAULTS_MAX {
            let error = match Settings::of(source, &parsed, &overrides) {
                Ok(settings) => match wrong_database(source, &parsed, &settings, &overrides) {
                    Some(error) => error,
                    None => break,
                },
                Err(error) => error,
            };
            let at = error.place().cloned();
            if at.as_ref().is_none_or(|at| !maimed.contains(at)) {
                faults.push(error);
            }
            match at.and_then(|at| remove(parsed.get_mut(), &at, &(0..0))) {
                Some(table) => maimed.push(table),
                None => break,
            }
            if overrides.upstream.is_none() && !names_upstream(&parsed) {
                overrides.upstream = Some(ANY_UPSTREAM.to_owned());
            }
        }
        faults
    }
}

/// What is wrong with flags and variables, each looked at alone; the wrong ones are taken away.
fn wrong_overrides(overrides: &mut Overrides) -> Vec<Error> {
    let any = || Overrides { upstream: Some(ANY_UPSTREAM.to_owned()), ..Overrides::default() };
    let mut faults = Vec::new();
    let mut look = |alone: Overrides| match Settings::read(None, &alone) {
        Ok(settings) => match ledger(settings.database()) {
            Ok(()) => true,
            Err(error) => {
                faults.push(Error::settings(format!("--database: {error}")));
                false
            }
        },
        Err(error) => {
            faults.push(error);
            false
        }
    };
    if overrides.upstream.is_some()
        && !look(Overrides { upstream: overrides.upstream.clone(), ..any() })
    {
        overrides.upstream = Some(ANY_UPSTREAM.to_owned());
    }
    if !look(Overrides { listen: overrides.listen.clone(), ..any() }) {
        overrides.listen = None;
    }
    if !look(Overrides { admin: overrides.admin.clone(), ..any() }) {
        overrides.admin = None;
    }
    if !look(Overrides { database: overrides.database.clone(), ..any() }) {
        overrides.database = None;
    }
    faults
}

/// Understands an address as opening does. Nothing is connected to, and no file is looked for.
fn ledger(address: &str) -> Result<(), StoreError> {
    match Address::parse(address)? {
        Address::Postgres(url) => postgres::connect(&url).map(|_| ()),
        Address::Sqlite(_) => Ok(()),
    }
}

/// The ledger's address, where the file says it.
fn wrong_database(
    source: Source<'_>,
    parsed: &Spanned<DeTable<'_>>,
    settings: &Settings,
    overrides: &Overrides,
) -> Option<Error> {
    let error = ledger(settings.database()).err()?;
    if overrides.database.is_some() {
        return None;
    }
    let key = parsed.get_ref().keys().find(|key| key.get_ref() == "database")?;
    let sentence = format!("{}: `database`: {error}", source.place(&key.span()));
    Some(Error::settings(sentence).at(key.span()))
}

/// Removes what is at this place: a setting by its key, or a table of a list. Gives the place of the table that
/// has lost it; nothing where nothing is there.
fn remove(table: &mut DeTable<'_>, at: &Range<usize>, own: &Range<usize>) -> Option<Range<usize>> {
    if let Some(key) = table.keys().find(|key| key.span() == *at).cloned() {
        table.remove(&key);
        return Some(own.clone());
    }
    table.iter_mut().find_map(|(key, value)| remove_in(value.get_mut(), at, &key.span()))
}

fn remove_in(
    value: &mut DeValue<'_>,
    at: &Range<usize>,
    own: &Range<usize>,
) -> Option<Range<usize>> {
    if let DeValue::Table(table) = value {
        return remove(table, at, own);
    }
    let DeValue::Array(list) = value else { return None };
    if list.iter().any(|one| one.span() == *at) {
        let all = std::mem::replace(list, DeArray::new());
        *list = all.into_iter().filter(|one| one.span() != *at).collect();
        return Some(own.clone());
    }
    list.iter_mut().find_map(|one| {
        let own = one.span();
        remove_in(one.get_mut(), at, &own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, overrides: &Overrides) -> Vec<String> {
        let faults = Settings::faults(Some(("s.toml", text)), overrides);
        faults.iter().map(Error::to_string).collect()
    }

    #[test]
    fn good_settings_have_no_fault() {
        assert_eq!(told("upstream = \"http://a\"", &Overrides::default()), [""; 0]);
        let upstream = Some("http://a".to_owned());
        let overrides = Overrides { upstream, ..Overrides::default() };
        assert!(Settings::faults(None, &overrides).is_empty());
    }

    #[test]
    fn every_fault_is_told_with_its_place() {
        let text = "listne = 1\nlisten = 8080\ndatabase = \"mysql://u:canary@h/d\"\n[limits]\ngrace_ms = 0\n\
                    [default]\nkey = \"of\"\n[[route]]\npath = \"/a\"\n[[route]]\nname = \"b\"\npath = \"/b\"\nkey = 1\n\
                    rerun = \"maybe\"\n[default.in_progress]\nstatus = 9\n";
        let overrides = Overrides { admin: Some("here".to_owned()), ..Overrides::default() };
        let told = told(text, &overrides);
        for part in [
            "--admin: found \"here\"",
            "no upstream is named",
            "s.toml:1: `listne` is no setting; did you mean `listen`?",
            "s.toml:2: `listen`: found an integer",
            "s.toml:3: `database`: the database address",
            "s.toml:5: `limits.grace_ms`: found 0",
            "s.toml:7: `default.key`: found \"of\"",
            "s.toml:8: `route.name`: is missing",
            "s.toml:13: `route.key`: found an integer",
            "s.toml:14: `route.rerun`: found \"maybe\"",
            "`default.in_progress.status`: found 9",
        ] {
            assert!(told.iter().any(|sentence| sentence.contains(part)), "{part}: {told:#?}");
        }
        assert_eq!(told.len(), 11, "{told:#?}");
        assert!(!told.concat().contains("canary"), "{told:#?}");
    }

    #[test]
    fn what_is_no_toml_is_one_fault_and_so_is_each_flag() {
        assert!(
            matches!(&told("a = [", &Overrides::default())[..], [one] if one.starts_with("s.toml:1: "))
        );
        let wrong = |text: &str| Some(text.to_owned());
        let overrides = Overrides {
            upstream: wrong("https://u:canary@h"),
            listen: wrong("1"),
            admin: wrong("2"),
            database: wrong("postgres://u:canary@h:port/d"),
        };
        let faults = Settings::faults(None, &overrides);
        let told: Vec<String> = faults.iter().map(Error::to_string).collect();
        assert_eq!(told.len(), 4, "{told:#?}");
        assert!(!told.concat().contains("canary"), "{told:#?}");
    }

    #[test]
    fn there_is_an_end_to_faults() {
        let text: String = (0..200).map(|number| format!("x{number} = 1\n")).collect();
        assert_eq!(told(&text, &Overrides::default()).len(), FAULTS_MAX);
    }
}
