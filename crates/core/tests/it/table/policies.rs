//! The policies of the grid: the first in full, the others in one respect each.

use samekey_core::policy::{Choices, Counterparty, OnMismatch, Policy, Rerun};
use std::time::Duration;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(super) fn all() -> Vec<(&'static str, Policy)> {
    let bounded = Counterparty::Answers { not_found_after: Some(seconds(600)) };
    let base = Choices {
        lease: seconds(60),
        run_max: seconds(300),
        retention: seconds(3_600),
        counterparty: bounded,
        ..Choices::default()
    };
    let with = |change: fn(&mut Choices)| {
        let mut choices = base.clone();
        change(&mut choices);
        choices.check().unwrap()
    };
    vec![
        (
            "lease 60, run_max 300, retention 3600, reject, rerun never, answers (not found after 600), 20 questions",
            with(|_| {}),
        ),
        ("opaque", with(|it| it.counterparty = Counterparty::Opaque)),
        (
            "answers, without a bound for not found",
            with(|it| it.counterparty = Counterparty::Answers { not_found_after: None }),
        ),
        (
            "dedups (key life 900)",
            with(|it| it.counterparty = Counterparty::Dedups { key_life: seconds(900) }),
        ),
        ("rerun safe", with(|it| it.rerun = Rerun::Safe)),
        ("on mismatch replay", with(|it| it.on_mismatch = OnMismatch::Replay)),
        ("principal bound", with(|it| it.bind_principal = true)),
        (
            "principal bound, on mismatch replay",
            with(|it| {
                it.bind_principal = true;
                it.on_mismatch = OnMismatch::Replay;
            }),
        ),
    ]
}
