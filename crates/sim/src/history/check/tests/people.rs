//! Actions that end with a person, and effects with amounts.

use super::{Run, answer, attempt, bent, effect, row};
use crate::history::{Act, Answer, Booking, ByPerson};

fn told(code: &str) -> Answer {
    Answer { headers: Vec::new(), ..answer(409, Some(code), "a person decides") }
}

/// The call was lost, and nobody can be asked.
fn review() -> Run {
    bent(|run| {
        run.attempts = vec![attempt("r1", 1, 9, Some(told("samekey.outcome-unknown")))];
        run.rows = vec![row("review", None)];
        run.more.limits.may_end_in_review = true;
    })
}

fn booking(reference: &str, amount: u64) -> Booking {
    Booking { org: "a".to_owned(), reference: reference.to_owned(), amount }
}

fn by_person(act: Act) -> ByPerson {
    ByPerson { org: "a".to_owned(), key: "k".to_owned(), act }
}

#[test]
fn an_action_in_review_counts_as_neither_and_may_have_its_effect_once() {
    assert_eq!(review().check(), []);
    let mut without = review();
    without.effects.clear();
    assert_eq!(without.check(), []);
    let mut twice = review();
    twice.effects.push(effect("r1"));
    twice.breaks("S1", "2 effects");
}

#[test]
fn a_review_where_none_may_be_is_found() {
    let mut run = review();
    run.more.limits.may_end_in_review = false;
    run.breaks("S2", "no attempt ever got a final answer");
    run.breaks("open", "left review");
}

#[test]
fn a_closed_key_is_neither_a_success_nor_a_refusal() {
    let mut run = review();
    run.attempts.push(attempt("r1", 10, 11, Some(told("samekey.closed-by-operator"))));
    run.rows = vec![row("closed", None)];
    assert_eq!(run.check(), []);
    run.effects.clear();
    assert_eq!(run.check(), []);
}

#[test]
fn a_send_that_a_person_ordered_does_not_count() {
    let mut run = bent(|run| run.effects.push(effect("r1")));
    run.more.by_person = vec![by_person(Act::Send)];
    assert_eq!(run.check(), []);
    run.more.by_person = vec![by_person(Act::Forget)];
    run.breaks("S1", "2 effects");
}

#[test]
fn s2_another_amount_is_found() {
    let mut run = bent(|run| {
        run.effects.clear();
        run.asked = vec![booking("r1", 100)];
        run.more.bookings = vec![booking("r1", 100)];
    });
    assert_eq!(run.check(), []);
    run.more.bookings[0].amount = 101;
    run.breaks("S2", "over 101, and was asked over [100]");
    run.more.bookings = vec![booking("r1", 100), booking("r1", 100)];
    run.breaks("S1", "2 effects");
    run.asked.clear();
    run.breaks("S8", "never asked for");
}
