//! What a courier delivers: how its commands ended.

use super::calls::call;
use super::{Run, bent};
use crate::history::{Call, CallKind, EndedCommand};

fn with(state: &str, bend: impl FnOnce(&mut Run)) -> Run {
    let state = state.to_owned();
    bent(|run| {
        let (org, reference) = ("a".to_owned(), "r1".to_owned());
        run.more.commands = vec![EndedCommand { org, reference, state }];
        bend(run);
    })
}

#[test]
fn commands_that_ended_as_their_effects_say_are_let_through() {
    assert_eq!(with("succeeded", |_| ()).check(), []);
    assert_eq!(with("undecided", |run| run.more.limits.may_end_in_review = true).check(), []);
}

#[test]
fn s3_s4_s5_a_command_and_its_effect_go_together() {
    with("", |_| ()).breaks("S4", "its command is gone");
    with("succeeded", |run| run.effects.clear()).breaks("S3", "its command has succeeded");
    for state in ["refused", "failed", "cancelled"] {
        with(state, |_| ()).breaks("S5", "there is an effect");
    }
    for state in ["waiting", "sending", "unknown"] {
        with(state, |_| ()).breaks("open", "is left");
    }
    with("undecided", |_| ()).breaks("liveness", "waits for a person");
    with("succeeded", |run| run.more.commands[0].reference = "r9".to_owned())
        .breaks("S8", "never asked for");
}

fn asked_between(question: Option<Call>) -> Run {
    with("succeeded", |run| {
        run.more.calls = vec![call(100), call(300)];
        run.more.calls.extend(question);
        run.more.limits.calls_max = 2;
        run.more.limits.asks_first = true;
    })
}

#[test]
fn s13_what_may_have_been_sent_is_asked_about_before_it_is_sent_again() {
    let question = Call { kind: CallKind::Question, ..call(200) };
    assert_eq!(asked_between(Some(question.clone())).check(), []);
    asked_between(None).breaks("S13", "nobody had asked");
    asked_between(Some(Call { ended: None, ..question })).breaks("S13", "nobody had asked");
    let late = Call { kind: CallKind::Question, ..call(400) };
    asked_between(Some(late)).breaks("S13", "nobody had asked");
}
