//! S14, and what is left after healing.

use super::{Run, attempt, bent, busy, replay, row};
use crate::history::{Activity, Captured, LastAnswer, Moment, OpenTransaction};
use std::time::Duration;

fn planted() -> Run {
    bent(|run| {
        run.more.secrets = vec!["card 4111".to_owned(), "Bearer s3cret".to_owned()];
        let (place, bytes) = ("standard error".to_owned(), b"listening\nended\n".to_vec());
        run.more.captured = vec![Captured { place, bytes }];
    })
}

#[test]
fn s14_a_secret_that_shows_is_found_and_not_repeated() {
    assert_eq!(planted().check(), []);
    let mut run = planted();
    run.more.captured[0].bytes.extend(b"refused: Bearer s3cret\n");
    run.breaks("S14", "secret number 1 stands in standard error");
    assert!(run.check().iter().all(|violation| !violation.found.contains("s3cret")));
    let mut run = planted();
    run.attempts[2].answer.as_mut().unwrap().body.extend(b" card 4111");
    run.breaks("S14", "secret number 0 stands in an answer");
    let mut run = planted();
    run.attempts[2].answer.as_mut().unwrap().headers[0].1 = b"/card 4111".to_vec();
    run.breaks("S14", "an answer to org a, key k");
}

/// Both nodes were asked once more.
fn healed() -> Run {
    bent(|run| {
        let last = |node: &str, at| LastAnswer {
            node: node.to_owned(),
            attempt: attempt("r1", at, at + 1, Some(replay())),
        };
        run.more.last_round = vec![last("one", 20), last("two", 22)];
        let moment = Moment { at: 30, when: Duration::from_secs(1) };
        run.more.at_rest =
            Some(Activity { moment, until: moment, transactions: Vec::new(), waiting: 0 });
        run.more.open_claims = vec![("b".to_owned(), "another run's".to_owned())];
    })
}

#[test]
fn liveness_a_node_without_a_final_answer_is_found() {
    assert_eq!(healed().check(), []);
    let mut run = healed();
    run.more.last_round[1].attempt.answer = None;
    run.breaks("liveness", "no final answer on node two");
    let mut run = healed();
    run.more.last_round[1].attempt.answer = Some(busy());
    run.breaks("liveness", "no final answer on node two");
    run.breaks("S9", "was done before");
    let mut run = healed();
    run.more.last_round[1].attempt.answer.as_mut().unwrap().body.clear();
    run.breaks("S6", "differ in body");
}

#[test]
fn liveness_what_is_left_in_the_database_is_found() {
    let mut run = healed();
    run.more.open_claims.push(("a".to_owned(), "k".to_owned()));
    run.breaks("liveness", "a key that is not open");
    let mut run = healed();
    let rest = run.more.at_rest.as_mut().unwrap();
    rest.waiting = 2;
    rest.transactions.push(OpenTransaction {
        pid: 9,
        age: Duration::from_secs(3),
        held: Duration::from_secs(3),
        state: "idle in transaction".to_owned(),
        statement: "select 1".to_owned(),
    });
    run.breaks("liveness", "a transaction is left idle in transaction for 3s in process 9");
    run.breaks("liveness", "2 wait for a lock");
    for state in ["running", "unknown", "review"] {
        let mut run = healed();
        run.rows = vec![row(state, None)];
        run.breaks("open", state);
    }
}
