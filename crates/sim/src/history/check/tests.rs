//! A right history is let through, and one wrong history an invariant is not.

mod calls;
mod commands;
mod people;
mod records;
mod rest;

use crate::history::{Answer, Attempt, Booking, Effect, Evidence, History, Row, Rules, Violation};

/// A run of one key that a test bends.
struct Run {
    attempts: Vec<Attempt>,
    effects: Vec<Effect>,
    rows: Vec<Row>,
    rules: Rules,
    asked: Vec<Booking>,
    more: Evidence,
}

fn answer(status: u16, code: Option<&str>, body: &str) -> Answer {
    Answer {
        status,
        code: code.map(str::to_owned),
        headers: vec![("location".to_owned(), b"/orders/7".to_vec())],
        body: body.as_bytes().to_vec(),
        is_replay: false,
        told: None,
    }
}

fn attempt(reference: &str, began: u64, ended: u64, answer: Option<Answer>) -> Attempt {
    let (org, key) = ("a".to_owned(), "k".to_owned());
    Attempt { org, key, reference: reference.to_owned(), began, ended, answer }
}

fn first() -> Answer {
    answer(201, None, "the stored answer of r1")
}

fn replay() -> Answer {
    Answer { is_replay: true, ..first() }
}

fn busy() -> Answer {
    Answer { headers: Vec::new(), ..answer(409, Some("samekey.in-progress"), "wait") }
}

fn mismatch(body: &str) -> Answer {
    Answer { headers: Vec::new(), ..answer(422, Some("samekey.key-reused"), body) }
}

fn effect(reference: &str) -> Effect {
    Effect { org: "a".to_owned(), reference: reference.to_owned() }
}

fn row(state: &str, status: Option<u16>) -> Row {
    Row { org: "a".to_owned(), key: "k".to_owned(), state: state.to_owned(), status }
}

impl Run {
    /// The first answer is lost on its way, a duplicate is told to wait, a retry gets the answer, and
    /// other content is refused.
    fn right() -> Run {
        Run {
            attempts: vec![
                attempt("r1", 1, 9, None),
                attempt("r1", 2, 4, Some(busy())),
                attempt("r1", 10, 11, Some(replay())),
                attempt("r2", 12, 13, Some(mismatch("a key is one action"))),
            ],
            effects: vec![effect("r1")],
            rows: vec![row("done", Some(201))],
            rules: Rules::default(),
            asked: Vec::new(),
            more: Evidence::default(),
        }
    }

    fn check(&self) -> Vec<Violation> {
        let history = History::default();
        self.attempts.iter().for_each(|attempt| history.add(attempt.clone()));
        self.asked.iter().for_each(|booking| history.ask(booking.clone()));
        let (effects, rows) = (self.effects.clone(), self.rows.clone());
        history.audit(&Evidence { effects, rows, rules: self.rules, ..self.more.clone() })
    }

    /// Asserts that this invariant, at least, is found violated.
    fn breaks(&self, rule: &str, found: &str) {
        let all = self.check();
        assert!(all.iter().any(|v| v.rule == rule && v.found.contains(found)), "{all:?}");
    }
}

fn bent(bend: impl FnOnce(&mut Run)) -> Run {
    let mut run = Run::right();
    bend(&mut run);
    run
}

#[test]
fn a_right_history_is_let_through() {
    assert_eq!(Run::right().check(), []);
    let two_hundred = bent(|run| {
        run.attempts[0].answer = Some(first());
        run.attempts[2].answer = Some(Answer { status: 200, ..replay() });
        run.attempts[3].answer = Some(Answer { status: 200, ..replay() });
        run.rules = Rules { first_write_wins: true, replay_status: Some(200) };
    });
    assert_eq!(two_hundred.check(), []);
    let refused = bent(|run| {
        run.attempts.truncate(1);
        run.attempts[0].answer = Some(answer(402, None, "no"));
        run.effects.clear();
        run.rows = vec![row("done", Some(402))];
    });
    assert_eq!(refused.check(), []);
}

#[test]
fn s1_a_second_effect_is_found() {
    bent(|run| run.effects.push(effect("r1"))).breaks("S1", "2 effects");
    // Also when it was made by the other content.
    bent(|run| run.effects.push(effect("r2"))).breaks("S1", "2 effects");
}

#[test]
fn s2_an_action_without_an_end_is_found() {
    bent(|run| run.attempts.truncate(2)).breaks("S2", "no attempt ever got a final answer");
    bent(|run| run.attempts[2].answer = Some(Answer { told: Some("r9".to_owned()), ..replay() }))
        .breaks("S2", "told of r9");
}

#[test]
fn s3_a_lost_acknowledgement_is_found() {
    bent(|run| run.effects.clear()).breaks("S3", "its effect is gone");
    bent(|run| run.rows.clear()).breaks("S3", "no row says so");
}

#[test]
fn s4_an_effect_without_its_row_is_found() {
    bent(|run| run.rows.clear()).breaks("S4", "without a row");
    bent(|run| run.rows.push(row("done", Some(201)))).breaks("S4", "two rows");
}

#[test]
fn s5_a_row_that_lies_is_found() {
    bent(|run| run.effects.clear()).breaks("S5", "there is no effect");
    bent(|run| run.rows = vec![row("done", Some(402))]).breaks("S5", "there is an effect");
    bent(|run| run.attempts[2].answer = Some(answer(402, None, "no")))
        .breaks("S5", "a refusal was answered");
    bent(|run| run.rows = vec![row("running", None)]).breaks("open", "left running");
}

#[test]
fn s6_answers_that_differ_are_found() {
    let with_first = |second: Answer| {
        bent(|run| {
            run.attempts[0].answer = Some(first());
            run.attempts[2].answer = Some(second);
        })
    };
    assert_eq!(with_first(replay()).check(), []);
    with_first(Answer { body: b"another".to_vec(), ..replay() }).breaks("S6", "differ in body");
    with_first(Answer { headers: Vec::new(), ..replay() }).breaks("S6", "kept headers");
    with_first(Answer { status: 200, ..replay() }).breaks("S6", "one says 201, another 200");
    with_first(first()).breaks("S6", "two answers claim to be the first");
    let mut wrong_status = with_first(replay());
    wrong_status.rules.replay_status = Some(200);
    wrong_status.breaks("S6", "a replay says 201, not 200");
}

#[test]
fn s7_other_content_that_is_served_is_found() {
    bent(|run| run.attempts[3].answer = Some(replay())).breaks("S7", "two contents");
    bent(|run| run.attempts[3].answer = Some(mismatch("see: the stored answer of r1")))
        .breaks("S7", "shows the stored answer");
    bent(|run| run.attempts[3].reference = "r1".to_owned()).breaks("S7", "own content");
}

#[test]
fn s8_an_effect_that_nobody_asked_for_is_found() {
    bent(|run| run.effects[0].org = "b".to_owned()).breaks("S8", "never asked for");
}

#[test]
fn s9_a_wait_for_nobody_is_found() {
    bent(|run| run.attempts[3] = attempt("r1", 12, 13, Some(busy())))
        .breaks("S9", "was done before");
    let mut alone = bent(|run| run.attempts[0].began = 5);
    alone.attempts[0].ended = 9;
    alone.breaks("S9", "nobody else had sent");
    let unknown =
        Answer { headers: Vec::new(), ..answer(409, Some("samekey.outcome-unknown"), "?") };
    bent(|run| run.attempts[3] = attempt("r1", 12, 13, Some(unknown)))
        .breaks("S9", "outcome-unknown, though the key was done before");
}
