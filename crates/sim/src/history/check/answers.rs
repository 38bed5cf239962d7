//! S6, S7 and S9: all answers of one key.

use super::{Action, Report};
use crate::history::{Meaning, Rules};

/// Shorter stored bodies are too common to be recognised in another answer.
const CANARY_BYTES_MIN: usize = 12;

pub(super) fn check(action: &Action<'_>, rules: Rules, report: &mut Report<'_>) {
    one_answer(action, rules, report);
    other_content(action, rules, report);
    truthful(action, report);
}

/// S6: all final answers are one.
fn one_answer(action: &Action<'_>, rules: Rules, report: &mut Report<'_>) {
    let mut kept = action.finals().filter(|(_, a)| a.meaning() != Meaning::NotKept);
    let Some((_, first)) = kept.next() else { return };
    for (_, answer) in kept {
        if answer.body != first.body || answer.headers != first.headers {
            report.wrong("S6", "two final answers differ in body or kept headers");
        }
        let forgiven = |status: u16| {
            let success = (200..300).contains(&status);
            if success && rules.replay_status.is_some() {
                rules.replay_status
            } else {
                Some(status)
            }
        };
        if forgiven(answer.status) != forgiven(first.status) {
            report.wrong("S6", &format!("one says {}, another {}", first.status, answer.status));
        }
    }
    for (_, answer) in action.finals() {
        let is_success = (200..300).contains(&answer.status);
        if let Some(status) = rules.replay_status
            && answer.is_replay
            && is_success
            && answer.status != status
        {
            report.wrong("S6", &format!("a replay says {}, not {status}", answer.status));
        }
    }
    if action.finals().filter(|(_, answer)| !answer.is_replay).count() > 1 {
        report.wrong("S6", "two answers claim to be the first execution");
    }
}

/// S7: other content gets the mismatch answer, and nothing of what is stored.
fn other_content(action: &Action<'_>, rules: Rules, report: &mut Report<'_>) {
    let mut owners: Vec<&str> =
        action.finals().map(|(attempt, _)| attempt.reference.as_str()).collect();
    owners.sort_unstable();
    owners.dedup();
    if owners.len() > 1 && !rules.first_write_wins {
        report.wrong("S7", "two contents got a final answer under one key");
    }
    let bodies: Vec<&[u8]> = action
        .finals()
        .map(|(_, answer)| answer.body.as_slice())
        .filter(|body| body.len() >= CANARY_BYTES_MIN)
        .take(1)
        .collect();
    for (attempt, answer) in action.answers().filter(|(_, a)| a.meaning() == Meaning::Mismatch) {
        if owners == [attempt.reference.as_str()] {
            report.wrong("S7", "the key's own content got the mismatch answer");
        }
        let shows = |body: &&[u8]| answer.body.windows(body.len()).any(|part| part == *body);
        if bodies.iter().any(shows) {
            report.wrong("S7", "a mismatch shows the stored answer");
        }
    }
}

/// S9: who is told to wait had somebody to wait for, and who is told that nobody knows was told so while
/// nobody knew.
fn truthful(action: &Action<'_>, report: &mut Report<'_>) {
    let done = action.finals().map(|(attempt, _)| attempt.ended).min();
    let mut begun: Vec<u64> = action.attempts.iter().map(|attempt| attempt.began).collect();
    begun.sort_unstable();
    for (attempt, answer) in action.answers() {
        match answer.meaning() {
            Meaning::Pending | Meaning::Unknown => {}
            Meaning::Success
            | Meaning::Refusal
            | Meaning::NotKept
            | Meaning::Mismatch
            | Meaning::Closed
            | Meaning::NotNow => continue,
        }
        let code = answer.code.as_deref().unwrap_or_default();
        let code = code.strip_prefix("samekey.").unwrap_or(code);
        if done.is_some_and(|done| done < attempt.began) {
            report.wrong("S9", &format!("{code}, though the key was done before this was sent"));
        }
        // Itself is one; whoever runs must have been sent as well before this answer.
        if code == "in-progress" && begun.partition_point(|began| *began < attempt.ended) < 2 {
            report.wrong("S9", "in-progress, though nobody else had sent this key");
        }
    }
}
