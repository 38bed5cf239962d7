//! How the grid is written down.

use super::inputs::{self, Who};
use samekey_core::lease::{Hold, Owner};
use samekey_core::receipt::Receipt;
use samekey_core::record::{Record, State};
use samekey_core::step::Verdict;
use samekey_core::time::Time;
use std::fmt::{self, Write};

/// How wide a line of inputs may grow; a reviewer reads two windows side by side.
const LINE_MAX: usize = 100;

/// A verdict, and what changed.
#[derive(PartialEq, Eq)]
pub(super) struct Outcome {
    verdict: String,
    change: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.verdict, self.change)
    }
}

/// The inputs of one outcome: a line for everybody who brings the same ones.
pub(super) fn cells(page: &mut String, cells: &[(Who, &'static str)]) {
    let mut lines: Vec<(Vec<&'static str>, Vec<&'static str>)> = Vec::new();
    let mut people: Vec<Who> = cells.iter().map(|(who, _)| *who).collect();
    people.sort_unstable();
    people.dedup();
    for who in people {
        let mut whats: Vec<_> =
            cells.iter().filter(|(other, _)| *other == who).map(|(_, what)| *what).collect();
        if inputs::whole(who) == Some(whats.len()) {
            whats = vec!["everything"];
        }
        match lines.iter_mut().find(|(_, known)| *known == whats) {
            Some((names, _)) => names.push(who.name()),
            None => lines.push((vec![who.name()], whats)),
        }
    }
    for (names, whats) in lines {
        let names = names.join(", ");
        let mut line = if names.is_empty() { String::new() } else { format!("{names}: ") };
        for (index, what) in whats.iter().enumerate() {
            let comma = if index + 1 < whats.len() { ", " } else { "" };
            if line.len() + what.len() > LINE_MAX {
                writeln!(page, "       {}", line.trim_end()).unwrap();
                line = String::from("  ");
            }
            write!(line, "{what}{comma}").unwrap();
        }
        writeln!(page, "       {line}").unwrap();
    }
}

fn time(time: Time) -> String {
    if time.micros() % 1_000_000 == 0 {
        (time.micros() / 1_000_000).to_string()
    } else {
        format!("{}us", time.micros())
    }
}

fn owner(owner: Owner) -> String {
    match owner.bytes()[0] {
        0 => "nobody".to_owned(),
        letter => char::from(letter).to_string(),
    }
}

fn hold(hold: Hold) -> String {
    format!("{} with fence {}", owner(hold.owner), hold.fence)
}

fn receipt(receipt: &Receipt) -> String {
    match receipt {
        Receipt::Kept(answer) => format!("kept {}", answer.status),
        Receipt::Fact { status, location: None } => format!("fact {status}"),
        Receipt::Fact { status, location: Some(_) } => format!("fact {status} with location"),
    }
}

/// The fields of a record, each under the name by which a change of it is told.
fn fields(record: &Record) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("fence", record.fence.to_string()),
        ("holder", owner(record.holder)),
        ("revision", record.revision.to_string()),
        ("keep_until", time(record.keep_until)),
    ];
    match &record.state {
        State::Free => fields.insert(0, ("state", "free".to_owned())),
        State::Running(running) => {
            fields.insert(0, ("state", "running".to_owned()));
            fields.push(("since", time(running.since)));
            fields.push(("lease_ends", time(running.lease_ends)));
            fields.push(("run_ends", time(running.run_ends)));
        }
        State::Unknown(unknown) => {
            fields.insert(0, ("state", "unknown".to_owned()));
            fields.push(("since", time(unknown.since)));
            fields.push(("life", unknown.life.to_string()));
            fields.push(("reason", unknown.reason.code().to_owned()));
            fields.push(("last_send", time(unknown.last_send)));
            fields.push(("asked", unknown.asked.to_string()));
            fields.push(("not_found", unknown.not_found.to_string()));
            fields.push(("ask_after", time(unknown.ask_after)));
            let evidence = unknown.evidence.as_ref();
            fields.push(("evidence", evidence.map_or("none".to_owned(), receipt)));
        }
        State::Review(review) => {
            fields.insert(0, ("state", "review".to_owned()));
            fields.push(("since", time(review.since)));
            fields.push(("life", review.life.to_string()));
            fields.push(("reason", review.reason.code().to_owned()));
        }
        State::Done(done) => {
            fields.insert(0, ("state", "done".to_owned()));
            fields.push(("since", time(done.since)));
            fields.push(("receipt", receipt(&done.receipt)));
        }
        State::Closed(closed) => {
            fields.insert(0, ("state", "closed".to_owned()));
            fields.push(("since", time(closed.since)));
        }
    }
    fields
}

pub(super) fn record(record: &Record) -> String {
    let fields = fields(record);
    fields.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn change(before: &Record, after: &Record) -> String {
    if before == after {
        return "unchanged".to_owned();
    }
    if *after == Record::ABSENT {
        return "the row is gone".to_owned();
    }
    let old = fields(before);
    // Every write moves the revision by at least one; only the odd step of two is worth a word.
    let once = after.revision == before.revision + 1;
    fields(after)
        .into_iter()
        .filter(|field| !(old.contains(field) || once && field.0 == "revision"))
        .map(|(name, value)| format!("{name} {value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Run(to) => format!("RUN ({})", hold(*to)),
        Verdict::Replay(answer) => format!("REPLAY ({})", receipt(answer)),
        Verdict::InProgress(wait) => format!("IN PROGRESS, retry after {}", wait.seconds()),
        Verdict::OutcomePending(wait) => format!("OUTCOME PENDING, retry after {}", wait.seconds()),
        Verdict::Renewed(until) => format!("RENEWED until {}", time(*until)),
        Verdict::Ask(to) => format!("ASK ({})", hold(*to)),
        Verdict::AskAgain(after) => format!("ASK AGAIN after {}", time(*after)),
        Verdict::Mismatch => "MISMATCH".to_owned(),
        Verdict::OutcomeUnknown => "OUTCOME UNKNOWN".to_owned(),
        Verdict::Closed => "CLOSED".to_owned(),
        Verdict::TooEarly => "TOO EARLY".to_owned(),
        Verdict::RunOver => "RUN OVER".to_owned(),
        Verdict::Settled => "SETTLED".to_owned(),
        Verdict::Freed => "FREED".to_owned(),
        Verdict::Recorded => "RECORDED".to_owned(),
        Verdict::Stale => "STALE".to_owned(),
        Verdict::NotDue => "NOT DUE".to_owned(),
        Verdict::HandedOver => "HANDED OVER".to_owned(),
        Verdict::Decided => "DECIDED".to_owned(),
        Verdict::Forgotten => "FORGOTTEN".to_owned(),
        Verdict::StaleView => "STALE VIEW".to_owned(),
        Verdict::Swept => "SWEPT".to_owned(),
        Verdict::Kept => "KEPT".to_owned(),
    }
}

pub(super) fn outcome(before: &Record, after: &Record, said: &Verdict) -> Outcome {
    Outcome { verdict: verdict(said), change: change(before, after) }
}
