//! What is known about one key: the record and its six states.
//!
//! A variant of [`State`] carries exactly what is valid in that state. What every state has
//! (fence, holder, revision, how long it is kept) stands on [`Record`].

use crate::fingerprint::{Digest, Version};
use crate::lease::{Fence, Hold, Owner, View};
use crate::receipt::Receipt;
use crate::time::Time;
use std::time::Duration;

/// What a request asks for, as far as it is compared: two requests with equal identities are the
/// same command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The fingerprint's algorithm.
    pub version: Version,
    /// The fingerprint itself.
    pub digest: Digest,
    /// SHA-256 of the principal, on routes that bind it.
    pub principal_sha: Option<[u8; 32]>,
}

/// The record of a key. A key without a row is [`Record::ABSENT`]: free, with the fence 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Grows with every change of owner, from one to nobody as well.
    pub fence: Fence,
    /// Who holds the fence, or held one last: where it was given up, or a person took it, the fence
    /// is one that this owner was never given.
    pub holder: Owner,
    /// Grows with every write; what a compare-and-set compares.
    pub revision: u64,
    /// The sweep may remove a finished record from this moment on.
    pub keep_until: Time,
    /// What is known.
    pub state: State,
}

/// The states of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing runs and nothing is known to have run. Only the fence is kept.
    Free,
    /// Somebody works on it, under a lease.
    Running(Running),
    /// It was started, and nobody knows how it ended. Recovery asks.
    Unknown(Unknown),
    /// Nobody can be asked, or asking did not help. A person decides.
    Review(Review),
    /// It ended; the answer, or the fact, is kept.
    Done(Done),
    /// A person closed it: it will never run.
    Closed(Closed),
}

/// An execution under a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    /// What was asked for.
    pub request: Identity,
    /// When it was claimed.
    pub since: Time,
    /// The owner stops before this moment, or renews.
    pub lease_ends: Time,
    /// No renewal goes beyond this moment.
    pub run_ends: Time,
}

/// An execution whose outcome nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unknown {
    /// What was asked for.
    pub request: Identity,
    /// The fence with which this life of the key began. An answer from an older life is no
    /// evidence here.
    pub life: Fence,
    /// Since when the outcome is unknown.
    pub since: Time,
    /// Why.
    pub reason: Reason,
    /// The last moment at which the request may have been sent.
    pub last_send: Time,
    /// Questions asked so far.
    pub asked: u32,
    /// How often, without a break, the counterparty knew nothing of it after `not_found_after`.
    pub not_found: u32,
    /// The next question is due from this moment on. While a holder asks, this is also when its
    /// turn ends.
    pub ask_after: Time,
    /// What an earlier owner reported late. Whoever holds the fence settles from it.
    pub evidence: Option<Receipt>,
}

/// An execution that a person has to decide about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Review {
    /// What was asked for.
    pub request: Identity,
    /// The fence with which this life of the key began.
    pub life: Fence,
    /// Since when it waits.
    pub since: Time,
    /// Why.
    pub reason: Reason,
}

/// A finished execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Done {
    /// What was asked for.
    pub request: Identity,
    /// When it was settled.
    pub since: Time,
    /// What is kept of the answer.
    pub receipt: Receipt,
}

/// An execution that a person closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Closed {
    /// What was asked for.
    pub request: Identity,
    /// When it was closed.
    pub since: Time,
}

/// Why an outcome is unknown, or why a person has to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The lease ended without an answer: the owner crashed, hung or was cut off.
    LeaseLapsed,
    /// The call ran into its time limit.
    TimedOut,
    /// The connection broke, or the answer was cut.
    ConnectionLost,
    /// The counterparty answered with a server error.
    ServerError,
    /// The handler returned an error.
    HandlerFailed,
    /// The handler panicked.
    HandlerPanicked,
    /// The handler was dropped before it ended.
    HandlerDropped,
    /// The counterparty answers no questions, or may have forgotten the key.
    NobodyToAsk,
    /// The counterparty did not know of it, and no `not_found_after` is declared.
    NotFound,
    /// All questions were asked without a final answer.
    QuestionsUsedUp,
    /// What the counterparty found differs in amount, currency or reference.
    FoundDifferent,
    /// The database was restored to an earlier state.
    Restored,
}

impl Reason {
    /// Every reason, with the code by which stores and programs know it.
    pub const ALL: [(Reason, &'static str); 12] = [
        (Reason::LeaseLapsed, "lease-lapsed"),
        (Reason::TimedOut, "timed-out"),
        (Reason::ConnectionLost, "connection-lost"),
        (Reason::ServerError, "server-error"),
        (Reason::HandlerFailed, "handler-failed"),
        (Reason::HandlerPanicked, "handler-panicked"),
        (Reason::HandlerDropped, "handler-dropped"),
        (Reason::NobodyToAsk, "nobody-to-ask"),
        (Reason::NotFound, "not-found"),
        (Reason::QuestionsUsedUp, "questions-used-up"),
        (Reason::FoundDifferent, "found-different"),
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

impl Record {
    /// A key without a row.
    pub const ABSENT: Record = Record {
        fence: Fence::NONE,
        holder: Owner::NONE,
        revision: 0,
        keep_until: Time::EPOCH,
        state: State::Free,
    };

    /// Whether nobody can say yet how it ends. Open records are never swept.
    pub fn is_open(&self) -> bool {
        match self.state {
            State::Running(_) | State::Unknown(_) | State::Review(_) => true,
            State::Free | State::Done(_) | State::Closed(_) => false,
        }
    }

    /// What the key's last command asked for; nothing for a free key.
    pub fn request(&self) -> Option<&Identity> {
        match &self.state {
            State::Free => None,
            State::Running(Running { request, .. })
            | State::Unknown(Unknown { request, .. })
            | State::Review(Review { request, .. })
            | State::Done(Done { request, .. })
            | State::Closed(Closed { request, .. }) => Some(request),
        }
    }

    /// What the current holder shows.
    pub fn hold(&self) -> Hold {
        Hold { owner: self.holder, fence: self.fence }
    }

    /// What a person who looks at it sees.
    pub fn view(&self) -> View {
        View::new(self.hold(), self.revision)
    }

    /// The same record with every time moved from "since the epoch" to "since `start`".
    ///
    /// A new claim is decided before the database has said what time it is: the machine is asked
    /// at [`Time::EPOCH`], the store adds its own now, and this gives the row as it was written.
    #[must_use]
    pub fn counted_from(mut self, start: Time) -> Record {
        let moved = |time: Time| start.plus(time.since(Time::EPOCH));
        self.keep_until = moved(self.keep_until);
        match &mut self.state {
            State::Free => {}
            State::Running(running) => {
                running.since = moved(running.since);
                running.lease_ends = moved(running.lease_ends);
                running.run_ends = moved(running.run_ends);
            }
            State::Unknown(unknown) => {
                unknown.since = moved(unknown.since);
                unknown.last_send = moved(unknown.last_send);
                unknown.ask_after = moved(unknown.ask_after);
            }
            State::Review(review) => review.since = moved(review.since),
            State::Done(done) => done.since = moved(done.since),
            State::Closed(closed) => closed.since = moved(closed.since),
        }
        self
    }
}

impl Running {
    /// How long an owner that was told `now` may go on.
    pub fn left(&self, now: Time) -> Duration {
        self.lease_ends.since(now)
    }
}
