//! A settings file, read key by key, so that every fault names its line, its key and what to write.

use crate::error::Error;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A wrong word is taken for a known one from this likeness on: `upstreams` and `listen_on` are, `port` is not.
const LIKENESS_MIN: f64 = 0.7;

/// The file: what it is called, and what stands in it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl<'a> Source<'a> {
    /// Reads the file as TOML.
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'a>>, Error> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().unwrap_or_default();
            Error::settings(format!("{}: {}", self.place(&at), error.message()))
        })
    }

    /// File and line of a place.
    pub(super) fn place(&self, at: &Range<usize>) -> String {
        let before = self.text.get(..at.start).unwrap_or_default();
        format!("{}:{}", self.name, before.matches('\n').count() + 1)
    }
}

/// One table of the file, whose keys are all known.
pub(super) struct Section<'a> {
    source: Source<'a>,
    /// What stands before a key, such as `route.`.
    prefix: String,
    table: &'a DeTable<'a>,
    at: Range<usize>,
}

impl<'a> Section<'a> {
    /// A table whose keys are among `known`; the first that is not is the error.
    pub(super) fn new(
        source: Source<'a>,
        prefix: &str,
        table: &'a Spanned<DeTable<'a>>,
        known: &[&str],
    ) -> Result<Section<'a>, Error> {
        Section::of(source, prefix, table.get_ref(), table.span(), known)
    }

    fn of(
        source: Source<'a>,
        prefix: &str,
        table: &'a DeTable<'a>,
        at: Range<usize>,
        known: &[&str],
    ) -> Result<Section<'a>, Error> {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let place = source.place(&key.span());
            let remedy = match nearest(name, known) {
                Some(near) => format!("did you mean `{prefix}{near}`?"),
                None => format!("known here: {}", known.join(", ")),
            };
            let sentence =
                format!("{place}: `{prefix}{}` is no setting; {remedy}", name.escape_debug());
            return Err(Error::settings(sentence).at(key.span()));
        }
        Ok(Section { source, prefix: prefix.to_owned(), table, at })
    }

    /// A fault of a key that stands in this table, or of the table where it does not.
    pub(super) fn fault(&self, key: &str, sentence: impl Display) -> Error {
        let found = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        let at = found.map_or(self.at.clone(), |(name, _)| name.span());
        let place = self.source.place(&at);
        Error::settings(format!("{place}: `{}{key}`: {sentence}", self.prefix)).at(at)
    }

    fn value(&self, key: &str) -> Option<&'a DeValue<'a>> {
        self.table
            .iter()
            .find(|(name, _)| name.get_ref().as_ref() == key)
            .map(|(_, value)| value.get_ref())
    }

    fn wrong(&self, key: &str, found: &DeValue<'_>, expected: &str) -> Error {
        self.fault(
            key,
            format!("found {} {}; expected {expected}", article(found), found.type_str()),
        )
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(text)),
                None => Err(self.wrong(key, value, "a text in quotes")),
            },
        }
    }

    /// A text of this many bytes at the least.
    pub(super) fn required(&self, key: &str) -> Result<&'a str, Error> {
        match self.text(key)? {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => Err(self.fault(key, "found an empty text; write one")),
            None => Err(self.fault(key, "is missing; add it")),
        }
    }

    /// A whole number within bounds.
    pub(super) fn number(
        &self,
        key: &str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let (least, most) = (bounds.start(), bounds.end());
        let expected = format!("a whole number from {least} to {most}");
        let Some(integer) = value.as_integer() else {
            return Err(self.wrong(key, value, &expected));
        };
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if bounds.contains(&number) => Ok(Some(number)),
            Ok(_) | Err(_) => {
                Err(self.fault(key, format!("found {}; expected {expected}", integer.as_str())))
            }
        }
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => match value.as_bool() {
                Some(flag) => Ok(Some(flag)),
                None => Err(self.wrong(key, value, "true or false")),
            },
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Error> {
        let Some(found) = self.text(key)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == found) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let near = nearest(found, &known);
                let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
                let known = known.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>();
                let known = known.join(", ");
                Err(self.fault(key, format!("found {found:?}; expected one of {known}{near}")))
            }
        }
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let expected = "a list of texts, such as [\"one\", \"two\"]";
        let Some(list) = value.as_array() else { return Err(self.wrong(key, value, expected)) };
        let mut texts = Vec::new();
        for one in list.iter() {
            let one = one.get_ref();
            texts.push(one.as_str().ok_or_else(|| self.wrong(key, one, expected))?);
        }
        Ok(Some(texts))
    }

    /// A list of whole numbers within bounds.
    pub(super) fn numbers(
        &self,
        key: &str,
        bounds: RangeInclusive<u16>,
    ) -> Result<Option<Vec<u16>>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let (least, most) = (bounds.start(), bounds.end());
        let expected = format!("a list of whole numbers from {least} to {most}");
        let Some(list) = value.as_array() else { return Err(self.wrong(key, value, &expected)) };
        let mut numbers = Vec::new();
        for one in list.iter() {
            let one = one.get_ref();
            let number = one
                .as_integer()
                .and_then(|integer| u16::from_str_radix(integer.as_str(), integer.radix()).ok());
            let number = number.filter(|number| bounds.contains(number));
            numbers.push(number.ok_or_else(|| {
                self.fault(key, format!("found another value; expected {expected}"))
            })?);
        }
        Ok(Some(numbers))
    }

    /// Whether a key stands in it.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// A table within this one.
    pub(super) fn section(&self, key: &str, known: &[&str]) -> Result<Option<Section<'a>>, Error> {
        let found = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        let Some((name, value)) = found else { return Ok(None) };
        let Some(table) = value.get_ref().as_table() else {
            let expected = format!("a table, written [{}{key}]", self.prefix);
            return Err(self.wrong(key, value.get_ref(), &expected));
        };
        let prefix = format!("{}{key}.", self.prefix);
        Section::of(self.source, &prefix, table, name.span(), known).map(Some)
    }

    /// The tables of a list.
    pub(super) fn sections(&self, key: &str, known: &[&str]) -> Result<Vec<Section<'a>>, Error> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let expected = format!("tables, each written [[{}{key}]]", self.prefix);
        let Some(list) = value.as_array() else { return Err(self.wrong(key, value, &expected)) };
        let prefix = format!("{}{key}.", self.prefix);
        let mut sections = Vec::new();
        for one in list.iter() {
            let Some(table) = one.get_ref().as_table() else {
                return Err(self.wrong(key, one.get_ref(), &expected));
            };
            sections.push(Section::of(self.source, &prefix, table, one.span(), known)?);
        }
        Ok(sections)
    }
}

fn article(value: &DeValue<'_>) -> &'static str {
    if value.type_str().starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let scored = known.iter().map(|known| (strsim::jaro_winkler(word, known), *known));
    scored
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, known)| known)
}
