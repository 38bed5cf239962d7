//! The invariants by subject, over what is known of each key.
//!
//! Here everything is brought together by key; what must hold is said in `check/`: `effects`,
//! `answers`, `records`, `calls`, `commands`, `secrets` and `liveness`.

mod answers;
mod calls;
mod commands;
mod effects;
mod liveness;
mod records;
mod secrets;

use super::{
    Act, Answer, Attempt, Booking, Effect, Evidence, LastAnswer, Limits, Meaning, Row, Violation,
};
use std::borrow::Cow;
use std::collections::HashMap;

/// Everything about one key of one organisation.
#[derive(Default)]
struct Action<'a> {
    attempts: Vec<&'a Attempt>,
    last_round: Vec<&'a LastAnswer>,
    effects: Vec<Cow<'a, Effect>>,
    rows: Vec<&'a Row>,
    /// How often a person had it sent again.
    sent_by_person: usize,
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
    asked: &[Booking],
    evidence: &Evidence,
) -> Vec<Violation> {
    let mut actions: HashMap<Scope<'_>, Action<'_>> = HashMap::new();
    // Which key an effect belongs to.
    let mut keys: HashMap<Scope<'_>, Scope<'_>> = HashMap::new();
    let last_attempts = evidence.last_round.iter().map(|last| &last.attempt);
    for attempt in attempts.iter().chain(last_attempts) {
        let scope = (attempt.org.as_str(), attempt.key.as_str());
        actions.entry(scope).or_default().attempts.push(attempt);
        keys.insert((&attempt.org, &attempt.reference), scope);
    }
    for last in &evidence.last_round {
        let scope = (last.attempt.org.as_str(), last.attempt.key.as_str());
        actions.entry(scope).or_default().last_round.push(last);
    }
    let mut found = Vec::new();
    let plain = evidence.effects.iter().map(Cow::Borrowed);
    for effect in plain.chain(evidence.bookings.iter().map(|booking| Cow::Owned(booking.effect())))
    {
        match keys.get(&(effect.org.as_str(), effect.reference.as_str())) {
            Some(scope) => actions.entry(*scope).or_default().effects.push(effect),
            None => found.push(never_asked("the effect", &effect.org, &effect.reference)),
        }
    }
    for row in &evidence.rows {
        // Rows of keys that this history knows nothing of are another run's.
        if let Some(action) = actions.get_mut(&(row.org.as_str(), row.key.as_str())) {
            action.rows.push(row);
        }
    }
    for person in evidence.by_person.iter().filter(|person| person.act == Act::Send) {
        if let Some(action) = actions.get_mut(&(person.org.as_str(), person.key.as_str())) {
            action.sent_by_person += 1;
        }
    }
    for (scope, action) in &actions {
        let mut report = Report { scope: *scope, found: Vec::new() };
        effects::check(action, &evidence.limits, &mut report);
        answers::check(action, evidence.rules, &mut report);
        liveness::check(action, evidence, &mut report);
        found.append(&mut report.found);
    }
    effects::check_amounts(asked, evidence, &mut found);
    records::check(evidence, &mut found);
    calls::check(evidence, &keys, &mut found);
    commands::check(evidence, &keys, &actions, &mut found);
    secrets::check(attempts, evidence, &mut found);
    liveness::check_rest(evidence, &actions, &mut found);
    found
}

/// S8, and the end of all reasoning about it.
fn never_asked(what: &str, org: &str, reference: &str) -> Violation {
    Violation {
        rule: "S8",
        found: format!("org {org}: {what} {reference} was never asked for by this organisation"),
    }
}

impl Booking {
    fn effect(&self) -> Effect {
        Effect { org: self.org.clone(), reference: self.reference.clone() }
    }
}

impl<'a> Action<'a> {
    fn answers(&self) -> impl Iterator<Item = (&'a Attempt, &'a Answer)> {
        self.attempts.iter().filter_map(|attempt| Some((*attempt, attempt.answer.as_ref()?)))
    }

    /// The answers that settle the matter.
    fn finals(&self) -> impl Iterator<Item = (&'a Attempt, &'a Answer)> {
        self.answers().filter(|(_, answer)| settles(answer.meaning()))
    }

    fn was_told(&self, meaning: Meaning) -> bool {
        self.answers().any(|(_, answer)| answer.meaning() == meaning)
    }

    /// Whether it ended with a person, where it may.
    fn ended_with_a_person(&self, limits: &Limits) -> bool {
        self.was_told(Meaning::Closed)
            || (limits.may_end_in_review && self.was_told(Meaning::Unknown))
    }
}

fn settles(meaning: Meaning) -> bool {
    match meaning {
        Meaning::Success | Meaning::Refusal | Meaning::NotKept => true,
        Meaning::Mismatch
        | Meaning::Pending
        | Meaning::Unknown
        | Meaning::Closed
        | Meaning::NotNow => false,
    }
}

#[cfg(test)]
mod tests;
