//! What is known about one command on its way to a counterparty: the delivery and its states.
//!
//! It is to the calling side what [`crate::record`] is to the answering side, and has the same form:
//! a variant of [`State`] carries exactly what is valid in that state, and what every state has stands
//! on [`Delivery`]. What an event does to it is told by [`crate::plan`].

use crate::lease::{Fence, Hold, Owner, View};
use crate::receipt::Receipt;
use crate::time::Time;

/// One command on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delivery {
    /// Grows with every change of owner.
    pub fence: Fence,
    /// Who holds the fence, or held one last.
    pub holder: Owner,
    /// Grows with every write; what a compare-and-set compares.
    pub revision: u64,
    /// When its time began: when it was enqueued, or a person had it tried again. Nothing of it was sent
    /// before that could still run.
    pub began: Time,
    /// Its time is over then: no attempt begins, and none goes on.
    pub gives_up: Time,
    /// Every attempt on record. It numbers them, and is never reset.
    pub sends: u32,
    /// The attempts that count against the profile's limit.
    pub attempts: u32,
    /// The first attempt of this time that is on record: from then on a counterparty may know the key.
    pub first_send: Option<Time>,
    /// The last moment at which a request may have been sent.
    pub last_send: Option<Time>,
    /// Why something may have run that nobody can tell the end of; the first reason is kept, but for
    /// [`Reason::Restored`], which says that more was lost. Nothing where every attempt so far proved that
    /// it changed nothing, and where it is known how it ended.
    pub doubt: Option<Reason>,
    /// What the last attempt or question came to, where it ended nothing.
    pub last: Option<Reason>,
    /// What is known for sure although nobody who holds the fence has said it yet, or although a better
    /// answer may still be fetched.
    pub proof: Option<Proof>,
    /// By what the counterparty knows it.
    pub asked_by: AskedBy,
    /// Where it stands.
    pub state: State,
}

/// The states of a delivery. The last six are its endings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing is on its way. It is sent when it is due.
    Waiting(Waiting),
    /// An attempt is on record, under a lease; its bytes may be on their way.
    Sending(Sending),
    /// Something may have run. The counterparty is asked when it is due.
    Unknown(Unknown),
    /// The counterparty executed it.
    Succeeded(Ended<Receipt>),
    /// The counterparty said no, and nothing of it ran.
    Refused(Ended<Receipt>),
    /// Given up, and nothing can have run.
    Failed(Ended<Reason>),
    /// Given up, and something may have run. A person decides.
    Undecided(Ended<Reason>),
    /// Taken back before it was ever sent.
    Cancelled(Ended<()>),
    /// A person decided, with evidence.
    Resolved(Ended<Resolution>),
}

/// A command that is sent when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// Not before this moment.
    pub due: Time,
    /// Why it may be sent.
    pub grounds: Grounds,
}

/// Why a command may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grounds {
    /// Nothing of it can have run: it was never sent, or every attempt proved to have changed nothing.
    Unrun,
    /// Something may have run, and the counterparty deduplicates: the same bytes under the same key are
    /// the question what became of them.
    Dedups,
    /// The counterparty said itself that it works on this key, so it knows it.
    InFlight,
}

/// An attempt on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sending {
    /// When it was put on record.
    pub since: Time,
    /// Its owner stops before this moment.
    pub lease_ends: Time,
    /// Why it was sent.
    pub grounds: Grounds,
}

/// A command about which the counterparty is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unknown {
    /// The next question is due then. While a holder asks, its turn ends then.
    pub due: Time,
    /// Questions asked so far that count against the limit.
    pub asked: u32,
    /// How often without a break, and after its bound, the counterparty knew nothing of it.
    pub not_found: u32,
}

/// By what a counterparty is asked about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AskedBy {
    /// By its idempotency key.
    Key,
    /// By its business reference: it was enqueued for a time of which the store has lost what happened,
    /// so that an earlier command of the same action may have had another key.
    Reference,
}

/// How a command ended, and when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ended<T> {
    /// When.
    pub since: Time,
    /// What there is to say about it.
    pub with: T,
}

/// What a person found out about an undecided command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// It was executed.
    Executed,
    /// It was compensated or written off, whatever ran.
    WrittenOff,
}

/// What is known for sure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The counterparty executed it.
    Executed(Receipt),
    /// The counterparty refused it, whatever was sent before.
    Refused(Receipt),
}

/// Why a command is in doubt, has failed, or is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The lease of an attempt ended without a word of its owner: it crashed, hung or was cut off.
    LeaseLapsed,
    /// The connection could not be made, or not in time. Nothing was sent.
    NotConnected,
    /// The counterparty said that it processed nothing of it.
    NotProcessed,
    /// No answer came in time.
    TimedOut,
    /// The connection broke, or the answer was cut.
    ConnectionLost,
    /// The counterparty answered with a server error.
    ServerError,
    /// The answer was a redirect, or could not be understood.
    AnswerUnclear,
    /// The counterparty is still at work on it.
    InFlight,
    /// The counterparty accepts nothing more for now: a rate limit.
    RateLimited,
    /// The counterparty does not accept our credential.
    NotAccepted,
    /// The request may not be sent as it is configured: no credential, or an address that is not allowed.
    NotSendable,
    /// A refusal came after an attempt that may have run. It speaks for its own attempt only.
    RefusedInDoubt,
    /// The counterparty knows other content under this key.
    KeyReused,
    /// At the counterparty the outcome is unknown, and a person decides there.
    UnknownThere,
    /// At the counterparty a person closed it.
    ClosedThere,
    /// What the counterparty found differs in amount, currency or reference.
    FoundDifferent,
    /// The counterparty answers no questions, or may have forgotten the key.
    NobodyToAsk,
    /// The counterparty does not know of it, and no bound is declared after which that proves anything.
    NotFound,
    /// All questions were asked without a final answer.
    QuestionsUsedUp,
    /// All attempts were made.
    AttemptsUsedUp,
    /// The time for it is over, or would be before it could be tried again.
    TimeOver,
    /// An answer contradicts what was taken for certain.
    Contradicted,
    /// A person says that nothing of it ran.
    DecidedNotExecuted,
    /// The database was restored to an earlier state.
    Restored,
}

impl Reason {
    /// Every reason, with the code by which stores and programs know it.
    pub const ALL: [(Reason, &'static str); 24] = [
        (Reason::LeaseLapsed, "lease-lapsed"),
        (Reason::NotConnected, "not-connected"),
        (Reason::NotProcessed, "not-processed"),
        (Reason::TimedOut, "timed-out"),
        (Reason::ConnectionLost, "connection-lost"),
        (Reason::ServerError, "server-error"),
        (Reason::AnswerUnclear, "answer-unclear"),
        (Reason::InFlight, "in-flight"),
        (Reason::RateLimited, "rate-limited"),
        (Reason::NotAccepted, "not-accepted"),
        (Reason::NotSendable, "not-sendable"),
        (Reason::RefusedInDoubt, "refused-in-doubt"),
        (Reason::KeyReused, "key-reused"),
        (Reason::UnknownThere, "unknown-there"),
        (Reason::ClosedThere, "closed-there"),
        (Reason::FoundDifferent, "found-different"),
        (Reason::NobodyToAsk, "nobody-to-ask"),
        (Reason::NotFound, "not-found"),
        (Reason::QuestionsUsedUp, "questions-used-up"),
        (Reason::AttemptsUsedUp, "attempts-used-up"),
        (Reason::TimeOver, "time-over"),
        (Reason::Contradicted, "contradicted"),
        (Reason::DecidedNotExecuted, "decided-not-executed"),
        (Reason::Restored, "restored"),
    ];

    /// The code of this reason, as stores keep it and programs match it.
    pub fn code(self) -> &'static str {
        Reason::ALL.iter().find(|(reason, _)| *reason == self).map_or("", |(_, code)| code)
    }

    /// The reason with this code.
    pub fn from_code(code: &str) -> Option<Reason> {
        Reason::ALL.iter().find(|(_, known)| *known == code).map(|(reason, _)| *reason)
    }
}

impl Delivery {
    /// What the current holder shows.
    pub fn hold(&self) -> Hold {
        Hold { owner: self.holder, fence: self.fence }
    }

    /// What a person who looks at it sees.
    pub fn view(&self) -> View {
        View::new(self.hold(), self.revision)
    }

    /// Whether it goes on by itself.
    pub fn is_open(&self) -> bool {
        match self.state {
            State::Waiting(_) | State::Sending(_) | State::Unknown(_) => true,
            State::Succeeded(_)
            | State::Refused(_)
            | State::Failed(_)
            | State::Undecided(_)
            | State::Cancelled(_)
            | State::Resolved(_) => false,
        }
    }

    /// Whether it waits for a person.
    pub fn is_in_inbox(&self) -> bool {
        match self.state {
            State::Failed(_) | State::Undecided(_) => true,
            State::Waiting(_)
            | State::Sending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Refused(_)
            | State::Cancelled(_)
            | State::Resolved(_) => false,
        }
    }

    /// Whether nothing will happen to it any more: neither by itself nor by a person.
    pub fn is_finished(&self) -> bool {
        !self.is_open() && !self.is_in_inbox()
    }

    /// Whether the same business action may be enqueued again, under a new key: only where the
    /// counterparty said no, or nothing can have run.
    pub fn may_be_followed(&self) -> bool {
        match self.state {
            State::Refused(_) | State::Failed(_) => true,
            State::Waiting(_)
            | State::Sending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Undecided(_)
            | State::Cancelled(_)
            | State::Resolved(_) => false,
        }
    }

    /// When something is to be done with it: sent, asked about, or taken over from an owner whose lease
    /// is over. Nothing for what does not go on by itself.
    pub fn due(&self) -> Option<Time> {
        match &self.state {
            State::Waiting(waiting) => Some(waiting.due),
            State::Sending(sending) => Some(sending.lease_ends),
            State::Unknown(unknown) => Some(unknown.due),
            State::Succeeded(_)
            | State::Refused(_)
            | State::Failed(_)
            | State::Undecided(_)
            | State::Cancelled(_)
            | State::Resolved(_) => None,
        }
    }

    /// The name of the state, as stores keep it and people read it.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::Waiting(_) => "waiting",
            State::Sending(_) => "sending",
            State::Unknown(_) => "unknown",
            State::Succeeded(_) => "succeeded",
            State::Refused(_) => "refused",
            State::Failed(_) => "failed",
            State::Undecided(_) => "undecided",
            State::Cancelled(_) => "cancelled",
            State::Resolved(_) => "resolved",
        }
    }
}
