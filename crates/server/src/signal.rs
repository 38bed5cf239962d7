//! What the engine tells the world: one signal an event, counted, logged and handed on.
//!
//! No signal carries a key, an organisation, a body or a header, so that no metric and no log can
//! show one.

use crate::route::Route;
use samekey_store::Kind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Something that an operator may want to count or to be woken by.
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
    /// A handler panicked; its command was rolled back.
    Panicked,
    /// An owner's result came too late: somebody else holds the key.
    LeaseLost,
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
        let by = match signal {
            Signal::Swept(removed) => removed,
            Signal::Executed
            | Signal::Replayed
            | Signal::Mismatched
            | Signal::InProgress
            | Signal::RolledBack
            | Signal::Panicked
            | Signal::LeaseLost
            | Signal::CommitUnknown
            | Signal::StoreFailed(_)
            | Signal::Refused
            | Signal::Unkeyed => 1,
        };
        match signal {
            Signal::Swept(removed) => metrics::counter!("samekey_swept_total").increment(removed),
            Signal::Executed
            | Signal::Replayed
            | Signal::Mismatched
            | Signal::InProgress
            | Signal::RolledBack
            | Signal::Panicked
            | Signal::LeaseLost
            | Signal::CommitUnknown
            | Signal::StoreFailed(_)
            | Signal::Refused
            | Signal::Unkeyed => {
                metrics::counter!("samekey_commands_total", "route" => route.to_owned(), "result" => name)
                    .increment(by);
            }
        }
        match signal {
            Signal::Panicked
            | Signal::LeaseLost
            | Signal::CommitUnknown
            | Signal::StoreFailed(_) => {
                tracing::warn!(route, result = name, kind = ?signal, "command");
            }
            Signal::Executed
            | Signal::Replayed
            | Signal::Mismatched
            | Signal::InProgress
            | Signal::RolledBack
            | Signal::Refused
            | Signal::Unkeyed
            | Signal::Swept(_) => tracing::debug!(route, result = name, count = by, "command"),
        }
        if let Some(listener) = &self.0 {
            listener(route, signal);
        }
    }
}

impl Signal {
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
            Signal::CommitUnknown => "commit-unknown",
            Signal::StoreFailed(_) => "store-failed",
            Signal::Refused => "refused",
            Signal::Unkeyed => "unkeyed",
            Signal::Swept(_) => "swept",
        }
    }
}
