//! Files, streams, packed and foreign ones; the same report whatever the memory and the threads.

use std::io::Write;

use samekey_forensics::{
    AmountUnit, Currency, Field, Header, Input, Options, Plan, analyse, generate,
};

use crate::support::{cluster, examine, examine_with, labels, stream};

fn made(rows: u64) -> Vec<u8> {
    let plan = Plan { seed: 11, rows, duplicates_per_mille: 50 };
    let mut out = Vec::new();
    generate(&plan, &mut out, &mut std::io::sink()).unwrap();
    out
}

#[test]
fn memory_and_threads_change_nothing() {
    let records = made(30_000);
    let with = |memory_bytes: usize, threads: usize| {
        let options = Options { memory_bytes, threads: Some(threads), ..Options::default() };
        let input = stream("r.csv", records.clone());
        analyse(vec![input], &options, &|_| {}).unwrap().to_json()
    };
    let usual = with(512 << 20, 2);
    assert!(usual.contains("ORD-"));
    assert_eq!(with(0, 2), usual, "everything in a temporary file");
    assert_eq!(with(200_000, 3), usual, "part of it in a temporary file");
    assert_eq!(with(512 << 20, 1), usual);
}

#[test]
fn a_file_a_stream_and_a_packed_file_are_read_alike() {
    let records = made(5_000);
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("r.csv");
    std::fs::write(&plain, &records).unwrap();
    let packed = folder.path().join("r.csv.gz");
    let file = std::fs::File::create(&packed).unwrap();
    let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packer.write_all(&records).unwrap();
    packer.finish().unwrap();
    let clusters = |input: Input| {
        analyse(vec![input], &Options::default(), &|_| {}).unwrap().clusters.into_iter().map(
            |mut cluster| {
                for row in &mut cluster.rows {
                    row.file.clear();
                }
                cluster
            },
        )
    };
    let usual: Vec<_> = clusters(Input::File(plain)).collect();
    assert!(usual.len() > 100);
    assert_eq!(clusters(stream("s", records)).collect::<Vec<_>>(), usual);
    assert_eq!(clusters(Input::File(packed)).collect::<Vec<_>>(), usual);
}

#[test]
fn several_files_are_one_set_of_records() {
    let inputs = vec![
        stream("monday.csv", "payment_id,order_id,created_at\nP1,ORD-1,2026-09-07T23:59:58Z\n"),
        stream("tuesday.csv", "at;order;id\n08.09.2026 00:00:00;ORD-1;P2\n"),
    ];
    let report = analyse(inputs, &Options::default(), &|_| {}).unwrap();
    let rows = &cluster(&report, "ORD-1").rows;
    let places: Vec<(&str, u64)> = rows.iter().map(|row| (row.file.as_str(), row.line)).collect();
    assert_eq!(places, [("monday.csv", 2), ("tuesday.csv", 2)]);
}

#[test]
fn separators_and_headers_of_all_kinds() {
    for (separator, terminator) in
        [(",", "\n"), (";", "\r\n"), ("\t", "\n"), ("|", "\n"), (",", "\r")]
    {
        let lines = [
            "payment_id,order_id,created_at",
            "P1,ORD-1,2026-09-07T10:00:00Z",
            "P2,ORD-1,2026-09-07T10:00:02Z",
        ];
        let records = lines.join(terminator).replace(',', separator);
        assert_eq!(labels(&examine(&records)), ["ORD-1"], "{separator:?} {terminator:?}");
    }
}

#[test]
fn columns_may_be_chosen_by_name_or_number_and_a_header_may_be_missing() {
    let mut options = Options { header: Header::Absent, ..Options::default() };
    options.columns.insert(Field::Reference, "2".into());
    options.columns.insert(Field::Time, "3".into());
    let report = examine_with("x,B-1,2026-09-07T10:00:00Z\ny,B-1,2026-09-07T10:00:02Z\n", &options);
    assert_eq!(labels(&report), ["B-1"]);
    let lines: Vec<u64> = cluster(&report, "B-1").rows.iter().map(|row| row.line).collect();
    assert_eq!(lines, [1, 2]);
}

#[test]
fn amounts_in_minor_units_and_other_currencies() {
    let report = examine(
        "payment_id,order_id,created_at,amount_minor,currency\n\
         P1,ORD-1,2026-09-07T10:00:00Z,1250,USD\n\
         P2,ORD-1,2026-09-07T10:00:02Z,1250,USD\n",
    );
    assert_eq!(cluster(&report, "ORD-1").at_stake_minor, Some(1250));
    let yen = Options { currency: Currency::read(b"JPY"), ..Options::default() };
    let records = "payment_id,order_id,created_at,amount\n\
                   P1,ORD-1,2026-09-07T10:00:00Z,\"1,250\"\n\
                   P2,ORD-1,2026-09-07T10:00:02Z,\"1,250\"\n";
    let report = examine_with(records, &yen);
    assert_eq!(cluster(&report, "ORD-1").at_stake_minor, Some(1250));
    assert!(report.to_text(120, 20).contains("1,250 JPY"));
    assert!(report.to_text(120, 20).contains("guessed: amounts such as 1,234"));
    let minor = Options { amount_unit: Some(AmountUnit::Minor), ..Options::default() };
    assert_eq!(cluster(&examine_with(records, &minor), "ORD-1").at_stake_minor, Some(1250));
}

#[test]
fn a_date_and_an_hour_in_two_columns_are_one_time() {
    let report = examine(
        "Date,Time,Invoice Number,Gross\n\
         09/14/2026,10:00:00 AM,INV-1,5.00\n\
         09/14/2026,10:00:04 AM,INV-1,5.00\n",
    );
    assert_eq!(cluster(&report, "INV-1").gaps_s, [4.0]);
}

#[test]
fn progress_reaches_the_end() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let records = made(30_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &records).unwrap();
    let total = AtomicU64::new(0);
    let told = |progress: samekey_forensics::Progress| {
        assert!(progress.bytes <= progress.bytes_total.unwrap());
        total.store(progress.bytes_total.unwrap(), Ordering::Relaxed);
    };
    analyse(vec![Input::File(file.path().into())], &Options::default(), &told).unwrap();
    assert_eq!(total.load(Ordering::Relaxed), records.len() as u64);
}
