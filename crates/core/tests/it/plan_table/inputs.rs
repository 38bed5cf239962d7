//! Every input, from everybody who might bring it.

use super::variants::{E, EARLIER, fact, kept, owner};
use crate::grid::Bringer;
use samekey_core::backoff::Chance;
use samekey_core::delivery::{Delivery, Proof, Reason};
use samekey_core::lease::{Fence, Hold, Owner};
use samekey_core::outcome::{Heard, NotRun, Outcome, Speaks, Told};
use samekey_core::plan::{Decision, Input};
use std::time::Duration;

/// Who brings an input. Workers that take, callbacks, and who cancels are anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Anybody,
    /// Whose token and fence are the delivery's.
    Holder,
    /// The owner of an earlier attempt.
    E,
    /// The right token with a fence that was not reached yet.
    LaterFence,
    /// A person who looks at the delivery as it is.
    Person,
    /// A person who looks at it as it once was.
    LatePerson,
}

impl Bringer for Who {
    fn name(self) -> &'static str {
        match self {
            Who::Anybody => "",
            Who::Holder => "holder",
            Who::E => "E",
            Who::LaterFence => "later fence",
            Who::Person => "person",
            Who::LatePerson => "late person",
        }
    }

    fn whole(self) -> Option<usize> {
        match self {
            Who::Anybody => None,
            Who::Holder | Who::E | Who::LaterFence => Some(reports(HOLD).len()),
            Who::Person | Who::LatePerson => Some(4),
        }
    }
}

const HOLD: Hold = Hold { owner: E, fence: EARLIER };

pub(super) struct Named {
    pub(super) who: Who,
    pub(super) what: &'static str,
    pub(super) input: Input,
}

/// What a counterparty that wants to be left alone says: longer than any wait of the grid's own.
const LATER: Option<Duration> = Some(Duration::from_secs(450));

/// What an owner or asker may report.
fn reports(hold: Hold) -> Vec<(&'static str, Input)> {
    let told = |what, retry_after| Input::Report(hold, Told { what, retry_after }, Chance::LEAST);
    let report = |what| told(what, None);
    let hear = |what| Input::Hear(hold, Told::plain(what), Chance::LEAST);
    let slow = Told { what: Heard::CannotTell, retry_after: LATER };
    vec![
        ("done 201", report(Outcome::Done(kept(201)))),
        ("done 201, body lost", report(Outcome::DoneBodyLost(fact(201)))),
        ("refused 402", report(Outcome::Refused(kept(402), Speaks::ForItself))),
        ("refused 402 for the key", report(Outcome::Refused(kept(402), Speaks::ForTheKey))),
        ("not sent", report(Outcome::NotRun(NotRun::NotSent))),
        ("not processed", report(Outcome::NotRun(NotRun::NotProcessed))),
        ("rate limited, retry after 450", told(Outcome::NotRun(NotRun::RateLimited), LATER)),
        ("not accepted", report(Outcome::NotAccepted(Reason::NotAccepted))),
        ("in flight", report(Outcome::InFlight)),
        ("pending", report(Outcome::Pending)),
        ("timed out", report(Outcome::Unknown(Reason::TimedOut))),
        ("server error, retry after 450", told(Outcome::Unknown(Reason::ServerError), LATER)),
        ("stop: key reused", report(Outcome::Stop(Reason::KeyReused))),
        ("release", Input::Release(hold, Duration::ZERO)),
        ("hear executed 201", hear(Heard::Executed(kept(201)))),
        ("hear refused 402", hear(Heard::Refused(kept(402)))),
        ("hear not found", hear(Heard::NotFound)),
        ("hear pending", hear(Heard::Pending)),
        ("hear cannot tell", hear(Heard::CannotTell)),
        ("hear cannot tell, retry after 450", Input::Hear(hold, slow, Chance::LEAST)),
        ("hear different", hear(Heard::Different)),
    ]
}

fn decisions(seen: Hold) -> [(&'static str, Input); 4] {
    [
        ("decide executed", Input::Decide(seen, Decision::Executed)),
        ("decide not executed", Input::Decide(seen, Decision::NotExecuted)),
        ("decide write off", Input::Decide(seen, Decision::WriteOff)),
        ("retry", Input::Retry(seen)),
    ]
}

pub(super) fn all(delivery: &Delivery) -> Vec<Named> {
    let mut all = Vec::new();
    let mut add = |who, what, input| all.push(Named { who, what, input });

    add(Who::Anybody, "take", Input::Take(owner(b'N')));
    add(Who::Anybody, "defer by 10", Input::Defer(Duration::from_secs(10)));
    add(Who::Anybody, "learn executed 201", Input::Learn(Proof::Executed(kept(201))));
    add(Who::Anybody, "learn executed, the fact", Input::Learn(Proof::Executed(fact(201))));
    add(Who::Anybody, "learn refused 402", Input::Learn(Proof::Refused(kept(402))));
    add(Who::Anybody, "cancel", Input::Cancel);
    add(Who::Anybody, "restore", Input::Restore);

    let holder = delivery.hold();
    let later = Hold { owner: delivery.holder, fence: delivery.fence.next() };
    for (who, hold) in [(Who::Holder, holder), (Who::E, HOLD), (Who::LaterFence, later)] {
        let shown = match who {
            Who::Holder => delivery.holder != Owner::NONE,
            Who::E => EARLIER < delivery.fence,
            Who::LaterFence => true,
            Who::Anybody | Who::Person | Who::LatePerson => false,
        };
        if shown {
            reports(hold).into_iter().for_each(|(what, input)| add(who, what, input));
        }
    }
    let late = Fence::new(delivery.fence.number().wrapping_sub(1));
    let late = Hold { owner: delivery.holder, fence: late };
    decisions(holder).into_iter().for_each(|(what, input)| add(Who::Person, what, input));
    decisions(late).into_iter().for_each(|(what, input)| add(Who::LatePerson, what, input));
    all
}
