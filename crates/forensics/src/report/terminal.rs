//! The report as text.

use std::fmt::Write as _;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};

use super::words::{self, count, seconds, thousands};
use super::{ClusterReport, MoneyTotal, Report, plot};
use crate::value::amount::Currency;

/// Writes the report; `width` is that of the terminal in columns.
pub(crate) fn render(report: &Report, width: u16, clusters_max: usize) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = read_section(&mut text, report, width);
    let _ = findings_section(&mut text, report, width, clusters_max);
    let _ = explained_section(&mut text, report, width);
    let _ = problems_section(&mut text, report, width);
    text
}

fn read_section(out: &mut String, report: &Report, width: u16) -> std::fmt::Result {
    for input in &report.inputs {
        let packed = if input.packed { ", unpacked" } else { "" };
        writeln!(
            out,
            "{}: {}, {}{packed}, separator '{}', times in {}",
            input.name,
            count(input.rows, "row", "rows"),
            input.encoding,
            input.separator,
            input.precision
        )?;
        let taken: Vec<String> =
            input.columns.iter().map(|(field, column)| format!("{field} = {column}")).collect();
        wrapped(out, "  columns: ", &taken.join(", "), width)?;
        for guess in &input.guesses {
            writeln!(out, "  guessed: {guess}")?;
        }
    }
    Ok(())
}

fn findings_section(
    out: &mut String,
    report: &Report,
    width: u16,
    clusters_max: usize,
) -> std::fmt::Result {
    if !report.has_findings() {
        writeln!(out, "\nNo purchase was paid more than once.")?;
        return Ok(());
    }
    writeln!(out, "\n{}", headline(report))?;
    for money in &report.totals.money {
        if money.surplus_minor > 0 {
            writeln!(out, "{}", money_line(money))?;
        }
    }
    if report.totals.clusters_without_amount > 0 && !report.totals.money.is_empty() {
        let clusters = report.totals.clusters_without_amount;
        writeln!(out, "In {} an amount is not known.", count(clusters, "case", "cases"))?;
    }
    let mut table = table(width);
    table.set_header(["", "paid", "surplus", "gaps", "cause", "confidence", "key", "at stake"]);
    for cluster in report.clusters.iter().take(clusters_max) {
        table.add_row(cluster_cells(cluster));
    }
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    keep_words_whole(&mut table);
    writeln!(out, "\n{table}")?;
    let left = report.totals.clusters.saturating_sub(clusters_max as u64);
    if left > 0 {
        writeln!(
            out,
            "… and {} more; --format json lists all, --limit more here",
            thousands(left)
        )?;
    }
    let gaps: Vec<f64> =
        report.clusters.iter().flat_map(|cluster| cluster.gaps_s.iter().copied()).collect();
    if let Some(histogram) = plot::histogram(&gaps) {
        writeln!(out, "\nGaps between the payments of one purchase (log scale)\n{histogram}")?;
    }
    causes(out, report, width)?;
    changes(out, report, width)
}

fn headline(report: &Report) -> String {
    let totals = &report.totals;
    format!(
        "{} paid more than once: {}, {} surplus.",
        count(totals.clusters, "purchase was", "purchases were"),
        count(totals.payments, "payment", "payments"),
        thousands(totals.surplus)
    )
}

/// `Taken too often: 90.00 EUR; given back: 30.00 EUR; at stake: 60.00 EUR.`
pub(crate) fn money_line(money: &MoneyTotal) -> String {
    let currency = Currency::read(money.currency.as_bytes());
    let shown = |minor| words::money(minor, currency);
    let back = money.surplus_minor - money.at_stake_minor;
    if back == 0 {
        return format!("At stake: {}, none of it given back yet.", shown(money.at_stake_minor));
    }
    format!(
        "Taken too often: {}; given back: {}; at stake: {}.",
        shown(money.surplus_minor),
        shown(back),
        shown(money.at_stake_minor)
    )
}

fn cluster_cells(cluster: &ClusterReport) -> [String; 8] {
    let currency = cluster.currency.as_deref().and_then(|code| Currency::read(code.as_bytes()));
    let stake = match cluster.at_stake_minor {
        Some(0) if cluster.surplus_minor != Some(0) => "given back".to_owned(),
        Some(minor) => words::money(minor, currency),
        None => "not known".to_owned(),
    };
    [
        cluster.label.clone(),
        cluster.payments.to_string(),
        cluster.surplus.to_string(),
        words::gaps(&cluster.gaps_s),
        cluster.cause_label(),
        cluster.confidence.label().to_owned(),
        cluster.verdict.label().to_owned(),
        stake,
    ]
}

fn causes(out: &mut String, report: &Report, width: u16) -> std::fmt::Result {
    let mut table = table(width);
    table.set_header(["cause", "purchases", "surplus", "confidence up to", "schedule seen"]);
    for total in &report.causes {
        table.add_row([
            total.label.clone(),
            thousands(total.clusters),
            thousands(total.surplus),
            total.confidence.label().to_owned(),
            total.schedule.clone().unwrap_or_default(),
        ]);
    }
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    keep_words_whole(&mut table);
    writeln!(out, "{table}")
}

fn changes(out: &mut String, report: &Report, width: u16) -> std::fmt::Result {
    writeln!(out, "\nWhat to change")?;
    for verdict in &report.verdicts {
        let purchases = count(verdict.clusters, "purchase", "purchases");
        let fault = format!("{} ({purchases}): {}", verdict.label, verdict.explanation);
        wrapped(out, "- ", &fault, width)?;
        for change in &verdict.changes {
            wrapped(out, "    → ", change, width)?;
        }
    }
    Ok(())
}

/// A paragraph behind a mark, broken at blanks, its further lines indented as far as the first.
fn wrapped(out: &mut String, mark: &str, text: &str, width: u16) -> std::fmt::Result {
    let indent = mark.chars().count();
    let room = usize::from(width).saturating_sub(indent).max(20);
    let mut line = String::new();
    let mut lead = mark.to_owned();
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            writeln!(out, "{lead}{line}")?;
            line.clear();
            lead = " ".repeat(indent);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{lead}{line}")
}

/// Each reason why records that look alike are no duplicates, with how often it held.
pub(crate) fn explained_lines(report: &Report) -> Vec<String> {
    let explained = &report.explained;
    let pause = seconds(report.settings.pause_s);
    let mut lines = Vec::new();
    let mut add = |times: u64, one: &str, many: &str| {
        if times > 0 {
            lines.push(format!("{} {}", thousands(times), if times == 1 { one } else { many }));
        }
    };
    add(
        explained.same_records,
        "record stands in the input twice (overlapping exports) and counts once",
        "records stand in the input twice (overlapping exports) and count once",
    );
    add(
        explained.later_records,
        "record continues a payment: a capture, a refund, a later state",
        "records continue a payment: a capture, a refund, a later state",
    );
    add(
        explained.periodic_series,
        "series of payments in a rhythm of days, weeks or months",
        "series of payments in a rhythm of days, weeks or months",
    );
    add(
        explained.paid_again_later,
        &format!("reference was paid again after more than {pause} (see --pause)"),
        &format!("references were paid again after more than {pause} (see --pause)"),
    );
    add(
        explained.paid_in_parts,
        "reference was paid in parts of different amounts",
        "references were paid in parts of different amounts",
    );
    add(
        explained.replaced,
        "payment was given back before the next one was made",
        "payments were given back before the next one was made",
    );
    add(
        explained.overloaded_references,
        "reference stands on more than a thousand records and was not compared; is it the right \
         column?",
        "references stand on more than a thousand records each and were not compared; is it the \
         right column?",
    );
    if let Some(place) = &report.overloaded_example {
        lines.push(format!("(for instance at {place})"));
    }
    if report.rows_without_effect > 0 {
        let rows = report.rows_without_effect;
        lines.push(format!(
            "{} no money: failed, still open, or of nothing",
            count(rows, "record moved", "records moved")
        ));
    }
    lines
}

fn explained_section(out: &mut String, report: &Report, width: u16) -> std::fmt::Result {
    let lines = explained_lines(report);
    if !lines.is_empty() {
        writeln!(out, "\nNot counted as duplicates")?;
        for line in lines {
            wrapped(out, "- ", &line, width)?;
        }
    }
    for limit in &report.limits {
        wrapped(out, "- ", limit, width)?;
    }
    if report.inputs.iter().any(|input| !input.columns.contains_key("reference"))
        || report.settings.fuzzy
    {
        let window = seconds(report.settings.window_s);
        writeln!(
            out,
            "- without a shared reference, payments within {window} were compared (--window)"
        )?;
    }
    Ok(())
}

fn problems_section(out: &mut String, report: &Report, width: u16) -> std::fmt::Result {
    const SHOWN: usize = 5;
    if report.problems.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nRows to look at ({} left out)", thousands(report.rows_left_out))?;
    for problem in &report.problems {
        let rows = count(problem.rows, "row", "rows");
        wrapped(out, "- ", &format!("{rows}: {}", problem.explanation), width)?;
        for example in problem.examples.iter().take(SHOWN) {
            writeln!(out, "    {}:{}: found '{}'", example.file, example.line, example.found)?;
        }
        if problem.rows > SHOWN as u64 {
            writeln!(out, "    … {} more", thousands(problem.rows - SHOWN as u64))?;
        }
    }
    Ok(())
}

/// The blanks on both sides of what stands in a column.
const BLANKS: usize = 2;

fn table(width: u16) -> Table {
    let mut table = Table::new();
    // One line under the header; more lines than text is no table.
    let style = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

/// The longest word that is kept whole: a longer one, such as a reference made by a program, would leave no
/// room for the other columns.
const WORD_MAX: usize = 24;

/// Lets no column become narrower than its longest word.
fn keep_words_whole(table: &mut Table) {
    let longest = |words: &str| words.split(' ').map(|word| word.chars().count()).max();
    let mut least = vec![0; table.column_count()];
    for row in table.header().into_iter().chain(table.row_iter()) {
        for (least, cell) in least.iter_mut().zip(row.cell_iter()) {
            *least = longest(&cell.content()).unwrap_or(0).max(*least);
        }
    }
    for (column, least) in table.column_iter_mut().zip(least) {
        // A column's width has the blanks beside its text in it.
        let width = u16::try_from(least.min(WORD_MAX) + BLANKS).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
}
