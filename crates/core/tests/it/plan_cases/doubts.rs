//! Cases about what may have run, and about who wakes up late.

use super::{ANSWERS, Case, DEDUPS, NOT_SENT, OPAQUE, TIMED_OUT, done, receipt, refused, seconds};
use samekey_core::delivery::{AskedBy, Proof, Reason, State};
use samekey_core::lease::{Hold, Owner};
use samekey_core::outcome::{Heard, Outcome, Speaks};
use samekey_core::plan::{Decision, Input, Verdict, enqueued_after_loss};
use samekey_core::profile::Limits;
use samekey_core::receipt::Receipt;
use std::time::Duration;

#[test]
fn b16_giving_up_in_doubt_is_no_failure_and_late_truth_counts() {
    let mut case = Case::new(Limits { attempts_max: 3, ..Limits::DURABLE }, DEDUPS);
    for _ in 0..3 {
        let attempt = case.send();
        case.report(attempt.hold, TIMED_OUT);
    }
    assert_eq!(case.state(), "undecided");
    assert!(case.delivery.is_in_inbox() && !case.delivery.may_be_followed());
    case.passes(seconds(20));
    assert_eq!(case.say(Input::Learn(Proof::Executed(receipt(201)))), Verdict::Ended);
    assert_eq!((case.state(), case.delivery.sends), ("succeeded", 3));
}

#[test]
fn b17_a_new_key_only_after_a_definite_failure() {
    let mut declined = Case::new(Limits::DURABLE, OPAQUE);
    let attempt = declined.send();
    declined.report(attempt.hold, refused());
    assert_eq!(declined.state(), "refused");
    assert!(declined.delivery.may_be_followed());

    let mut doubtful = Case::new(Limits::DURABLE, OPAQUE);
    let attempt = doubtful.send();
    doubtful.report(attempt.hold, TIMED_OUT);
    assert_eq!(doubtful.state(), "undecided");
    assert!(!doubtful.delivery.may_be_followed());
}

/// The second worker succeeds while the first is stopped; the first wakes up with an error.
#[test]
fn b28_a_stopped_worker_does_not_overwrite_what_came_after_it() {
    let mut case = Case::new(Limits::DURABLE, DEDUPS);
    let stopped = case.send();
    let second = case.send();
    assert_eq!(case.report(second.hold, done()), Verdict::Ended);
    let before = case.delivery.clone();
    for outcome in [TIMED_OUT, NOT_SENT, refused(), Outcome::Stop(Reason::KeyReused)] {
        assert_eq!(case.report(stopped.hold, outcome), Verdict::Stale);
    }
    // Also where the new worker has the token of the old one.
    let twin = Hold { owner: second.hold.owner, fence: stopped.hold.fence };
    assert_eq!(case.report(twin, TIMED_OUT), Verdict::Stale);
    assert_eq!(case.delivery, before);
}

/// Its only attempt was refused: what it says too late is certain all the same.
#[test]
fn b28_a_late_refusal_of_the_only_attempt_is_certain() {
    let mut case = Case::new(Limits::DURABLE, OPAQUE);
    let stopped = case.send();
    assert_eq!(case.take(), Verdict::Ended);
    assert_eq!(case.state(), "undecided");
    assert_eq!(case.report(stopped.hold, refused()), Verdict::Ended);
    assert_eq!(case.state(), "refused");
}

/// Somebody declared how long a request may still arrive, and was wrong: both attempts were executed.
#[test]
fn b28_an_earlier_attempt_that_ran_all_the_same_raises_the_alarm() {
    let to_second_attempt = || {
        let mut case = Case::new(Limits::DURABLE, ANSWERS);
        let zombie = case.send();
        while !matches!(case.delivery.state, State::Waiting(_)) {
            let asker = case.ask();
            case.hear(asker, Heard::NotFound);
        }
        let second = case.send();
        (case, zombie, second)
    };
    // It says so after the second has succeeded.
    let (mut case, zombie, second) = to_second_attempt();
    case.report(second.hold, done());
    assert_eq!(case.report(zombie.hold, done()), Verdict::Contradicts);
    assert_eq!(case.state(), "succeeded");
    // Or while it is on its way.
    let (mut case, zombie, second) = to_second_attempt();
    assert_eq!(case.report(zombie.hold, done()), Verdict::Ended);
    assert_eq!(case.state(), "undecided");
    assert_eq!(case.report(second.hold, done()), Verdict::Contradicts);
    assert_eq!(case.state(), "undecided");
}

#[test]
fn b35_a_question_that_finds_it_ends_it() {
    let mut case = Case::new(Limits::DURABLE, ANSWERS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    let asker = case.ask();
    assert_eq!(case.say(Input::Take(Owner::from_bytes([99; 16]))), Verdict::NotDue);
    assert_eq!(case.hear(asker, Heard::Executed(receipt(201))), Verdict::Ended);
    assert_eq!((case.state(), case.delivery.sends), ("succeeded", 1));
}

/// A question that was put too early does not use up one of those that prove something.
#[test]
fn b35_two_questions_are_enough_however_early_the_first_is_put() {
    let limits = Limits { questions_max: 2, ..Limits::DURABLE };
    let mut case = Case::new(limits, ANSWERS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    for _ in 0..3 {
        let asker = case.ask();
        case.hear(asker, Heard::NotFound);
    }
    assert_eq!(case.state(), "waiting");
}

/// *Not found* after the bound, twice, leads to exactly one more send; before it, to none.
#[test]
fn b35_not_found_is_proof_only_after_its_bound_and_twice() {
    let mut case = Case::new(Limits::DURABLE, ANSWERS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    let sent = case.delivery.last_send.unwrap();
    let early = case.ask();
    case.hear(early, Heard::NotFound);
    assert!(case.delivery.due().unwrap() >= sent.plus(seconds(600)));
    let once = case.ask();
    case.hear(once, Heard::NotFound);
    assert_eq!(case.state(), "unknown");
    let twice = case.ask();
    case.hear(twice, Heard::NotFound);
    assert_eq!(case.state(), "waiting");
    assert_eq!(case.delivery.doubt, None);
    let again = case.send();
    assert_eq!(again.number, 2);
    case.report(again.hold, done());
    assert_eq!(case.state(), "succeeded");
}

#[test]
fn b35_questions_that_fail_leave_it_unknown_and_then_to_a_person() {
    let limits = Limits { questions_max: 3, ..Limits::DURABLE };
    let mut case = Case::new(limits, ANSWERS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    for _ in 0..3 {
        assert_eq!(case.state(), "unknown");
        let asker = case.ask();
        case.hear(asker, Heard::CannotTell);
    }
    let State::Undecided(ended) = &case.delivery.state else { panic!("{}", case.state()) };
    assert_eq!(
        (ended.with, case.delivery.doubt),
        (Reason::QuestionsUsedUp, Some(Reason::TimedOut))
    );
    assert_eq!(case.delivery.sends, 1);
}

/// An asker that slept with its answer does not speak for a question that was put off.
#[test]
fn b35_a_stale_answer_does_not_count_for_a_later_question() {
    let mut case = Case::new(Limits::DURABLE, ANSWERS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    let early = case.ask();
    case.passes(seconds(700));
    case.say(Input::Defer(seconds(60)));
    case.passes(seconds(60));
    assert_eq!(case.hear(early, Heard::NotFound), Verdict::Stale);
}

/// A worker is stopped in the middle: the lease ends, and the same key goes on.
#[test]
fn b62_a_worker_that_goes_leaves_doubt_and_the_same_key_goes_on() {
    let mut case = Case::new(Limits::DURABLE, DEDUPS);
    let gone = case.send();
    assert_eq!(case.say(Input::Take(Owner::from_bytes([9; 16]))), Verdict::NotDue);
    case.passes(case.profile.lease);
    assert!(matches!(case.take(), Verdict::Send(next) if next.number == 2));
    assert_eq!(case.delivery.doubt, Some(Reason::LeaseLapsed));
    assert_eq!(case.report(gone.hold, NOT_SENT), Verdict::Stale);
}

/// One that goes before it sent anything says so, and nothing is in doubt.
#[test]
fn b62_a_worker_that_gives_back_leaves_no_doubt() {
    let mut case = Case::new(Limits::DURABLE, OPAQUE);
    let attempt = case.send();
    assert_eq!(case.say(Input::Release(attempt.hold, Duration::ZERO)), Verdict::Later(case.now));
    assert_eq!((case.delivery.doubt, case.delivery.attempts), (None, 0));
    let attempt = case.send();
    case.report(attempt.hold, done());
    assert_eq!(case.state(), "succeeded");
}

#[test]
fn b70_the_first_cause_is_kept_and_a_mismatch_is_no_failure() {
    let mut case = Case::new(Limits::DURABLE, DEDUPS);
    let attempt = case.send();
    case.report(attempt.hold, Outcome::Unknown(Reason::ServerError));
    let attempt = case.send();
    case.report(attempt.hold, Outcome::Stop(Reason::KeyReused));
    let State::Undecided(ended) = &case.delivery.state else { panic!("{}", case.state()) };
    assert_eq!((case.delivery.doubt, ended.with), (Some(Reason::ServerError), Reason::KeyReused));
}

/// A provider says "duplicate" to the retry of a lost answer: the original is looked up.
#[test]
fn b79_duplicate_is_looked_up_and_not_taken_for_done_or_refused() {
    let mut case = Case::new(Limits::DURABLE, ANSWERS);
    let attempt = case.send();
    case.report(attempt.hold, Outcome::Unknown(Reason::AnswerUnclear));
    let asker = case.ask();
    case.hear(asker, Heard::Executed(receipt(201)));
    assert_eq!(case.state(), "succeeded");
    // A second order that is really wanted is never found, and never taken for done.
    let limits = Limits { attempts_max: 2, ..Limits::PATIENT };
    let mut blocked = Case::new(limits, ANSWERS);
    while blocked.delivery.is_open() {
        let verdict = blocked.take();
        if let Verdict::Send(attempt) = verdict {
            blocked.report(attempt.hold, Outcome::Unknown(Reason::AnswerUnclear));
        } else if let Verdict::Ask(hold, _) = verdict {
            blocked.hear(hold, Heard::NotFound);
        }
    }
    assert_eq!((blocked.state(), blocked.delivery.sends), ("failed", 2));
}

/// After a restore, a new command of a lost time is asked about by its reference and only then sent.
#[test]
fn t83_a_command_of_a_lost_time_is_asked_about_first() {
    let mut case = Case::new(Limits::DURABLE, ANSWERS);
    case.delivery = enqueued_after_loss(case.now, Duration::ZERO, &case.profile);
    assert!(matches!(case.take(), Verdict::Ask(_, AskedBy::Reference)));
    case.hear(case.delivery.hold(), Heard::Executed(receipt(201)));
    assert_eq!((case.state(), case.delivery.sends), ("succeeded", 0));
    for declared in [OPAQUE, DEDUPS] {
        let profile = Limits::DURABLE.check(declared).unwrap();
        let delivery = enqueued_after_loss(case.now, Duration::ZERO, &profile);
        assert_eq!(delivery.state_name(), "undecided");
    }
}

/// What had failed before the restore may have been tried again in the time that was lost.
#[test]
fn t83_a_restored_failure_waits_for_a_person() {
    let mut case = Case::new(Limits { attempts_max: 1, ..Limits::DURABLE }, DEDUPS);
    let attempt = case.send();
    case.report(attempt.hold, NOT_SENT);
    assert_eq!(case.state(), "failed");
    assert_eq!(case.say(Input::Restore), Verdict::Ended);
    assert_eq!(case.state(), "undecided");
    assert!(!case.delivery.may_be_followed());
}

/// The head of an answer came and its body was lost: it is fetched, and the fact is not forgotten.
#[test]
fn a_lost_body_is_fetched_and_a_refusal_to_repeat_it_changes_nothing() {
    let fact = Receipt::Fact { status: 201, location: None };
    let mut case = Case::new(Limits::DURABLE, DEDUPS);
    let attempt = case.send();
    case.report(attempt.hold, Outcome::DoneBodyLost(fact.clone()));
    assert_eq!(case.state(), "waiting");
    let fetching = case.send();
    case.report(fetching.hold, Outcome::Refused(receipt(409), Speaks::ForItself));
    let State::Succeeded(ended) = &case.delivery.state else { panic!("{}", case.state()) };
    assert_eq!(ended.with, fact);
}

/// A callback says that it was executed while an attempt is on its way that then runs nothing.
#[test]
fn what_is_known_to_be_executed_is_not_sent_again() {
    for outcome in [NOT_SENT, Outcome::NotAccepted(Reason::NotAccepted), TIMED_OUT] {
        let mut case = Case::new(Limits::DURABLE, OPAQUE);
        let attempt = case.send();
        let fact = Receipt::Fact { status: 201, location: None };
        assert_eq!(case.say(Input::Learn(Proof::Executed(fact))), Verdict::Recorded);
        assert_eq!(case.report(attempt.hold, outcome), Verdict::Ended);
        assert_eq!(case.state(), "succeeded");
    }
    let mut case = Case::new(Limits::DURABLE, OPAQUE);
    let attempt = case.send();
    case.say(Input::Learn(Proof::Executed(receipt(201))));
    case.say(Input::Release(attempt.hold, Duration::ZERO));
    assert_eq!(case.state(), "succeeded");
    // Nor where the same bytes would be the question: it is answered.
    let mut case = Case::new(Limits::DURABLE, DEDUPS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    let attempt = case.send();
    case.say(Input::Learn(Proof::Executed(receipt(201))));
    assert_eq!(case.say(Input::Release(attempt.hold, Duration::ZERO)), Verdict::Ended);
    assert_eq!(case.state(), "succeeded");
}

/// Two certain answers that cannot both be true go to a person, whichever comes first.
#[test]
fn answers_that_contradict_each_other_go_to_a_person() {
    let executed = || Proof::Executed(receipt(201));
    let was_refused = || Proof::Refused(receipt(402));
    for (first, second) in [(executed(), was_refused()), (was_refused(), executed())] {
        let mut case = Case::new(Limits::DURABLE, OPAQUE);
        case.send();
        case.say(Input::Learn(first));
        assert_eq!(case.say(Input::Learn(second.clone())), Verdict::Ended);
        assert_eq!(case.state(), "undecided");
        // Said again, it moves nothing.
        assert_eq!(case.say(Input::Learn(second)), Verdict::Contradicts);
        assert_eq!(case.state(), "undecided");
    }
}

/// A person said that nothing ran; then the proof of the contrary arrives.
#[test]
fn proof_against_a_decision_is_shown_to_a_person() {
    let mut case = Case::new(Limits::DURABLE, OPAQUE);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    case.say(Input::Decide(case.delivery.hold(), Decision::NotExecuted));
    assert_eq!(case.state(), "failed");
    assert_eq!(case.report(attempt.hold, done()), Verdict::Ended);
    let State::Undecided(ended) = &case.delivery.state else { panic!("{}", case.state()) };
    assert_eq!(ended.with, Reason::Contradicted);
    assert_eq!(case.report(attempt.hold, done()), Verdict::Contradicts);
}
