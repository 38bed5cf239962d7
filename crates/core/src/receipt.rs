//! What is kept of an answer, so that a retry gets the same one.
//!
//! [`Keep`] decides what of an answer may be kept: status, body up to a limit, and headers from an
//! allow-list. [`encode_headers`] and [`decode_headers`] turn kept headers into bytes for a store and
//! back.
//!
//! Answers are other people's data: `Debug` shows sizes only.

use std::fmt;

use bytes::Bytes;

mod codec;
mod keep;

pub use codec::{ReceiptFault, decode_headers, encode_headers};
pub use keep::{
    BODY_BYTES_MAX, EXTRA_HEADERS_MAX, HEADER_BYTES_MAX, KEPT_HEADERS, Keep, KeepFault,
    LOCATION_BYTES_MAX,
};

/// An answer that a retry gets as it is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The kept headers, names in lower case, repeated ones in the order in which they came.
    pub headers: Vec<(Box<str>, Bytes)>,
    /// The whole body.
    pub body: Bytes,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// What a record remembers of a command that is done.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Receipt {
    /// The whole answer: a retry gets it.
    Kept(Answer),
    /// Only that it is done: the answer was too large, was forgotten, or was recovered without a
    /// body. A retry is told so, and where to read the result.
    Fact {
        /// The HTTP status of the first answer.
        status: u16,
        /// The value of its `Location`.
        location: Option<Bytes>,
    },
}

impl Receipt {
    /// The HTTP status of the first answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Kept(answer) => answer.status,
            Self::Fact { status, .. } => *status,
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(answer) => f.debug_tuple("Kept").field(answer).finish(),
            Self::Fact { status, location } => f
                .debug_struct("Fact")
                .field("status", status)
                .field("location_bytes", &location.as_ref().map(Bytes::len))
                .finish(),
        }
    }
}
