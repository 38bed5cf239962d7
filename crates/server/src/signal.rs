//! What the engine tells the world: one signal an event, counted, logged and handed on.
//!
//! No signal carries a key, an organisation, a body or a header, so that no metric and no log can
//! show one.

use crate::route::Route;
use samekey_store::Kind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Something that an operator may want to count or to be woken by. Metrics count them as
/// `samekey_commands_total` by `route` and `result`, which is [`Signal::name`].
///
/// No signal carries a key, an organisation, a body or a header, so that no metric and no log can show one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// A command ran and its answer is stored.
    Executed,
    /// A stored answer was given again.
    Replayed,
    /// A key came with other content.
    Mismatched,
    /// A duplicate was told to wait.
    InProgress,
    /// A command failed and was rolled back; its key is free.
    RolledBack,
    /// A handler panicked and its command was rolled back, or recovery did and will look at the key again.
    Panicked,
    /// An owner's result came too late: somebody else holds the key.
    LeaseLost,
    /// An answer that came too late for its owner was kept for whoever asks.
    EvidenceRecorded,
    /// An owner's result came after its key was given away: the key is free by now, or runs again in a
    /// later life, so somebody (recovery by two "not found", a person, or `rerun = safe`) had declared
    /// that nothing ran. Look at it at once: money may have moved twice. A later life that has ended by
    /// then, or is unknown, gives [`Signal::LeaseLost`] instead.
    Contradicted,
    /// An answer could not be stored: its store stayed away for an hour, or too many answers waited
    /// already. Recovery asks; on an opaque route the key ends in review.
    AnswerLost,
    /// The lease of a long call was renewed.
    Renewed,
    /// A call proved that nothing ran, or was told to come later; its key is free.
    Released,
    /// The outcome of a call is unknown; recovery asks.
    Doubted,
    /// The outcome of a call is unknown, and a person has to decide.
    HandedOver,
    /// The counterparty was asked.
    Asked,
    /// The counterparty could not be asked, or its answer could not be used.
    AskFailed,
    /// Recovery found out how a command ended.
    Recovered,
    /// Recovery has proof that a command never ran; its key is free.
    FreedByProof,
    /// A person decided, or had an answer removed.
    Decided,
    /// The acknowledgement of a commit was lost.
    CommitUnknown,
    /// The store failed.
    StoreFailed(Kind),
    /// A request was refused for another reason of the answer table.
    Refused,
    /// A command ran without a key, on a route where keys are optional.
    Unkeyed,
    /// The sweep removed this many records.
    Swept(u64),
}

/// Where signals go besides metrics and logs.
pub type Listener = Arc<dyn Fn(&str, Signal) + Send + Sync>;

/// Counts, logs and hands on.
#[derive(Clone, Default)]
pub(crate) struct Signals(Option<Listener>);

impl Signals {
    pub(crate) fn to(listener: Listener) -> Signals {
        Signals(Some(listener))
    }

    pub(crate) fn emit(&self, route: &Route, signal: Signal) {
        self.emit_named(route.name(), signal);
    }

    /// A listener, a recorder or a log that panics must not end the command that it is told of: what was
    /// committed would be answered as if it had failed.
    pub(crate) fn emit_named(&self, route: &str, signal: Signal) {
        let told = catch_unwind(AssertUnwindSafe(|| self.tell(route, signal)));
        // There is nobody left to tell that telling failed.
        drop(told);
    }

    fn tell(&self, route: &str, signal: Signal) {
        let name = signal.name();
        if let Signal::Swept(removed) = signal {
            metrics::counter!("samekey_swept_total").increment(removed);
        } else {
            metrics::counter!("samekey_commands_total", "route" => route.to_owned(), "result" => name)
                .increment(1);
        }
        match signal.level() {
            Level::Alarm => tracing::error!(route, result = name, kind = ?signal, "command"),
            Level::Trouble => tracing::warn!(route, result = name, kind = ?signal, "command"),
            Level::Usual => tracing::debug!(route, result = name, kind = ?signal, "command"),
        }
        if let Some(listener) = &self.0 {
            listener(route, signal);
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
            Signal::Contradicted | Signal::AnswerLost => Level::Alarm,
            Signal::Panicked
            | Signal::LeaseLost
            | Signal::EvidenceRecorded
            | Signal::Doubted
            | Signal::HandedOver
            | Signal::AskFailed
            | Signal::CommitUnknown
            | Signal::StoreFailed(_) => Level::Trouble,
            Signal::Executed
            | Signal::Replayed
            | Signal::Mismatched
            | Signal::InProgress
            | Signal::RolledBack
            | Signal::Renewed
            | Signal::Released
            | Signal::Asked
            | Signal::Recovered
            | Signal::FreedByProof
            | Signal::Decided
            | Signal::Refused
            | Signal::Unkeyed
            | Signal::Swept(_) => Level::Usual,
        }
    }

    /// The name that metrics and logs use.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Executed => "executed",
            Signal::Replayed => "replayed",
            Signal::Mismatched => "mismatched",
            Signal::InProgress => "in-progress",
            Signal::RolledBack => "rolled-back",
            Signal::Panicked => "panicked",
            Signal::LeaseLost => "lease-lost",
            Signal::EvidenceRecorded => "evidence-recorded",
            Signal::Contradicted => "contradicted",
            Signal::AnswerLost => "answer-lost",
            Signal::Renewed => "renewed",
            Signal::Released => "released",
            Signal::Doubted => "doubted",
            Signal::HandedOver => "handed-over",
            Signal::Asked => "asked",
            Signal::AskFailed => "ask-failed",
            Signal::Recovered => "recovered",
            Signal::FreedByProof => "freed-by-proof",
            Signal::Decided => "decided",
            Signal::CommitUnknown => "commit-unknown",
            Signal::StoreFailed(_) => "store-failed",
            Signal::Refused => "refused",
            Signal::Unkeyed => "unkeyed",
            Signal::Swept(_) => "swept",
        }
    }
}
