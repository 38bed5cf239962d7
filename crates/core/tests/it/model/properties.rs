//! What must always hold, and what must sometimes happen.

use super::world::{Asking, Broken, EXECUTED, Other, Setting, Stage, World, at, content};
use samekey_core::lease::Owner;
use samekey_core::record::{Record, State};
use samekey_core::step::{Arrival, Claim, Input, Verdict};

type Named = (&'static str, fn(&Setting, &World) -> bool);

pub(super) const ALWAYS: [Named; 11] = [
    ("S1: at most one effect, unless somebody answers for it", |_, world| {
        world.effects.iter().zip(world.excused).all(|(effects, excused)| *effects <= 1 || excused)
    }),
    ("S1: a run is granted once in a life", |_, world| world.broken != Some(Broken::GrantedTwice)),
    ("S3: what was acknowledged stays on record", |_, world| {
        world.clients.iter().all(|client| match client.stage {
            Stage::Settled(epoch) if epoch == world.epoch => {
                matches!(world.row.state, State::Done(_))
            }
            Stage::Waiting
            | Stage::Working(_)
            | Stage::Releasing(_)
            | Stage::Sent(_)
            | Stage::Doubting(_)
            | Stage::Answered(_)
            | Stage::Settled(_)
            | Stage::Evidence
            | Stage::FencedOut
            | Stage::Over => true,
        })
    }),
    ("S4: nothing is sent without a committed claim", |_, world| {
        world
            .flight
            .iter()
            .all(|request| request.epoch < world.epoch || request.hold.fence <= world.row.fence)
    }),
    ("S5: done means executed, or a person said so", |_, world| match &world.row.state {
        State::Done(done) if done.receipt == EXECUTED => {
            world.effects[usize::from(world.epoch)] > 0
        }
        State::Free
        | State::Running(_)
        | State::Unknown(_)
        | State::Review(_)
        | State::Done(_)
        | State::Closed(_) => true,
    }),
    ("S7: other content is a mismatch in every state but free", other_content_is_a_mismatch),
    ("S10: the fence never falls", |_, world| world.broken != Some(Broken::FenceFell)),
    ("S10: done never changes", |_, world| world.broken != Some(Broken::DoneChanged)),
    ("S10: no write by a stale fence", |_, world| world.broken != Some(Broken::StaleWrite)),
    ("S15: nothing open is swept", |_, world| world.broken != Some(Broken::OpenSwept)),
    ("an atomic key is never seen running", |setting, world| {
        setting.other != Other::Atomic || !matches!(world.row.state, State::Running(_))
    }),
];

fn other_content_is_a_mismatch(setting: &Setting, world: &World) -> bool {
    let Some(stored) = world.row.request() else { return true };
    let other = *stored == content(false);
    let claim = Claim {
        request: content(other),
        owner: Owner::from_bytes([255; 16]),
        arrival: Arrival::Ordinary,
    };
    let looked = world.row.clone();
    let (_, verdict) =
        setting.mutant.step(looked, Input::Claim(claim), at(world.tick), &setting.policy);
    verdict == Verdict::Mismatch
}

pub(super) const TAKE_OVER: &str = "a take-over while the first owner lives";
pub(super) const FENCED_OUT: &str = "a write that the fence refused";
pub(super) const RESOLVED: &str = "a commit of unknown outcome, resolved";
pub(super) const LATE: &str = "a request on its way after its key was freed";
pub(super) const LATE_EFFECT: &str = "a second effect that somebody answers for";
pub(super) const EVIDENCE: &str = "evidence on record";
pub(super) const EVIDENCE_USED: &str = "a key done by evidence";
pub(super) const SWEEP_RACE: &str = "a write that loses against the sweep";
pub(super) const SECOND_LIFE: &str = "a second life after the sweep, with an owner of the first";
pub(super) const REVIEW: &str = "a key in review";
pub(super) const CLOSED: &str = "a key closed by a person";
pub(super) const LATE_PERSON: &str = "a late answer while a person looks";
pub(super) const TWO_ASKERS: &str = "an asker that outlives its turn";

pub(super) const SOMETIMES: [Named; 13] = [
    (TAKE_OVER, |_, world| {
        lives(world).any(|fence| fence < world.row.fence.number())
            && matches!(world.row.state, State::Unknown(_))
    }),
    (FENCED_OUT, |_, world| world.clients.iter().any(|client| client.stage == Stage::FencedOut)),
    (RESOLVED, |_, world| {
        world.clients.iter().any(|client| client.lost && matches!(client.stage, Stage::Settled(_)))
    }),
    (LATE, |_, world| {
        world.flight.iter().any(|request| request.hold.fence < world.row.fence)
            && matches!(world.row.state, State::Free | State::Running(_))
    }),
    (LATE_EFFECT, |_, world| {
        world.effects.iter().zip(world.excused).any(|(effects, excused)| *effects > 1 && excused)
    }),
    (
        EVIDENCE,
        |_, world| matches!(&world.row.state, State::Unknown(unknown) if unknown.evidence.is_some()),
    ),
    (EVIDENCE_USED, |_, world| {
        matches!(world.row.state, State::Done(_))
            && world.clients.iter().any(|client| client.stage == Stage::Evidence)
    }),
    (SWEEP_RACE, |_, world| {
        let looked = |look: &Option<(Record, u8)>| {
            look.as_ref().is_some_and(|(seen, _)| *seen != Record::ABSENT)
        };
        world.row == Record::ABSENT && world.clients.iter().any(|client| looked(&client.look))
    }),
    (SECOND_LIFE, |_, world| {
        world.epoch > 0
            && world.row != Record::ABSENT
            && lives(world).next().is_some()
            && world.clients.iter().any(|client| match client.stage {
                Stage::Working(right) | Stage::Sent(right) | Stage::Answered(right) => {
                    right.epoch < world.epoch
                }
                Stage::Waiting
                | Stage::Releasing(_)
                | Stage::Doubting(_)
                | Stage::Settled(_)
                | Stage::Evidence
                | Stage::FencedOut
                | Stage::Over => false,
            })
    }),
    (REVIEW, |_, world| matches!(world.row.state, State::Review(_))),
    (CLOSED, |_, world| matches!(world.row.state, State::Closed(_))),
    (LATE_PERSON, |_, world| world.person.is_some() && matches!(world.row.state, State::Done(_))),
    (TWO_ASKERS, |_, world| {
        world.recoverers.iter().any(|asker| match &asker.stage {
            Asking::Told(right, _) => right.hold.fence < world.row.fence,
            Asking::Idle | Asking::Turn(_) => false,
        })
    }),
];

/// The fences of owners that still believe that they work.
fn lives(world: &World) -> impl Iterator<Item = u64> + '_ {
    world.clients.iter().filter_map(|client| match client.stage {
        Stage::Working(right) | Stage::Sent(right) | Stage::Answered(right) => {
            Some(right.hold.fence.number())
        }
        Stage::Waiting
        | Stage::Releasing(_)
        | Stage::Doubting(_)
        | Stage::Settled(_)
        | Stage::Evidence
        | Stage::FencedOut
        | Stage::Over => None,
    })
}
