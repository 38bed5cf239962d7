//! The invariants, one function each, over what is known of one key.

use super::{Answer, Attempt, Effect, Meaning, Row, Rules, Violation};
use std::collections::HashMap;

/// Shorter stored bodies are too common to be recognised in another answer.
const CANARY_BYTES_MIN: usize = 12;

/// Everything about one key of one organisation.
#[derive(Default)]
struct Action<'a> {
    attempts: Vec<&'a Attempt>,
    effects: Vec<&'a Effect>,
    rows: Vec<&'a Row>,
}

type Scope<'a> = (&'a str, &'a str);

struct Report<'a> {
    scope: Scope<'a>,
    found: Vec<Violation>,
}

impl Report<'_> {
    fn wrong(&mut self, rule: &'static str, found: &str) {
        let (org, key) = self.scope;
        self.found.push(Violation { rule, found: format!("org {org}, key {key}: {found}") });
    }
}

pub(super) fn check(
    attempts: &[Attempt],
    effects: &[Effect],
    rows: &[Row],
    rules: Rules,
) -> Vec<Violation> {
    let mut actions: HashMap<Scope<'_>, Action<'_>> = HashMap::new();
    let mut asked: HashMap<Scope<'_>, Scope<'_>> = HashMap::new();
    for attempt in attempts {
        let scope = (attempt.org.as_str(), attempt.key.as_str());
        actions.entry(scope).or_default().attempts.push(attempt);
        asked.insert((&attempt.org, &attempt.reference), scope);
    }
    let mut found = Vec::new();
    for effect in effects {
        match asked.get(&(effect.org.as_str(), effect.reference.as_str())) {
            Some(scope) => actions.entry(*scope).or_default().effects.push(effect),
            None => found.push(Violation {
                rule: "S8",
                found: format!(
                    "org {}: the effect {} was never asked for by this organisation",
                    effect.org, effect.reference
                ),
            }),
        }
    }
    for row in rows {
        // Rows of keys that this history knows nothing of are another run's.
        if let Some(action) = actions.get_mut(&(row.org.as_str(), row.key.as_str())) {
            action.rows.push(row);
        }
    }
    for (scope, action) in &actions {
        let mut report = Report { scope: *scope, found: Vec::new() };
        at_most_once(action, &mut report);
        ended(action, &mut report);
        nothing_lost(action, &mut report);
        with_its_row(action, &mut report);
        row_and_effect(action, &mut report);
        one_answer(action, rules, &mut report);
        other_content(action, rules, &mut report);
        truthful(action, &mut report);
        found.append(&mut report.found);
    }
    found
}

impl<'a> Action<'a> {
    fn answers(&self) -> impl Iterator<Item = (&'a Attempt, &'a Answer)> {
        self.attempts.iter().filter_map(|attempt| Some((*attempt, attempt.answer.as_ref()?)))
    }

    /// The answers that settle the matter.
    fn finals(&self) -> impl Iterator<Item = (&'a Attempt, &'a Answer)> {
        self.answers().filter(|(_, answer)| match answer.meaning() {
            Meaning::Success | Meaning::Refusal | Meaning::NotKept => true,
            Meaning::Mismatch | Meaning::Pending | Meaning::NotNow => false,
        })
    }

    fn succeeded(&self) -> bool {
        self.finals().any(|(_, answer)| answer.meaning() == Meaning::Success)
    }

    fn was_refused(&self) -> bool {
        self.finals().any(|(_, answer)| answer.meaning() == Meaning::Refusal)
    }
}

/// S1: at most one effect.
fn at_most_once(action: &Action<'_>, report: &mut Report<'_>) {
    let effects = action.effects.len();
    if effects > 1 {
        report.wrong("S1", &format!("{effects} effects"));
    }
}

/// S2: every action ends, effects are what was answered, and the answer tells of that effect.
fn ended(action: &Action<'_>, report: &mut Report<'_>) {
    if action.finals().next().is_none() {
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
    if action.succeeded() && action.effects.is_empty() {
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

/// S5: done with a success means an effect; refused means none. And nothing is left open.
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
            ("running" | "unknown" | "review", _) => {
                report.wrong("open", &format!("the row is left {}", row.state));
            }
            _ => {}
        }
    }
    if action.was_refused() && !action.effects.is_empty() {
        report.wrong("S5", "a refusal was answered, and there is an effect");
    }
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

/// S9: who is told to wait had somebody to wait for.
fn truthful(action: &Action<'_>, report: &mut Report<'_>) {
    let done = action.finals().map(|(attempt, _)| attempt.ended).min();
    let mut begun: Vec<u64> = action.attempts.iter().map(|attempt| attempt.began).collect();
    begun.sort_unstable();
    for (attempt, _) in
        action.answers().filter(|(_, a)| a.code.as_deref() == Some("samekey.in-progress"))
    {
        if done.is_some_and(|done| done < attempt.began) {
            report.wrong("S9", "in-progress, though the key was done before this was sent");
        }
        // Itself is one; whoever runs must have been sent as well before this answer.
        if begun.partition_point(|began| *began < attempt.ended) < 2 {
            report.wrong("S9", "in-progress, though nobody else had sent this key");
        }
    }
}

#[cfg(test)]
mod tests;
