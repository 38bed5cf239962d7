//! Times of records: many ways to write them, one instant in UTC, with its precision remembered.

use jiff::civil;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::trimmed;

/// One second in the unit in which this crate counts.
pub(crate) const SECOND_NS: i64 = 1_000_000_000;
/// One day, as above.
pub(crate) const DAY_NS: i64 = 86_400 * SECOND_NS;

/// Whether `03/04/2026` is the third of April or the fourth of March.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    /// The day stands first.
    DayFirst,
    /// The month stands first.
    MonthFirst,
}

/// The finest difference that a written time can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grain {
    Nano,
    Micro,
    Milli,
    Second,
    Minute,
    Day,
}

impl Grain {
    /// Its length in nanoseconds.
    pub(crate) fn ns(self) -> i64 {
        match self {
            Self::Nano => 1,
            Self::Micro => 1_000,
            Self::Milli => 1_000_000,
            Self::Second => SECOND_NS,
            Self::Minute => 60 * SECOND_NS,
            Self::Day => DAY_NS,
        }
    }

    fn of_digits(count: usize) -> Self {
        match count {
            0 => Self::Second,
            1..=3 => Self::Milli,
            4..=6 => Self::Micro,
            _ => Self::Nano,
        }
    }

    /// The coarsest grain that this instant is a whole number of, from the second down: a file
    /// that writes `.000` after every second is a file in whole seconds.
    pub(crate) fn of_value(ns: i64) -> Self {
        if ns % SECOND_NS == 0 {
            Self::Second
        } else if ns % 1_000_000 == 0 {
            Self::Milli
        } else if ns % 1_000 == 0 {
            Self::Micro
        } else {
            Self::Nano
        }
    }
}

/// What the local clock did at a written time that names no offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The time happened once.
    Plain,
    /// The clock was set back: the time happened twice, an hour apart; this is the first.
    Repeated,
    /// The clock was set forward over it: the time never happened.
    Skipped,
}

/// An instant as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Nanoseconds since 1970 in UTC.
    pub(crate) ns: i64,
    pub(crate) grain: Grain,
    pub(crate) clock: Clock,
}

/// How the times of one file are written.
#[derive(Debug, Clone)]
pub(crate) struct TimeStyle {
    pub(crate) order: DateOrder,
    /// Where the clock hung that wrote times without an offset; `None` is UTC.
    pub(crate) zone: Option<TimeZone>,
}

/// Reads a time; `None` if it is not one.
pub(crate) fn read(field: &[u8], style: &TimeStyle) -> Option<Moment> {
    let text = trimmed(field);
    if let Some(found) = iso(text, style) {
        return Some(found);
    }
    if text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') {
        return epoch(text).or_else(|| compact(text, style));
    }
    general(text, style)
}

pub(super) fn digits(text: &[u8]) -> Option<i64> {
    const LONGEST: usize = 18;
    if text.is_empty() || text.len() > LONGEST {
        return None;
    }
    text.iter().try_fold(0_i64, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, by counting in 400-year eras.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1700..=2250).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// A date and a time of day, not yet tied to an offset.
#[derive(Clone, Copy)]
struct Written {
    days: i64,
    day_ns: i64,
    grain: Grain,
}

impl Written {
    fn local_ns(self) -> Option<i64> {
        self.days.checked_mul(DAY_NS)?.checked_add(self.day_ns)
    }

    fn at_offset(self, offset_s: i64) -> Option<Moment> {
        let ns = self.local_ns()?.checked_sub(offset_s * SECOND_NS)?;
        Some(Moment { ns, grain: self.grain, clock: Clock::Plain })
    }

    fn in_style(self, style: &TimeStyle) -> Option<Moment> {
        let Some(zone) = &style.zone else { return self.at_offset(0) };
        let local = self.local_ns()?;
        let seconds = local.div_euclid(SECOND_NS);
        let civil = civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0)
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .ok()?;
        let (offset, clock) = match zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => (offset, Clock::Plain),
            AmbiguousOffset::Fold { before, .. } => (before, Clock::Repeated),
            AmbiguousOffset::Gap { before, .. } => (before, Clock::Skipped),
        };
        Some(Moment { clock, ..self.at_offset(i64::from(offset.seconds()))? })
    }
}

/// `2026-09-07T10:00:05.123+09:00` and its relatives; the form nearly every export has, so this is
/// the path that must be fast.
fn iso(text: &[u8], style: &TimeStyle) -> Option<Moment> {
    let [y1, y2, y3, y4, s1, m1, m2, s2, d1, d2, rest @ ..] = text else { return None };
    if s1 != s2 || !matches!(s1, b'-' | b'/') {
        return None;
    }
    let date = days(digits(&[*y1, *y2, *y3, *y4])?, digits(&[*m1, *m2])?, digits(&[*d1, *d2])?)?;
    let Some((separator, clock)) = rest.split_first() else {
        return Written { days: date, day_ns: 0, grain: Grain::Day }.in_style(style);
    };
    if !matches!(separator, b'T' | b't' | b' ' | b'_') {
        return None;
    }
    clock_and_offset(date, clock, style)
}

/// `10:00`, `10:00:05`, `10:00:05.123`, `10:00:05 AM`, then an offset or none.
fn clock_and_offset(date: i64, text: &[u8], style: &TimeStyle) -> Option<Moment> {
    let text = trimmed(text);
    let hour_length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (hour, mut rest) = text.split_at_checked(hour_length.clamp(1, 2))?;
    let mut hour = digits(hour)?;
    let (mut second, mut fraction, mut grain) = (0, 0, Grain::Minute);
    let [b':', m1, m2, after @ ..] = rest else { return None };
    let minute = digits(&[*m1, *m2])?;
    rest = after;
    if let [b':', s1, s2, after @ ..] = rest {
        second = digits(&[*s1, *s2])?;
        grain = Grain::Second;
        rest = after;
        if let [b'.' | b',', after @ ..] = rest {
            let count = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (text, after) = after.split_at_checked(count)?;
            let kept = text.get(..count.min(9))?;
            fraction = digits(kept)? * 10_i64.pow(9 - u32::try_from(kept.len()).ok()?);
            grain = Grain::of_digits(count);
            rest = after;
        }
    }
    rest = trimmed(rest);
    if let [half @ (b'A' | b'a' | b'P' | b'p'), b'M' | b'm', after @ ..] = rest {
        if !(1..=12).contains(&hour) {
            return None;
        }
        hour = hour % 12 + if half.eq_ignore_ascii_case(&b'p') { 12 } else { 0 };
        rest = trimmed(after);
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // A leap second is written as :60 and counted as the start of the next minute, as POSIX does.
    let day_ns = ((hour * 60 + minute) * 60 + second) * SECOND_NS + fraction;
    let written = Written { days: date, day_ns, grain };
    match offset(rest)? {
        Some(offset_s) => written.at_offset(offset_s),
        None => written.in_style(style),
    }
}

/// The offset in seconds; `Some(None)` where none is written, `None` where the rest is no offset.
#[expect(clippy::option_option, reason = "unreadable and absent lead to different answers")]
fn offset(text: &[u8]) -> Option<Option<i64>> {
    if text.is_empty() {
        return Some(None);
    }
    let bare = text.strip_prefix(b"UTC").or_else(|| text.strip_prefix(b"GMT")).unwrap_or(text);
    if bare.is_empty() || bare.eq_ignore_ascii_case(b"z") {
        return Some(Some(0));
    }
    let (sign, rest) = bare.split_first()?;
    let sign = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let seconds = match rest {
        [h] => digits(&[*h])? * 3600,
        [h1, h2] => digits(&[*h1, *h2])? * 3600,
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => {
            digits(&[*h1, *h2])? * 3600 + digits(&[*m1, *m2])? * 60
        }
        _ => return None,
    };
    (seconds <= 18 * 3600).then_some(Some(sign * seconds))
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their size; with a
/// point, seconds and their fraction.
fn epoch(text: &[u8]) -> Option<Moment> {
    if let Some(at) = text.iter().position(|byte| *byte == b'.') {
        let (whole, fraction) = text.split_at(at);
        let fraction = fraction.get(1..)?;
        if !(9..=10).contains(&whole.len()) || fraction.len() > 9 {
            return None;
        }
        let scale = 10_i64.pow(9 - u32::try_from(fraction.len()).ok()?);
        let ns = digits(whole)? * SECOND_NS + digits(fraction).unwrap_or(0) * scale;
        return Some(Moment { ns, grain: Grain::of_digits(fraction.len()), clock: Clock::Plain });
    }
    let value = digits(text.get(..text.len().min(18))?)?;
    let (ns, grain) = match text.len() {
        9 | 10 => (value * SECOND_NS, Grain::Second),
        12 | 13 => (value * 1_000_000, Grain::Milli),
        15 | 16 => (value * 1_000, Grain::Micro),
        18 => (value, Grain::Nano),
        19 => (value.checked_mul(10)? + digits(text.get(18..)?)?, Grain::Nano),
        _ => return None,
    };
    Some(Moment { ns, grain, clock: Clock::Plain })
}

/// `20260907` and `20260907100005`.
fn compact(text: &[u8], style: &TimeStyle) -> Option<Moment> {
    let date = |text: &[u8]| {
        days(digits(text.get(..4)?)?, digits(text.get(4..6)?)?, digits(text.get(6..8)?)?)
    };
    match text.len() {
        8 => Written { days: date(text)?, day_ns: 0, grain: Grain::Day }.in_style(style),
        14 => {
            let (hour, minute, second) =
                (digits(text.get(8..10)?)?, digits(text.get(10..12)?)?, digits(text.get(12..)?)?);
            if hour > 23 || minute > 59 || second > 60 {
                return None;
            }
            let day_ns = ((hour * 60 + minute) * 60 + second) * SECOND_NS;
            Written { days: date(text)?, day_ns, grain: Grain::Second }.in_style(style)
        }
        _ => None,
    }
}

/// The other forms: `07/09/2026 10:00:05`, `7.9.2026`, `Sep 7, 2026, 10:00 AM`,
/// `Mon, 07 Sep 2026 10:00:05 +0000`, `20260907T100005Z`.
fn general(text: &[u8], style: &TimeStyle) -> Option<Moment> {
    if let [date @ .., b'T', h1, h2, m1, m2, s1, s2, b'Z'] = text
        && date.len() == 8
    {
        let mut flat = date.to_vec();
        flat.extend([h1, h2, m1, m2, s1, s2]);
        return compact(&flat, &TimeStyle { order: style.order, zone: None });
    }
    let (mut numbers, mut count) = ([0_i64; 3], 0);
    let mut lengths = [0_usize; 3];
    let mut month_at = None;
    let mut rest = text;
    while count < 3 {
        let [byte, after @ ..] = rest else { return None };
        if byte.is_ascii_digit() {
            let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (number, after) = rest.split_at_checked(length)?;
            // `10:00` before a date is complete means that this is not a date.
            if after.first() == Some(&b':') {
                return None;
            }
            *numbers.get_mut(count)? = digits(number)?;
            *lengths.get_mut(count)? = length;
            count += 1;
            rest = after;
        } else if byte.is_ascii_alphabetic() {
            let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
            let (word, after) = rest.split_at_checked(length)?;
            if let Some(month) = month_of(word) {
                month_at = Some(count);
                *numbers.get_mut(count)? = month;
                count += 1;
            } else if !is_weekday(word) {
                return None;
            }
            rest = after;
        } else if matches!(byte, b' ' | b',' | b'.' | b'-' | b'/') {
            rest = after;
        } else {
            return None;
        }
    }
    let [a, b, c] = numbers;
    let (year, month, day) = match (month_at, lengths) {
        (Some(0), _) => (c, a, b),
        (Some(1), [4, _, _]) => (a, b, c),
        (Some(1), _) => (c, b, a),
        (Some(_), _) => return None,
        (None, [4, _, _]) => (a, b, c),
        (None, _) => match style.order {
            DateOrder::DayFirst => (c, b, a),
            DateOrder::MonthFirst => (c, a, b),
        },
    };
    let year = if year < 100 { 2000 + year } else { year };
    let date = days(year, month, day)?;
    let rest = trimmed(rest.strip_prefix(b",").unwrap_or(rest));
    let rest = rest.strip_prefix(b"at ").or_else(|| rest.strip_prefix(b"T")).unwrap_or(rest);
    if rest.is_empty() {
        return Written { days: date, day_ns: 0, grain: Grain::Day }.in_style(style);
    }
    clock_and_offset(date, rest, style)
}

fn month_of(word: &[u8]) -> Option<i64> {
    const MONTHS: [&[u8]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let head = word.get(..3)?.to_ascii_lowercase();
    (1..).zip(MONTHS).find(|(_, name)| **name == *head).map(|(number, _)| number)
}

fn is_weekday(word: &[u8]) -> bool {
    const DAYS: [&[u8]; 7] = [b"mon", b"tue", b"wed", b"thu", b"fri", b"sat", b"sun"];
    word.get(..3).is_some_and(|head| DAYS.iter().any(|day| head.eq_ignore_ascii_case(day)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTC: TimeStyle = TimeStyle { order: DateOrder::DayFirst, zone: None };
    /// 2026-09-07T10:00:05Z
    const TEN: i64 = 1_788_775_205 * SECOND_NS;

    fn ns(text: &str) -> Option<i64> {
        read(text.as_bytes(), &UTC).map(|moment| moment.ns)
    }

    #[test]
    fn the_same_instant_in_every_form() {
        for text in [
            "2026-09-07T10:00:05Z",
            "2026-09-07 10:00:05",
            "2026-09-07 10:00:05+00",
            "2026-09-07T19:00:05+09:00",
            "2026-09-07T19:00:05+0900",
            "2026/09/07 10:00:05 UTC",
            "2026-09-07T10:00:05.000Z",
            "2026-09-07 10:00:05,000",
            "1788775205",
            "1788775205000",
            "1788775205000000",
            "1788775205000000000",
            "1788775205.0",
            "20260907100005",
            "20260907T100005Z",
            "07/09/2026 10:00:05",
            "7.9.2026 10:00:05",
            "7.9.26 10:00:05",
            "07-Sep-2026 10:00:05",
            "Sep 7, 2026, 10:00:05 AM",
            "Mon, 07 Sep 2026 10:00:05 +0000",
            "Mon, 07 Sep 2026 10:00:05 GMT",
            "  2026-09-07T10:00:05Z ",
        ] {
            assert_eq!(ns(text), Some(TEN), "{text}");
        }
    }

    #[test]
    fn the_written_precision_is_remembered() {
        let grain = |text: &str| read(text.as_bytes(), &UTC).unwrap().grain;
        assert_eq!(grain("2026-09-07"), Grain::Day);
        assert_eq!(grain("2026-09-07 10:00"), Grain::Minute);
        assert_eq!(grain("2026-09-07 10:00:05"), Grain::Second);
        assert_eq!(grain("2026-09-07 10:00:05.12"), Grain::Milli);
        assert_eq!(grain("2026-09-07 10:00:05.123456"), Grain::Micro);
        assert_eq!(grain("1788775205"), Grain::Second);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "soon",
            "2026-13-01",
            "2026-02-30",
            "2026-09-07T25:00:00Z",
            "10:00",
            "12",
            "2026-09-07T10:61:00Z",
            "2026-09-07T10:00:05 JST",
            "ORD-1",
            "2026-09-07T10",
        ] {
            assert_eq!(ns(text), None, "{text}");
        }
    }

    #[test]
    fn a_zone_without_offsets_knows_its_two_hours_of_doubt() {
        let style = TimeStyle {
            order: DateOrder::DayFirst,
            zone: Some(TimeZone::get("Europe/Berlin").unwrap()),
        };
        let at = |text: &str| read(text.as_bytes(), &style).unwrap();
        assert_eq!(at("2026-09-07 12:00:05").ns, TEN);
        assert_eq!(at("2026-10-25 02:30:00").clock, Clock::Repeated);
        assert_eq!(at("2026-03-29 02:30:00").clock, Clock::Skipped);
        // An offset in the text leaves nothing to doubt.
        assert_eq!(at("2026-10-25T02:30:00+01:00").clock, Clock::Plain);
        // Two instants around the end of summer time, one second apart.
        let (before, after) = (at("2026-10-25 01:59:59").ns, at("2026-10-25 02:00:00").ns);
        assert_eq!(after - before, SECOND_NS);
    }
}
