//! How things are shown to people and to programs.

use crate::exit::{Code, Stopped};
use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use samekey::core::time::Time;
use serde::Serialize;

/// For whom something is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Any of our own documents as JSON.
pub fn json(value: &impl Serialize) -> Result<String, Stopped> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Stopped::new(Code::Unreachable, format!("no JSON: {error}")))
}

/// A text of somebody else's with every character that a terminal might act upon, or that hides
/// another one, written as an escape.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

/// A moment to the second, in UTC.
pub fn second(time: Time) -> String {
    let to_second = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor);
    match Timestamp::from_microsecond(time.micros()).and_then(|moment| moment.round(to_second)) {
        Ok(moment) => moment.to_string(),
        // Beyond the year 9999: nothing but the number says when.
        Err(_) => format!("{} us", time.micros()),
    }
}

/// A table in the house's style, as wide as the terminal.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    let style = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
    let (_, width) = console::Term::stdout().size();
    table
        .load_style(style)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(if console::Term::stdout().is_term() { width } else { u16::MAX })
        .set_header(header.to_vec());
    table
}

/// Rows under the names of their columns. Where the terminal is narrower, every value has a line to itself: what
/// somebody has to type again, as an id, is never broken in two.
pub fn rows(names: &[&str], rows: &[Vec<String>]) -> String {
    let terminal = console::Term::stdout();
    let width = terminal.is_term().then(|| usize::from(terminal.size().1));
    rows_within(names, rows, width)
}

fn rows_within(names: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut table = table(names);
    table.set_content_arrangement(ContentArrangement::Disabled).add_rows(rows);
    let text = format!("{table}\n");
    let is_within =
        |width| text.lines().all(|line| console::measure_text_width(line.trim_end()) <= width);
    if width.is_none_or(is_within) {
        return text;
    }
    let longest = names.iter().map(|name| name.len()).max().unwrap_or_default();
    let blocks = rows.iter().map(|row| {
        let values = names.iter().zip(row).filter(|(_, value)| !value.is_empty());
        values.map(|(name, value)| format!("{name:longest$}  {value}\n")).collect::<String>()
    });
    blocks.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{Time, escaped, rows_within, second};

    #[test]
    fn an_id_is_never_broken_however_narrow_the_terminal_is() {
        let ids = ["0193a1b2-7c4d-7000-8000-000000000001", "0193a1b2-7c4d-7000-8000-000000000002"];
        let list = ids.map(|id| {
            let key = "k".repeat(64);
            vec!["alpha".to_owned(), id.to_owned(), key, String::new(), "3.7-9f2c01ab".to_owned()]
        });
        let names = ["org", "id", "reference", "due", "view"];
        let lines = |width| rows_within(&names, &list, width);
        for width in [None, Some(200), Some(120), Some(80), Some(40), Some(1), Some(0)] {
            let text = lines(width);
            for word in list.iter().flatten() {
                assert!(text.contains(word.as_str()), "{width:?}: {text}");
            }
        }
        assert_eq!((lines(None).lines().count(), lines(None)), (4, lines(Some(200))));
        let narrow = lines(Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(
            narrow.starts_with(&format!("org        alpha\nid         {}\n", ids[0])),
            "{narrow}"
        );
        assert!(!narrow.contains("due") && narrow.contains("9f2c01ab\n\norg "), "{narrow}");
    }

    #[test]
    fn t102_nothing_that_a_terminal_acts_upon_is_shown_as_it_is() {
        assert_eq!(escaped("order \"7\" it's é 注文"), "order \"7\" it's é 注文");
        let hostile = "\x1b[2Ja\r\nb\u{202e}c\u{9b}d\u{200b}\\";
        let shown = escaped(hostile);
        assert!(shown.chars().all(|shown| !shown.is_control()), "{shown}");
        assert!(!shown.contains('\u{202e}') && !shown.contains('\u{200b}'), "{shown}");
        assert!(shown.ends_with("\\\\"), "{shown}");
    }

    #[test]
    fn moments_are_shown_to_the_second() {
        assert_eq!(second(Time::from_micros(1_999_999)), "1970-01-01T00:00:01Z");
        assert_eq!(second(Time::from_micros(i64::MAX)), "9223372036854775807 us");
    }
}
