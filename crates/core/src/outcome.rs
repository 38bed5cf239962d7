//! What an answer says about what happened: for the one who answers, and for the one who called.

use crate::delivery::Reason;
use crate::receipt::Receipt;
use std::time::Duration;

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

/// What one attempt to send a command proves. The table that gives it to statuses and broken connections
/// is `docs/calling.md`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Executed; the whole answer.
    Done(Receipt),
    /// Executed; the answer's head came and its body was lost. It may be fetched, never ordered anew.
    DoneBodyLost(Receipt),
    /// The counterparty said no.
    Refused(Receipt, Speaks),
    /// Nothing of it ran, and it may be tried again.
    NotRun(NotRun),
    /// The counterparty takes nothing from us for now: the attempt does not count, and a person is told.
    NotAccepted(Reason),
    /// The counterparty works on it; another request with the same key asks for the end of it.
    InFlight,
    /// The counterparty has taken it and will say later: ask until it is final.
    Pending,
    /// Nobody knows.
    Unknown(Reason),
    /// The counterparty answers so that only a person can go on.
    Stop(Reason),
}

/// For which attempts a refusal speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Speaks {
    /// For its own attempt. It proves nothing about an earlier one.
    ForItself,
    /// For the key: it is the counterparty's stored answer, whichever attempt got it first.
    ForTheKey,
}

/// How it is known that an attempt ran nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotRun {
    /// No byte of the request was sent.
    NotSent,
    /// The counterparty, or a gateway before it, said that it processed nothing.
    NotProcessed,
    /// The counterparty refuses everything for now.
    RateLimited,
}

/// What was heard of a counterparty that was asked about a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// It was executed: amount, currency and reference were compared and are ours.
    Executed(Receipt),
    /// It was refused for good.
    Refused(Receipt),
    /// The counterparty does not know of it.
    NotFound,
    /// It is still at work.
    Pending,
    /// It could not be asked, or its answer could not be understood.
    CannotTell,
    /// There is something else: another amount, currency or reference.
    Different,
}

/// What an attempt or a question came to, and what the counterparty wants us to wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told<T> {
    /// What it proves.
    pub what: T,
    /// How long the counterparty wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl<T> Told<T> {
    /// Told without a wait.
    pub const fn plain(what: T) -> Told<T> {
        Told { what, retry_after: None }
    }
}
