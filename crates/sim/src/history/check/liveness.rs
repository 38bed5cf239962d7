//! After healing nothing is left behind: no open row but those that wait for a person, final answers
//! on every node, no transaction, no lock.

use super::{Action, Report, Scope, settles};
use crate::history::{Evidence, LastAnswer, Meaning, Violation};
use std::collections::{BTreeSet, HashMap};

/// What is left of one key.
pub(super) fn check(action: &Action<'_>, evidence: &Evidence, report: &mut Report<'_>) {
    for row in &action.rows {
        let may_stay = match row.state.as_str() {
            "review" => evidence.limits.may_end_in_review,
            "running" | "unknown" => false,
            _ => true,
        };
        if !may_stay {
            report.wrong("open", &format!("the row is left {}", row.state));
        }
    }
}

/// What is left of the run.
pub(super) fn check_rest(
    evidence: &Evidence,
    actions: &HashMap<Scope<'_>, Action<'_>>,
    found: &mut Vec<Violation>,
) {
    let mut wrong = |sentence: String| found.push(Violation { rule: "liveness", found: sentence });
    let nodes: BTreeSet<&str> = evidence.last_round.iter().map(|last| last.node.as_str()).collect();
    for ((org, key), action) in actions {
        for node in &nodes {
            let ended = |last: &&&LastAnswer| last.node == *node && is_end(last, evidence);
            if action.last_round.iter().find(ended).is_none() {
                wrong(format!("org {org}, key {key}: no final answer on node {node}"));
            }
        }
    }
    for (org, key) in &evidence.open_claims {
        let action = actions.get(&(org.as_str(), key.as_str()));
        // Keys that this history knows nothing of are another run's.
        if action.is_some_and(|action| !action.rows.iter().any(|row| is_open(&row.state))) {
            wrong(format!("org {org}, key {key}: recovery would look for a key that is not open"));
        }
    }
    let Some(rest) = &evidence.at_rest else { return };
    for transaction in &rest.transactions {
        let (pid, state, age) = (transaction.pid, &transaction.state, transaction.age);
        let statement = &transaction.statement;
        wrong(format!("a transaction is left {state} for {age:?} in process {pid}: {statement}"));
    }
    if rest.waiting > 0 {
        wrong(format!("{} wait for a lock", rest.waiting));
    }
}

fn is_open(state: &str) -> bool {
    matches!(state, "running" | "unknown" | "review")
}

fn is_end(last: &LastAnswer, evidence: &Evidence) -> bool {
    last.attempt.answer.as_ref().is_some_and(|answer| match answer.meaning() {
        Meaning::Unknown => evidence.limits.may_end_in_review,
        Meaning::Closed => true,
        Meaning::Mismatch => evidence.rules.first_write_wins,
        meaning @ (Meaning::Success
        | Meaning::Refusal
        | Meaning::NotKept
        | Meaning::Pending
        | Meaning::NotNow) => settles(meaning),
    })
}
