//! The counterparties of the grid.

use samekey_core::backoff::Backoff;
use samekey_core::profile::{Answers, Declared, Limits, Profile};
use std::time::Duration;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const LIMITS: Limits = Limits {
    attempt_time_max: seconds(30),
    backoff: Backoff { base: seconds(2), cap: seconds(300) },
    attempts_max: 5,
    time_max: seconds(600),
    lease: seconds(40),
    questions_max: 3,
    questions: Backoff { base: seconds(4), cap: seconds(300) },
};

const BOUNDED: Answers = Answers { not_found_after: Some(seconds(100)), by_reference: false };

pub(super) fn all() -> Vec<(&'static str, Profile)> {
    let answers = |answers| Declared { answers: Some(answers), ..Declared::OPAQUE };
    let dedups = Declared { dedups: Some(seconds(900)), ..Declared::OPAQUE };
    vec![
        (
            "answers (not found after 100); attempts of 30, 5 of them in 600, waits from 2 to 300, lease 40, 3 questions, waits from 4 to 300",
            LIMITS.check(answers(BOUNDED)).unwrap(),
        ),
        ("opaque", LIMITS.check(Declared::OPAQUE).unwrap()),
        ("dedups (key life 900)", LIMITS.check(dedups).unwrap()),
        (
            "dedups (key life 900) and answers (not found after 100)",
            LIMITS.check(Declared { answers: Some(BOUNDED), ..dedups }).unwrap(),
        ),
        (
            "answers, without a bound for not found",
            LIMITS.check(answers(Answers::default())).unwrap(),
        ),
        (
            "answers (not found after 100), also by reference",
            LIMITS.check(answers(Answers { by_reference: true, ..BOUNDED })).unwrap(),
        ),
    ]
}
