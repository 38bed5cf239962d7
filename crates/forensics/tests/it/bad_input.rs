//! Bad input gets one clear sentence; rows left out are counted and listed.

use samekey_forensics::{ErrorKind, Input, Options, ProblemKind, analyse};

use crate::support::{cluster, examine, labels, problem, refused, stream};

#[test]
fn what_is_no_csv_is_refused_with_what_was_found_and_what_is_expected() {
    for (bytes, words) in [
        (&b""[..], &["records.csv", "is empty", "header line"][..]),
        (b"just a line\nand another\n", &["line 1", "just a line", "payment_id,order_id"]),
        (b"{\"a\": 1}\n", &["JSON", "CSV"]),
        (b"<html></html>", &["HTML"]),
        (b"PK\x03\x04zip", &["xlsx", "save it as CSV"]),
        (b"\x00\x01\x02\x03", &["zero bytes", "UTF-8"]),
        (b"a,b\n1,2\n", &["time", "--time", "found: a, b"]),
        (b"created_at,x\n2026-01-01,2\n", &["order_id", "--reference", "found: created_at, x"]),
        (b"order_id,created_at\n", &["no record"]),
        (b"order_id,created_at\nA,soon\nB,later\n", &["none of the 2 rows", "line 2", "soon"]),
        (
            b"order_id,created_at\nA,2026-01-01\n\"B,2026-01-02\nC,2026-01-03\n",
            &["line 3", "quote", "never closed"],
        ),
    ] {
        let text = refused(bytes);
        for word in words {
            assert!(text.contains(word), "'{word}' is missing in: {text}");
        }
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn a_missing_file_and_a_folder_are_named() {
    for (path, word) in [("/nonexistent/x.csv", "cannot be opened"), ("/tmp", "is a folder")] {
        let error =
            analyse(vec![Input::File(path.into())], &Options::default(), &|_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(path) && error.to_string().contains(word), "{error}");
    }
}

#[test]
fn rows_that_cannot_be_used_are_counted_and_listed_with_their_lines() {
    let report = examine(
        "payment_id,order_id,created_at,amount\n\
         P1,ORD-1,2026-09-07T10:00:00Z,5.00\n\
         P2,ORD-1\n\
         P3,ORD-1,2026-09-07T10:00:02Z,5.00\n\
         P4,ORD-1,yesterday,5.00\n\
         P5,ORD-1,,5.00\n\
         \n\
         P6,,2026-09-07T10:00:00Z,5.00\n\
         P7,ORD-7,2026-09-07T10:00:00Z,5,00\n\
         P8,ORD-8,2026-09-07T10:00:00Z,a lot\n\
         P9,ORD-8,2026-09-07T10:00:04Z,5.00\n",
    );
    assert_eq!(report.rows, 9);
    assert_eq!(report.rows_left_out, 5);
    for (kind, line, found) in [
        (ProblemKind::TooShort, 3, "2 of 4 fields: P2"),
        (ProblemKind::TimeUnreadable, 5, "yesterday"),
        (ProblemKind::TimeMissing, 6, ""),
        (ProblemKind::NothingToCompare, 8, "P6"),
        (ProblemKind::TooLong, 9, "5 instead of 4 fields: P7"),
        (ProblemKind::AmountUnreadable, 10, "a lot"),
    ] {
        assert_eq!(problem(&report, kind), Some((1, line, found)), "{kind:?}");
    }
    assert_eq!(labels(&report), ["ORD-1", "ORD-8"]);
    assert_eq!(cluster(&report, "ORD-8").at_stake_minor, None);
    let text = report.to_text(120, 20);
    assert!(text.contains("Rows to look at (5 left out)"), "{text}");
    assert!(text.contains("records.csv:5: found 'yesterday'"), "{text}");
}

#[test]
fn unknown_status_words_are_said_and_can_be_explained() {
    let records = "payment_id,order_id,status,created_at\n\
                   P1,ORD-1,ZZ9,2026-09-07T10:00:00Z\n\
                   P2,ORD-1,ok,2026-09-07T10:00:02Z\n";
    let report = examine(records);
    assert_eq!(labels(&report), ["ORD-1"]);
    assert_eq!(problem(&report, ProblemKind::StatusUnknown), Some((1, 2, "ZZ9")));
    let told = Options { failed_words: vec!["zz9".into()], ..Options::default() };
    assert!(!crate::support::examine_with(records, &told).has_findings());
}

#[test]
fn wrong_options_say_what_is_there() {
    let records = "a,b\n1,2\n";
    let mut options = Options { zone: Some("Mars/Olympus".into()), ..Options::default() };
    options.columns.insert(samekey_forensics::Field::Time, "b".into());
    options.columns.insert(samekey_forensics::Field::Reference, "a".into());
    let error = analyse(vec![stream("r", records)], &options, &|_| {}).unwrap_err();
    assert!(error.to_string().contains("Europe/Berlin"), "{error}");
    options = Options { encoding: Some("utf-99".into()), ..Options::default() };
    let error = analyse(vec![stream("r", records)], &options, &|_| {}).unwrap_err();
    assert!(error.to_string().contains("windows-1252"), "{error}");
}

#[test]
fn a_packed_file_that_is_cut_off_is_said_to_be() {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut records = String::from("payment_id,order_id,created_at\n");
    for number in 0..200_000 {
        records.push_str(&format!("P{number},ORD-{number},2026-09-07T10:00:00Z\n"));
    }
    packer.write_all(records.as_bytes()).unwrap();
    let mut packed = packer.finish().unwrap();
    packed.truncate(packed.len() - 1_000);
    let text = refused(packed);
    assert!(text.contains("damaged or cut off") && text.contains("line"), "{text}");
}
