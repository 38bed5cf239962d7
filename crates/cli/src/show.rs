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

#[cfg(test)]
mod tests {
    use super::{Time, escaped, second};

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
