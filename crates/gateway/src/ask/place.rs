//! Where a command is asked about: a path with blanks for its key and for the named segments of its own path.

use super::PLAIN;
use percent_encoding::{AsciiSet, utf8_percent_encode};

/// What stays of a segment, which is part of a URL already: its escapes too.
const OF_A_SEGMENT: &AsciiSet = &PLAIN.remove(b'%');
/// The blank for the key.
const KEY: &str = "key";

/// A path and query with blanks, such as `/shops/{shop}/orders/by-key/{key}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Key,
    /// The named segment with this number.
    Segment(usize),
}

impl Place {
    /// Reads a place, or says what is wrong with it. `names` are those in the path of the route.
    pub(crate) fn parse(text: &str, names: &[&str]) -> Result<Place, String> {
        if names.contains(&KEY) {
            return Err(
                "the route's path has a {key} of its own, and here {key} is the upstream's key; give the segment another name"
                    .to_owned(),
            );
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            pieces.push(Piece::Text(before.to_owned()));
            let (name, after) =
                after.split_once('}').ok_or_else(|| format!("{text:?} has a {{ without a }}"))?;
            pieces.push(match names.iter().position(|known| *known == name) {
                Some(number) => Piece::Segment(number),
                None if name == KEY => Piece::Key,
                None => {
                    return Err(format!(
                        "{text:?} has the blank {{{name}}}; expected {{key}}, or a name that stands in the route's path"
                    ));
                }
            });
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Place { pieces })
    }

    /// The place for a key and the named segments of a command's path; nothing where one is missing.
    pub(crate) fn fill(&self, key: &str, segments: &[&str]) -> Option<String> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Key => filled.extend(utf8_percent_encode(key, PLAIN)),
                Piece::Segment(number) => {
                    filled.extend(utf8_percent_encode(segments.get(*number)?, OF_A_SEGMENT));
                }
            }
        }
        Some(filled)
    }

    /// The place with a word in every blank but the key's, as others check it.
    pub(crate) fn with_key_alone(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Key => "{key}",
            Piece::Segment(_) => "x",
        });
        pieces.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn t104_a_filled_place_leads_nowhere_else() {
        let place = Place::parse("/shops/{shop}/by-key/{key}?of={shop}", &["id", "shop"]).unwrap();
        assert_eq!(place.with_key_alone(), "/shops/x/by-key/{key}?of=x");
        let filled = |key: &str, shop: &str| place.fill(key, &["1", shop]).unwrap();
        assert_eq!(filled("k-1", "a.b"), "/shops/a.b/by-key/k-1?of=a.b");
        assert_eq!(filled("a/b?", "x"), "/shops/x/by-key/a%2Fb%3F?of=x");
        // A segment may hold what means something in a query, and what is escaped stays so.
        let of = filled("k", "1&key=2;a=%2F");
        assert_eq!(of, "/shops/1%26key%3D2%3Ba%3D%2F/by-key/k?of=1%26key%3D2%3Ba%3D%2F");
        assert_eq!(place.fill("k", &["1"]), None);
    }

    #[test]
    fn a_place_that_could_not_be_filled_is_refused() {
        for (text, names, part) in [
            ("/a/{key", &[][..], "without a }"),
            ("/a/{order}/{key}", &["id"], "a name that stands in the route's path"),
            ("/a/{key}", &["key"], "another name"),
        ] {
            let sentence = Place::parse(text, names).unwrap_err();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }
}
