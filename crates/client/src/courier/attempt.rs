//! One attempt or one question: made under its lease, then written down.

use super::settle::{Came, settle};
use super::until::{Stopped, Until};
use super::{Place, Shared};
use crate::chance::chance;
use crate::counterparty::{Order, Question, Reply};
use crate::signal::Signal;
use futures_util::FutureExt;
use samekey_core::delivery::{AskedBy, Reason, State};
use samekey_core::lease::Hold;
use samekey_core::outcome::{Heard, Outcome, Told};
use samekey_core::plan::{Attempt, Input};
use samekey_store::outbox::{AttemptNote, Outbox, SeenDelivery, Taken};
use samekey_store::{Ledger, crash_point};
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::time::Instant;

/// Something that was taken and has to be done now.
pub(super) struct Work {
    pub(super) taken: Taken,
    pub(super) hold: Hold,
    /// A moment after the store had answered: its clock counted from here is behind rather than ahead.
    pub(super) answered_at: Instant,
    /// Nothing is sent from here on: somebody else may have the command.
    ends: Instant,
    what: What,
}

enum What {
    Send { number: u32, time_max: Duration },
    Ask(AskedBy),
}

impl Work {
    pub(super) fn send(
        taken: Taken,
        attempt: Attempt,
        answered_at: Instant,
        ends: Instant,
    ) -> Work {
        let what = What::Send { number: attempt.number, time_max: attempt.time_max };
        Work { taken, hold: attempt.hold, answered_at, ends, what }
    }

    pub(super) fn ask(
        taken: Taken,
        hold: Hold,
        by: AskedBy,
        answered_at: Instant,
        ends: Instant,
    ) -> Work {
        Work { taken, hold, answered_at, ends, what: What::Ask(by) }
    }

    /// The delivery as it is known, and the store's clock moved on by what passed since.
    pub(super) fn seen(&self) -> SeenDelivery {
        let SeenDelivery { delivery, now } = &self.taken.seen;
        let now = now.plus(self.answered_at.elapsed());
        SeenDelivery { delivery: delivery.clone(), now }
    }

    fn note(&self, kind: &str, came_to: &'static str, status: Option<u16>) -> AttemptNote {
        let SeenDelivery { delivery, now } = &self.taken.seen;
        AttemptNote {
            kind: kind.to_owned(),
            number: delivery.sends,
            fence: self.hold.fence,
            began: *now,
            noted: *now,
            came_to: came_to.to_owned(),
            status,
        }
    }
}

pub(super) async fn run<S: Outbox + Ledger>(shared: &Shared<S>, place: &Place, work: Work) {
    note_lapse(shared, place, &work.taken).await;
    match work.what {
        What::Send { number, time_max } => send(shared, place, work, number, time_max).await,
        What::Ask(by) => ask(shared, place, work, by).await,
    }
}

/// The attempt that was taken over left no note of its own.
pub(super) async fn note_lapse<S: Outbox + Ledger>(
    shared: &Shared<S>,
    place: &Place,
    taken: &Taken,
) {
    let before = &taken.before;
    let State::Sending(sending) = &before.state else { return };
    let note = AttemptNote {
        kind: "send".to_owned(),
        number: before.sends,
        fence: before.fence,
        began: sending.since,
        noted: taken.seen.now,
        came_to: Reason::LeaseLapsed.code().to_owned(),
        status: None,
    };
    let command = &taken.command;
    if let Err(error) = shared.store.note(&command.action.org, command.id, &note).await {
        // The row itself says that it lapsed; the list of attempts has a gap.
        shared.signals.emit(&place.name, Signal::StoreFailed(error.kind()));
    }
}

async fn send<S: Outbox + Ledger>(
    shared: &Shared<S>,
    place: &Place,
    work: Work,
    number: u32,
    time_max: Duration,
) {
    let order = Order { command: work.taken.command.clone(), number, time_max };
    shared.signals.emit(&place.name, Signal::Sent);
    crash_point!("courier.send-before");
    // The counterparty keeps its own time; this is for one that does not.
    let ends = work.ends.min(Instant::now() + time_max + time_max / SLACK_PART);
    let call = AssertUnwindSafe(async { place.counterparty.send_boxed(order).await });
    let reply = match Until::new(call.catch_unwind(), ends).run().await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_panic)) => {
            shared.signals.emit(&place.name, Signal::Panicked);
            unknown(Reason::AnswerUnclear)
        }
        Err(Stopped::Underway) => unknown(Reason::TimedOut),
        Err(Stopped::Unbegun) => {
            let note = work.note("send", "not-begun", None);
            let input = Input::Release(work.hold, Duration::ZERO);
            return settle(shared, place, &work, Came { input, note, turned: None }).await;
        }
    };
    crash_point!("courier.send-after");
    let came_to = word_of_outcome(&reply.told.what);
    let note = work.note("send", came_to, reply.status);
    let turned = place.health().sent(&reply.told);
    if matches!(reply.told.what, Outcome::NotAccepted(_)) {
        shared.signals.emit(&place.name, Signal::NotAccepted);
    }
    let input = Input::Report(work.hold, reply.told, chance());
    settle(shared, place, &work, Came { input, note, turned: Some(turned) }).await;
}

/// How much longer than its time an attempt is waited for, as a part of that time: a counterparty that
/// keeps its own time knows better how it ended.
const SLACK_PART: u32 = 20;

async fn ask<S: Outbox + Ledger>(shared: &Shared<S>, place: &Place, work: Work, by: AskedBy) {
    let time_max = place.profile.attempt_time_max;
    let question = Question { command: work.taken.command.clone(), by, time_max };
    shared.signals.emit(&place.name, Signal::Asked);
    crash_point!("courier.ask-before");
    let ends = work.ends.min(Instant::now() + time_max + time_max / SLACK_PART);
    let call = AssertUnwindSafe(async { place.counterparty.ask_boxed(question).await });
    let reply = match Until::new(call.catch_unwind(), ends).run().await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_panic)) => {
            shared.signals.emit(&place.name, Signal::Panicked);
            Reply { told: Told::plain(Heard::CannotTell), status: None }
        }
        Err(Stopped::Underway) => Reply { told: Told::plain(Heard::CannotTell), status: None },
        Err(Stopped::Unbegun) => {
            let note = work.note("question", "not-begun", None);
            let input = Input::Release(work.hold, Duration::ZERO);
            return settle(shared, place, &work, Came { input, note, turned: None }).await;
        }
    };
    crash_point!("courier.ask-after");
    let note = work.note("question", word_of_heard(&reply.told.what), reply.status);
    let turned = place.health().asked(&reply.told);
    let input = Input::Hear(work.hold, reply.told, chance());
    settle(shared, place, &work, Came { input, note, turned: Some(turned) }).await;
}

fn unknown(reason: Reason) -> Reply<Outcome> {
    Reply { told: Told::plain(Outcome::Unknown(reason)), status: None }
}

/// What an attempt came to, in the word that its note has.
pub(crate) fn word_of_outcome(outcome: &Outcome) -> &'static str {
    use samekey_core::outcome::{NotRun, Speaks};
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::DoneBodyLost(_) => "done-body-lost",
        Outcome::Refused(_, Speaks::ForItself) => "refused",
        Outcome::Refused(_, Speaks::ForTheKey) => "refused-for-the-key",
        Outcome::NotRun(NotRun::NotSent) => "not-sent",
        Outcome::NotRun(NotRun::NotProcessed) => "not-processed",
        Outcome::NotRun(NotRun::RateLimited) => "rate-limited",
        Outcome::InFlight => "in-flight",
        Outcome::Pending => "pending",
        Outcome::NotAccepted(reason) | Outcome::Unknown(reason) | Outcome::Stop(reason) => {
            reason.code()
        }
    }
}

/// What a question came to, in the word that its note has.
pub(crate) fn word_of_heard(heard: &Heard) -> &'static str {
    match heard {
        Heard::Executed(_) => "executed",
        Heard::Refused(_) => "refused",
        Heard::NotFound => "not-found",
        Heard::Pending => "pending",
        Heard::CannotTell => "cannot-tell",
        Heard::Different => "different",
    }
}
