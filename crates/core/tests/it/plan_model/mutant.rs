//! Machines that are wrong in one way. The checker has to find out each of them: so the properties are
//! known to be able to fail.

use super::world::EXECUTED;
use samekey_core::delivery::{Delivery, Ended, Grounds, Reason, State, Waiting};
use samekey_core::lease::Fence;
use samekey_core::outcome::{Heard, NotRun, Outcome, Speaks, Told};
use samekey_core::plan::{Input, Verdict, plan};
use samekey_core::profile::{Declared, Profile};
use samekey_core::time::Time;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The machine as it is.
    None,
    /// An attempt whose lease is over is taken for one that never left.
    LapseIsUnrun,
    /// An attempt that nobody knows the end of is taken for one that never left.
    DoubtIsUnrun,
    /// Giving up in doubt is called a failure.
    DoubtFails,
    /// *Not found* is proof the first time, whenever it was asked.
    OneNotFoundIsProof,
    /// *Not found* is proof where no bound is declared.
    NotFoundWithoutBound,
    /// A refusal is final, whatever was sent before.
    AnyRefusalIsFinal,
    /// The same bytes are sent again after the counterparty forgot the key.
    MemoryIsEndless,
    /// A report counts, whoever brings it.
    AnyHoldReports,
    /// What waits again begins with the fence 0.
    FenceIsForgotten,
    /// A late report overwrites what is finished.
    LateNewsOverwrites,
    /// Proof that comes while an attempt is on its way is forgotten.
    EvidenceIsDropped,
    /// Whoever reported keeps the fence.
    FenceIsKept,
    /// An attempt is not counted.
    SendIsNotRecorded,
    /// A person's decision falls on whatever the row says by now.
    DecisionOnAnything,
    /// An attempt that could not be sent is called a success.
    NothingMeansSuccess,
}

impl Mutant {
    /// The machine, wrong in this one way.
    pub(super) fn plan(
        self,
        mut delivery: Delivery,
        input: Input,
        now: Time,
        profile: &Profile,
    ) -> (Delivery, Verdict) {
        match (self, input) {
            (Mutant::LapseIsUnrun, Input::Take(owner)) => {
                if matches!(&delivery.state, State::Sending(sending) if now >= sending.lease_ends) {
                    let waiting = Waiting { due: now, grounds: Grounds::Unrun };
                    delivery.state = State::Waiting(waiting);
                }
                plan(delivery, Input::Take(owner), now, profile)
            }
            (Mutant::DoubtIsUnrun, Input::Report(hold, told, chance)) => {
                let what = match told.what {
                    Outcome::Unknown(_) => Outcome::NotRun(NotRun::NotSent),
                    Outcome::Done(_)
                    | Outcome::DoneBodyLost(_)
                    | Outcome::Refused(..)
                    | Outcome::NotRun(_)
                    | Outcome::NotAccepted(_)
                    | Outcome::InFlight
                    | Outcome::Pending
                    | Outcome::Stop(_) => told.what,
                };
                plan(delivery, Input::Report(hold, Told::plain(what), chance), now, profile)
            }
            (Mutant::DoubtFails, input) => {
                let (mut next, verdict) = plan(delivery, input, now, profile);
                if let State::Undecided(ended) = &next.state {
                    next.doubt = None;
                    next.state = State::Failed(Ended { since: ended.since, with: ended.with });
                }
                (next, verdict)
            }
            (Mutant::OneNotFoundIsProof, Input::Hear(hold, told, chance))
                if told.what == Heard::NotFound =>
            {
                if let State::Unknown(unknown) = &mut delivery.state {
                    unknown.not_found = 1;
                    delivery.last_send = Some(Time::from_micros(0));
                }
                plan(delivery, Input::Hear(hold, told, chance), now, profile)
            }
            (Mutant::NotFoundWithoutBound, Input::Hear(hold, told, chance))
                if told.what == Heard::NotFound && delivery.hold() == hold =>
            {
                plan(delivery, Input::Hear(hold, told, chance), now, &bounded(profile))
            }
            (Mutant::AnyRefusalIsFinal, Input::Report(hold, told, chance)) => {
                let what = match told.what {
                    Outcome::Refused(receipt, _) => Outcome::Refused(receipt, Speaks::ForTheKey),
                    Outcome::Done(_)
                    | Outcome::DoneBodyLost(_)
                    | Outcome::NotRun(_)
                    | Outcome::NotAccepted(_)
                    | Outcome::InFlight
                    | Outcome::Pending
                    | Outcome::Unknown(_)
                    | Outcome::Stop(_) => told.what,
                };
                plan(delivery, Input::Report(hold, Told::plain(what), chance), now, profile)
            }
            (Mutant::MemoryIsEndless, input) => plan(delivery, input, now, &endless(profile)),
            (Mutant::AnyHoldReports, Input::Report(_, told, chance)) => {
                let hold = delivery.hold();
                plan(delivery, Input::Report(hold, told, chance), now, profile)
            }
            (Mutant::FenceIsForgotten, input) => {
                let (mut next, verdict) = plan(delivery, input, now, profile);
                if matches!(next.state, State::Waiting(_)) {
                    next.fence = Fence::NONE;
                }
                (next, verdict)
            }
            (Mutant::LateNewsOverwrites, Input::Report(hold, told, chance)) => {
                if delivery.is_finished() && hold != delivery.hold() {
                    let ended = Ended { since: now, with: Reason::TimedOut };
                    delivery.state = State::Undecided(ended);
                    delivery.revision += 1;
                    return (delivery, Verdict::Ended);
                }
                plan(delivery, Input::Report(hold, told, chance), now, profile)
            }
            (Mutant::EvidenceIsDropped, input) => {
                let (mut next, verdict) = plan(delivery, input, now, profile);
                if verdict == Verdict::Recorded {
                    next.proof = None;
                }
                (next, verdict)
            }
            (Mutant::FenceIsKept, input @ (Input::Report(..) | Input::Hear(..))) => {
                let fence = delivery.fence;
                let (mut next, verdict) = plan(delivery, input, now, profile);
                if next.is_open() {
                    next.fence = fence;
                }
                (next, verdict)
            }
            (Mutant::SendIsNotRecorded, Input::Take(owner)) => {
                let sends = delivery.sends;
                let (mut next, verdict) = plan(delivery, Input::Take(owner), now, profile);
                next.sends = sends;
                (next, verdict)
            }
            (Mutant::DecisionOnAnything, Input::Decide(_, decision)) => {
                if let State::Succeeded(ended) = &delivery.state {
                    let ended = Ended { since: ended.since, with: Reason::DecidedNotExecuted };
                    delivery.state = State::Failed(ended);
                    delivery.revision += 1;
                    return (delivery, Verdict::Ended);
                }
                let seen = delivery.hold();
                plan(delivery, Input::Decide(seen, decision), now, profile)
            }
            (Mutant::NothingMeansSuccess, Input::Report(hold, told, chance))
                if told.what == Outcome::NotRun(NotRun::NotSent) =>
            {
                let done = Told::plain(Outcome::Done(EXECUTED));
                plan(delivery, Input::Report(hold, done, chance), now, profile)
            }
            (_, input) => plan(delivery, input, now, profile),
        }
    }
}

fn with(profile: &Profile, declared: Declared) -> Profile {
    (**profile).check(declared).unwrap()
}

/// The profile of somebody who believes that the counterparty remembers for ever.
fn endless(profile: &Profile) -> Profile {
    let life = Duration::from_secs(u64::from(u32::MAX));
    let dedups = profile.declared.dedups.map(|_| life);
    with(profile, Declared { dedups, ..profile.declared })
}

/// The profile of somebody who takes *not found* for proof as soon as the lease is over.
fn bounded(profile: &Profile) -> Profile {
    let answers = profile.declared.answers.map(|mut answers| {
        answers.not_found_after = Some(profile.lease);
        answers
    });
    with(profile, Declared { answers, ..profile.declared })
}
