//! Frames of the protocol: where a message ends, and which statement it is about.

use std::collections::HashMap;

/// A message longer than this is no message: the framing was lost.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The start-up message of protocol 3; other numbers in its place ask for TLS or to cancel.
const VERSION_3: u32 = 196_608;

/// One message, with its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Its letter; 0 for those before the log-in, which have none.
    pub(super) kind: u8,
    pub(super) bytes: Vec<u8>,
}

/// A message of a client: its letter and the text of the statement that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `Q` for a simple query, `P` parse, `B` bind, `E` execute, `D` describe, `S` sync and so on.
    pub kind: char,
    /// The statement, in lower case and on one line; empty where there is none.
    pub statement: String,
}

impl Request {
    /// Whether this executes a statement with `text` in it.
    pub fn executes(&self, text: &str) -> bool {
        matches!(self.kind, 'Q' | 'E') && self.statement.contains(text)
    }
}

/// Cuts a stream of bytes into messages.
#[derive(Debug)]
pub(super) struct Framer {
    buffer: Vec<u8>,
    started: bool,
}

impl Framer {
    /// For what a client sends: its first messages have no letter.
    pub(super) fn of_client() -> Self {
        Self { buffer: Vec::new(), started: false }
    }

    /// For what a server sends.
    pub(super) fn of_server() -> Self {
        Self { buffer: Vec::new(), started: true }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message; an error where these bytes can be none.
    pub(super) fn next(&mut self) -> Result<Option<Message>, &'static str> {
        let head = usize::from(self.started);
        let Some(length) = self.buffer.get(head..head + 4) else { return Ok(None) };
        let length = usize::try_from(number(length)).unwrap_or(usize::MAX);
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err("a message of an impossible length");
        }
        let all = head + length;
        if self.buffer.len() < all {
            return Ok(None);
        }
        let rest = self.buffer.split_off(all);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let kind = if self.started { bytes.first().copied().unwrap_or(0) } else { 0 };
        self.started |= bytes.get(4..8).is_some_and(|code| number(code) == VERSION_3);
        Ok(Some(Message { kind, bytes }))
    }
}

/// Whether these first eight bytes of a connection ask for encryption, by TLS or by GSS.
pub(super) fn asks_for_encryption(head: [u8; 8]) -> bool {
    let [_, _, _, _, code @ ..] = head;
    matches!(u32::from_be_bytes(code), 80_877_103 | 80_877_104)
}

impl Message {
    fn body(&self) -> &[u8] {
        self.bytes.get(5..).unwrap_or_default()
    }
}

/// The statements that one connection has prepared and bound.
#[derive(Debug, Default)]
pub(super) struct Statements {
    prepared: HashMap<String, String>,
    bound: HashMap<String, String>,
}

impl Statements {
    /// What a message of the client is about.
    pub(super) fn read(&mut self, message: &Message) -> Request {
        let (first, rest) = text(message.body());
        let statement = match message.kind {
            b'Q' => plain(&first),
            b'P' => {
                let statement = plain(&text(rest).0);
                self.prepared.insert(first, statement.clone());
                statement
            }
            b'B' => {
                let statement = self.prepared.get(&text(rest).0).cloned().unwrap_or_default();
                self.bound.insert(first, statement.clone());
                statement
            }
            b'E' => self.bound.get(&first).cloned().unwrap_or_default(),
            _ => String::new(),
        };
        Request { kind: char::from(message.kind), statement }
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

/// The text up to the first NUL, and what is behind it.
fn text(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(end);
    (String::from_utf8_lossy(text).into_owned(), rest.get(1..).unwrap_or_default())
}

/// On one line, in lower case, without the comments that end a line.
fn plain(statement: &str) -> String {
    let code = statement.lines().map(|line| line.split("--").next().unwrap_or_default());
    code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{Framer, Message, Statements, asks_for_encryption};

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind], &length.to_be_bytes()[..], body].concat()
    }

    fn start_up() -> Vec<u8> {
        [&12u32.to_be_bytes()[..], &196_608u32.to_be_bytes(), b"a\0\0\0"].concat()
    }

    #[test]
    fn messages_are_found_however_the_bytes_arrive() {
        let sent = [start_up(), message(b'Q', b"select 1\0"), message(b'X', b"")].concat();
        for size in [1, 3, sent.len()] {
            let mut framer = Framer::of_client();
            let mut kinds = Vec::new();
            for part in sent.chunks(size) {
                framer.push(part);
                while let Some(found) = framer.next().unwrap() {
                    kinds.push(found.kind);
                }
            }
            assert_eq!(kinds, [0, b'Q', b'X'], "in parts of {size}");
        }
    }

    #[test]
    fn lost_framing_is_an_error_and_not_a_wait() {
        let mut framer = Framer::of_server();
        framer.push(&[b'Z', 0, 0, 0, 3]);
        assert!(framer.next().is_err());
    }

    #[test]
    fn a_request_for_encryption_is_known() {
        let head =
            |code: u32| [8u32.to_be_bytes(), code.to_be_bytes()].concat().try_into().unwrap();
        assert!(asks_for_encryption(head(80_877_103)));
        assert!(!asks_for_encryption(head(super::VERSION_3)));
    }

    #[test]
    fn an_execution_is_known_by_the_statement_that_was_prepared() {
        let mut statements = Statements::default();
        let mut read =
            |kind: u8, body: &[u8]| statements.read(&Message { kind, bytes: message(kind, body) });
        assert_eq!(read(b'P', b"s1\0-- why\nUPDATE\n  t\0\0\0").statement, "update t");
        assert_eq!(read(b'B', b"p\0s1\0\0\0").statement, "update t");
        let executed = read(b'E', b"p\0\0\0\0\0");
        assert!(executed.executes("update t") && !executed.executes("commit"));
        assert!(read(b'Q', b"commit\0").executes("commit"));
        assert!(!read(b'P', b"s2\0commit\0\0\0").executes("commit"));
    }
}
