//! The report as one page: no script or style from elsewhere, readable on a phone and on paper.

mod purchase;

use std::fmt::{self, Write as _};

use super::plot::Axis;
use super::terminal::{explained_lines, money_line};
use super::words::{self, count, seconds, thousands};
use super::{ClusterReport, Report};
use crate::cause::Cause;
use crate::value::amount::Currency;

/// Clusters shown open; further ones open on a click.
const OPEN_FIRST: usize = 5;

/// Writes the page.
pub(crate) fn render(report: &Report, clusters_max: usize) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut page, report, clusters_max);
    page
}

fn write_page(out: &mut String, report: &Report, clusters_max: usize) -> fmt::Result {
    let names: Vec<&str> = report.inputs.iter().map(|input| input.name.as_str()).collect();
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>Duplicate payments in {}</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the findings</a>\n",
        Escaped(&names.join(", ")),
        include_str!("page.css")
    )?;
    header(out, report, &names)?;
    writeln!(out, "<main id=\"main\">")?;
    if report.has_findings() {
        gaps_section(out, report)?;
        causes_section(out, report)?;
        changes_section(out, report)?;
        clusters_section(out, report, clusters_max)?;
    }
    doubts_section(out, report)?;
    reading_section(out, report)?;
    writeln!(out, "</main>")?;
    // Paper cannot be clicked: everything is opened for printing and put back after.
    writeln!(
        out,
        "<script>\naddEventListener('beforeprint',()=>document.querySelectorAll('details:not([open])')\
         .forEach(d=>{{d.open=true;d.dataset.closed=''}}));\n\
         addEventListener('afterprint',()=>document.querySelectorAll('details[data-closed]')\
         .forEach(d=>{{d.open=false;delete d.dataset.closed}}));\n</script>\n</body>\n</html>"
    )
}

/// Text that came from the records: never markup.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                letter if letter.is_control() => out.write_char(' ')?,
                letter => out.write_char(letter)?,
            }
        }
        Ok(())
    }
}

fn header(out: &mut String, report: &Report, names: &[&str]) -> fmt::Result {
    writeln!(out, "<header>\n<p class=\"brand\">samekey forensics</p>")?;
    if !report.has_findings() {
        writeln!(out, "<h1>No purchase was paid more than once</h1>")?;
    } else {
        writeln!(
            out,
            "<h1>{} paid more than once</h1>",
            count(report.totals.clusters, "purchase was", "purchases were")
        )?;
    }
    let span = match (&report.first_at, &report.last_at) {
        (Some(first), Some(last)) => format!(", {first} to {last}"),
        (Some(_), None) | (None, Some(_)) | (None, None) => String::new(),
    };
    writeln!(
        out,
        "<p class=\"lede\">{} in {}{}</p>",
        count(report.rows, "record", "records"),
        Escaped(&names.join(", ")),
        Escaped(&span)
    )?;
    if report.has_findings() {
        writeln!(out, "<dl class=\"tiles\">")?;
        tile(out, "Payments of these purchases", &thousands(report.totals.payments), "")?;
        tile(out, "Beyond the first of each", &thousands(report.totals.surplus), "")?;
        for money in &report.totals.money {
            if money.surplus_minor > 0 {
                let currency = Currency::read(money.currency.as_bytes());
                let stake = words::money(money.at_stake_minor, currency);
                let back = money.surplus_minor - money.at_stake_minor;
                let note = if back == 0 {
                    "None of it given back yet.".to_owned()
                } else {
                    money_line(money)
                };
                tile(out, "Money at stake", &stake, &note)?;
            }
        }
        if report.totals.money.iter().all(|money| money.surplus_minor == 0) {
            tile(out, "Money at stake", "not known", "The records show no amounts.")?;
        }
        writeln!(out, "</dl>")?;
    }
    writeln!(out, "</header>")
}

fn tile(out: &mut String, label: &str, value: &str, note: &str) -> fmt::Result {
    write!(out, "<div><dt>{}</dt><dd>{}", Escaped(label), Escaped(value))?;
    if !note.is_empty() {
        write!(out, "<small>{}</small>", Escaped(note))?;
    }
    writeln!(out, "</dd></div>")
}

/// The colour class of a cluster's gaps.
fn class(cluster: &ClusterReport) -> &'static str {
    match cluster.causes.first() {
        _ if cluster.ambiguous => "ambiguous",
        Some(one) => one.cause.short(),
        None => Cause::Undetermined.short(),
    }
}

fn gaps_section(out: &mut String, report: &Report) -> fmt::Result {
    const BINS: usize = 72;
    const HEIGHT: f64 = 150.0;
    let gaps = || {
        report
            .clusters
            .iter()
            .flat_map(|cluster| cluster.gaps_s.iter().map(move |gap| (*gap, class(cluster))))
    };
    let Some(axis) = Axis::over(gaps().map(|(gap, _)| gap)) else { return Ok(()) };
    let classes: Vec<&'static str> =
        Cause::ALL.into_iter().map(Cause::short).chain(["ambiguous"]).collect();
    let mut bins = vec![vec![0_usize; classes.len()]; BINS];
    for (gap, class) in gaps() {
        let bin = ((axis.place(gap) * BINS as f64) as usize).min(BINS - 1);
        let place = classes.iter().position(|known| *known == class);
        if let Some(slot) = bins.get_mut(bin).zip(place).and_then(|(bin, place)| bin.get_mut(place))
        {
            *slot += 1;
        }
    }
    let most = bins.iter().map(|bin| bin.iter().sum::<usize>()).max().unwrap_or(1).max(1);
    writeln!(
        out,
        "<section aria-labelledby=\"gaps\">\n<h2 id=\"gaps\">Gaps between the payments of one \
         purchase</h2>\n<p>The gaps tell what sent the payments. Equal distances on this axis are \
         equal ratios: waits that double stand in even steps, a fixed wait stands in one place.</p>"
    )?;
    let total = gaps().count() as u64;
    write!(
        out,
        "<svg class=\"plot\" role=\"img\" aria-label=\"Histogram of {} on a logarithmic axis; the \
         tallest bar holds {}\" width=\"100%\" height=\"{}\">",
        count(total, "gap", "gaps"),
        thousands(most as u64),
        HEIGHT + 30.0
    )?;
    write!(
        out,
        "<text class=\"tick\" x=\"0\" y=\"11\">{}</text>",
        count(most as u64, "gap", "gaps")
    )?;
    for (number, (place, label)) in axis.marks().enumerate() {
        // A phone has room for every second mark.
        let dense = if number % 2 == 1 { " dense" } else { "" };
        let anchor = if place < 0.02 {
            "start"
        } else if place > 0.98 {
            "end"
        } else {
            "middle"
        };
        write!(
            out,
            "<line class=\"grid\" x1=\"{0:.2}%\" x2=\"{0:.2}%\" y1=\"16\" y2=\"{1}\"/>\
             <text class=\"tick{dense}\" x=\"{0:.2}%\" y=\"{2}\" text-anchor=\"{anchor}\">{label}</text>",
            place * 100.0,
            HEIGHT + 5.0,
            HEIGHT + 22.0
        )?;
    }
    for (number, bin) in bins.iter().enumerate() {
        let mut top = HEIGHT;
        for (count, class) in bin.iter().zip(&classes) {
            if *count == 0 {
                continue;
            }
            let height = (*count as f64 / most as f64 * (HEIGHT - 18.0)).max(2.0);
            top -= height;
            write!(
                out,
                "<rect class=\"{class}\" x=\"{:.2}%\" y=\"{top:.1}\" width=\"{:.2}%\" \
                 height=\"{height:.1}\"/>",
                number as f64 / BINS as f64 * 100.0,
                100.0 / BINS as f64 * 0.88
            )?;
        }
    }
    writeln!(
        out,
        "<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\"/></svg>"
    )?;
    write!(out, "<ul class=\"legend\">")?;
    for (number, class) in classes.iter().enumerate() {
        let seen = bins.iter().any(|bin| bin.get(number).is_some_and(|count| *count > 0));
        if seen {
            let label = Cause::ALL
                .into_iter()
                .find(|cause| cause.short() == *class)
                .map_or("ambiguous", Cause::label);
            write!(out, "<li><span class=\"dot {class}\"></span>{label}</li>")?;
        }
    }
    writeln!(out, "</ul>\n</section>")
}

fn causes_section(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(
        out,
        "<section aria-labelledby=\"causes\">\n<h2 id=\"causes\">Causes</h2>\n<div class=\"scroll\" \
         tabindex=\"0\" role=\"region\" aria-labelledby=\"causes\"><table class=\"stack\">\n<thead><tr>\
         <th>Cause</th><th class=\"n\">Purchases</th><th class=\"n\">Surplus</th><th>Confidence up \
         to</th><th>Schedule seen</th></tr></thead>\n<tbody>"
    )?;
    for total in &report.causes {
        let class = total.cause.map_or("ambiguous", Cause::short);
        writeln!(
            out,
            "<tr><td><span class=\"dot {class}\"></span>{}</td>\
             <td class=\"n\" data-label=\"Purchases\">{}</td>\
             <td class=\"n\" data-label=\"Surplus\">{}</td>\
             <td data-label=\"Confidence up to\">{}</td><td data-label=\"Schedule\">{}</td></tr>",
            Escaped(&total.label),
            thousands(total.clusters),
            thousands(total.surplus),
            total.confidence.label(),
            Escaped(total.schedule.as_deref().unwrap_or("–"))
        )?;
    }
    writeln!(out, "</tbody></table></div>")?;
    if !report.sources.is_empty() {
        writeln!(
            out,
            "<h3>By source</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"Causes by source\"><table>\n<thead><tr><th>Source</th>\
             <th class=\"n\">Purchases</th><th class=\"n\">Surplus</th><th>Most often</th></tr>\
             </thead>\n<tbody>"
        )?;
        for source in &report.sources {
            writeln!(
                out,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                Escaped(&source.source),
                thousands(source.clusters),
                thousands(source.surplus),
                Escaped(&source.cause)
            )?;
        }
        writeln!(out, "</tbody></table></div>")?;
    }
    writeln!(out, "</section>")
}

fn changes_section(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(out, "<section aria-labelledby=\"change\">\n<h2 id=\"change\">What to change</h2>")?;
    for verdict in &report.verdicts {
        writeln!(
            out,
            "<article class=\"verdict\"><h3>{} <span class=\"count\">{}</span></h3>\n<p>{}</p>\n<ul>",
            Escaped(&capital(&verdict.label)),
            count(verdict.clusters, "purchase", "purchases"),
            Escaped(&verdict.explanation)
        )?;
        for change in &verdict.changes {
            writeln!(out, "<li>{}</li>", Escaped(change))?;
        }
        writeln!(out, "</ul></article>")?;
    }
    writeln!(out, "</section>")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn clusters_section(out: &mut String, report: &Report, clusters_max: usize) -> fmt::Result {
    writeln!(
        out,
        "<section aria-labelledby=\"purchases\">\n<h2 id=\"purchases\">Purchases, most money at \
         stake first</h2>"
    )?;
    for (number, cluster) in report.clusters.iter().take(clusters_max).enumerate() {
        purchase::article(out, cluster, number < OPEN_FIRST)?;
    }
    let left = report.totals.clusters.saturating_sub(clusters_max as u64);
    if left > 0 {
        writeln!(
            out,
            "<p>… and {} more, counted above and listed in the JSON form.</p>",
            thousands(left)
        )?;
    }
    writeln!(out, "</section>")
}

fn doubts_section(out: &mut String, report: &Report) -> fmt::Result {
    let lines = explained_lines(report);
    if !lines.is_empty() || !report.limits.is_empty() {
        writeln!(
            out,
            "<section aria-labelledby=\"not\">\n<h2 id=\"not\">Not counted as duplicates</h2>\n<ul>"
        )?;
        for line in lines.iter().chain(&report.limits) {
            writeln!(out, "<li>{}</li>", Escaped(line))?;
        }
        writeln!(out, "</ul>\n</section>")?;
    }
    if report.problems.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"rows\">\n<h2 id=\"rows\">Rows to look at</h2>\n<p>{} left out of \
         the comparison.</p>",
        count(report.rows_left_out, "row was", "rows were")
    )?;
    for problem in &report.problems {
        writeln!(
            out,
            "<details><summary><strong>{}</strong> <span class=\"facts\">{}</span></summary>\n<ul>",
            count(problem.rows, "row", "rows"),
            Escaped(&problem.explanation)
        )?;
        for example in &problem.examples {
            writeln!(
                out,
                "<li>{}:{}: found <code>{}</code></li>",
                Escaped(&example.file),
                example.line,
                Escaped(&example.found)
            )?;
        }
        let more = problem.rows.saturating_sub(problem.examples.len() as u64);
        if more > 0 {
            writeln!(out, "<li>… {} more</li>", thousands(more))?;
        }
        writeln!(out, "</ul></details>")?;
    }
    writeln!(out, "</section>")
}

fn reading_section(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(
        out,
        "<section aria-labelledby=\"read\">\n<h2 id=\"read\">How the records were read</h2>"
    )?;
    for input in &report.inputs {
        writeln!(
            out,
            "<details><summary><strong>{}</strong> <span class=\"facts\">{}, {}{}, separator \
             <code>{}</code>, times in {}</span></summary>\n<ul>",
            Escaped(&input.name),
            count(input.rows, "row", "rows"),
            Escaped(&input.encoding),
            if input.packed { ", unpacked" } else { "" },
            Escaped(&input.separator),
            Escaped(&input.precision)
        )?;
        for (field, column) in &input.columns {
            writeln!(out, "<li>{}: column <code>{}</code></li>", Escaped(field), Escaped(column))?;
        }
        for guess in &input.guesses {
            writeln!(out, "<li>guessed: {}</li>", Escaped(guess))?;
        }
        writeln!(out, "</ul></details>")?;
    }
    let settings = &report.settings;
    writeln!(
        out,
        "<p class=\"small\">Times are in UTC; times without an offset were read as {}. Payments of one \
         reference more than {} apart are separate; without a shared reference, payments within {} \
         are compared; a key is taken to live {}. The records were only read.</p>\n</section>",
        Escaped(&settings.timezone),
        seconds(settings.pause_s),
        seconds(settings.window_s),
        seconds(settings.key_life_s)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_records_is_never_markup() {
        let text = Escaped("<script>alert('x' & \"y\")</script>\u{1b}[31m").to_string();
        assert_eq!(
            text,
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt; [31m"
        );
    }
}
