//! Records in, reports out, in one line.

use std::io::Cursor;

use samekey_forensics::{ClusterReport, Input, Options, ProblemKind, Report, analyse};

/// One input from bytes.
pub fn stream(name: &str, bytes: impl Into<Vec<u8>>) -> Input {
    Input::Stream { name: name.to_owned(), bytes: Box::new(Cursor::new(bytes.into())) }
}

/// The report on one text, read as usual.
pub fn examine(records: &str) -> Report {
    examine_with(records, &Options::default())
}

/// The report on one text.
pub fn examine_with(records: &str, options: &Options) -> Report {
    analyse(vec![stream("records.csv", records)], options, &|_| {}).expect("usable records")
}

/// The sentence that bad records get.
pub fn refused(records: impl Into<Vec<u8>>) -> String {
    analyse(vec![stream("records.csv", records)], &Options::default(), &|_| {})
        .expect_err("records that cannot be used")
        .to_string()
}

/// The labels of all clusters, sorted.
pub fn labels(report: &Report) -> Vec<&str> {
    let mut labels: Vec<&str> =
        report.clusters.iter().map(|cluster| cluster.label.as_str()).collect();
    labels.sort_unstable();
    labels
}

/// The cluster with this label.
pub fn cluster<'r>(report: &'r Report, label: &str) -> &'r ClusterReport {
    report.clusters.iter().find(|cluster| cluster.label == label).expect("a cluster of that name")
}

/// How many rows have this problem, and the first line on which it was met.
pub fn problem(report: &Report, kind: ProblemKind) -> Option<(u64, u64, &str)> {
    let problem = report.problems.iter().find(|problem| problem.kind == kind)?;
    let first = problem.examples.first()?;
    Some((problem.rows, first.line, first.found.as_str()))
}

/// Ids of a cluster's rows.
pub fn ids(cluster: &ClusterReport) -> Vec<&str> {
    cluster.rows.iter().filter_map(|row| row.id.as_deref()).collect()
}
