//! What a person may see of keys and decide about them.
//!
//! Every decision names what the person saw ([`View`]); if the record is another one by then, nothing is
//! written. Every decision leaves an account with a note and the evidence, which is never changed.

use crate::external::{StoredRequest, decode_request};
use samekey_core::key::Scope;
use samekey_core::lease::Hold;
use samekey_core::policy::Policy;
use samekey_core::receipt::Receipt;
use samekey_core::record::{Record, State};
use samekey_core::step::{Decision, Input, Verdict, step};
use samekey_store::{Decided, Intent, Ledger, OpenRecord, Seen, StoreError, Swap};

pub use samekey_core::lease::View;
pub use samekey_store::Person;
use std::fmt;

/// The keys of a store, as a person looks at them.
#[derive(Debug)]
pub struct Keys<'a, S>(&'a S);

/// A key as it stands, with everything that is known of it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The record and the store's clock.
    pub seen: Seen,
    /// Its intent, while it is open.
    pub intent: Option<Intent>,
    /// What persons decided about it so far, the oldest first.
    pub decisions: Vec<Decided>,
}

impl Shown {
    /// The request as it was claimed, so that a person can see what was asked for; nothing where none is
    /// kept (a finished key, or an opaque counterparty).
    pub fn request(&self) -> Option<StoredRequest> {
        decode_request(self.intent.as_ref()?.request.as_ref()?)
    }
}

/// Why nothing was decided.
#[derive(Debug)]
pub enum Undecided {
    /// There is no such key.
    NoSuchKey,
    /// That is not the view of the record as it is now; look again. The new view is not said, so that
    /// nobody decides without having looked.
    StaleView,
    /// The record is not in a state for that: only one in review can be resolved, and only a finished
    /// one forgotten.
    NotInState(&'static str),
    /// Name, note or evidence is missing or too long.
    Incomplete(String),
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undecided::NoSuchKey => {
                f.write_str("there is no such key; look for it with its organisation")
            }
            Undecided::StaleView => f.write_str(
                "that is not the view of the key as it is now; look at it with `samekey keys show` before you decide",
            ),
            Undecided::NotInState(state) => {
                write!(
                    f,
                    "the key is {state}; only a key in review can be resolved, and only a finished one forgotten"
                )
            }
            Undecided::Incomplete(sentence) => f.write_str(sentence),
            Undecided::Store(error) => write!(f, "the ledger cannot be used: {error}"),
        }
    }
}

impl std::error::Error for Undecided {}

impl From<StoreError> for Undecided {
    fn from(error: StoreError) -> Undecided {
        Undecided::Store(error)
    }
}

impl<'a, S: Ledger> Keys<'a, S> {
    /// The keys of this store.
    pub fn of(store: &'a S) -> Keys<'a, S> {
        Keys(store)
    }

    /// Open records after `after`, in the order of their scopes, at most `limit`.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn open(
        &self,
        after: Option<&Scope>,
        limit: u32,
    ) -> Result<Vec<OpenRecord>, StoreError> {
        self.0.list_open(after, limit).await
    }

    /// One key with everything that is known of it; nothing where there is no row.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn show(&self, scope: &Scope) -> Result<Option<Shown>, StoreError> {
        let seen = self.0.load(scope).await?;
        if seen.record == Record::ABSENT {
            return Ok(None);
        }
        let intent = self.0.intent(scope).await?;
        let decisions = self.0.decisions(scope).await?;
        Ok(Some(Shown { seen, intent, decisions }))
    }

    /// Decides about a key in review.
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was written then, but for a store that lost its acknowledgement: look
    /// again.
    pub async fn resolve(
        &self,
        scope: &Scope,
        view: &str,
        decision: Decision,
        person: &Person,
    ) -> Result<Record, Undecided> {
        let name = match &decision {
            Decision::Executed(_) => "executed",
            Decision::NotExecuted => "not-executed",
            Decision::Close => "close",
        };
        self.decide(scope, view, person, name, |hold| Input::Decide(hold, decision)).await
    }

    /// Removes a stored answer and keeps the fact that the command was executed, for personal data that
    /// has to go.
    ///
    /// # Errors
    /// As [`Keys::resolve`].
    pub async fn forget(
        &self,
        scope: &Scope,
        view: &str,
        person: &Person,
    ) -> Result<Record, Undecided> {
        self.decide(scope, view, person, "forget", Input::Forget).await
    }

    async fn decide(
        &self,
        scope: &Scope,
        view: &str,
        person: &Person,
        name: &str,
        input: impl FnOnce(Hold) -> Input,
    ) -> Result<Record, Undecided> {
        // What is incomplete is said before the store is asked.
        person.decides(name, Hold::default()).map_err(Undecided::Incomplete)?;
        let seen = self.0.load(scope).await?;
        if seen.record == Record::ABSENT {
            return Err(Undecided::NoSuchKey);
        }
        let current = seen.record.view();
        if current.to_string() != view {
            return Err(Undecided::StaleView);
        }
        // Retention is the only thing of a policy that counts here, and a decision never shortens it.
        let policy = Policy::default();
        let (next, verdict) = step(seen.record.clone(), input(current.hold()), seen.now, &policy);
        if verdict == Verdict::StaleView {
            return Err(Undecided::NotInState(state_name(&seen.record.state)));
        }
        if next.revision == seen.record.revision {
            // Forgotten already: the fact is all that there is.
            return Ok(next);
        }
        let decided = person.decides(name, current.hold()).map_err(Undecided::Incomplete)?;
        match self.0.decide(scope, &seen.record, &next, &decided).await? {
            Swap::Written => Ok(next),
            Swap::Changed(_) => Err(Undecided::StaleView),
        }
    }
}

/// The word for a state, as people read it.
pub fn state_name(state: &State) -> &'static str {
    samekey_store::row::state_name(state)
}

/// The receipt of a decision that a command was executed, where its answer is not at hand.
pub fn executed_fact(status: u16, location: Option<String>) -> Receipt {
    Receipt::Fact { status, location: location.map(|location| location.into_bytes().into()) }
}
