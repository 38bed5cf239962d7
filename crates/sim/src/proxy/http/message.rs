//! Where a message of HTTP/1.1 ends, and what its head says.

use super::chunks::Chunks;

/// A head longer than this is no head: the framing was lost.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Header lines in a head, more than any client or service here sends.
const HEADERS_MAX: usize = 128;

/// How much of a body is kept for a test to look into.
pub(super) const BODY_KEPT_BYTES: usize = 4 * 1024;

/// The first line and the header lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Empty for an answer.
    pub(super) method: String,
    /// Path and query; empty for an answer.
    pub(super) path: String,
    /// 0 for a request.
    pub(super) status: u16,
    headers: Vec<(String, Vec<u8>)>,
    bytes: usize,
}

impl Head {
    /// The value of the first header line of this name.
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        lines.next().map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }

    fn lists(&self, name: &str, token: &str) -> bool {
        let value = self.header(name).unwrap_or_default();
        value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token))
    }

    /// Whether the connection ends with this message.
    pub(super) fn closes(&self) -> bool {
        self.lists("connection", "close")
    }

    /// Whether this is not the answer yet, as with `100 Continue`.
    pub(super) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }
}

/// Which side sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    /// The answer to a request; one to HEAD has no body whatever its head says.
    Answer {
        is_to_head: bool,
    },
}

/// How long the body is.
#[derive(Debug)]
enum Framing {
    Length(u64),
    Chunked(Chunks),
    UntilClosed,
}

/// One message, as its bytes come in.
#[derive(Debug)]
pub(super) struct Message {
    side: Side,
    /// Bytes of an unfinished head.
    pending: Vec<u8>,
    head: Option<(Head, Framing)>,
    body: Body,
}

/// The body without its framing.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) bytes: u64,
    pub(super) kept: Vec<u8>,
    pub(super) sha: sha2::Sha256,
}

impl Body {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        use sha2::Digest;
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let room = BODY_KEPT_BYTES.saturating_sub(self.kept.len());
        self.kept.extend(bytes.iter().take(room));
        self.sha.update(bytes);
    }
}

impl Message {
    pub(super) fn of(side: Side) -> Self {
        Self { side, pending: Vec::new(), head: None, body: Body::default() }
    }

    pub(super) fn head(&self) -> Option<&Head> {
        self.head.as_ref().map(|(head, _)| head)
    }

    pub(super) fn body(&self) -> &Body {
        &self.body
    }

    /// Whether it is all there.
    pub(super) fn is_whole(&self) -> bool {
        self.head.as_ref().is_some_and(|(_, framing)| match framing {
            Framing::Length(left) => *left == 0,
            Framing::Chunked(chunks) => chunks.is_over(),
            Framing::UntilClosed => false,
        })
    }

    /// Whether the end of the connection is its end.
    pub(super) fn ends_with_connection(&self) -> bool {
        matches!(self.head, Some((_, Framing::UntilClosed)))
    }

    /// Takes what belongs to this message, and says how many of the bytes that were.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut used = 0;
        if self.head.is_none() {
            let before = self.pending.len();
            self.pending.extend_from_slice(bytes);
            let Some(head) = read(self.side, &self.pending)? else {
                if self.pending.len() > HEAD_BYTES_MAX {
                    return Err("a head without an end");
                }
                return Ok(bytes.len());
            };
            used = head.bytes.saturating_sub(before);
            self.pending.clear();
            let framing = framing(self.side, &head)?;
            self.head = Some((head, framing));
        }
        let rest = bytes.get(used..).unwrap_or_default();
        let Some((_, framing)) = &mut self.head else { return Ok(used) };
        used += match framing {
            Framing::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                self.body.take(rest.get(..count).unwrap_or_default());
                *left -= u64::try_from(count).unwrap_or(0);
                count
            }
            Framing::Chunked(chunks) => chunks.take(rest, &mut self.body)?,
            Framing::UntilClosed => {
                self.body.take(rest);
                rest.len()
            }
        };
        Ok(used)
    }
}

/// The method and the path of a request whose first line, at least, has come.
pub(super) fn first_line(bytes: &[u8]) -> Option<(String, String)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    let mut words = line.split_ascii_whitespace();
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

fn read(side: Side, bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let (status, mut head) = match side {
        Side::Request => {
            let mut request = httparse::Request::new(&mut lines);
            let status = request.parse(bytes).map_err(|_| "no head of a request")?;
            let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
            let (method, path) = (text(request.method), text(request.path));
            (status, Head { method, path, ..Head::default() })
        }
        Side::Answer { .. } => {
            let mut answer = httparse::Response::new(&mut lines);
            let status = answer.parse(bytes).map_err(|_| "no head of an answer")?;
            (status, Head { status: answer.code.unwrap_or(0), ..Head::default() })
        }
    };
    let httparse::Status::Complete(length) = status else { return Ok(None) };
    head.bytes = length;
    let named = lines.iter().filter(|line| !line.name.is_empty());
    head.headers = named.map(|line| (line.name.to_owned(), line.value.to_vec())).collect();
    Ok(Some(head))
}

fn framing(side: Side, head: &Head) -> Result<Framing, &'static str> {
    let bodiless = match side {
        Side::Request => false,
        Side::Answer { is_to_head } => {
            is_to_head || head.is_interim() || matches!(head.status, 204 | 304)
        }
    };
    if bodiless {
        return Ok(Framing::Length(0));
    }
    if head.lists("transfer-encoding", "chunked") {
        return Ok(Framing::Chunked(Chunks::default()));
    }
    match (head.header("content-length"), side) {
        (Some(length), _) => {
            length.trim().parse().map(Framing::Length).map_err(|_| "no content-length")
        }
        (None, Side::Request) => Ok(Framing::Length(0)),
        (None, Side::Answer { .. }) => Ok(Framing::UntilClosed),
    }
}

#[cfg(test)]
mod tests;
