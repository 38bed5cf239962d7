//! The table of what an answer to an attempt proves, row by row.

use bytes::Bytes;
use samekey_core::answer::{Accepted, Answered, BodyCame, Word, proves};
use samekey_core::delivery::Reason;
use samekey_core::outcome::{NotRun, Outcome, Speaks};
use samekey_core::receipt::Receipt;

fn receipt(status: u16) -> Receipt {
    Receipt::Fact { status, location: None }
}

fn answered(status: u16, word: Word, body: BodyCame) -> Answered {
    Answered { status, receipt: receipt(status), body, word, speaks: Speaks::ForItself }
}

fn whole(status: u16, word: Word) -> Outcome {
    proves(answered(status, word, BodyCame::Whole), Accepted::IsPending)
}

fn lost(status: u16) -> Outcome {
    proves(answered(status, Word::Nothing, BodyCame::Lost), Accepted::IsPending)
}

#[test]
fn every_status_without_a_word() {
    for status in 0..=999 {
        let expected = match status {
            202 => Outcome::Pending,
            200..=299 => Outcome::Done(receipt(status)),
            401 | 403 | 407 => Outcome::NotAccepted(Reason::NotAccepted),
            421 | 425 => Outcome::NotRun(NotRun::NotProcessed),
            429 => Outcome::NotRun(NotRun::RateLimited),
            408 | 500..=599 => Outcome::Unknown(Reason::ServerError),
            400..=499 => Outcome::Refused(receipt(status), Speaks::ForItself),
            _ => Outcome::Unknown(Reason::AnswerUnclear),
        };
        assert_eq!(whole(status, Word::Nothing), expected, "{status}");
    }
}

#[test]
fn every_status_whose_body_was_lost() {
    for status in 0..=999 {
        let expected = match status {
            202 => Outcome::Pending,
            200..=299 => Outcome::DoneBodyLost(receipt(status)),
            401 | 403 | 407 => Outcome::NotAccepted(Reason::NotAccepted),
            421 | 425 => Outcome::NotRun(NotRun::NotProcessed),
            429 => Outcome::NotRun(NotRun::RateLimited),
            408 | 500..=599 => Outcome::Unknown(Reason::ServerError),
            400..=499 => Outcome::Unknown(Reason::ConnectionLost),
            _ => Outcome::Unknown(Reason::AnswerUnclear),
        };
        assert_eq!(lost(status), expected, "{status}");
    }
}

#[test]
fn a_202_is_final_only_where_that_is_declared() {
    for (body, expected) in [
        (BodyCame::Whole, Outcome::Done(receipt(202))),
        (BodyCame::Lost, Outcome::DoneBodyLost(receipt(202))),
    ] {
        let answered = answered(202, Word::Nothing, body);
        assert_eq!(proves(answered.clone(), Accepted::IsPending), Outcome::Pending);
        assert_eq!(proves(answered, Accepted::IsFinal), expected);
    }
}

#[test]
fn what_each_word_changes() {
    let unclear = || Outcome::Unknown(Reason::AnswerUnclear);
    let location = Some(Bytes::from_static(b"/payments/1"));
    let not_kept = |status| Word::NotKept { status, location: location.clone() };
    let fact = |status| Receipt::Fact { status, location: location.clone() };
    for (status, word, expected) in [
        (201, Word::Succeeded, Outcome::Done(receipt(201))),
        // The word is final although the status is not.
        (202, Word::Succeeded, Outcome::Done(receipt(202))),
        (201, Word::Refused, Outcome::Refused(receipt(201), Speaks::ForItself)),
        (201, Word::Pending, Outcome::Pending),
        (201, Word::Unclear, unclear()),
        (201, Word::InFlight, Outcome::InFlight),
        (201, Word::Different, Outcome::Stop(Reason::FoundDifferent)),
        (409, Word::InFlight, Outcome::InFlight),
        (409, Word::UnknownThere, Outcome::Stop(Reason::UnknownThere)),
        (409, Word::ClosedThere, Outcome::Stop(Reason::ClosedThere)),
        (422, Word::KeyReused, Outcome::Stop(Reason::KeyReused)),
        (409, not_kept(201), Outcome::Done(fact(201))),
        (409, not_kept(303), Outcome::Done(fact(303))),
        (409, not_kept(402), Outcome::Refused(fact(402), Speaks::ForTheKey)),
        (409, not_kept(500), unclear()),
        (502, Word::NotProcessed, Outcome::NotRun(NotRun::NotProcessed)),
        (503, Word::NotProcessed, Outcome::NotRun(NotRun::NotProcessed)),
        (400, Word::Foreign, unclear()),
        (401, Word::Foreign, unclear()),
        (429, Word::Foreign, unclear()),
        (502, Word::Foreign, Outcome::Unknown(Reason::ServerError)),
        // A status that is no final answer is not made one by a word.
        (500, Word::Succeeded, Outcome::Unknown(Reason::ServerError)),
        (500, Word::Refused, Outcome::Unknown(Reason::ServerError)),
        (302, Word::Succeeded, unclear()),
    ] {
        assert_eq!(whole(status, word.clone()), expected, "{status} {word:?}");
    }
}

#[test]
fn a_stored_refusal_speaks_for_its_key() {
    let answered =
        Answered { speaks: Speaks::ForTheKey, ..answered(402, Word::Nothing, BodyCame::Whole) };
    let expected = Outcome::Refused(receipt(402), Speaks::ForTheKey);
    assert_eq!(proves(answered, Accepted::IsPending), expected);
}
