//! S3 to S5, S13 and liveness for what a courier delivers: how its commands ended, beside the effects and the
//! calls.

use super::{Action, Scope};
use crate::history::{Call, CallKind, EndedCommand, Evidence, Meaning, Violation};
use std::collections::HashMap;

pub(super) fn check<'a>(
    evidence: &'a Evidence,
    keys: &HashMap<Scope<'a>, Scope<'a>>,
    actions: &HashMap<Scope<'a>, Action<'a>>,
    found: &mut Vec<Violation>,
) {
    for command in &evidence.commands {
        let reference = (command.org.as_str(), command.reference.as_str());
        let Some(action) = keys.get(&reference).and_then(|scope| actions.get(scope)) else {
            found.push(super::never_asked("the command for", &command.org, &command.reference));
            continue;
        };
        if let Some((rule, what)) = wrong(command, action, evidence.limits.may_end_in_review) {
            let (org, reference) = reference;
            found.push(Violation { rule, found: format!("org {org}, {reference}: {what}") });
        }
    }
    if evidence.limits.asks_first {
        asked_first(evidence, found);
    }
}

fn wrong(
    command: &EndedCommand,
    action: &Action<'_>,
    may_wait_for_a_person: bool,
) -> Option<(&'static str, String)> {
    let effects = action.effects.len();
    let state = command.state.as_str();
    match state {
        "" if action.was_told(Meaning::Success) => {
            Some(("S4", "it was acknowledged, and its command is gone".to_owned()))
        }
        "" if effects > 0 => Some(("S4", "an effect without a command".to_owned())),
        "" => None,
        "waiting" | "sending" | "unknown" => Some(("open", format!("its command is left {state}"))),
        "succeeded" if effects == 0 => {
            Some(("S3", "its command has succeeded, and its effect is gone".to_owned()))
        }
        "refused" | "failed" | "cancelled" if effects > 0 => {
            Some(("S5", format!("its command is {state}, and there is an effect")))
        }
        "failed" | "undecided" if !may_wait_for_a_person => {
            Some(("liveness", format!("its command is {state}, and waits for a person")))
        }
        _ => None,
    }
}

/// S13: between two sends of one command somebody asked and was answered, or else it was sent again blindly.
fn asked_first(evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut by_action: HashMap<Scope<'_>, Vec<&Call>> = HashMap::new();
    for call in &evidence.calls {
        by_action.entry((&call.org, &call.reference)).or_default().push(call);
    }
    for ((org, reference), mut calls) in by_action {
        calls.sort_by_key(|call| call.began);
        let (mut was_sent, mut was_answered) = (false, false);
        for call in calls {
            match call.kind {
                CallKind::Question => was_answered |= call.ended.is_some(),
                CallKind::Command if was_sent && !was_answered => {
                    let what = "it was sent again, and nobody had asked about it";
                    let found_here = format!("org {org}, {reference}: {what}");
                    found.push(Violation { rule: "S13", found: found_here });
                    was_answered = false;
                }
                CallKind::Command => (was_sent, was_answered) = (true, false),
            }
        }
    }
}
