//! The ten payments of the exercise.

use std::path::PathBuf;

use samekey_forensics::{Cause, Confidence, Input, Options, Role, Verdict, analyse};

use crate::support::{cluster, ids, labels};

#[test]
fn the_ten_payments_of_the_exercise_come_out_exactly() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/payments.csv"));
    let report = analyse(vec![Input::File(path)], &Options::default(), &|_| {}).unwrap();
    assert_eq!(report.rows, 10);
    assert_eq!(labels(&report), ["ORD-2", "ORD-4"]);
    assert_eq!((report.totals.clusters, report.totals.payments, report.totals.surplus), (2, 8, 6));
    assert!(report.problems.is_empty() && report.limits.is_empty());
    for (label, first, line) in [("ORD-2", "PAY-2", 3), ("ORD-4", "PAY-7", 8)] {
        let cluster = cluster(&report, label);
        assert_eq!((cluster.payments, cluster.surplus), (4, 3));
        assert_eq!(cluster.gaps_s, [1.0, 2.0, 4.0]);
        assert!(!cluster.ambiguous);
        assert_eq!(cluster.causes.first().unwrap().cause, Cause::Backoff);
        assert_eq!(cluster.confidence, Confidence::NearlyCertain);
        assert_eq!(cluster.schedule.as_deref(), Some("1 s × 2^i"));
        assert_eq!(cluster.verdict, Verdict::KeyUnknown);
        assert_eq!((ids(cluster).first().copied(), cluster.rows.len()), (Some(first), 4));
        let row = cluster.rows.first().unwrap();
        assert_eq!((row.role, row.line), (Role::Wanted, line));
        assert!(cluster.rows.iter().skip(1).all(|row| row.role == Role::Surplus));
    }
    let text = report.to_text(120, 20);
    for part in [
        "2 purchases were paid more than once: 8 payments, 6 surplus.",
        "1 s, 2 s, 4 s",
        "nearly",
        "reference = order_id",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}
