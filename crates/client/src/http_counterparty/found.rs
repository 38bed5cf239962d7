//! What an answer to a question says about a command.

use super::compare::{Ours, Sameness};
use super::pointer::Pointer;
use super::reading::{Mark, Reading, Standing, document};
use crate::transport::Incoming;
use samekey_core::delivery::AskedBy;
use samekey_core::outcome::Heard;
use serde_json::Value;

/// How answers to questions are read.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// Statuses that mean *not found*.
    pub(crate) not_found_statuses: Vec<u16>,
    /// By what the counterparty's own *not found* is known.
    pub(crate) not_found: Option<Mark>,
    /// Where the list stands, if a question is answered with one.
    pub(crate) list: Option<Pointer>,
}

/// What is asked about.
pub(crate) struct Asked<'a> {
    pub(crate) ours: &'a Ours,
    /// Its key, and whether it was asked by that.
    pub(crate) key: &'a str,
    pub(crate) by: AskedBy,
}

/// What one document of the counterparty's says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Executed,
    Refused,
    Pending,
    Different,
    CannotTell,
}

impl Finding {
    pub(crate) fn heard(&self, reading: &Reading, incoming: Incoming, asked: &Asked<'_>) -> Heard {
        let document = document(&incoming);
        if self.is_not_found(incoming.status, document.as_ref()) {
            return Heard::NotFound;
        }
        let (200, Some(document)) = (incoming.status, document) else { return Heard::CannotTell };
        let verdict = match &self.list {
            None => verdict(reading, asked, &document),
            Some(list) => match list.of(&document).and_then(Value::as_array) {
                None => Verdict::CannotTell,
                Some(entries) if entries.is_empty() => return Heard::NotFound,
                Some(entries) => of_all(reading, asked, entries),
            },
        };
        match verdict {
            Verdict::Executed => Heard::Executed(reading.receipt(incoming)),
            Verdict::Refused => Heard::Refused(reading.receipt(incoming)),
            Verdict::Pending => Heard::Pending,
            Verdict::Different => Heard::Different,
            Verdict::CannotTell => Heard::CannotTell,
        }
    }

    /// A wrong path and a proxy answer 404 as well. Where *not found* is to prove anything, a mark is
    /// declared.
    fn is_not_found(&self, status: u16, document: Option<&Value>) -> bool {
        match &self.not_found {
            Some(mark) => mark.fits(status, document),
            None => self.not_found_statuses.contains(&status),
        }
    }
}

/// What a list says. Entries with another reference are not ours: some servers ignore what they are asked
/// for and list everything.
fn of_all(reading: &Reading, asked: &Asked<'_>, entries: &[Value]) -> Verdict {
    let ours = entries.iter().filter(|entry| reading.compare.names_ours(asked.ours, entry));
    let verdicts: Vec<Verdict> = ours.map(|entry| verdict(reading, asked, entry)).collect();
    let has = |wanted| verdicts.contains(&wanted);
    let executed = verdicts.iter().filter(|verdict| **verdict == Verdict::Executed).count();
    if has(Verdict::Different) || executed > 1 {
        // Another amount, or more than one for one action: a person has to look.
        Verdict::Different
    } else if executed == 1 {
        Verdict::Executed
    } else if has(Verdict::Pending) {
        Verdict::Pending
    } else if has(Verdict::CannotTell) || verdicts.is_empty() {
        // Ours may be on another page.
        Verdict::CannotTell
    } else {
        Verdict::Refused
    }
}

fn verdict(reading: &Reading, asked: &Asked<'_>, document: &Value) -> Verdict {
    let Some(standing) = reading.status.as_ref().and_then(|words| words.of(document)) else {
        return Verdict::CannotTell;
    };
    // Asked by reference, an earlier command of the same action may be found, under its own key.
    let key = match asked.by {
        AskedBy::Key => Some(asked.key),
        AskedBy::Reference => None,
    };
    match (standing, reading.compare.sameness(asked.ours, key, document)) {
        (Standing::Pending, Sameness::Same | Sameness::Missing) => Verdict::Pending,
        (Standing::Succeeded | Standing::Refused | Standing::Pending, Sameness::Different) => {
            Verdict::Different
        }
        (Standing::Succeeded | Standing::Refused, Sameness::Missing) => Verdict::CannotTell,
        (Standing::Succeeded, Sameness::Same) => Verdict::Executed,
        (Standing::Refused, Sameness::Same) => Verdict::Refused,
    }
}
