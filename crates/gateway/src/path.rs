//! Patterns of paths, and paths that can be written in two ways.
//!
//! The bytes that a client sent are the bytes that are routed, hashed and forwarded. An upstream may read
//! `/%6frders` or `//orders` as `/orders`, though; so a path whose plain form belongs to another route than
//! the path itself is refused, or it would walk around the other route's policy.

use std::borrow::Cow;
use std::fmt;

/// A route's path: literal segments, `{name}` for one segment, and `/*` at the end for all that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    segments: Vec<Segment>,
    rest: Rest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// Any one, by its name.
    Any(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    Anything,
}

impl Pattern {
    /// Reads a pattern, or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
        let Some(path) = text.strip_prefix('/') else {
            return Err(format!(
                "{text:?} does not start with '/'; write a path such as \"/orders\""
            ));
        };
        if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic() || "?#\\".contains(*c)) {
            return Err(format!(
                "{text:?} contains {bad:?}; write the path alone, with other characters as %XX"
            ));
        }
        let (path, rest) = match path.strip_suffix('*') {
            Some("") => (None, Rest::Anything),
            Some(before) => match before.strip_suffix('/') {
                Some(before) => (Some(before), Rest::Anything),
                None => return Err(format!("{text:?} ends with '*'; write \"/*\" for all below")),
            },
            None => (Some(path), Rest::Nothing),
        };
        let segments = path.map(|path| path.split('/').map(segment).collect());
        let segments: Vec<Segment> = segments.unwrap_or(Ok(Vec::new())).map_err(|bad| {
            format!(
                "{text:?} has the segment {bad:?}; write a literal one, or {{name}} for any one"
            )
        })?;
        let pattern = Pattern { text: text.to_owned(), segments, rest };
        if rest == Rest::Nothing && plain(text) != text {
            return Err(format!("{text:?} has a plainer form, {:?}; write that", plain(text)));
        }
        Ok(pattern)
    }

    /// Whether it covers this path, byte by byte.
    pub(crate) fn covers(&self, path: &str) -> bool {
        self.captured(path).is_some()
    }

    /// The segments of this path that have names, in the order of [`Pattern::names`]; nothing where it is not
    /// covered.
    pub(crate) fn captured<'p>(&self, path: &'p str) -> Option<Vec<&'p str>> {
        let mut given = path.strip_prefix('/')?.split('/');
        let mut captured = Vec::new();
        for segment in &self.segments {
            let given = given.next()?;
            match segment {
                Segment::Literal(literal) if literal == given => {}
                Segment::Any(_) if !given.is_empty() => captured.push(given),
                Segment::Literal(_) | Segment::Any(_) => return None,
            }
        }
        let all = match self.rest {
            Rest::Nothing => given.next().is_none(),
            Rest::Anything => given.next().is_some(),
        };
        all.then_some(captured)
    }

    /// The names that stand in it.
    pub(crate) fn names(&self) -> Vec<&str> {
        let names = self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Any(name) => Some(name.as_str()),
        });
        names.collect()
    }
}

fn segment(text: &str) -> Result<Segment, &str> {
    let named = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match named {
        Some(name) if !name.is_empty() && !name.contains(['{', '}']) => {
            Ok(Segment::Any(name.to_owned()))
        }
        Some(_) => Err(text),
        None if text.contains(['{', '}', '*']) => Err(text),
        None => Ok(Segment::Literal(text.to_owned())),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The path as a forgiving upstream reads it: letters that need no escape without one, no empty and no dot
/// segments, no slash at the end.
pub(crate) fn plain(path: &str) -> Cow<'_, str> {
    let decoded = decoded(path);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    let plain = format!("/{}", segments.join("/"));
    if plain == path { Cow::Borrowed(path) } else { Cow::Owned(plain) }
}

/// Every %XX of a visible ASCII character decoded, of '/' and '\' too: some upstreams do.
fn decoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) if byte.is_ascii_graphic() && byte != b'%' => {
                out.push(char::from(byte));
                rest = after.get(2..).unwrap_or_default();
            }
            Some(_) | None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_whole_paths() {
        let covers = |pattern: &str, path: &str| Pattern::parse(pattern).unwrap().covers(path);
        assert!(covers("/orders", "/orders"));
        assert!(!covers("/orders", "/orders/"));
        assert!(!covers("/orders", "/orders/1"));
        assert!(!covers("/orders", "/Orders"));
        assert!(covers("/orders/{id}/cancel", "/orders/1/cancel"));
        assert!(!covers("/orders/{id}/cancel", "/orders//cancel"));
        assert!(!covers("/orders/{id}/cancel", "/orders/1/2/cancel"));
        assert!(covers("/v1/*", "/v1/a/b"));
        assert!(!covers("/v1/*", "/v1"));
        assert!(!covers("/v1/*", "/v10/a"));
        assert!(covers("/*", "/"));
        assert!(covers("/", "/"));
    }

    #[test]
    fn named_segments_are_captured_as_they_came() {
        let pattern = Pattern::parse("/shops/{shop}/orders/{order}/*").unwrap();
        assert_eq!(pattern.names(), ["shop", "order"]);
        let captured = pattern.captured("/shops/a%2Fb/orders/1/x/y");
        assert_eq!(captured, Some(vec!["a%2Fb", "1"]));
        assert_eq!(pattern.captured("/shops/a/orders/1"), None);
    }

    #[test]
    fn patterns_that_could_not_mean_what_they_say_are_refused() {
        for bad in
            ["orders", "", "/a?b", "/a b", "/a*", "/{}", "/a{b}", "//a", "/a/", "/%61", "/a/../b"]
        {
            let sentence = Pattern::parse(bad).unwrap_err();
            assert!(sentence.contains("write"), "{bad}: {sentence}");
        }
    }

    #[test]
    fn t36_every_way_to_write_a_path_has_one_plain_form() {
        for path in [
            "/orders",
            "/orders/",
            "//orders",
            "/x/../orders",
            "/%6frders",
            "/./orders",
            "/%2e/orders",
            "/x%2f..%2Forders",
            "/\\orders",
        ] {
            assert_eq!(plain(path), "/orders", "{path}");
        }
        for path in ["/orders/1", "/", "/a%20b", "/%zz", "/%", "/%25"] {
            assert_eq!(plain(path), path, "{path}");
        }
    }
}
