//! What a status says about what happened.

/// How a handler or a counterparty ended, as its status tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// 2xx and 3xx: done, and the answer is final.
    Success,
    /// A 4xx that is final: refused, and the same request would be refused again.
    Refused,
    /// A 4xx that speaks of the moment and not of the command (credentials, size, rate, early
    /// data): nothing was done, and the same key may try again.
    NotNow,
    /// 5xx, 408 and everything that is no final status: it failed, and on an external call nobody
    /// knows what it did before.
    Failed,
}

impl Ending {
    /// The ending that this status tells. The list of 4xx that are not stored is part of the
    /// contract (`docs/contract.md`, "final statuses").
    pub fn of_status(status: u16) -> Ending {
        match status {
            200..=399 => Ending::Success,
            401 | 403 | 407 | 413 | 421 | 425 | 429 => Ending::NotNow,
            408 => Ending::Failed,
            400..=499 => Ending::Refused,
            _ => Ending::Failed,
        }
    }
}
