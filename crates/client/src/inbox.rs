//! What people and programs do to commands besides delivering them: take back, decide, try again, bring
//! evidence.

use crate::courier::Courier;
use crate::error::{Error, Kind};
use crate::signal::Signal;
use samekey_core::delivery::{Delivery, Proof};
use samekey_core::key::Org;
use samekey_core::lease::Hold;
use samekey_core::plan::{Decision, Input, Verdict, plan};
use samekey_core::profile::{Declared, Limits, Profile};
use samekey_store::outbox::{AttemptNote, CommandId, Moved, Outbox, SeenDelivery};
use samekey_store::{Decided, Ledger, Person};

/// How often a row that changes meanwhile is looked at again.
const TRIES_MAX: u32 = 8;

/// What became of what somebody wanted done to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// So be it; this is how it stands now.
    Written(Box<Delivery>),
    /// Not possible as it stands now; nothing was changed.
    NotNow(Box<Delivery>),
    /// What was brought contradicts how it has ended; nothing was changed. Money may have moved twice.
    Contradicts(Box<Delivery>),
    /// There is no such command.
    Unknown,
}

/// The inbox of a store, for a program that looks after commands and delivers none.
#[derive(Clone, Copy, Debug)]
pub struct Inbox<'a, S> {
    store: &'a S,
}

impl<'a, S: Outbox> Inbox<'a, S> {
    /// The inbox of this store.
    pub fn of(store: &'a S) -> Inbox<'a, S> {
        Inbox { store }
    }

    /// Takes a command back, if it was never sent.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn cancel(&self, org: &Org, id: CommandId) -> Result<Done, Error> {
        self.change(org, id, &Input::Cancel, None, None).await
    }

    /// As [`Inbox::cancel`], by a person, of whom an account is kept.
    ///
    /// # Errors
    /// [`Kind::Request`] for an account that says nothing, and what the store fails with.
    pub async fn cancel_by(
        &self,
        org: &Org,
        id: CommandId,
        person: &Person,
    ) -> Result<Done, Error> {
        let Some(seen) = self.store.delivery(org, id).await? else { return Ok(Done::Unknown) };
        let decided = account(person, "cancel", seen.delivery.hold())?;
        self.change(org, id, &Input::Cancel, Some(&decided), None).await
    }

    /// Writes down what a person decided about a command in the inbox, which they saw in this hold.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn decide(
        &self,
        org: &Org,
        id: CommandId,
        seen: Hold,
        decision: Decision,
        person: &Person,
    ) -> Result<Done, Error> {
        let word = match decision {
            Decision::Executed => "executed",
            Decision::NotExecuted => "not-executed",
            Decision::WriteOff => "write-off",
        };
        let decided = account(person, word, seen)?;
        self.change(org, id, &Input::Decide(seen, decision), Some(&decided), None).await
    }

    /// Has a command in the inbox tried or asked about again, which a person saw in this hold. What has
    /// failed is sent under its key; what is undecided is asked about, by a question or by the same bytes
    /// where the counterparty deduplicates and still remembers the key. `profile` is that of its destination.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn retry(
        &self,
        org: &Org,
        id: CommandId,
        seen: Hold,
        person: &Person,
        profile: &Profile,
    ) -> Result<Done, Error> {
        let decided = account(person, "retry", seen)?;
        self.change(org, id, &Input::Retry(seen), Some(&decided), Some(profile)).await
    }

    /// Brings evidence that nobody asked for: a callback of the counterparty, a line of its statement. It
    /// moves what is undecided to its end without a send. Whoever calls this has compared amount, currency
    /// and reference.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn learn(&self, org: &Org, id: CommandId, proof: Proof) -> Result<Done, Error> {
        self.change(org, id, &Input::Learn(proof), None, None).await
    }

    async fn change(
        &self,
        org: &Org,
        id: CommandId,
        input: &Input,
        decided: Option<&Decided>,
        profile: Option<&Profile>,
    ) -> Result<Done, Error> {
        let store = self.store;
        // Only trying again looks at the limits.
        let profile = match profile {
            Some(profile) => *profile,
            None => Limits::DURABLE
                .check(Declared::OPAQUE)
                .map_err(|fault| Error::new(Kind::Config, fault.to_string()))?,
        };
        let Some(mut seen) = store.delivery(org, id).await? else { return Ok(Done::Unknown) };
        for _ in 0..TRIES_MAX {
            let (next, verdict) = plan(seen.delivery.clone(), input.clone(), seen.now, &profile);
            if next.revision == seen.delivery.revision {
                return Ok(unchanged(&verdict, next));
            }
            let moved = match decided {
                Some(decided) => {
                    store.advance_decided(org, id, &seen.delivery, &next, decided).await?
                }
                None => {
                    let note = note_of(input, &seen);
                    store.advance(org, id, &seen.delivery, &next, note.as_ref()).await?
                }
            };
            match moved {
                Moved::Written => return Ok(Done::Written(Box::new(next))),
                Moved::Changed(now) => seen = now,
                // A later command has taken its place: it is never tried again, and news that it was
                // executed after all is for a person.
                Moved::Followed(now) => {
                    let Some(note) = note_of(input, &now) else {
                        return Ok(Done::NotNow(Box::new(now.delivery)));
                    };
                    store.note(org, id, &note).await?;
                    return Ok(unchanged(&contradiction(input), now.delivery));
                }
                Moved::Gone => return Ok(Done::Unknown),
            }
        }
        Ok(Done::NotNow(Box::new(seen.delivery)))
    }
}

/// What evidence says about a command that another one has followed.
fn contradiction(input: &Input) -> Verdict {
    match input {
        Input::Learn(Proof::Executed(_)) => Verdict::Contradicts,
        Input::Learn(Proof::Refused(_))
        | Input::Take(_)
        | Input::Defer(_)
        | Input::Report(..)
        | Input::Hear(..)
        | Input::Release(..)
        | Input::Cancel
        | Input::Decide(..)
        | Input::Retry(_)
        | Input::Restore => Verdict::Kept,
    }
}

fn unchanged(verdict: &Verdict, as_it_is: Delivery) -> Done {
    match verdict {
        Verdict::Contradicts => Done::Contradicts(Box::new(as_it_is)),
        // It was so already.
        Verdict::Ended | Verdict::Kept => Done::Written(Box::new(as_it_is)),
        Verdict::Send(_)
        | Verdict::Ask(..)
        | Verdict::Later(_)
        | Verdict::NotDue
        | Verdict::Recorded
        | Verdict::Stale
        | Verdict::TooLate
        | Verdict::StaleView => Done::NotNow(Box::new(as_it_is)),
    }
}

impl<S: Outbox + Ledger> Courier<S> {
    /// As [`Inbox::cancel`].
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn cancel(&self, org: &Org, id: CommandId) -> Result<Done, Error> {
        let done = Inbox::of(self.store()).cancel(org, id).await?;
        self.tell(org, id, done, Signal::Decided).await
    }

    /// As [`Inbox::decide`].
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn decide(
        &self,
        org: &Org,
        id: CommandId,
        seen: Hold,
        decision: Decision,
        person: &Person,
    ) -> Result<Done, Error> {
        let done = Inbox::of(self.store()).decide(org, id, seen, decision, person).await?;
        self.tell(org, id, done, Signal::Decided).await
    }

    /// As [`Inbox::retry`], with the profile of the command's destination.
    ///
    /// # Errors
    /// [`Kind::UnknownDestination`], and what the store fails with.
    pub async fn retry(
        &self,
        org: &Org,
        id: CommandId,
        seen: Hold,
        person: &Person,
    ) -> Result<Done, Error> {
        let Some(command) = self.store().command(org, id).await? else { return Ok(Done::Unknown) };
        let profile = self.profile(&command.action.destination)?;
        let done = Inbox::of(self.store()).retry(org, id, seen, person, &profile).await?;
        self.tell(org, id, done, Signal::Decided).await
    }

    /// As [`Inbox::learn`].
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn learn(&self, org: &Org, id: CommandId, proof: Proof) -> Result<Done, Error> {
        let done = Inbox::of(self.store()).learn(org, id, proof).await?;
        self.tell(org, id, done, Signal::EvidenceRecorded).await
    }

    /// Signals what was done, wakes who waits for the command, and has it looked for if it goes on.
    async fn tell(
        &self,
        org: &Org,
        id: CommandId,
        done: Done,
        signal: Signal,
    ) -> Result<Done, Error> {
        let signal = match &done {
            Done::Written(_) => signal,
            Done::Contradicts(_) => Signal::Contradicted,
            Done::NotNow(_) | Done::Unknown => return Ok(done),
        };
        if let Some(command) = self.store().command(org, id).await? {
            self.shared().signals.emit(&command.action.destination, signal);
            self.wake(&command.action.destination);
        }
        self.ended(id);
        Ok(done)
    }
}

fn account(person: &Person, decision: &str, seen: Hold) -> Result<Decided, Error> {
    person.decides(decision, seen).map_err(Error::request)
}

fn note_of(input: &Input, seen: &SeenDelivery) -> Option<AttemptNote> {
    let came_to = match input {
        Input::Learn(Proof::Executed(_)) => "executed",
        Input::Learn(Proof::Refused(_)) => "refused",
        Input::Take(_)
        | Input::Defer(_)
        | Input::Report(..)
        | Input::Hear(..)
        | Input::Release(..)
        | Input::Cancel
        | Input::Decide(..)
        | Input::Retry(_)
        | Input::Restore => return None,
    };
    Some(AttemptNote {
        kind: "news".to_owned(),
        number: seen.delivery.sends,
        fence: seen.delivery.fence,
        began: seen.now,
        noted: seen.now,
        came_to: came_to.to_owned(),
        status: None,
    })
}
