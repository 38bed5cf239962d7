//! One turn: the key is taken over, its counterparty asked, and the answer written down.

use super::{Finding, Found, Question, RecoveryPlan};
use crate::claim::new_owner;
#[cfg(debug_assertions)]
use crate::external::injected;
use crate::external::{External, decode_request};
use crate::signal::Signal;
use futures_util::FutureExt;
use samekey_core::key::Scope;
use samekey_core::lease::Hold;
use samekey_core::outcome::Ending;
use samekey_core::receipt::Receipt;
use samekey_core::record::{Record, State};
use samekey_core::step::{self, Input, Verdict};
use samekey_store::{Ledger, Seen, StoreError, Swap, crash_point};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

/// A question is cut off after this part of the lease, so that the answer is heard within the turn.
const ASK_PART: u32 = 3;
/// How often an answer is tried to be written down. Whatever is not heard is asked again.
const TRIES_MAX: u32 = 5;
/// The pause before the next try; it doubles.
const TRY_PAUSE: Duration = Duration::from_millis(50);

/// How a turn ended.
pub(super) struct Turn {
    pub(super) asked: bool,
    /// Whether the store failed, so that the key is as due as before.
    pub(super) failed: bool,
    pub(super) end: End,
}

pub(super) enum End {
    Settled,
    Freed,
    HandedOver,
    /// Still open, or somebody else's turn.
    Open,
}

/// Sees one due key through. What fails is signalled, a panic as well, since a recovery that ended with
/// it would leave every other open key waiting for ever; the key comes up again.
pub(super) async fn turn<S: Ledger>(
    external: &External<S>,
    scope: Scope,
    plan: RecoveryPlan,
) -> Turn {
    let taken = AssertUnwindSafe(take_turn(external, &scope, plan)).catch_unwind();
    let signal = match taken.await {
        Ok(Ok(turn)) => return turn,
        Ok(Err(error)) => Signal::StoreFailed(error.kind()),
        Err(_) => Signal::Panicked,
    };
    external.shared().signals.emit(external.route(), signal);
    Turn { asked: false, failed: true, end: End::Open }
}

async fn take_turn<S: Ledger>(
    external: &External<S>,
    scope: &Scope,
    plan: RecoveryPlan,
) -> Result<Turn, StoreError> {
    let shared = external.shared();
    let (store, route) = (&*shared.store, external.route());
    let over = |end| Ok(Turn { asked: false, failed: false, end });
    let seen = store.load(scope).await?;
    let owner = new_owner()?;
    let (next, verdict) =
        step::step(seen.record.clone(), Input::Ask(owner), seen.now, route.policy());
    crash_point!("recover.before", return Err(injected()));
    if next.revision != seen.record.revision
        && let Swap::Changed(_) = store.swap(scope, &seen.record, &next).await?
    {
        // Another worker was quicker, or an owner came back.
        return over(End::Open);
    }
    crash_point!("recover.taken-over", return Err(injected()));
    if let Some(signal) = signal_of(&verdict) {
        shared.signals.emit(route, signal);
    }
    let Verdict::Ask(hold) = verdict else { return over(end_of(&verdict)) };
    #[cfg(samekey_bugs)]
    if crate::bugs::planted("takeover-reruns") {
        crate::bugs::free(store, scope, &next).await?;
        return over(End::Freed);
    }
    let finding = match question(external, scope, &next).await? {
        Some(question) => ask(external, question, plan).await,
        None => step::Finding::CannotTell,
    };
    #[cfg(samekey_bugs)]
    if finding == step::Finding::NotFound && crate::bugs::planted("not-found-is-failed") {
        crate::bugs::free(store, scope, &next).await?;
        return over(End::Freed);
    }
    crash_point!("recover.asked", return Err(injected()));
    let verdict = hear(external, scope, hold, finding).await?;
    crash_point!("recover.heard", return Err(injected()));
    if let Some(signal) = signal_of(&verdict) {
        shared.signals.emit(route, signal);
    }
    Ok(Turn { asked: true, failed: false, end: end_of(&verdict) })
}

/// The question about a record; nothing where its intent is gone or cannot be read, which only a hand
/// or another version can have done.
async fn question<S: Ledger>(
    external: &External<S>,
    scope: &Scope,
    record: &Record,
) -> Result<Option<Question>, StoreError> {
    let State::Unknown(unknown) = &record.state else { return Ok(None) };
    let Some(intent) = external.shared().store.intent(scope).await? else { return Ok(None) };
    let request = match &intent.request {
        Some(bytes) => match decode_request(bytes) {
            Some(request) => Some(request),
            None => return Ok(None),
        },
        None => None,
    };
    Ok(Some(Question {
        org: scope.org.clone(),
        key: scope.key.clone(),
        outbound_key: intent.outbound_key,
        request,
        number: unknown.asked,
        unknown_since: unknown.since,
    }))
}

/// Asks, within its time, and turns what was said into what the machine understands.
async fn ask<S: Ledger>(
    external: &External<S>,
    question: Question,
    plan: RecoveryPlan,
) -> step::Finding {
    let (signals, route) = (&external.shared().signals, external.route());
    let Some(asking) = &external.0.asking else { return step::Finding::CannotTell };
    signals.emit(route, Signal::Asked);
    let time_max = plan.ask_time_max.min(route.policy().lease / ASK_PART);
    let asked = AssertUnwindSafe(asking.0.ask_boxed(question)).catch_unwind();
    let finding = match tokio::time::timeout(time_max, asked).await {
        Ok(Ok(Ok(finding))) => understood(external, finding),
        // Its own words may name hosts and keys, so they are not logged.
        Ok(Ok(Err(_)) | Err(_)) | Err(_) => None,
    };
    finding.unwrap_or_else(|| {
        signals.emit(route, Signal::AskFailed);
        step::Finding::CannotTell
    })
}

fn understood<S: Ledger>(external: &External<S>, finding: Finding) -> Option<step::Finding> {
    Some(match finding {
        Finding::Executed(found) => step::Finding::Executed(receipt(external, found)?),
        Finding::Refused(found) => step::Finding::Refused(receipt(external, found)?),
        Finding::NotFound => step::Finding::NotFound,
        Finding::Pending => step::Finding::Pending,
        Finding::CannotTell => step::Finding::CannotTell,
        Finding::Different => step::Finding::Different,
    })
}

/// What is kept of an answer that was found; nothing where its status is none that is ever stored.
fn receipt<S: Ledger>(external: &External<S>, found: Found) -> Option<Receipt> {
    let status = match &found {
        Found::Answer(answer) => answer.status().as_u16(),
        Found::Fact { status, .. } => status.as_u16(),
    };
    match Ending::of_status(status) {
        Ending::Success | Ending::Refused => {}
        Ending::NotNow | Ending::Failed => return None,
    }
    Some(match found {
        Found::Answer(answer) => {
            let (head, body) = answer.into_parts();
            let lines = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            external.route().keep().receipt(status, lines, body)
        }
        Found::Fact { location, .. } => {
            let location = location.map(|location| location.into_bytes().into());
            Receipt::Fact { status, location }
        }
    })
}

async fn hear<S: Ledger>(
    external: &External<S>,
    scope: &Scope,
    hold: Hold,
    finding: step::Finding,
) -> Result<Verdict, StoreError> {
    let mut pause = TRY_PAUSE;
    let mut tries = 1;
    loop {
        match try_to_hear(external, scope, hold, finding.clone()).await {
            Ok(Some(verdict)) => return Ok(verdict),
            Ok(None) if tries >= TRIES_MAX => return Ok(Verdict::Stale),
            Err(error) if tries >= TRIES_MAX => return Err(error),
            Ok(None) | Err(_) => {}
        }
        tries += 1;
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2);
    }
}

/// Nothing where the row changed meanwhile.
async fn try_to_hear<S: Ledger>(
    external: &External<S>,
    scope: &Scope,
    hold: Hold,
    finding: step::Finding,
) -> Result<Option<Verdict>, StoreError> {
    let store = &external.shared().store;
    let Seen { record, now } = store.load(scope).await?;
    let input = Input::Hear(hold, finding);
    let (next, verdict) = step::step(record.clone(), input, now, external.route().policy());
    if next.revision == record.revision {
        return Ok(Some(verdict));
    }
    Ok(match store.swap(scope, &record, &next).await? {
        Swap::Written => Some(verdict),
        Swap::Changed(_) => None,
    })
}

fn end_of(verdict: &Verdict) -> End {
    match signal_of(verdict) {
        Some(Signal::Recovered) => End::Settled,
        Some(Signal::FreedByProof) => End::Freed,
        Some(Signal::HandedOver) => End::HandedOver,
        Some(_) | None => End::Open,
    }
}

fn signal_of(verdict: &Verdict) -> Option<Signal> {
    if matches!(verdict, Verdict::Settled) {
        Some(Signal::Recovered)
    } else if matches!(verdict, Verdict::Freed) {
        Some(Signal::FreedByProof)
    } else if matches!(verdict, Verdict::HandedOver) {
        Some(Signal::HandedOver)
    } else if matches!(verdict, Verdict::Recorded) {
        Some(Signal::EvidenceRecorded)
    } else if matches!(verdict, Verdict::Stale) {
        Some(Signal::LeaseLost)
    } else {
        None
    }
}
