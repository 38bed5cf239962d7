//! Which choices a route may make, and that each refusal names its choice.

use samekey_core::policy::{Choices, Counterparty, PolicyFault, ReplayStatus};
use std::time::Duration;

fn refused(change: impl FnOnce(&mut Choices)) -> PolicyFault {
    let mut choices = Choices::default();
    change(&mut choices);
    choices.check().expect_err("this choice cannot keep the promise")
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let policy = Choices::default().check().expect("the defaults are valid");
    assert_eq!(policy.retention, Duration::from_secs(30 * 24 * 3600));
    assert_eq!(policy.lease, Duration::from_secs(60));
    assert_eq!(policy.run_max, Duration::from_secs(300));
    assert_eq!(policy.wait, Duration::from_millis(200));
    assert_eq!(policy.body_bytes_max, 1 << 20);
    assert!(!policy.bind_principal);
}

#[test]
fn every_choice_out_of_bounds_is_refused_by_its_name() {
    let second = Duration::from_secs(1);
    let answers = |not_found_after| Counterparty::Answers { not_found_after };
    let dedups = |key_life| Counterparty::Dedups { key_life };
    let faults = [
        ("retention", refused(|c| c.retention = second)),
        ("lease", refused(|c| c.lease = Duration::ZERO)),
        ("run_max", refused(|c| c.run_max = c.lease - second)),
        ("wait", refused(|c| c.wait = second + second)),
        ("replay_status", refused(|c| c.replay_status = ReplayStatus::Fixed(301))),
        ("body_bytes_max", refused(|c| c.body_bytes_max = 0)),
        ("questions_max", refused(|c| c.questions_max = 0)),
        ("not_found_after", refused(|c| c.counterparty = answers(Some(second)))),
        (
            "questions_max",
            refused(|c| {
                c.questions_max = 1;
                c.counterparty = answers(Some(c.run_max));
            }),
        ),
        ("key_life", refused(|c| c.counterparty = dedups(c.run_max + c.lease))),
        ("semantic_headers", refused(|c| c.semantic_headers = vec!["On-Behalf-Of".to_owned()])),
        ("semantic_headers", refused(|c| c.semantic_headers = vec!["authorization".to_owned()])),
    ];
    for (choice, fault) in faults {
        assert_eq!(fault.choice, choice);
        let sentence = fault.to_string();
        assert!(sentence.starts_with(&format!("policy `{choice}`: ")), "{sentence}");
    }
}
