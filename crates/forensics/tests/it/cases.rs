//! What people have met in the field, each under its number.

use std::time::Duration;

use samekey_forensics::{
    Breadth, Cause, Confidence, Options, ProblemKind, Signature, Verdict, analyse,
};

use crate::support::{cluster, examine, examine_with, ids, labels, problem, stream};

#[test]
fn b19_the_life_of_one_payment_is_one_chain() {
    let report = examine(
        "id,parent_id,order_id,type,amount,currency,created_at\n\
         A1,,ORD-1,auth,50.00,EUR,2026-09-01T10:00:00Z\n\
         S1,A1,ORD-1,settled,58.00,EUR,2026-09-03T10:00:00Z\n\
         A2,,ORD-2,auth,20.00,EUR,2026-09-01T11:00:00Z\n\
         S9,,ORD-9,settled,20.00,EUR,2026-09-03T11:00:00Z\n\
         A3,,ORD-3,auth,30.00,EUR,2026-09-01T12:00:00Z\n\
         C3,A3,ORD-3,capture,30.00,EUR,2026-09-01T12:00:05Z\n\
         R3,C3,ORD-3,refund,30.00,EUR,2026-09-02T12:00:00Z\n\
         A4,,ORD-4,auth,40.00,EUR,2026-09-01T13:00:00Z\n\
         V4,A4,ORD-4,void,40.00,EUR,2026-09-01T13:00:02Z\n",
    );
    assert!(!report.has_findings(), "{:?}", report.clusters);
    assert_eq!(report.explained.later_records, 4);
}

#[test]
fn b19_two_chains_of_one_order_are_two_payments_of_what_was_taken() {
    let report = examine(
        "id,parent_id,order_id,type,amount,currency,created_at\n\
         A6,,ORD-6,auth,50.00,EUR,2026-09-01T10:00:00Z\n\
         A7,,ORD-6,auth,50.00,EUR,2026-09-01T10:00:02Z\n\
         S7,A7,ORD-6,settled,58.00,EUR,2026-09-03T10:00:00Z\n\
         S6,A6,ORD-6,settled,58.00,EUR,2026-09-03T11:00:00Z\n",
    );
    let cluster = cluster(&report, "ORD-6");
    assert_eq!((ids(cluster), cluster.gaps_s.as_slice()), (vec!["A6", "A7"], &[2.0][..]));
    assert_eq!(cluster.surplus_minor, Some(5800));
}

#[test]
fn b19_without_a_link_or_reference_an_equal_amount_is_another_payment() {
    let report = examine(
        "id,parent_id,customer_id,type,amount,currency,created_at\n\
         A1,,C1,auth,20.00,EUR,2026-09-01T10:00:00Z\n\
         S9,,C1,settled,20.00,EUR,2026-09-01T10:00:20Z\n",
    );
    assert!(!report.has_findings());
}

#[test]
fn b19_what_was_given_back_is_no_longer_at_stake() {
    let report = examine(
        "id,parent_id,order_id,type,amount,currency,created_at\n\
         P1,,ORD-1,charge,30.00,EUR,2026-09-01T10:00:00Z\n\
         P2,,ORD-1,charge,30.00,EUR,2026-09-01T10:00:02Z\n\
         R2,P2,ORD-1,refund,30.00,EUR,2026-09-02T10:00:00Z\n\
         P3,,ORD-2,charge,10.00,EUR,2026-09-01T10:00:00Z\n\
         P4,,ORD-2,charge,10.00,EUR,2026-09-01T10:00:02Z\n\
         P5,,ORD-2,charge,10.00,EUR,2026-09-01T10:00:06Z\n\
         V5,P5,ORD-2,void,,EUR,2026-09-01T10:01:00Z\n\
         R4,,ORD-2,refund,-4.00,EUR,2026-09-01T12:00:00Z\n",
    );
    let (first, second) = (cluster(&report, "ORD-1"), cluster(&report, "ORD-2"));
    assert_eq!((first.surplus_minor, first.at_stake_minor), (Some(3000), Some(0)));
    assert_eq!((second.surplus_minor, second.at_stake_minor), (Some(2000), Some(600)));
    let money = report.totals.money.first().unwrap();
    assert_eq!((money.surplus_minor, money.at_stake_minor), (5000, 600));
}

#[test]
fn b19_a_refund_without_reference_finds_its_payment() {
    let report = examine(
        "id,parent_id,order_id,type,amount,currency,created_at\n\
         P1,,ORD-1,charge,30.00,EUR,2026-09-01T10:00:00Z\n\
         P2,,ORD-1,charge,30.00,EUR,2026-09-01T10:00:02Z\n\
         R2,P2,,refund,30.00,EUR,2026-09-02T10:00:00Z\n",
    );
    assert_eq!(cluster(&report, "ORD-1").at_stake_minor, Some(0));
    assert_eq!(report.rows_left_out, 0);
}

#[test]
fn b19_a_hold_taken_twice_in_full_is_a_duplicate_and_in_parts_is_none() {
    let report = examine(
        "id,parent_id,order_id,type,amount,currency,created_at\n\
         A1,,ORD-1,auth,50.00,EUR,2026-09-01T10:00:00Z\n\
         C1,A1,ORD-1,capture,50.00,EUR,2026-09-01T11:00:00Z\n\
         C2,A1,ORD-1,capture,50.00,EUR,2026-09-01T11:00:30Z\n\
         A2,,ORD-2,auth,50.00,EUR,2026-09-01T10:00:00Z\n\
         C3,A2,ORD-2,capture,20.00,EUR,2026-09-01T11:00:00Z\n\
         C4,A2,ORD-2,capture,30.00,EUR,2026-09-01T11:00:30Z\n",
    );
    assert_eq!(labels(&report), ["ORD-1"]);
    assert_eq!(cluster(&report, "ORD-1").surplus_minor, Some(5000));
}

#[test]
fn b19_a_payment_given_back_before_the_next_was_replaced() {
    let report = examine(
        "id,order_id,type,amount,created_at\n\
         P1,ORD-1,charge,30.00,2026-09-01T10:00:00Z\n\
         R1,ORD-1,refund,30.00,2026-09-01T10:30:00Z\n\
         P2,ORD-1,charge,30.00,2026-09-01T11:00:00Z\n",
    );
    assert!(!report.has_findings());
    assert_eq!(report.explained.replaced, 1);
}

#[test]
fn b20_ids_ruined_by_a_spreadsheet_prove_nothing_and_are_listed() {
    let report = examine(
        "payment_id,order_id,created_at\n\
         9.91214E+15,ORD-1,2026-09-01T10:00:00Z\n\
         9.91214E+15,ORD-2,2026-09-01T10:00:01Z\n\
         PAY-3,9.91214E+15,2026-09-01T10:00:02Z\n\
         PAY-4,9.91214E+15,2026-09-01T10:00:04Z\n\
         9.91214E+15,ORD-5,2026-09-01T10:00:05Z\n\
         9.91214E+15,ORD-5,2026-09-01T10:00:07Z\n",
    );
    // One order paid twice stays one order paid twice: the ruined ids do not make them one record.
    assert_eq!(labels(&report), ["ORD-5"]);
    assert!(report.clusters.iter().flat_map(|one| &one.rows).all(|row| row.id_lossy));
    assert_eq!(report.explained.same_records, 0);
    assert_eq!(problem(&report, ProblemKind::IdLossy), Some((4, 2, "9.91214E+15")));
    assert_eq!(problem(&report, ProblemKind::ReferenceLossy), Some((2, 4, "9.91214E+15")));
}

#[test]
fn b20_long_numbers_and_leading_zeros_are_kept_apart() {
    let report = examine(
        "payment_id,order_id,created_at\n\
         1,9912140633506420,2026-09-01T10:00:00Z\n\
         2,9912140633506421,2026-09-01T10:00:01Z\n\
         3,'00123,2026-09-01T10:00:02Z\n\
         4,123,2026-09-01T10:00:03Z\n\
         5,00123,2026-09-01T10:00:04Z\n",
    );
    assert_eq!(labels(&report), ["00123"]);
    let rows = &cluster(&report, "00123").rows;
    assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), [4, 6]);
}

#[test]
fn b20_every_dress_of_the_same_records_gives_the_same_report() {
    let plain = "payment_id,order_id,created_at,amount,note\n\
                 P1,ORD-1,2026-09-07T10:00:00Z,1234.50,\"two\nlines\"\n\
                 P2,ORD-1,2026-09-07T10:00:02Z,1234.50,x\n";
    let dressed = plain.replace(',', ";").replace("1234.50", "1.234,50").replace('\n', "\r\n");
    let utf16 = |text: &str| -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    for bytes in [
        plain.as_bytes().to_vec(),
        dressed.clone().into_bytes(),
        ["\u{feff}", dressed.as_str()].concat().into_bytes(),
        utf16(&dressed),
        ["sep=;\r\n", dressed.as_str()].concat().into_bytes(),
    ] {
        let report =
            analyse(vec![stream("r", bytes.clone())], &Options::default(), &|_| {}).unwrap();
        let cluster = cluster(&report, "ORD-1");
        assert_eq!((cluster.payments, cluster.surplus_minor), (2, Some(123_450)));
        // The quoted line break is inside the first record, so the second stands two lines on.
        let lines: Vec<u64> = cluster.rows.iter().map(|row| row.line).collect();
        let shift = u64::from(bytes.starts_with(b"sep="));
        assert_eq!(lines, [2 + shift, 4 + shift]);
    }
}

#[test]
fn b64_one_cart_bought_from_two_browsers_at_once() {
    let mut records = String::from("payment_id,cart_id,idempotency_key,created_at\n");
    for round in 0..100 {
        let after = round % 50;
        records.push_str(&format!(
            "P{round}a,CART-{round},K{round}a,2026-09-07T10:{:02}:{:02}.100Z\n\
             P{round}b,CART-{round},K{round}b,2026-09-07T10:{:02}:{:02}.1{after:02}Z\n",
            round / 60,
            round % 60,
            round / 60,
            round % 60,
        ));
    }
    let report = examine(&records);
    assert_eq!(report.totals.clusters, 100);
    for cluster in &report.clusters {
        assert_eq!(cluster.causes.first().unwrap().cause, Cause::Concurrent);
        assert_eq!(cluster.verdict, Verdict::KeyPerRequest);
        assert!(cluster.confidence >= Confidence::High);
    }
    let changes = report.verdicts.first().unwrap().changes.join(" ");
    assert!(changes.contains("unique constraint") && changes.contains("does not replace it"));
}

#[test]
fn b65_a_rhythm_is_no_duplicate_and_the_pair_in_it_is() {
    let mut records = String::from("id,customer,merchant,amount,currency,created_at\n");
    for day in 1..=30 {
        let cents = 1 + day % 3;
        records.push_str(&format!("D{day},C1,ads,0.0{cents},EUR,2026-09-{day:02}T09:00:00Z\n"));
        records.push_str(&format!("E{day},C1,news,0.02,EUR,2026-09-{day:02}T09:30:00Z\n"));
    }
    let weeks = ["09-01", "09-08", "09-15", "09-22", "09-29", "10-06", "10-13", "10-20"];
    for (week, day) in weeks.iter().enumerate() {
        records.push_str(&format!("W{week},C1,video,9.99,EUR,2026-{day}T06:00:00Z\n"));
    }
    records.push_str("X1,C1,video,9.99,EUR,2026-09-15T06:00:40Z\n");
    let report = examine(&records);
    assert_eq!(report.totals.clusters, 1, "{:?}", report.clusters);
    let cluster = report.clusters.first().unwrap();
    assert_eq!(cluster.signature, Signature::Payer);
    assert_eq!((ids(cluster), cluster.gaps_s.as_slice()), (vec!["W2", "X1"], &[40.0][..]));
    assert!(report.explained.periodic_series >= 2);
    assert!(report.to_text(120, 20).contains("within 2 min were compared (--window)"));
    let narrow = Options { window: Duration::from_secs(30), ..Options::default() };
    assert!(!examine_with(&records, &narrow).has_findings());
}

#[test]
fn b65_a_subscription_that_is_the_reference() {
    let mut records = String::from("id,order_id,amount,created_at\n");
    for day in [1, 8, 15, 22, 29] {
        records.push_str(&format!("W{day},SUB-1,9.99,2026-09-{day:02}T06:00:00Z\n"));
        records.push_str(&format!("D{day},SUB-2,1.00,2026-09-{day:02}T06:00:00Z\n"));
    }
    records.push_str("X,SUB-1,9.99,2026-09-15T06:00:40Z\n");
    let report = examine(&records);
    assert_eq!(labels(&report), ["SUB-1"]);
    assert_eq!(ids(cluster(&report, "SUB-1")), ["W15", "X"]);
    assert_eq!(report.explained.periodic_series, 2);
}

#[test]
fn b65_a_declared_series_needs_no_rhythm() {
    let report = examine(
        "id,order_id,amount,recurring,created_at\n\
         P1,SUB-1,9.99,true,2026-09-01T06:00:00Z\n\
         P2,SUB-1,9.99,true,2026-09-02T09:00:00Z\n\
         P3,ORD-1,9.99,false,2026-09-01T06:00:00Z\n\
         P4,ORD-1,9.99,false,2026-09-02T09:00:00Z\n",
    );
    assert_eq!(labels(&report), ["ORD-1"]);
    assert_eq!(report.explained.periodic_series, 1);
}

#[test]
fn b76_one_order_two_successful_payments() {
    let report = examine(
        "payment_id,order_id,idempotency_key,status,amount,currency,created_at\n\
         PAY-1,ORD-7,K-1,paid,49.90,EUR,2026-09-07T10:00:00Z\n\
         PAY-2,ORD-7,K-2,paid,49.90,EUR,2026-09-07T10:03:11Z\n",
    );
    let cluster = cluster(&report, "ORD-7");
    assert_eq!((cluster.payments, cluster.at_stake_minor), (2, Some(4990)));
    assert_eq!(ids(cluster), ["PAY-1", "PAY-2"]);
    let text = report.to_text(120, 20);
    assert!(text.contains("1 purchase was paid more than once: 2 payments, 1 surplus."), "{text}");
    assert!(text.contains("At stake: 49.90 EUR"), "{text}");
}

const EXPORT_A: &str = "payment_id,order_id,created_at,amount,currency,type\n\
     P1,ORD-1,2026-09-07T10:00:05Z,1234.50,EUR,charge\n\
     P2,ORD-2,2026-09-07T10:00:06Z,20.00,EUR,charge\n\
     P3,ORD-2,2026-09-07T10:00:08Z,20.00,EUR,charge\n\
     P4,ORD-3,2026-09-07T10:00:09Z,12.00,EUR,charge\n\
     P5,ORD-3,2026-09-08T10:00:09Z,-12.00,EUR,charge\n";
const EXPORT_B: &str = "type;amount;currency;created_at;order_id;payment_id\n\
     charge;1.234,50;EUR;07.09.2026 12:00:05 +02:00;ORD-1  ;P1\n\
     charge;20,00;EUR;07.09.2026 12:00:06 +02:00; ORD-2;P2 \n\
     charge;20,00;EUR;07.09.2026 12:00:08 +02:00;ORD-2;P3\n\
     charge;12,00;EUR;07.09.2026 12:00:09 +02:00;ORD-3;P4\n\
     charge;(12,00);EUR;08.09.2026 12:00:09 +02:00;ORD-3;P5\n";

#[test]
fn b77_two_exports_of_the_same_payments_are_not_payments_made_twice() {
    let inputs = vec![stream("a.csv", EXPORT_A), stream("b.csv", EXPORT_B)];
    let report = analyse(inputs, &Options::default(), &|_| {}).unwrap();
    assert_eq!(report.rows, 10);
    assert_eq!(labels(&report), ["ORD-2"]);
    let cluster = cluster(&report, "ORD-2");
    assert_eq!((cluster.payments, cluster.surplus_minor), (2, Some(2000)));
    assert_eq!(report.explained.same_records, 5);
    assert!(report.to_text(120, 20).contains("5 records stand in the input twice"));
}

#[test]
fn b77_without_ids_equal_records_of_two_files_are_one() {
    let bare = |text: &str, id: &str| -> String {
        let separator = if text.contains(';') { ";" } else { "," };
        let place = text.lines().next().unwrap().split(separator).position(|name| name == id);
        text.lines()
            .map(|line| {
                let fields = line.split(separator).enumerate();
                let kept: Vec<&str> =
                    fields.filter(|(at, _)| Some(*at) != place).map(|(_, field)| field).collect();
                kept.join(separator) + "\n"
            })
            .collect()
    };
    let inputs = vec![
        stream("a.csv", bare(EXPORT_A, "payment_id")),
        stream("b.csv", bare(EXPORT_B, "payment_id")),
    ];
    let report = analyse(inputs, &Options::default(), &|_| {}).unwrap();
    assert_eq!(labels(&report), ["ORD-2"]);
    assert_eq!(cluster(&report, "ORD-2").payments, 2);
    // In one file, two equal records are two payments.
    let report = examine(
        "order_id,created_at,amount\n\
         ORD-1,2026-09-07T10:00:05Z,5.00\n\
         ORD-1,2026-09-07T10:00:05Z,5.00\n",
    );
    assert_eq!(cluster(&report, "ORD-1").payments, 2);
}

#[test]
fn b79_refused_as_a_duplicate_is_neither_paid_nor_failed() {
    let report = examine(
        "payment_id,order_id,customer_id,amount,status,created_at\n\
         P1,ORD-1,C1,5.00,succeeded,2026-09-07T10:00:00Z\n\
         P2,ORD-1,C1,5.00,duplicate,2026-09-07T10:00:04Z\n\
         P3,ORD-2,C1,5.00,duplicate_transaction,2026-09-07T10:00:20Z\n",
    );
    assert!(!report.has_findings());
    assert_eq!(problem(&report, ProblemKind::RefusedAsDuplicate), Some((2, 3, "duplicate")));
    assert!(report.to_text(120, 20).contains("this order is not paid"));
}

#[test]
fn two_coffees_are_two_coffees() {
    let records = "payment_id,order_id,customer_id,amount,currency,created_at\n\
                   P1,ORD-1,C1,3.20,EUR,2026-09-07T10:00:00Z\n\
                   P2,ORD-2,C1,3.20,EUR,2026-09-07T10:00:50Z\n\
                   P3,,C2,3.20,EUR,2026-09-07T10:00:00Z\n\
                   P4,,C2,3.20,EUR,2026-09-07T10:25:00Z\n";
    assert!(!examine(records).has_findings());
    // Who asks for guesses gets them, marked as such.
    let fuzzy = Options { breadth: Breadth::Fuzzy, ..Options::default() };
    let report = examine_with(records, &fuzzy);
    assert_eq!(report.totals.clusters, 1);
    let cluster = report.clusters.first().unwrap();
    assert_eq!(cluster.signature, Signature::Fuzzy);
    assert!(cluster.confidence <= Confidence::Medium);
    assert!(cluster.notes.iter().any(|note| note.contains("two wanted purchases")));
}

#[test]
fn failed_attempts_move_no_money_and_show_in_the_gaps() {
    let report = examine(
        "payment_id,order_id,status,created_at\n\
         P1,ORD-1,declined,2026-09-07T10:00:00Z\n\
         P2,ORD-1,succeeded,2026-09-07T10:00:09Z\n\
         P3,ORD-2,succeeded,2026-09-07T10:00:00Z\n\
         P4,ORD-2,timeout,2026-09-07T10:00:01Z\n\
         P5,ORD-2,succeeded,2026-09-07T10:00:03Z\n",
    );
    assert_eq!(labels(&report), ["ORD-2"]);
    let cluster = cluster(&report, "ORD-2");
    assert_eq!((cluster.payments, cluster.gaps_s.as_slice()), (2, &[1.0, 2.0][..]));
    assert_eq!(report.rows_without_effect, 2);
}

#[test]
fn parts_of_different_amounts_are_no_duplicates() {
    let report = examine(
        "payment_id,order_id,amount,created_at\n\
         P1,ORD-1,60.00,2026-09-07T10:00:00Z\n\
         P2,ORD-1,40.00,2026-09-07T10:00:30Z\n",
    );
    assert!(!report.has_findings());
    assert_eq!(report.explained.paid_in_parts, 1);
}

#[test]
fn a_long_pause_parts_visits_unless_the_key_is_the_same() {
    let records = "payment_id,order_id,idempotency_key,created_at\n\
                   P1,ORD-1,K1,2026-09-01T10:00:00Z\n\
                   P2,ORD-1,K2,2026-09-09T10:00:00Z\n\
                   P3,ORD-2,K3,2026-09-01T10:00:00Z\n\
                   P4,ORD-2,K3,2026-09-09T10:00:00Z\n";
    let report = examine(records);
    assert_eq!(labels(&report), ["ORD-2"]);
    assert_eq!(report.explained.paid_again_later, 1);
    assert_eq!(cluster(&report, "ORD-2").verdict, Verdict::KeyExpired);
    let patient = Options { pause: Duration::from_secs(30 * 86_400), ..Options::default() };
    assert_eq!(labels(&examine_with(records, &patient)), ["ORD-1", "ORD-2"]);
}

#[test]
fn one_key_on_two_references_is_one_request() {
    let report = examine(
        "payment_id,order_id,idempotency_key,amount,created_at\n\
         P1,ORD-1,K1,5.00,2026-09-07T10:00:00.000Z\n\
         P2,ORD-2,K1,5.00,2026-09-07T10:00:00.080Z\n\
         P3,ORD-3,K3,5.00,2026-09-07T10:00:00.000Z\n",
    );
    assert_eq!(labels(&report), ["K1"]);
    let cluster = cluster(&report, "K1");
    assert_eq!((cluster.signature, cluster.verdict), (Signature::Key, Verdict::RaceInServer));
    // A reference that is paid twice and shares a key with another is counted once.
    let report = examine(
        "payment_id,order_id,idempotency_key,amount,created_at\n\
         P1,ORD-1,K1,5.00,2026-09-07T10:00:00Z\n\
         P2,ORD-1,K2,5.00,2026-09-07T10:00:02Z\n\
         P3,ORD-2,K2,5.00,2026-09-07T10:00:06Z\n",
    );
    assert_eq!((report.totals.clusters, report.totals.payments), (1, 3));
}

#[test]
fn a_key_without_any_reference_still_proves() {
    let report = examine(
        "payment_id,idempotency_key,created_at\n\
         P1,K1,2026-09-07T10:00:00Z\n\
         P2,K1,2026-09-07T10:00:30Z\n\
         P3,K2,2026-09-07T10:00:30Z\n",
    );
    assert_eq!(labels(&report), ["K1"]);
    assert_eq!(cluster(&report, "K1").verdict, Verdict::KeyNotHonoured);
}

#[test]
fn a_reference_on_a_thousand_records_is_no_reference() {
    let mut records = String::from("payment_id,order_id,created_at\n");
    for number in 0..1_500 {
        records.push_str(&format!(
            "P{number},SHOP,2026-09-07T10:{:02}:{:02}Z\n",
            number / 60,
            number % 60
        ));
    }
    records.push_str("Q1,ORD-1,2026-09-07T10:00:00Z\nQ2,ORD-1,2026-09-07T10:00:02Z\n");
    let report = examine(&records);
    assert_eq!(labels(&report), ["ORD-1"]);
    assert_eq!(report.explained.overloaded_references, 1);
    assert!(report.to_text(120, 20).contains("is it the right column"));
}
