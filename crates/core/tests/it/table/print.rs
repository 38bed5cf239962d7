//! How records and the machine's words are written in the grid.

use crate::grid::{self, Fields, Outcome, hold, owner, receipt, time};
use samekey_core::record::{Record, State};
use samekey_core::step::Verdict;

/// The fields of a record, each under the name by which a change of it is told.
fn fields(record: &Record) -> Fields {
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
    grid::all_fields(&fields(record))
}

fn change(before: &Record, after: &Record) -> String {
    if before == after {
        return "unchanged".to_owned();
    }
    if *after == Record::ABSENT {
        return "the row is gone".to_owned();
    }
    let writes = after.revision - before.revision;
    grid::change(&fields(before), fields(after), writes)
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
