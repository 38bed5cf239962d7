//! Writing down what an attempt or a question came to.

use super::attempt::Work;
use super::health::Turned;
use super::{Place, Shared};
use crate::signal::Signal;
use samekey_core::delivery::{Delivery, State};
use samekey_core::plan::{Input, Verdict, plan};
use samekey_store::outbox::{AttemptNote, Moved, Outbox, SeenDelivery};
use samekey_store::{Ledger, StoreError, crash_point};
use std::time::Duration;
use tokio::time::Instant;

/// How often a row that changed meanwhile is decided about anew. Only a take-over, a person and late news
/// write to a row in flight, each a few times.
const DECISIONS_MAX: u32 = 8;
/// The first pause before it is tried again; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause: a store that is back is not left waiting.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a result waits for its store. After an hour whoever asks knows as much. It keeps its place
/// among the requests in flight for so long, so that no more is taken than can be written down.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What came of a piece of work.
pub(super) struct Came {
    pub(super) input: Input,
    pub(super) note: AttemptNote,
    /// What it did to the gate.
    pub(super) turned: Option<Turned>,
}

pub(super) async fn settle<S: Outbox + Ledger>(
    shared: &Shared<S>,
    place: &Place,
    work: &Work,
    came: Came,
) {
    match came.turned {
        Some(Turned::Shut) => shared.signals.emit(&place.name, Signal::GateShut),
        Some(Turned::Opened) => shared.signals.emit(&place.name, Signal::GateOpened),
        Some(Turned::Same) | None => {}
    }
    let deadline = Instant::now() + PATIENCE;
    let mut known = Some(work.seen());
    let mut attempted = None;
    let mut pause = PAUSE_MIN;
    let signal = loop {
        match write(shared, place, work, &came, known.take(), &mut attempted).await {
            Ok(signal) => break signal,
            Err(error) => {
                shared.signals.emit(&place.name, Signal::StoreFailed(error.kind()));
                if Instant::now() + pause >= deadline {
                    break Signal::AnswerLost;
                }
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(PAUSE_MAX);
            }
        }
    };
    crash_point!("courier.settle-after");
    shared.signals.emit(&place.name, signal);
    shared.waiters.wake(work.taken.command.id);
}

/// Writes what the machine says of the row, as often as somebody else was quicker. `attempted` is what was
/// last tried to write: where that stands after a lost acknowledgement, it was written.
async fn write<S: Outbox + Ledger>(
    shared: &Shared<S>,
    place: &Place,
    work: &Work,
    came: &Came,
    known: Option<SeenDelivery>,
    attempted: &mut Option<Delivery>,
) -> Result<Signal, StoreError> {
    let (store, command) = (&shared.store, &work.taken.command);
    let (org, id) = (&command.action.org, command.id);
    let mut seen = match known {
        Some(seen) => seen,
        None => match store.delivery(org, id).await? {
            Some(seen) => seen,
            None => return Ok(Signal::LeaseLost),
        },
    };
    crash_point!("courier.settle-before");
    for _ in 0..DECISIONS_MAX {
        if attempted.as_ref() == Some(&seen.delivery) {
            return Ok(signal_of(&seen.delivery));
        }
        let (next, verdict) =
            plan(seen.delivery.clone(), came.input.clone(), seen.now, &place.profile);
        if next.revision == seen.delivery.revision {
            // It changes nothing, and is on record all the same.
            if !matches!(verdict, Verdict::Ended) {
                let note = AttemptNote { kind: "news".to_owned(), ..came.note.clone() };
                store.note(org, id, &note).await?;
            }
            return Ok(signal_of_verdict(&verdict, &next));
        }
        *attempted = Some(next.clone());
        match store.advance(org, id, &seen.delivery, &next, Some(&came.note)).await? {
            Moved::Written => return Ok(signal_of_verdict(&verdict, &next)),
            Moved::Changed(now) => seen = now,
            // A later command has taken its place, and now it is said to have been executed.
            Moved::Followed(_) => {
                let note = AttemptNote { kind: "news".to_owned(), ..came.note.clone() };
                store.note(org, id, &note).await?;
                return Ok(signal_of(&next));
            }
            Moved::Gone => return Ok(Signal::LeaseLost),
        }
    }
    Ok(Signal::LeaseLost)
}

fn signal_of_verdict(verdict: &Verdict, next: &Delivery) -> Signal {
    match verdict {
        Verdict::Recorded => Signal::EvidenceRecorded,
        Verdict::Contradicts => Signal::Contradicted,
        Verdict::Stale => Signal::LeaseLost,
        Verdict::Send(_)
        | Verdict::Ask(..)
        | Verdict::Ended
        | Verdict::Later(_)
        | Verdict::NotDue
        | Verdict::TooLate
        | Verdict::StaleView
        | Verdict::Kept => signal_of(next),
    }
}

/// What there is to say of a delivery as it stands.
pub(super) fn signal_of(delivery: &Delivery) -> Signal {
    match &delivery.state {
        State::Waiting(_) | State::Sending(_) | State::Unknown(_) => Signal::Later,
        State::Succeeded(_) => Signal::Succeeded,
        State::Refused(_) => Signal::Refused,
        State::Failed(ended) => Signal::Failed(ended.with),
        State::Undecided(ended) if ended.with == samekey_core::delivery::Reason::Contradicted => {
            Signal::Contradicted
        }
        State::Undecided(ended) => Signal::Undecided(ended.with),
        State::Cancelled(_) | State::Resolved(_) => Signal::Decided,
    }
}
