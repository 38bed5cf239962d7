//! What an answer to an attempt proves: the table of the calling side, as one pure function.
//!
//! The shell reads the answer: its status, what is kept of it, whether its body came whole, and the one word
//! that its document says where it is a document of the counterparty. [`proves`] turns that into an
//! [`Outcome`]. What is proved by a connection that failed stands with whoever opens connections.
//!
//! Where a status and a word disagree, the more careful reading counts: a doubt costs a question, a refusal
//! that was none costs a second payment.

use crate::delivery::Reason;
use crate::outcome::{NotRun, Outcome, Speaks};
use crate::receipt::Receipt;
use bytes::Bytes;

/// An answer as far as it decides anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The final HTTP status.
    pub status: u16,
    /// What is kept of the answer: all of it, or only the fact where its body was lost or too large.
    pub receipt: Receipt,
    /// Whether its body came.
    pub body: BodyCame,
    /// What its document says.
    pub word: Word,
    /// For which attempts it speaks, if it is a refusal.
    pub speaks: Speaks,
}

/// Whether the body of an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BodyCame {
    /// All of it, or as much as is read of any body.
    Whole,
    /// Its head came, and then the connection broke or the time was over.
    Lost,
}

/// What the document of an answer says beyond its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Nothing that is known: the status decides.
    Nothing,
    /// It is not one of the counterparty's documents, which were declared to be known by a mark: somebody on
    /// the way wrote it, and knows nothing of what was executed.
    Foreign,
    /// It should tell how the command stands, and what it tells is no word of the counterparty's.
    Unclear,
    /// The first request with this key is at work, or its outcome is being looked up.
    InFlight,
    /// The business status is a success.
    Succeeded,
    /// The business status is a refusal.
    Refused,
    /// The business status is not final yet.
    Pending,
    /// Amount, currency or reference are not ours.
    Different,
    /// The key belongs to a request with other content.
    KeyReused,
    /// The outcome is unknown at the counterparty, and a person there decides.
    UnknownThere,
    /// A person closed it there.
    ClosedThere,
    /// It ended with this status, and its answer was not kept.
    NotKept {
        /// The status of the first answer.
        status: u16,
        /// Where the resource is.
        location: Option<Bytes>,
    },
    /// Nothing of it was processed.
    NotProcessed,
}

/// How a counterparty treats statuses that are read differently by different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accepted {
    /// 202 means that it will be done: it is asked about until that is final.
    #[default]
    IsPending,
    /// 202 is the final answer.
    IsFinal,
}

/// What an answer proves.
///
/// | answer | proves |
/// |---|---|
/// | 2xx | done; 202 pending, unless it [is final](Accepted::IsFinal) |
/// | 2xx, body lost | done, the body may be fetched |
/// | 2xx with the word refused, pending or in flight | what the word says |
/// | 2xx with an unclear word | unknown |
/// | 2xx with another amount, currency or reference | a person |
/// | 401, 403, 407 | not accepted for now |
/// | 421, 425 | not processed |
/// | 429 | rate limited |
/// | 408, 5xx | unknown |
/// | 3xx, 1xx as the end, anything else | unknown; never followed |
/// | other 4xx | refused; its body lost: unknown, since it may have been one of the words below |
/// | 4xx that is not the counterparty's own document, where those are declared | unknown |
/// | in progress, outcome pending | in flight |
/// | outcome unknown, closed by operator, key reused | a person |
/// | response not kept | done or refused for the key, by the stored status |
/// | upstream unreached, store unavailable | not processed |
///
/// ```
/// use samekey_core::answer::{Accepted, Answered, BodyCame, Word, proves};
/// use samekey_core::delivery::Reason;
/// use samekey_core::outcome::{Outcome, Speaks};
/// use samekey_core::receipt::Receipt;
///
/// let answered = Answered {
///     status: 503,
///     receipt: Receipt::Fact { status: 503, location: None },
///     body: BodyCame::Whole,
///     word: Word::Nothing,
///     speaks: Speaks::ForItself,
/// };
/// assert_eq!(proves(answered, Accepted::IsPending), Outcome::Unknown(Reason::ServerError));
/// ```
#[must_use]
pub fn proves(answered: Answered, accepted: Accepted) -> Outcome {
    let Answered { status, receipt, body, word, speaks } = answered;
    match word {
        Word::InFlight => Outcome::InFlight,
        Word::KeyReused => Outcome::Stop(Reason::KeyReused),
        Word::UnknownThere => Outcome::Stop(Reason::UnknownThere),
        Word::ClosedThere => Outcome::Stop(Reason::ClosedThere),
        Word::NotProcessed => Outcome::NotRun(NotRun::NotProcessed),
        Word::NotKept { status, location } => not_kept(status, location),
        Word::Different => Outcome::Stop(Reason::FoundDifferent),
        Word::Nothing
        | Word::Foreign
        | Word::Unclear
        | Word::Succeeded
        | Word::Refused
        | Word::Pending => by_status(status, receipt, body, &word, speaks, accepted),
    }
}

fn not_kept(status: u16, location: Option<Bytes>) -> Outcome {
    let receipt = Receipt::Fact { status, location };
    match status {
        // What its ledger calls done is done, a stored redirect included.
        200..=399 => Outcome::Done(receipt),
        400..=499 => Outcome::Refused(receipt, Speaks::ForTheKey),
        _ => Outcome::Unknown(Reason::AnswerUnclear),
    }
}

fn by_status(
    status: u16,
    receipt: Receipt,
    body: BodyCame,
    word: &Word,
    speaks: Speaks,
    accepted: Accepted,
) -> Outcome {
    match status {
        200..=299 => success(status, receipt, body, word, speaks, accepted),
        408 | 500..=599 => Outcome::Unknown(Reason::ServerError),
        400..=499 if *word == Word::Foreign => Outcome::Unknown(Reason::AnswerUnclear),
        401 | 403 | 407 => Outcome::NotAccepted(Reason::NotAccepted),
        421 | 425 => Outcome::NotRun(NotRun::NotProcessed),
        429 => Outcome::NotRun(NotRun::RateLimited),
        400..=499 => match body {
            BodyCame::Whole => Outcome::Refused(receipt, speaks),
            BodyCame::Lost => Outcome::Unknown(Reason::ConnectionLost),
        },
        _ => Outcome::Unknown(Reason::AnswerUnclear),
    }
}

fn success(
    status: u16,
    receipt: Receipt,
    body: BodyCame,
    word: &Word,
    speaks: Speaks,
    accepted: Accepted,
) -> Outcome {
    match word {
        Word::Refused => Outcome::Refused(receipt, speaks),
        Word::Pending => Outcome::Pending,
        Word::Succeeded if body == BodyCame::Whole => Outcome::Done(receipt),
        Word::Unclear | Word::Foreign if body == BodyCame::Whole => {
            Outcome::Unknown(Reason::AnswerUnclear)
        }
        Word::Nothing
        | Word::Foreign
        | Word::Unclear
        | Word::Succeeded
        | Word::InFlight
        | Word::Different
        | Word::KeyReused
        | Word::UnknownThere
        | Word::ClosedThere
        | Word::NotKept { .. }
        | Word::NotProcessed => match (status, accepted, body) {
            (202, Accepted::IsPending, BodyCame::Whole | BodyCame::Lost) => Outcome::Pending,
            (_, Accepted::IsPending | Accepted::IsFinal, BodyCame::Lost) => {
                Outcome::DoneBodyLost(receipt)
            }
            (_, Accepted::IsPending | Accepted::IsFinal, BodyCame::Whole) => Outcome::Done(receipt),
        },
    }
}
