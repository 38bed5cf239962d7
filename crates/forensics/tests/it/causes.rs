//! From gaps to causes.

use samekey_forensics::{Cause, Confidence, Options, Report, Verdict, evaluate};

use crate::support::{cluster, examine, examine_with};

/// Orders `ORD-0`, `ORD-1`, … each paid at the given seconds after its own odd start.
fn orders(times: &[&[f64]], keys: bool) -> String {
    let mut records = String::from("payment_id,order_id,idempotency_key,created_at\n");
    for (order, times) in times.iter().enumerate() {
        for (number, after) in times.iter().enumerate() {
            let start = 1_788_775_000.317 + order as f64 * 7_919.371;
            let key = if keys { format!("K{order}-{number}") } else { String::new() };
            records
                .push_str(&format!("P{order}-{number},ORD-{order},{key},{:.3}\n", start + after));
        }
    }
    records
}

fn best(report: &Report, label: &str) -> (Cause, bool, Confidence) {
    let cluster = cluster(report, label);
    (cluster.causes.first().unwrap().cause, cluster.ambiguous, cluster.confidence)
}

#[test]
fn a_timeout_of_thirty_seconds_before_each_wait_is_seen_through() {
    let times: &[f64] = &[0.0, 31.0, 63.0, 97.0];
    let report = examine(&orders(&[times, times, times], true));
    assert_eq!(best(&report, "ORD-0"), (Cause::Backoff, false, Confidence::NearlyCertain));
    let cluster = cluster(&report, "ORD-0");
    assert_eq!(cluster.schedule.as_deref(), Some("30 s (a timeout) + 1 s × 2^i"));
    assert_eq!(cluster.verdict, Verdict::NewKeyPerAttempt);
}

#[test]
fn thirty_seconds_again_and_again_is_a_queue() {
    let times: &[f64] = &[0.0, 30.04, 60.1, 90.13];
    let report = examine(&orders(&[times, times, times], true));
    let (cause, ambiguous, _) = best(&report, "ORD-1");
    let causes = &cluster(&report, "ORD-1").causes;
    assert_eq!((cause, ambiguous), (Cause::Queue, false), "{causes:?}");
    // A loop in a client that waits as long is not excluded, and is named beside it.
    assert!(causes.iter().any(|share| share.cause == Cause::Fixed), "{causes:?}");
    assert!(cluster(&report, "ORD-1").schedule.as_deref().unwrap().contains("SQS"));
}

#[test]
fn a_wait_that_no_list_knows_is_still_a_fixed_wait() {
    let times: &[f64] = &[0.0, 13.37, 26.75, 40.11];
    let report = examine(&orders(&[times, times, times], false));
    assert_eq!(best(&report, "ORD-0").0, Cause::Fixed);
    assert_eq!(cluster(&report, "ORD-0").verdict, Verdict::NoKeySent);
}

#[test]
fn the_clock_on_the_wall_is_a_scheduled_job() {
    let mut records = String::from("payment_id,order_id,created_at\n");
    for order in 0..6 {
        let (hour, minute) = (10 + order, 3 + 7 * (order % 5));
        let next = minute / 15 * 15 + 15;
        let (next_hour, next) = if next >= 60 { (hour + 1, next - 60) } else { (hour, next) };
        records.push_str(&format!(
            "A{order},ORD-{order},2026-09-07T{hour}:{minute:02}:17.402Z\n\
             B{order},ORD-{order},2026-09-07T{next_hour}:{next:02}:00.{order}31Z\n"
        ));
    }
    let report = examine(&records);
    let (cause, ambiguous, _) = best(&report, "ORD-2");
    assert_eq!((cause, ambiguous), (Cause::Cron, false));
    assert_eq!(cluster(&report, "ORD-2").schedule.as_deref(), Some("every 15 minutes"));
}

#[test]
fn known_schedules_are_named() {
    let sidekiq: &[f64] = &[0.0, 18.4, 43.1, 91.7, 210.2];
    let report = examine(&orders(&[sidekiq, &[0.0, 23.1, 41.2], &[0.0, 16.2, 50.0, 95.4]], true));
    assert_eq!(best(&report, "ORD-0").0, Cause::Backoff);
    assert!(cluster(&report, "ORD-0").schedule.as_deref().unwrap().contains("Sidekiq"));
    let river: &[f64] = &[0.0, 1.03, 16.5, 99.9, 353.0];
    let report = examine(&orders(&[river, river], true));
    assert!(cluster(&report, "ORD-0").schedule.as_deref().unwrap().contains("River"));
    let oban: &[f64] = &[0.0, 17.9, 37.5, 61.2, 93.0];
    let report = examine(&orders(&[oban, &[0.0, 17.2, 37.1, 61.9]], true));
    assert!(cluster(&report, "ORD-0").schedule.as_deref().unwrap().contains("Oban"));
    let stripe: &[f64] = &[0.0, 0.51, 1.3, 2.9];
    let report = examine(&orders(&[stripe, &[0.0, 0.52, 1.22, 3.01], &[0.0, 0.515, 1.48]], true));
    assert!(cluster(&report, "ORD-0").schedule.as_deref().unwrap().contains("Stripe"));
}

#[test]
fn one_gap_alone_is_not_called_a_cause() {
    let report = examine(&orders(&[&[0.0, 2.01]], true));
    let one = cluster(&report, "ORD-0");
    assert!(one.ambiguous, "{:?}", one.causes);
    assert_eq!(one.confidence, Confidence::Low);
    let text = one.cause_label();
    assert!(text.starts_with("ambiguous: ") && text.contains("backoff"), "{text}");
    assert!(one.notes.iter().any(|note| note.contains("few gaps")));
}

#[test]
fn five_lone_gaps_of_two_seconds_stay_two_causes() {
    let lone: &[f64] = &[0.0, 2.01];
    let report = examine(&orders(&[lone, lone, lone, lone, lone], true));
    let one = cluster(&report, "ORD-3");
    let named: Vec<Cause> = one.causes.iter().map(|share| share.cause).collect();
    assert!(named.contains(&Cause::Fixed) && named.contains(&Cause::Backoff), "{:?}", one.causes);
    assert!(one.ambiguous);
    // Both are programs, so the fault in the keys is clear all the same.
    assert_eq!(one.verdict, Verdict::NewKeyPerAttempt);
}

#[test]
fn what_the_source_does_elsewhere_decides_a_lone_gap() {
    let long: &[f64] = &[0.0, 2.01, 6.02, 14.05];
    let report = examine(&orders(&[long, long, long, &[0.0, 2.02]], true));
    let (cause, ambiguous, _) = best(&report, "ORD-3");
    assert_eq!((cause, ambiguous), (Cause::Backoff, false));
}

#[test]
fn gaps_without_a_pattern_are_a_person_or_nothing() {
    let report = examine(&orders(&[&[0.0, 23.9], &[0.0, 47.1], &[0.0, 11.3, 49.7]], true));
    assert_eq!(best(&report, "ORD-1").0, Cause::Human);
    let report = examine(&orders(&[&[0.0, 7_450.0, 7_451.7, 30_011.0]], true));
    assert_eq!(best(&report, "ORD-0").0, Cause::Undetermined);
    assert_eq!(best(&report, "ORD-0").2, Confidence::Low);
}

#[test]
fn whole_seconds_cannot_show_half_a_second_and_say_so() {
    let report = examine(
        "payment_id,order_id,created_at\n\
         P1,ORD-1,2026-09-07T10:00:05Z\n\
         P2,ORD-1,2026-09-07T10:00:05Z\n",
    );
    let one = cluster(&report, "ORD-1");
    assert!(one.notes.iter().any(|note| note.contains("under 500 ms")), "{:?}", one.notes);
    assert!(one.confidence <= Confidence::Medium);
    assert!(one.causes.iter().any(|share| share.cause == Cause::Concurrent));
}

#[test]
fn dates_without_a_time_name_no_cause() {
    let report =
        examine("payment_id,order_id,created_at\nP1,ORD-1,2026-09-07\nP2,ORD-1,2026-09-07\n");
    assert_eq!(best(&report, "ORD-1"), (Cause::Undetermined, false, Confidence::Low));
}

#[test]
fn the_hour_that_the_clock_shows_twice_is_read_so_that_neighbours_meet() {
    let records = "payment_id,order_id,created_at\n\
                   P1,ORD-1,2026-10-25 02:59:59\n\
                   P2,ORD-1,2026-10-25 02:00:01\n\
                   P3,ORD-2,2026-10-25 01:59:59\n\
                   P4,ORD-2,2026-10-25 02:00:00\n\
                   P5,ORD-3,2026-03-29 01:59:59\n\
                   P6,ORD-3,2026-03-29 03:00:01\n";
    let options = Options { zone: Some("Europe/Berlin".into()), ..Options::default() };
    let report = examine_with(records, &options);
    for (label, gap) in [("ORD-1", 2.0), ("ORD-2", 1.0), ("ORD-3", 2.0)] {
        assert_eq!(cluster(&report, label).gaps_s, [gap], "{label}");
    }
    assert!(cluster(&report, "ORD-1").notes.iter().any(|note| note.contains("showed twice")));
    assert_eq!(
        crate::support::problem(&report, samekey_forensics::ProblemKind::ClockRepeated),
        Some((3, 2, "2026-10-25 02:59:59"))
    );
}

#[test]
fn offsets_and_precisions_may_differ_from_row_to_row() {
    let report = examine(
        "payment_id,order_id,created_at\n\
         P1,ORD-1,2026-09-07T10:00:05.250Z\n\
         P2,ORD-1,2026-09-07T19:00:06.250+09:00\n\
         P3,ORD-2,2026-09-07T10:00:05.250Z\n\
         P4,ORD-2,2026-09-07T10:00:06Z\n",
    );
    assert_eq!(cluster(&report, "ORD-1").gaps_s, [1.0]);
    assert_eq!(cluster(&report, "ORD-2").rows.first().unwrap().at, "2026-09-07T10:00:05Z");
    assert!(cluster(&report, "ORD-2").notes.iter().any(|note| note.contains("whole seconds")));
}

#[test]
fn the_key_and_the_gap_together_say_what_went_wrong() {
    let report = examine(
        "payment_id,order_id,idempotency_key,created_at\n\
         A1,ORD-A,KA,2026-09-07T10:00:00.000Z\n\
         A2,ORD-A,KA,2026-09-07T10:00:00.090Z\n\
         B1,ORD-B,KB,2026-09-07T10:00:00.000Z\n\
         B2,ORD-B,KB,2026-09-08T11:00:00.000Z\n\
         C1,ORD-C,KC,2026-09-07T10:00:00.000Z\n\
         C2,ORD-C,KC,2026-09-07T10:00:31.000Z\n\
         D1,ORD-D,KD,2026-09-07T10:00:00.000Z\n\
         D2,ORD-D,,2026-09-07T10:00:31.000Z\n\
         E1,ORD-E,,2026-09-07T10:00:00.000Z\n\
         E2,ORD-E,,2026-09-07T10:00:31.000Z\n",
    );
    for (label, verdict) in [
        ("ORD-A", Verdict::RaceInServer),
        ("ORD-B", Verdict::KeyExpired),
        ("ORD-C", Verdict::KeyNotHonoured),
        ("ORD-D", Verdict::KeyNotAlwaysSent),
        ("ORD-E", Verdict::NoKeySent),
    ] {
        assert_eq!(cluster(&report, label).verdict, verdict, "{label}");
    }
}

#[test]
fn causes_are_named_rightly_on_made_up_payments() {
    let evaluation = evaluate(3, 20_000).unwrap();
    for matrix in &evaluation.matrices {
        assert!(matrix.found_share() > 0.999, "{}", matrix.title);
        assert!(matrix.true_share() > 0.999, "{}", matrix.title);
        assert_eq!(matrix.miscounted, 0, "{}", matrix.title);
    }
    let known = evaluation.matrices.first().unwrap();
    for cause in
        [Cause::Concurrent, Cause::Backoff, Cause::Fixed, Cause::Queue, Cause::Cron, Cause::Human]
    {
        let (precision, recall) = (known.precision(cause), known.recall(cause));
        assert!(precision > 0.9 && recall > 0.9, "{cause:?} {precision} {recall}");
    }
}
