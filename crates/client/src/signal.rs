//! What the courier tells the world: one signal an event, counted, logged and handed on.
//!
//! No signal carries a key, a reference, an organisation or a body, so that no metric and no log can show
//! one.

use samekey_core::delivery::Reason;
use samekey_store::Kind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Something that an operator may want to count or to be woken by. Metrics count them as
/// `samekey_deliveries_total` by `destination` and `result`, which is [`Signal::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// A command was put into the outbox.
    Enqueued,
    /// An attempt is on record and is made.
    Sent,
    /// The counterparty is asked.
    Asked,
    /// It will be sent or asked about again.
    Later,
    /// The destination is spared for now; nothing was sent.
    Deferred,
    /// An owner's lease ended without a word of it.
    Lapsed,
    /// The counterparty executed it.
    Succeeded,
    /// The counterparty refused it.
    Refused,
    /// Given up, and nothing ran: it waits in the inbox.
    Failed(Reason),
    /// Given up, and something may have run: it waits in the inbox for a person.
    Undecided(Reason),
    /// The counterparty does not accept our credential, or we have none. Nothing else goes there until
    /// somebody has looked.
    NotAccepted,
    /// An owner's result came too late: somebody else holds the command.
    LeaseLost,
    /// A result that came too late for its owner was kept for whoever holds the command.
    EvidenceRecorded,
    /// A certain answer contradicts how a command has ended: money may have moved twice. Look at once.
    Contradicted,
    /// A result could not be stored: its store stayed away too long. Recovery asks.
    AnswerLost,
    /// The destination fails, and nothing is sent there but probes.
    GateShut,
    /// The destination works again; what waits is sent, slowly at first.
    GateOpened,
    /// The code of a counterparty panicked.
    Panicked,
    /// A person decided.
    Decided,
    /// The store was restored to an earlier state, and all that was not finished is doubted now.
    DoubtedAfterRestore,
    /// The store failed.
    StoreFailed(Kind),
}

/// Where signals go besides metrics and logs: called with the destination's name, on the courier's own
/// tasks; it must not block.
pub type Listener = Arc<dyn Fn(&str, Signal) + Send + Sync>;

/// Counts, logs and hands on.
#[derive(Clone, Default)]
pub(crate) struct Signals(Option<Listener>);

impl Signals {
    pub(crate) fn to(listener: Listener) -> Signals {
        Signals(Some(listener))
    }

    /// A listener, a recorder or a log that panics must not end the command that it is told of.
    pub(crate) fn emit(&self, destination: &str, signal: Signal) {
        let told = catch_unwind(AssertUnwindSafe(|| self.tell(destination, signal)));
        // There is nobody left to tell that telling failed.
        drop(told);
    }

    fn tell(&self, destination: &str, signal: Signal) {
        let name = signal.name();
        metrics::counter!("samekey_deliveries_total", "destination" => destination.to_owned(), "result" => name)
            .increment(1);
        match signal.level() {
            Level::Alarm => {
                tracing::error!(destination, result = name, kind = ?signal, "delivery");
            }
            Level::Trouble => {
                tracing::warn!(destination, result = name, kind = ?signal, "delivery");
            }
            Level::Usual => {
                tracing::debug!(destination, result = name, kind = ?signal, "delivery");
            }
        }
        if let Some(listener) = &self.0 {
            listener(destination, signal);
        }
    }
}

/// How loud a signal is.
enum Level {
    /// Somebody has to look at once.
    Alarm,
    /// Somebody should look.
    Trouble,
    /// As it should be.
    Usual,
}

impl Signal {
    fn level(self) -> Level {
        match self {
            Signal::Contradicted | Signal::AnswerLost | Signal::NotAccepted => Level::Alarm,
            Signal::Failed(_)
            | Signal::Undecided(_)
            | Signal::Lapsed
            | Signal::LeaseLost
            | Signal::EvidenceRecorded
            | Signal::GateShut
            | Signal::DoubtedAfterRestore
            | Signal::Panicked
            | Signal::StoreFailed(_) => Level::Trouble,
            Signal::Enqueued
            | Signal::Sent
            | Signal::Asked
            | Signal::Later
            | Signal::Deferred
            | Signal::Succeeded
            | Signal::Refused
            | Signal::GateOpened
            | Signal::Decided => Level::Usual,
        }
    }

    /// The name that metrics and logs use.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Enqueued => "enqueued",
            Signal::Sent => "sent",
            Signal::Asked => "asked",
            Signal::Later => "later",
            Signal::Deferred => "deferred",
            Signal::Lapsed => "lapsed",
            Signal::Succeeded => "succeeded",
            Signal::Refused => "refused",
            Signal::Failed(_) => "failed",
            Signal::Undecided(_) => "undecided",
            Signal::NotAccepted => "not-accepted",
            Signal::LeaseLost => "lease-lost",
            Signal::EvidenceRecorded => "evidence-recorded",
            Signal::Contradicted => "contradicted",
            Signal::AnswerLost => "answer-lost",
            Signal::GateShut => "gate-shut",
            Signal::GateOpened => "gate-opened",
            Signal::Panicked => "panicked",
            Signal::Decided => "decided",
            Signal::DoubtedAfterRestore => "doubted-after-restore",
            Signal::StoreFailed(_) => "store-failed",
        }
    }
}
