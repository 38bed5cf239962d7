//! The machine of the calling side: one delivery, one input, one moment, one profile; out come the next
//! delivery and a verdict.
//!
//! [`plan`] is to [`crate::delivery`] what [`crate::step`] is to [`crate::record`], and has the same form:
//! total, by value, without IO. When the returned delivery has the revision of the one that went in,
//! nothing has to be written. The states and who may leave them are told in `docs/calling.md`; the whole
//! grid stands as a reviewed snapshot in `tests/it/snapshots`.

mod begin;
mod hear;
mod person;
mod report;
mod restore;
mod take;

use crate::backoff::Chance;
use crate::delivery::{AskedBy, Delivery, Proof};
use crate::lease::{Hold, Owner};
use crate::outcome::{Heard, Outcome, Told};
use crate::profile::Profile;
use crate::time::Time;
use std::time::Duration;

pub use begin::{enqueued, enqueued_after_loss};

/// What happens to a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A worker wants to do what is due, under this new token.
    Take(Owner),
    /// The destination is spared for now: it is due again after this time, or when its own is over.
    Defer(Duration),
    /// The owner of an attempt knows what it came to.
    Report(Hold, Told<Outcome>, Chance),
    /// The owner of a question knows what it came to.
    Hear(Hold, Told<Heard>, Chance),
    /// The owner sent nothing and asked nothing after all; it is due again after this time, or when its own
    /// is over.
    Release(Hold, Duration),
    /// Somebody brings proof: an earlier owner, a callback, a statement of account.
    Learn(Proof),
    /// It is no longer wanted.
    Cancel,
    /// A person decided, having seen the delivery in this hold.
    Decide(Hold, Decision),
    /// A person wants it tried or asked about again, having seen the delivery in this hold.
    Retry(Hold),
    /// The store was restored to an earlier state, and this delivery with it.
    Restore,
}

/// What a person decided about a command in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// It was executed.
    Executed,
    /// Nothing of it was executed: it may be tried again, or ordered anew.
    NotExecuted,
    /// It was compensated or written off.
    WriteOff,
}

/// What the machine says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Take: send it now, and report with this.
    Send(Attempt),
    /// Take: ask about it now, and report with this.
    Ask(Hold, AskedBy),
    /// It has ended, or waits for a person: its state tells how.
    Ended,
    /// Report, hear, release, defer, retry, restore: due again then.
    Later(Time),
    /// Take, defer: nothing to do, or not yet.
    NotDue,
    /// Report, learn: somebody else holds the fence; what was told is kept for it.
    Recorded,
    /// Report, hear, learn: it contradicts how the command has ended, or what a person has to look at
    /// already. Nothing is changed; a person has to be told: money may have moved twice.
    Contradicts,
    /// Report, hear, release: no longer yours.
    Stale,
    /// Cancel: it was sent, or has ended.
    TooLate,
    /// Decide, retry: the delivery is not what the person saw, or not in a state for that.
    StaleView,
    /// Learn, restore: it stays as it is.
    Kept,
}

/// An attempt that is on record and has to be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// With this its outcome is reported.
    pub hold: Hold,
    /// Its number among all attempts of the command, from 1.
    pub number: u32,
    /// How long it may take: no longer than the command's time lasts.
    pub time_max: Duration,
}

/// Decides what `input` does to `delivery` at the moment `now` of the database's clock.
///
/// ```
/// use samekey_core::backoff::Chance;
/// use samekey_core::delivery::{Reason, State};
/// use samekey_core::lease::Owner;
/// use samekey_core::outcome::{Outcome, Told};
/// use samekey_core::plan::{Input, Verdict, enqueued, plan};
/// use samekey_core::profile::{Declared, Limits};
/// use samekey_core::time::Time;
/// use std::time::Duration;
///
/// let profile = Limits::DURABLE.check(Declared::OPAQUE)?;
/// let now = Time::from_micros(0);
/// let delivery = enqueued(now, Duration::ZERO, &profile);
///
/// let (delivery, verdict) = plan(delivery, Input::Take(Owner::from_bytes([1; 16])), now, &profile);
/// let Verdict::Send(attempt) = verdict else { panic!("it is due") };
///
/// let timed_out = Told::plain(Outcome::Unknown(Reason::TimedOut));
/// let input = Input::Report(attempt.hold, timed_out, Chance::LEAST);
/// let (delivery, _) = plan(delivery, input, now, &profile);
/// assert!(matches!(delivery.state, State::Undecided(_)), "nobody can be asked, so a person decides");
/// # Ok::<(), samekey_core::profile::ProfileFault>(())
/// ```
#[must_use]
pub fn plan(delivery: Delivery, input: Input, now: Time, profile: &Profile) -> (Delivery, Verdict) {
    match input {
        Input::Take(owner) => take::take(delivery, owner, now, profile),
        Input::Defer(pause) => take::defer(delivery, pause, now, profile),
        Input::Release(hold, pause) => take::release(delivery, hold, pause, now, profile),
        Input::Report(hold, told, chance) => {
            report::report(delivery, hold, told, chance, now, profile)
        }
        Input::Hear(hold, told, chance) => hear::hear(delivery, hold, told, chance, now, profile),
        Input::Learn(proof) => hear::learn(delivery, proof, now),
        Input::Cancel => person::cancel(delivery, now),
        Input::Decide(seen, decision) => person::decide(delivery, seen, decision, now),
        Input::Retry(seen) => person::retry(delivery, seen, now, profile),
        Input::Restore => restore::restore(delivery, now, profile),
    }
}
