//! The canonical form of a JSON body: what is left when member order, white space and the spelling of
//! strings do not count. Part of version 1 of the fingerprint, and frozen with it.
//!
//! - Members are sorted by their decoded name, as UTF-8 bytes; arrays keep their order.
//! - Strings are decoded and written again with the shortest escapes that JSON needs: `\"`, `\\`, `\b`,
//!   `\f`, `\n`, `\r`, `\t`, `\u00xx` in small hex for the other control characters, and nothing else.
//!   No Unicode normalisation: a composed and a decomposed `é` differ.
//! - **Numbers stay as they were written.** 100, 100.0, 1e2 and 1E2 differ, and so do 9007199254740992
//!   and 9007199254740993, which would be one number in a double. That is where this form leaves
//!   RFC 8785 (JCS), besides its member order by UTF-16.
//!
//! A body has *no* canonical form when it is not strict RFC 8259 JSON in UTF-8 (a byte order mark, half
//! a surrogate pair, bytes after the value), when any object has one member name twice, since readers
//! disagree on which one counts, or when it is nested deeper than [`DEPTH_MAX`].
//!
//! The work is O(n log n), and the memory at worst about eight times the body: the body is read once,
//! front to back, into a flat copy without white space; only objects whose members were not in order
//! leave a note on where their members lie. Writing then walks the copy and jumps at the notes.

use std::cmp::Ordering;

/// The deepest nesting of arrays and objects that has a canonical form. Real commands stay far below,
/// and it bounds the stack.
pub const DEPTH_MAX: usize = 128;

/// The longest body that has a canonical form, in bytes: positions are noted in four bytes, to keep
/// the notes small. Bodies are refused for their size long before.
pub const CANONICAL_BYTES_MAX: usize = u32::MAX as usize;

/// A JSON body in canonical form, ready to be written piece by piece.
pub struct Canonical {
    /// The values in the order of the body, without white space, strings already spelled canonically.
    flat: Vec<u8>,
    /// The objects whose members were not in order, sorted by where they open.
    shuffled: Vec<Shuffled>,
    /// The members of the shuffled objects, each object's own side by side and sorted.
    members: Vec<Member>,
}

struct Shuffled {
    /// Where its `{` lies in the flat copy.
    open: u32,
    /// Where its `}` lies in the flat copy.
    close: u32,
    /// Where its members start in `members`, and how many they are.
    first: u32,
    count: u32,
}

struct Member {
    /// Where the member starts in the flat copy: at the opening quote of its name.
    start: u32,
    /// Just after the closing quote of its name.
    name_end: u32,
    /// Just after its value.
    end: u32,
}

impl Canonical {
    /// Reads a body. `None` if it has no canonical form: then its raw bytes have to speak for it.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        if body.len() > CANONICAL_BYTES_MAX || std::str::from_utf8(body).is_err() {
            return None;
        }
        let mut reader = Reader::new(body);
        let mut expected = Expected::Value;
        while expected != Expected::End {
            reader.skip_white_space();
            expected = reader.step(expected)?;
        }
        reader.skip_white_space();
        reader.rest.is_empty().then(|| reader.finish())
    }

    /// The length of the canonical form in bytes. It is never longer than the body was.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // Putting members in order moves bytes and adds none.
        self.flat.len()
    }

    /// Hands the canonical form over, piece by piece, front to back.
    pub fn write(&self, sink: &mut impl FnMut(&[u8])) {
        self.write_range(0, position(self.flat.len()), &self.shuffled, sink);
    }

    /// The canonical form as one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes());
        self.write(&mut |piece| all.extend_from_slice(piece));
        all
    }

    /// Writes the values in a range of the flat copy; `inside` are the shuffled objects in it. It calls
    /// itself for members of members, so [`DEPTH_MAX`] bounds the recursion.
    fn write_range(&self, start: u32, end: u32, inside: &[Shuffled], sink: &mut impl FnMut(&[u8])) {
        let (mut at, mut inside) = (start, inside);
        while let Some((object, later)) = inside.split_first() {
            let (within, after) = split_before(later, object.close);
            sink(slice(&self.flat, at, object.open + 1));
            let mut separator: &[u8] = b"";
            for member in slice(&self.members, object.first, object.first + object.count) {
                sink(separator);
                let (_, from_here) = split_before(within, member.start);
                let (in_member, _) = split_before(from_here, member.end);
                self.write_range(member.start, member.end, in_member, sink);
                separator = b",";
            }
            (at, inside) = (object.close, after);
        }
        sink(slice(&self.flat, at, end));
    }
}

/// What may come next in the body, white space aside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    /// Just after `[`.
    ValueOrClose,
    /// Just after `{`.
    NameOrClose,
    /// After a comma in an object.
    Name,
    CommaOrClose,
    End,
}

enum Open {
    Array,
    Object {
        open: u32,
        /// Where its members start in `pending`.
        first: usize,
        /// Whether every name so far came after the one before it.
        ordered: bool,
    },
}

/// Reads the body once, front to back. Every method returns `None` where there is no canonical form.
struct Reader<'a> {
    rest: &'a [u8],
    flat: Vec<u8>,
    open: Vec<Open>,
    /// The members of all objects that are open, the innermost last.
    pending: Vec<Member>,
    shuffled: Vec<Shuffled>,
    members: Vec<Member>,
}

impl<'a> Reader<'a> {
    fn new(body: &'a [u8]) -> Self {
        Self {
            rest: body,
            flat: Vec::with_capacity(body.len()),
            open: Vec::new(),
            pending: Vec::new(),
            shuffled: Vec::new(),
            members: Vec::new(),
        }
    }

    fn finish(mut self) -> Canonical {
        // They were noted as they closed, inner ones first.
        self.shuffled.sort_unstable_by_key(|object| object.open);
        Canonical { flat: self.flat, shuffled: self.shuffled, members: self.members }
    }

    fn skip_white_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn step(&mut self, expected: Expected) -> Option<Expected> {
        match (expected, self.rest.first()?) {
            (Expected::ValueOrClose, b']') => self.close_array(),
            (Expected::Value | Expected::ValueOrClose, _) => self.value(),
            (Expected::NameOrClose, b'}') => self.close_object(),
            (Expected::Name | Expected::NameOrClose, _) => self.name(),
            (Expected::CommaOrClose, byte) => match (byte, self.open.last()?) {
                (b',', Open::Array) => {
                    self.copy(1)?;
                    Some(Expected::Value)
                }
                (b',', Open::Object { .. }) => {
                    self.end_member();
                    self.copy(1)?;
                    Some(Expected::Name)
                }
                (b']', Open::Array) => self.close_array(),
                (b'}', Open::Object { .. }) => {
                    self.end_member();
                    self.close_object()
                }
                (_, Open::Array | Open::Object { .. }) => None,
            },
            (Expected::End, _) => None,
        }
    }

    fn value(&mut self) -> Option<Expected> {
        match self.rest.first()? {
            b'{' => {
                let (open, first) = (position(self.flat.len()), self.pending.len());
                self.opens(Open::Object { open, first, ordered: true }, Expected::NameOrClose)
            }
            b'[' => self.opens(Open::Array, Expected::ValueOrClose),
            b'"' => self.string().map(|()| self.after_value()),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn opens(&mut self, container: Open, expected: Expected) -> Option<Expected> {
        if self.open.len() == DEPTH_MAX {
            return None;
        }
        self.open.push(container);
        self.copy(1)?;
        Some(expected)
    }

    fn close_array(&mut self) -> Option<Expected> {
        self.open.pop()?;
        self.copy(1)?;
        Some(self.after_value())
    }

    fn close_object(&mut self) -> Option<Expected> {
        let Open::Object { open, first, ordered } = self.open.pop()? else { return None };
        if ordered {
            self.pending.truncate(first);
        } else {
            let members = self.pending.get_mut(first..)?;
            members.sort_unstable_by(|one, other| by_name(&self.flat, one, other));
            let is_twice = |pair: &[Member]| match pair {
                [one, other] => by_name(&self.flat, one, other) == Ordering::Equal,
                _ => false,
            };
            if members.windows(2).any(is_twice) {
                return None;
            }
            self.shuffled.push(Shuffled {
                open,
                close: position(self.flat.len()),
                first: position(self.members.len()),
                count: position(members.len()),
            });
            self.members.extend(self.pending.drain(first..));
        }
        self.copy(1)?;
        Some(self.after_value())
    }

    fn after_value(&self) -> Expected {
        if self.open.is_empty() { Expected::End } else { Expected::CommaOrClose }
    }

    fn name(&mut self) -> Option<Expected> {
        let start = position(self.flat.len());
        self.string()?;
        let name_end = position(self.flat.len());
        let member = Member { start, name_end, end: name_end };

        if let Some(Open::Object { first, ordered, .. }) = self.open.last_mut()
            && *ordered
            && let Some(before) = self.pending.get(*first..).and_then(<[Member]>::last)
        {
            *ordered = by_name(&self.flat, before, &member) == Ordering::Less;
        }
        self.pending.push(member);

        self.skip_white_space();
        if self.rest.first() != Some(&b':') {
            return None;
        }
        self.copy(1)?;
        Some(Expected::Value)
    }

    fn end_member(&mut self) {
        let end = position(self.flat.len());
        if let Some(member) = self.pending.last_mut() {
            member.end = end;
        }
    }

    fn literal(&mut self, word: &[u8]) -> Option<Expected> {
        if !self.rest.starts_with(word) {
            return None;
        }
        self.copy(word.len())?;
        Some(self.after_value())
    }

    /// Checks the grammar of a number and keeps it as it was written.
    fn number(&mut self) -> Option<Expected> {
        let lexeme = self.rest;
        let mut rest = lexeme.strip_prefix(b"-").unwrap_or(lexeme);
        rest = match rest {
            [b'0', after @ ..] => after,
            [b'1'..=b'9', ..] => digits(rest)?,
            _ => return None,
        };
        if let [b'.', fraction @ ..] = rest {
            rest = digits(fraction)?;
        }
        if let [b'e' | b'E', exponent @ ..] = rest {
            rest = match exponent {
                [b'+' | b'-', after @ ..] => digits(after)?,
                _ => digits(exponent)?,
            };
        }
        self.copy(lexeme.len() - rest.len())?;
        Some(self.after_value())
    }

    fn string(&mut self) -> Option<()> {
        if self.rest.first() != Some(&b'"') {
            return None;
        }
        self.copy(1)?;
        loop {
            let plain = self.rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
            self.copy(plain)?;
            match self.rest.first()? {
                b'"' => return self.copy(1),
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        let [_, kind, rest @ ..] = self.rest else { return None };
        self.rest = rest;
        let character = match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.unicode()?,
            _ => return None,
        };
        spell(character, &mut self.flat);
        Some(())
    }

    /// What comes after `\u`. Half a surrogate pair is no character, so it has no canonical form.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first);
        }
        self.rest = self.rest.strip_prefix(b"\\u")?;
        let second = self.hex4()?;
        if !(0xDC00..0xE000).contains(&second) {
            return None;
        }
        char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    }

    fn hex4(&mut self) -> Option<u32> {
        let (hex, rest) = self.rest.split_at_checked(4)?;
        self.rest = rest;
        hex.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
    }

    /// Copies bytes of the body as they are.
    fn copy(&mut self, count: usize) -> Option<()> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        match bytes {
            // Marks are one byte each, and much of JSON is marks.
            [byte] => self.flat.push(*byte),
            _ => self.flat.extend_from_slice(bytes),
        }
        self.rest = rest;
        Some(())
    }
}

/// One digit at least, and all that follow.
fn digits(bytes: &[u8]) -> Option<&[u8]> {
    let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 { None } else { bytes.get(count..) }
}

/// Writes a character as it stands in a canonical string. It never takes more bytes than any other
/// way to write it.
fn spell(character: char, flat: &mut Vec<u8>) {
    let escape: &[u8] = match character {
        '"' => b"\\\"",
        '\\' => b"\\\\",
        '\u{8}' => b"\\b",
        '\u{c}' => b"\\f",
        '\n' => b"\\n",
        '\r' => b"\\r",
        '\t' => b"\\t",
        '\0'..='\u{1f}' => {
            let code = character as u8;
            let low = if code % 16 < 10 { b'0' + code % 16 } else { b'a' + code % 16 - 10 };
            flat.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + code / 16, low]);
            return;
        }
        _ => {
            flat.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return;
        }
    };
    flat.extend_from_slice(escape);
}

fn by_name(flat: &[u8], one: &Member, other: &Member) -> Ordering {
    let name = |member: &Member| slice(flat, member.start + 1, member.name_end - 1);
    let (one, other) = (name(one), name(other));
    if one.contains(&b'\\') || other.contains(&b'\\') {
        Decoded(one).cmp(Decoded(other))
    } else {
        one.cmp(other)
    }
}

/// The bytes that a canonical string stands for.
struct Decoded<'a>(&'a [u8]);

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = match self.0 {
            [b'\\', b'u', hex @ ..] => {
                let (hex, rest) = hex.split_at_checked(4)?;
                (u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?, rest)
            }
            [b'\\', b'b', rest @ ..] => (0x8, rest),
            [b'\\', b'f', rest @ ..] => (0xC, rest),
            [b'\\', b'n', rest @ ..] => (b'\n', rest),
            [b'\\', b'r', rest @ ..] => (b'\r', rest),
            [b'\\', b't', rest @ ..] => (b'\t', rest),
            [b'\\', escaped, rest @ ..] => (*escaped, rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        self.0 = rest;
        Some(byte)
    }
}

/// Parts objects that are sorted by where they open: those that open before a position, and the others.
fn split_before(objects: &[Shuffled], at: u32) -> (&[Shuffled], &[Shuffled]) {
    objects.split_at(objects.partition_point(|object| object.open < at))
}

/// Everything that is counted here is shorter than the body, and that is at most
/// [`CANONICAL_BYTES_MAX`].
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The positions were noted from the same bytes, so the slice is always there.
fn slice<T>(all: &[T], start: u32, end: u32) -> &[T] {
    all.get(start as usize..end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests;
