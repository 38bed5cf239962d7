//! One purchase on the page.

use std::fmt::{self, Write as _};

use super::{Escaped, class};
use crate::cluster::Role;
use crate::report::words::{self, count, seconds};
use crate::report::{ClusterReport, RowReport};
use crate::value::amount::Currency;

/// One purchase: what it is in a line, and behind it the timeline, the reading and the evidence.
pub(super) fn article(out: &mut String, cluster: &ClusterReport, open: bool) -> fmt::Result {
    let currency = cluster.currency.as_deref().and_then(|code| Currency::read(code.as_bytes()));
    let stake = match cluster.at_stake_minor {
        Some(0) if cluster.surplus_minor != Some(0) => "given back".to_owned(),
        Some(minor) => format!("{} at stake", words::money(minor, currency)),
        None => "amount not known".to_owned(),
    };
    writeln!(
        out,
        "<details{}><summary><span class=\"dot {}\"></span><strong>{}</strong> \
         <span class=\"facts\">{} · gaps {} · {}</span></summary>",
        if open { " open" } else { "" },
        class(cluster),
        Escaped(&cluster.label),
        count(cluster.payments, "payment", "payments"),
        Escaped(&words::gaps(&cluster.gaps_s)),
        Escaped(&stake)
    )?;
    timeline(out, cluster)?;
    writeln!(out, "<dl class=\"facts-list\">")?;
    let mut fact = |label: &str, value: &str| {
        writeln!(out, "<div><dt>{label}</dt><dd>{}</dd></div>", Escaped(value))
    };
    let shares: Vec<String> = cluster
        .causes
        .iter()
        .map(|one| format!("{} {:.0}\u{a0}%", one.cause.label(), one.share * 100.0))
        .collect();
    let lead = if cluster.ambiguous { "ambiguous: " } else { "" };
    fact("Cause", &format!("{lead}{}", shares.join(", ")))?;
    fact("Confidence", cluster.confidence.label())?;
    if let Some(schedule) = &cluster.schedule {
        fact("Schedule that fits best", schedule)?;
    }
    fact("Keys", cluster.verdict.label())?;
    fact("Found by", cluster.signature.explanation())?;
    if let Some(source) = &cluster.source {
        fact("Source", source)?;
    }
    for note in &cluster.notes {
        fact("Mind", note)?;
    }
    writeln!(out, "</dl>")?;
    evidence(out, cluster, currency)?;
    writeln!(out, "</details>")
}

/// Payments as dots on a straight axis of time.
fn timeline(out: &mut String, cluster: &ClusterReport) -> fmt::Result {
    const LEFT: f64 = 2.0;
    const WIDTH: f64 = 96.0;
    /// A label needs about this share of the width of a phone.
    const LABEL_LEAST: f64 = 13.0;
    let whole: f64 = cluster.gaps_s.iter().sum();
    let place = |since: f64| LEFT + if whole > 0.0 { since / whole * WIDTH } else { WIDTH / 2.0 };
    write!(
        out,
        "<svg class=\"timeline\" role=\"img\" aria-label=\"Timeline: gaps {}\" width=\"100%\" \
         height=\"52\"><line class=\"axis\" x1=\"{LEFT}%\" x2=\"{:.2}%\" y1=\"34\" y2=\"34\"/>",
        Escaped(&words::gaps(&cluster.gaps_s)),
        LEFT + WIDTH
    )?;
    let mut since = 0.0;
    for gap in &cluster.gaps_s {
        let (from, to) = (place(since), place(since + gap));
        if to - from >= LABEL_LEAST {
            write!(
                out,
                "<text class=\"tick\" x=\"{:.2}%\" y=\"20\" text-anchor=\"middle\">{}</text>",
                (from + to) / 2.0,
                Escaped(&seconds(*gap))
            )?;
        }
        since += gap;
    }
    let starts = cluster.gaps_s.iter().scan(0.0, |since, gap| {
        *since += gap;
        Some(*since)
    });
    for (since, row) in std::iter::once(0.0).chain(starts).zip(&cluster.rows) {
        write!(
            out,
            "<circle class=\"{}\" cx=\"{:.2}%\" cy=\"34\" r=\"6\"><title>{} {}</title></circle>",
            role_class(row.role),
            place(since),
            Escaped(&row.at),
            Escaped(row.id.as_deref().unwrap_or(""))
        )?;
    }
    writeln!(out, "</svg>")
}

fn role_class(role: Role) -> &'static str {
    match role {
        Role::Wanted => "wanted",
        Role::Surplus => "surplus",
        Role::Attempt => "attempt",
    }
}

fn evidence(out: &mut String, cluster: &ClusterReport, currency: Option<Currency>) -> fmt::Result {
    let has_key = cluster.rows.iter().any(|row| row.key.is_some());
    let has_amount = cluster.rows.iter().any(|row| row.amount_minor.is_some());
    let optional = |shown: bool, head: &str| if shown { head.to_owned() } else { String::new() };
    writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Evidence for {}\">\
         <table class=\"evidence stack\"><thead><tr><th>Payment</th><th>Time</th>{}{}<th>Taken as</th>\
         <th>Where</th></tr></thead><tbody>",
        Escaped(&cluster.label),
        optional(has_amount, "<th class=\"n\">Amount</th>"),
        optional(has_key, "<th>Key</th>")
    )?;
    for row in &cluster.rows {
        let amount = match row.amount_minor {
            Some(minor) => words::money(minor, currency),
            None => "–".to_owned(),
        };
        writeln!(
            out,
            "<tr><td>{}{}</td><td data-label=\"Time\">{}</td>{}{}<td data-label=\"Taken as\">{}</td>\
             <td data-label=\"Where\">{}:{}</td></tr>",
            Escaped(row.id.as_deref().unwrap_or("–")),
            if row.id_lossy { " <em>(digits lost)</em>" } else { "" },
            Escaped(&row.at),
            optional(
                has_amount,
                &format!("<td class=\"n\" data-label=\"Amount\">{}</td>", Escaped(&amount))
            ),
            optional(
                has_key,
                &format!(
                    "<td data-label=\"Key\">{}</td>",
                    Escaped(row.key.as_deref().unwrap_or("–"))
                )
            ),
            taken_as(row, currency),
            Escaped(&row.file),
            row.line
        )?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn taken_as(row: &RowReport, currency: Option<Currency>) -> String {
    let role = match row.role {
        Role::Wanted => "first payment",
        Role::Surplus => "surplus",
        Role::Attempt => "attempt without effect",
    };
    if row.returned_minor > 0 {
        return format!("{role}, {} given back", words::money(row.returned_minor, currency));
    }
    role.to_owned()
}
