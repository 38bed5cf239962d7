//! What must always hold, and what must sometimes happen.

use super::world::{Broken, Other, Setting, Stage, Traceless, World};
use samekey_core::delivery::{Grounds, Proof, Reason, State};

type Named = (&'static str, fn(&Setting, &World) -> bool);

pub(super) const ALWAYS: [Named; 11] = [
    ("S1: at most one effect, unless somebody answers for it", |_, world| {
        world.effects <= 1 || world.vouched
    }),
    ("failed means that nothing ran", |_, world| {
        !matches!(world.row.state, State::Failed(_)) || world.effects == 0 || world.vouched
    }),
    ("refused means that nothing ran", |_, world| {
        !matches!(world.row.state, State::Refused(_)) || world.effects == 0 || world.vouched
    }),
    ("succeeded means that it ran", |_, world| {
        !matches!(world.row.state, State::Succeeded(_)) || world.effects + world.late_effects > 0
    }),
    ("S3: what was acknowledged stays on record", |_, world| {
        !world.acknowledged
            || match &world.row.state {
                State::Succeeded(_) | State::Resolved(_) => true,
                // Who knows that it ran but that nothing ran, as somebody vouched, is a person.
                State::Undecided(ended) => ended.with == Reason::Contradicted,
                State::Failed(_) => world.vouched,
                State::Waiting(_) | State::Sending(_) | State::Unknown(_) => {
                    matches!(world.row.proof, Some(Proof::Executed(_)))
                }
                State::Refused(_) | State::Cancelled(_) => false,
            }
    }),
    ("every attempt is on record before it leaves", |_, world| {
        world.left <= world.row.sends
            && world.flight.iter().all(|request| request.hold.fence <= world.row.fence)
    }),
    ("what is in doubt is sent only to one that deduplicates", |setting, world| {
        match &world.row.state {
            State::Sending(sending) if sending.grounds == Grounds::Dedups => {
                setting.other == Other::Dedups
            }
            State::Waiting(_)
            | State::Sending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Refused(_)
            | State::Failed(_)
            | State::Undecided(_)
            | State::Cancelled(_)
            | State::Resolved(_) => true,
        }
    }),
    ("what is finished never changes", |_, world| world.broken != Some(Broken::FinishedChanged)),
    ("what was said twice counts once", |_, world| world.broken != Some(Broken::CountedTwice)),
    ("S10: the fence never falls", |_, world| world.broken != Some(Broken::FenceFell)),
    ("S10: no write by a stale hold but certain news", |_, world| {
        world.broken != Some(Broken::StaleWrite)
    }),
];

pub(super) const TAKE_OVER: &str = "a take-over while the first owner lives";
pub(super) const STALE: &str = "a report that the fence refused";
pub(super) const EVIDENCE: &str = "proof on record while an attempt is on its way";
pub(super) const LATE_TRUTH: &str = "undecided, and then an answer comes";
pub(super) const LATE_EFFECT: &str = "a second effect that a declaration answers for";
pub(super) const SECOND_SEND: &str = "a second attempt";
pub(super) const REPEATED: &str = "an acknowledgement lost";
pub(super) const REFUSED: &str = "refused";
pub(super) const REFUSED_IN_DOUBT: &str = "a refusal that speaks only for its own attempt";
pub(super) const FAILED: &str = "failed";
pub(super) const DECIDED: &str = "decided by a person";
pub(super) const LATE_PERSON: &str = "a person who saw what is no longer so";
pub(super) const ALARM: &str = "a second effect that is noticed";

fn is_undecided(world: &World) -> bool {
    matches!(world.row.state, State::Undecided(_))
}

pub(super) const SOMETIMES: [Named; 13] = [
    (TAKE_OVER, |_, world| {
        world.workers.iter().any(|worker| match worker.stage {
            Stage::Attempt(right) | Stage::Sent(right) | Stage::Turn(right) => {
                right.hold.fence < world.row.fence && world.row.is_open()
            }
            Stage::Idle | Stage::Told(..) | Stage::Heard(..) => false,
        })
    }),
    (STALE, |_, world| world.told == Some(Traceless::Stale)),
    (EVIDENCE, |_, world| world.told == Some(Traceless::Recorded)),
    (LATE_TRUTH, |_, world| {
        is_undecided(world)
            && world.workers.iter().any(|worker| match &worker.stage {
                Stage::Told(right, _) | Stage::Heard(right, _) => {
                    right.hold.fence <= world.row.fence
                }
                Stage::Idle | Stage::Attempt(_) | Stage::Sent(_) | Stage::Turn(_) => false,
            })
    }),
    (LATE_EFFECT, |_, world| world.late_effects > 0 && world.effects + world.late_effects > 1),
    (SECOND_SEND, |_, world| world.left > 1),
    (REPEATED, |_, world| world.workers.iter().any(|worker| worker.lost)),
    (REFUSED, |_, world| matches!(world.row.state, State::Refused(_))),
    (REFUSED_IN_DOUBT, |_, world| world.row.last == Some(Reason::RefusedInDoubt)),
    (FAILED, |_, world| matches!(world.row.state, State::Failed(_))),
    (DECIDED, |_, world| matches!(world.row.state, State::Resolved(_))),
    (LATE_PERSON, |_, world| world.told == Some(Traceless::StaleView)),
    (ALARM, |_, world| world.told == Some(Traceless::Contradicts)),
];
