//! Cases about how long and how often it is tried.

use super::{ANSWERS, Case, DEDUPS, NOT_SENT, OPAQUE, TIMED_OUT, done, receipt, refused, seconds};
use samekey_core::backoff::Chance;
use samekey_core::delivery::{AskedBy, Reason, State};
use samekey_core::outcome::{Heard, NotRun, Outcome, Speaks, Told};
use samekey_core::plan::{Input, Verdict};
use samekey_core::profile::{Declared, Limits};
use std::time::Duration;

#[test]
fn b73_a_wait_beyond_its_time_ends_it_at_once() {
    let mut case = Case::new(Limits::DURABLE, OPAQUE);
    let attempt = case.send();
    let limited = Outcome::NotRun(NotRun::RateLimited);
    assert_eq!(case.report_wait(attempt.hold, limited, seconds(999_999)), Verdict::Ended);
    let State::Failed(ended) = &case.delivery.state else { panic!("{}", case.state()) };
    assert_eq!((ended.with, case.delivery.last), (Reason::TimeOver, Some(Reason::RateLimited)));
}

#[test]
fn b73_a_question_is_not_put_off_for_ever() {
    let mut case = Case::new(Limits::DURABLE, ANSWERS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    let asker = case.ask();
    let told = Told { what: Heard::CannotTell, retry_after: Some(Duration::MAX) };
    assert_eq!(case.say(Input::Hear(asker, told, Chance::MOST)), Verdict::Ended);
    assert_eq!(case.state(), "undecided");
}

/// Whoever delivers was away for a week. Who was never asked about is asked, however late; who was asked before has
/// had its time.
#[test]
fn b73_who_was_never_asked_about_is_asked_however_late() {
    let week = seconds(7 * 24 * 3_600);
    let mut never = Case::new(Limits::DURABLE, ANSWERS);
    let attempt = never.send();
    never.report(attempt.hold, TIMED_OUT);
    never.passes(week);
    let asker = never.ask();
    assert_eq!(never.hear(asker, Heard::CannotTell), Verdict::Ended);
    let mut once = Case::new(Limits::DURABLE, ANSWERS);
    let attempt = once.send();
    once.report(attempt.hold, TIMED_OUT);
    let asker = once.ask();
    once.hear(asker, Heard::CannotTell);
    assert_eq!(once.state(), "unknown");
    once.passes(week);
    assert_eq!(once.take(), Verdict::Ended);
    for case in [never, once] {
        let State::Undecided(ended) = &case.delivery.state else { panic!("{}", case.state()) };
        assert_eq!(ended.with, Reason::TimeOver);
    }
}

#[test]
fn b74_attempts_and_waits_end_with_its_time() {
    let limits = Limits { time_max: seconds(30), ..Limits::DURABLE };
    let mut case = Case::new(limits, OPAQUE);
    let ends = case.now.plus(seconds(30));
    case.passes(seconds(5));
    let attempt = case.send();
    assert_eq!(case.now.plus(attempt.time_max), ends);
    case.report_wait(attempt.hold, NOT_SENT, seconds(8));
    let attempt = case.send();
    assert_eq!(case.now.plus(attempt.time_max), ends);
    assert_eq!(case.report_wait(attempt.hold, NOT_SENT, seconds(60)), Verdict::Ended);
    let State::Failed(ended) = &case.delivery.state else { panic!("{}", case.state()) };
    assert_eq!(ended.with, Reason::TimeOver);
}

/// An outage of ten minutes: the gaps grow, and it is delivered.
#[test]
fn t75_an_outage_of_ten_minutes_loses_nothing() {
    let mut case = Case::new(Limits::DURABLE, OPAQUE);
    let back = case.now.plus(seconds(600));
    let mut gaps = Vec::new();
    while case.now < back {
        let before = case.now;
        let attempt = case.send();
        gaps.push(case.now.since(before));
        case.report(attempt.hold, NOT_SENT);
    }
    let attempt = case.send();
    case.report(attempt.hold, done());
    assert_eq!(case.state(), "succeeded");
    assert!(gaps.windows(2).all(|pair| pair[1] > pair[0] || pair[1] >= seconds(150)), "{gaps:?}");
}

#[test]
fn t75_a_longer_one_ends_as_failed_with_its_reason() {
    let mut case = Case::new(Limits::DURABLE, OPAQUE);
    let began = case.now;
    while case.delivery.is_open() {
        let attempt = case.send();
        case.report(attempt.hold, NOT_SENT);
    }
    let State::Failed(ended) = &case.delivery.state else { panic!("{}", case.state()) };
    assert!(matches!(ended.with, Reason::TimeOver | Reason::AttemptsUsedUp));
    assert_eq!(case.delivery.last, Some(Reason::NotConnected));
    assert!(case.now.since(began) <= seconds(3_600) && case.delivery.attempts <= 24);
}

#[test]
fn t76_in_flight_costs_no_attempt_and_is_asked_less_and_less_often() {
    let limits = Limits { attempts_max: 2, ..Limits::DURABLE };
    let mut case = Case::new(limits, DEDUPS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    let mut gaps = Vec::new();
    for _ in 0..20 {
        let before = case.now;
        let attempt = case.send();
        gaps.push(case.now.since(before));
        case.report(attempt.hold, Outcome::InFlight);
    }
    assert_eq!((case.state(), case.delivery.attempts), ("waiting", 1));
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert!(gaps.last() >= Some(&seconds(100)), "{gaps:?}");
    let attempt = case.send();
    case.report(attempt.hold, done());
    assert_eq!(case.state(), "succeeded");
}

#[test]
fn t77_a_refusal_stops_at_once() {
    let mut case = Case::new(Limits::DURABLE, DEDUPS);
    let attempt = case.send();
    let answer = Outcome::Refused(receipt(422), Speaks::ForItself);
    assert_eq!(case.report(attempt.hold, answer), Verdict::Ended);
    assert_eq!((case.state(), case.delivery.sends), ("refused", 1));
}

#[test]
fn t77_after_a_timeout_a_refusal_is_no_end() {
    let mut case = Case::new(Limits::DURABLE, DEDUPS);
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    let attempt = case.send();
    case.report(attempt.hold, refused());
    assert_eq!((case.state(), case.delivery.last), ("waiting", Some(Reason::RefusedInDoubt)));
    // What the counterparty has stored for the key speaks for all of it.
    let attempt = case.send();
    case.report(attempt.hold, Outcome::Refused(receipt(402), Speaks::ForTheKey));
    assert_eq!(case.state(), "refused");
}

#[test]
fn t78_an_expired_credential_burns_no_attempts() {
    let limits = Limits { attempts_max: 2, ..Limits::DURABLE };
    let mut case = Case::new(limits, OPAQUE);
    for _ in 0..10 {
        let attempt = case.send();
        case.report(attempt.hold, Outcome::NotAccepted(Reason::NotAccepted));
        assert_eq!((case.state(), case.delivery.attempts), ("waiting", 0));
    }
    let attempt = case.send();
    case.report(attempt.hold, done());
    assert_eq!(case.state(), "succeeded");
}

/// A person has it tried again after the counterparty has forgotten the key.
#[test]
fn t79_nothing_is_sent_blindly_once_the_key_may_be_forgotten() {
    let both = Declared { dedups: DEDUPS.dedups, answers: ANSWERS.answers };
    for declared in [DEDUPS, both] {
        let limits = Limits { attempts_max: 1, questions_max: 2, ..Limits::DURABLE };
        let mut case = Case::new(limits, declared);
        let attempt = case.send();
        case.report(attempt.hold, TIMED_OUT);
        while case.delivery.is_open() {
            let asker = case.ask();
            case.hear(asker, Heard::CannotTell);
        }
        assert_eq!(case.state(), "undecided");
        case.passes(seconds(24 * 3_600));
        let seen = case.delivery.hold();
        if declared.answers.is_some() {
            case.say(Input::Retry(seen));
            assert!(matches!(case.take(), Verdict::Ask(_, AskedBy::Key)));
        } else {
            assert_eq!(case.say(Input::Retry(seen)), Verdict::StaleView);
        }
        assert_eq!(case.delivery.sends, 1);
    }
}

/// A person has it tried again just before the counterparty forgets the key, and that still works on it: after the
/// key's life nobody asks by it.
#[test]
fn t79_what_is_in_flight_is_not_asked_about_by_a_key_that_may_be_forgotten() {
    let mut case = Case::new(Limits { attempts_max: 1, ..Limits::DURABLE }, DEDUPS);
    let began = case.now;
    let attempt = case.send();
    case.report(attempt.hold, TIMED_OUT);
    assert_eq!(case.state(), "undecided");
    case.passes(seconds(24 * 3_600 - 600));
    case.say(Input::Retry(case.delivery.hold()));
    while case.delivery.is_open() {
        let attempt = case.send();
        assert!(case.now.plus(case.profile.lease) <= began.plus(seconds(24 * 3_600)));
        case.report(attempt.hold, Outcome::InFlight);
    }
    let State::Undecided(ended) = &case.delivery.state else { panic!("{}", case.state()) };
    assert_eq!(ended.with, Reason::NobodyToAsk);
    assert!(case.delivery.sends > 2, "it was asked while it could be");
}

#[test]
fn t82_a_total_time_beyond_the_counterpartys_memory_is_refused() {
    let declared = Declared { dedups: Some(seconds(3_600)), answers: None };
    let fault = Limits::PATIENT.check(declared).unwrap_err();
    assert_eq!(fault.limit, "time_max");
    assert!(fault.to_string().contains("a late retry would be executed again"), "{fault}");
}
