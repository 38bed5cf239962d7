//! What is kept beside an open record until it is settled, so that recovery can ask about it.

use bytes::Bytes;
use std::fmt;

/// The key under which a counterparty knows a command; written as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutboundKey([u8; 16]);

impl OutboundKey {
    /// The key of these bits.
    pub const fn from_bytes(bytes: [u8; 16]) -> OutboundKey {
        OutboundKey(bytes)
    }

    /// The bits, for a column.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for OutboundKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for OutboundKey {
    /// Keys are in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutboundKey(…)")
    }
}

/// The intent of an open record: who claimed it, and what its counterparty was to be told. It is
/// written with the claim, before anything is sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Intent {
    /// The name of the route, whose policy and questions are the record's.
    pub route: String,
    /// The key under which the counterparty knows the command. Read from here ever after, so that
    /// another secret changes nothing for a command on its way.
    pub outbound_key: OutboundKey,
    /// The request, encoded by whoever claimed it; nothing where no question needs it.
    pub request: Option<Bytes>,
}

impl fmt::Debug for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intent")
            .field("route", &self.route)
            .field("request_bytes", &self.request.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}
