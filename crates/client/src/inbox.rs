//! What people and programs do to commands besides delivering them: take back, decide, try again, bring
//! evidence.

use crate::courier::Courier;
use crate::error::Error;
use crate::signal::Signal;
use samekey_core::delivery::{Delivery, Proof};
use samekey_core::key::Org;
use samekey_core::lease::Hold;
use samekey_core::plan::{Decision, Input, Verdict, plan};
use samekey_store::outbox::{AttemptNote, CommandId, Moved, Outbox, SeenDelivery};
use samekey_store::{Decided, Ledger};

/// How often a row that changes meanwhile is looked at again.
const TRIES_MAX: u32 = 8;

/// What became of what somebody wanted done to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// So be it; this is how it stands now.
    Written(Box<Delivery>),
    /// Not possible as it stands now; nothing was changed.
    NotNow(Box<Delivery>),
    /// There is no such command.
    Unknown,
}

/// What a person says for the account of a decision.
#[derive(Clone, Debug)]
pub struct Account {
    /// Who decides: the name of the person.
    pub person: String,
    /// Why.
    pub note: String,
    /// On what grounds: a reference at the counterparty, a ticket, a statement of account.
    pub evidence: String,
}

impl<S: Outbox + Ledger> Courier<S> {
    /// Takes a command back, if it was never sent.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn cancel(&self, org: &Org, id: CommandId) -> Result<Done, Error> {
        self.change(org, id, &Input::Cancel, None).await
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
        account: Account,
    ) -> Result<Done, Error> {
        let word = match decision {
            Decision::Executed => "executed",
            Decision::NotExecuted => "not-executed",
            Decision::WriteOff => "write-off",
        };
        let decided = decided(word, seen, account);
        self.change(org, id, &Input::Decide(seen, decision), Some(&decided)).await
    }

    /// Has a command in the inbox tried or asked about again, which a person saw in this hold. What has
    /// failed is sent under its key; what is undecided is asked about, by a question or by the same bytes
    /// where the counterparty deduplicates and still remembers the key.
    ///
    /// # Errors
    /// [`crate::error::Kind::UnknownDestination`], and what the store fails with.
    pub async fn retry(
        &self,
        org: &Org,
        id: CommandId,
        seen: Hold,
        account: Account,
    ) -> Result<Done, Error> {
        let decided = decided("retry", seen, account);
        self.change(org, id, &Input::Retry(seen), Some(&decided)).await
    }

    /// Brings evidence that nobody asked for: a callback of the counterparty, a line of its statement. It
    /// moves what is undecided to its end without a send. Whoever calls this has compared amount, currency
    /// and reference.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn learn(&self, org: &Org, id: CommandId, proof: Proof) -> Result<Done, Error> {
        self.change(org, id, &Input::Learn(proof), None).await
    }

    async fn change(
        &self,
        org: &Org,
        id: CommandId,
        input: &Input,
        decided: Option<&Decided>,
    ) -> Result<Done, Error> {
        let store = self.store();
        let Some(command) = store.command(org, id).await? else { return Ok(Done::Unknown) };
        let destination = &command.action.destination;
        let profile = self.profile(destination)?;
        let Some(mut seen) = store.delivery(org, id).await? else { return Ok(Done::Unknown) };
        for _ in 0..TRIES_MAX {
            let (next, verdict) = plan(seen.delivery.clone(), input.clone(), seen.now, &profile);
            if next.revision == seen.delivery.revision {
                return Ok(self.unchanged(destination, &verdict, next));
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
                Moved::Written => {
                    self.changed(destination, id, input, &verdict);
                    return Ok(Done::Written(Box::new(next)));
                }
                Moved::Changed(now) => seen = now,
                // A later command has taken its place: it is never tried again, and news that it was
                // executed after all is for a person.
                Moved::Followed(now) => {
                    if let (Input::Learn(Proof::Executed(_)), Some(note)) =
                        (input, note_of(input, &now))
                    {
                        store.note(org, id, &note).await?;
                        self.shared().signals.emit(destination, Signal::Contradicted);
                    }
                    return Ok(Done::NotNow(Box::new(now.delivery)));
                }
                Moved::Gone => return Ok(Done::Unknown),
            }
        }
        Ok(Done::NotNow(Box::new(seen.delivery)))
    }

    fn unchanged(&self, destination: &str, verdict: &Verdict, as_it_is: Delivery) -> Done {
        match verdict {
            Verdict::Contradicts => {
                self.shared().signals.emit(destination, Signal::Contradicted);
                Done::NotNow(Box::new(as_it_is))
            }
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

    fn changed(&self, destination: &str, id: CommandId, input: &Input, verdict: &Verdict) {
        let signal = match (input, verdict) {
            (_, Verdict::Recorded) | (Input::Learn(_), _) => Signal::EvidenceRecorded,
            (_, _) => Signal::Decided,
        };
        self.shared().signals.emit(destination, signal);
        self.ended(id);
        self.wake(destination);
    }
}

fn decided(decision: &str, seen: Hold, account: Account) -> Decided {
    Decided {
        decision: decision.to_owned(),
        person: account.person,
        note: account.note,
        evidence: account.evidence,
        seen: seen.fence,
        at: samekey_core::time::Time::EPOCH,
    }
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
