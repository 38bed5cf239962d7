//! Machines and shells that are wrong in one way. The checker has to find out each of them: so the
//! properties are known to be able to fail.

use super::world::EXECUTED;
use samekey_core::lease::Fence;
use samekey_core::policy::{Choices, Counterparty, Policy};
use samekey_core::record::{Record, State};
use samekey_core::step::{Claim, Finding, Input, Verdict, step};
use samekey_core::time::Time;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The machine as it is.
    None,
    /// Settling takes any hold.
    SettleWithoutFence,
    /// Releasing takes any hold.
    ReleaseWithoutFence,
    /// A claim that finds a lapsed lease runs again.
    LapseRuns,
    /// The sweep removes whatever is old.
    SweepTakesOpen,
    /// The first "not found" frees the key, whenever it was asked.
    NotFoundFrees,
    /// An owner that cannot know how it ended frees the key.
    DoubtFrees,
    /// Questions go on after the counterparty forgot the key.
    AskAfterMemory,
    /// A freed key begins again with the fence 0.
    FreeForgetsFence,
    /// Other content under the key is not noticed.
    MismatchPasses,
    /// A person's decision falls on whatever the row says by now.
    DecisionOnAnything,
    /// A late answer overwrites what is done.
    DoneIsOverwritten,
    /// Evidence that waits is taken for a reason to run.
    EvidenceFrees,
    /// The store writes without comparing: look, then write.
    StoreWithoutCompare,
    /// A write that got no acknowledgement is taken for written.
    LostWriteCounts,
}

impl Mutant {
    /// The step of the machine, wrong in this one way.
    pub(super) fn step(
        self,
        mut record: Record,
        input: Input,
        now: Time,
        policy: &Policy,
    ) -> (Record, Verdict) {
        match (self, input) {
            (Mutant::SettleWithoutFence, Input::Settle(_, receipt)) => {
                let hold = record.hold();
                step(record, Input::Settle(hold, receipt), now, policy)
            }
            (Mutant::ReleaseWithoutFence, Input::Release(_)) => {
                let hold = record.hold();
                step(record, Input::Release(hold), now, policy)
            }
            (Mutant::LapseRuns, Input::Claim(claim)) => {
                if matches!(&record.state, State::Running(running) if now >= running.lease_ends) {
                    record.state = State::Free;
                }
                step(record, Input::Claim(claim), now, policy)
            }
            (Mutant::SweepTakesOpen, Input::Sweep) if now >= record.keep_until => {
                (Record::ABSENT, Verdict::Swept)
            }
            (Mutant::NotFoundFrees, Input::Hear(hold, Finding::NotFound)) => {
                if record.hold() == hold && matches!(record.state, State::Unknown(_)) {
                    return freed(record);
                }
                step(record, Input::Hear(hold, Finding::NotFound), now, policy)
            }
            (Mutant::DoubtFrees, Input::Doubt(hold, _)) => {
                step(record, Input::Release(hold), now, policy)
            }
            (Mutant::AskAfterMemory, input @ (Input::Ask(_) | Input::Hear(..))) => {
                step(record, input, now, &endless(policy))
            }
            (Mutant::FreeForgetsFence, input) => {
                let (mut next, verdict) = step(record, input, now, policy);
                if matches!(next.state, State::Free) {
                    next.fence = Fence::NONE;
                }
                (next, verdict)
            }
            (Mutant::MismatchPasses, Input::Claim(claim)) => {
                let request = record.request().copied().unwrap_or(claim.request);
                step(record, Input::Claim(Claim { request, ..claim }), now, policy)
            }
            (Mutant::DecisionOnAnything, Input::Decide(_, decision)) => {
                if let State::Done(_) = record.state {
                    return freed(record);
                }
                let seen = record.hold();
                step(record, Input::Decide(seen, decision), now, policy)
            }
            (Mutant::DoneIsOverwritten, Input::Settle(hold, receipt)) => {
                if let State::Done(done) = &mut record.state
                    && record.holder != hold.owner
                {
                    done.receipt = receipt;
                    record.revision += 1;
                    return (record, Verdict::Settled);
                }
                step(record, Input::Settle(hold, receipt), now, policy)
            }
            (Mutant::EvidenceFrees, Input::Ask(owner)) => {
                if matches!(&record.state, State::Unknown(unknown) if unknown.evidence == Some(EXECUTED))
                {
                    return freed(record);
                }
                step(record, Input::Ask(owner), now, policy)
            }
            (_, input) => step(record, input, now, policy),
        }
    }
}

fn freed(mut record: Record) -> (Record, Verdict) {
    record.state = State::Free;
    record.revision += 1;
    (record, Verdict::Freed)
}

/// The policy of somebody who believes that the counterparty remembers for ever.
fn endless(policy: &Policy) -> Policy {
    let key_life = Duration::from_secs(u64::from(u32::MAX));
    let counterparty = match policy.counterparty {
        Counterparty::Dedups { .. } => Counterparty::Dedups { key_life },
        Counterparty::Opaque | Counterparty::Answers { .. } => policy.counterparty,
    };
    let choices: Choices = Choices { counterparty, ..(**policy).clone() };
    choices.check().unwrap()
}
