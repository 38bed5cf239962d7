//! S1 to S5: effects, what was answered, and what the row of the key says.

use super::{Action, Report, never_asked};
use crate::history::{Booking, Evidence, Limits, Meaning, Violation};
use std::collections::HashMap;

pub(super) fn check(action: &Action<'_>, limits: &Limits, report: &mut Report<'_>) {
    at_most_once(action, report);
    ended(action, limits, report);
    nothing_lost(action, report);
    with_its_row(action, report);
    row_and_effect(action, report);
}

/// S2: as much happened as was asked for.
pub(super) fn check_amounts(asked: &[Booking], evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut wanted: HashMap<(&str, &str), Vec<u64>> = HashMap::new();
    for Booking { org, reference, amount } in asked {
        wanted.entry((org, reference)).or_default().push(*amount);
    }
    for Booking { org, reference, amount } in &evidence.bookings {
        match wanted.get(&(org.as_str(), reference.as_str())) {
            Some(amounts) if amounts.contains(amount) => {}
            Some(amounts) => found.push(Violation {
                rule: "S2",
                found: format!(
                    "org {org}: {reference} is over {amount}, and was asked over {amounts:?}"
                ),
            }),
            None => found.push(never_asked("the amount of", org, reference)),
        }
    }
}

/// S1: at most one effect, not counting what a person ordered.
fn at_most_once(action: &Action<'_>, report: &mut Report<'_>) {
    let effects = action.effects.len();
    if effects > 1 + action.sent_by_person {
        report.wrong("S1", &format!("{effects} effects"));
    }
}

/// S2: every action ends, effects are what was answered, and the answer tells of that effect.
fn ended(action: &Action<'_>, limits: &Limits, report: &mut Report<'_>) {
    if action.finals().next().is_none() && !action.ended_with_a_person(limits) {
        report.wrong("S2", "no attempt ever got a final answer");
    }
    let Some(effect) = action.effects.first() else { return };
    for (_, answer) in action.finals() {
        if let Some(told) = &answer.told
            && *told != effect.reference
        {
            report.wrong("S2", &format!("told of {told}, and the effect is {}", effect.reference));
        }
    }
}

/// S3: what was acknowledged stands.
fn nothing_lost(action: &Action<'_>, report: &mut Report<'_>) {
    if action.was_told(Meaning::Success) && action.effects.is_empty() {
        report.wrong("S3", "a success was answered and its effect is gone");
    }
    let is_done = action.rows.iter().any(|row| row.state == "done");
    if action.finals().next().is_some() && !is_done {
        report.wrong("S3", "a final answer was given and no row says so");
    }
}

/// S4: no effect without its key's row.
fn with_its_row(action: &Action<'_>, report: &mut Report<'_>) {
    if !action.effects.is_empty() && action.rows.is_empty() {
        report.wrong("S4", "an effect without a row of its key");
    }
    if action.rows.len() > 1 {
        report.wrong("S4", "two rows of one key");
    }
}

/// S5: done with a success means an effect; refused means none.
fn row_and_effect(action: &Action<'_>, report: &mut Report<'_>) {
    for row in &action.rows {
        let succeeded = row.status.map(|status| (200..400).contains(&status));
        match (row.state.as_str(), succeeded) {
            ("done", Some(true)) if action.effects.is_empty() => {
                report.wrong("S5", "the row says success, and there is no effect");
            }
            ("done", Some(false)) if !action.effects.is_empty() => {
                report.wrong("S5", "the row says refused, and there is an effect");
            }
            _ => {}
        }
    }
    if action.was_told(Meaning::Refusal) && !action.effects.is_empty() {
        report.wrong("S5", "a refusal was answered, and there is an effect");
    }
}
