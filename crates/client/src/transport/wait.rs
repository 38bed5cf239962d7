//! How long a counterparty wants to be left alone.

use http::{HeaderMap, header};
use std::time::Duration;

/// What `Retry-After` asks for: whole seconds, or a date, which counts from the answer's own `Date`, since the
/// two clocks may differ. Of several lines the longest counts. What cannot be read, lies in the past or is
/// zero asks for nothing, and so does a date without a `Date`.
///
/// ```
/// use samekey_client::transport::retry_after;
/// use http::HeaderMap;
/// use std::time::Duration;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("retry-after", "120".parse()?);
/// assert_eq!(retry_after(&headers), Some(Duration::from_secs(120)));
/// headers.insert("retry-after", "-120".parse()?);
/// assert_eq!(retry_after(&headers), None);
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(header::RETRY_AFTER).iter();
    let asked = values.filter_map(|value| one(value.to_str().ok()?.trim(), headers)).max();
    asked.filter(|wait| !wait.is_zero())
}

fn one(value: &str, headers: &HeaderMap) -> Option<Duration> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than a number holds is a very long time, and not none.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let date = headers.get(header::DATE)?.to_str().ok()?;
    until.duration_since(httpdate::parse_http_date(date).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::retry_after;
    use http::{HeaderMap, HeaderValue};
    use std::time::Duration;

    fn read(lines: &[&str], date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("retry-after", HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        if let Some(date) = date {
            headers.insert("date", HeaderValue::from_str(date).unwrap());
        }
        retry_after(&headers).as_ref().map(Duration::as_secs)
    }

    #[test]
    fn both_forms_are_read_and_rubbish_asks_for_nothing() {
        const NOON: &str = "Mon, 30 Nov 2026 12:00:00 GMT";
        for (line, asked) in [
            ("1", Some(1)),
            (" 60 ", Some(60)),
            ("007", Some(7)),
            ("99999999999999999999", Some(4_294_967_295)),
            ("0", None),
            ("", None),
            ("-5", None),
            ("+5", None),
            ("1.5", None),
            ("5s", None),
            ("soon", None),
            ("5, 10", None),
            ("NaN", None),
            ("\u{0665}", None),
            ("Mon, 30 Nov 2026 12:01:30 GMT", Some(90)),
            ("Monday, 30-Nov-26 12:00:10 GMT", Some(10)),
            ("Mon, 30 Nov 2026 12:00:00 GMT", None),
            ("Mon, 30 Nov 2026 11:59:00 GMT", None),
            ("Mon, 99 Nov 2026 12:01:00 GMT", None),
        ] {
            assert_eq!(read(&[line], Some(NOON)), asked, "{line:?}");
        }
        assert_eq!(read(&["Mon, 30 Nov 2026 12:01:30 GMT"], None), None, "no date to count from");
        assert_eq!(read(&["Mon, 30 Nov 2026 12:01:30 GMT"], Some("noon")), None);
        assert_eq!(read(&["5", "rubbish", "9"], None), Some(9), "the longest line counts");
        assert_eq!(read(&[], Some(NOON)), None);
    }
}
