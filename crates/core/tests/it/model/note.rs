//! Laws about single writes, noticed where the write happens.

use super::world::{Broken, World};
use samekey_core::lease::Hold;
use samekey_core::record::{Record, State};
use samekey_core::step::{Decision, Finding, Input, Verdict};

/// Holds a write against the laws about single writes, before it happens.
pub(super) fn note(world: &mut World, input: &Input, next: &Record, verdict: &Verdict) {
    let before = &world.row;
    let mut broken = None;
    if matches!(before.state, State::Done(_)) && next != before {
        broken = Some(Broken::DoneChanged);
    }
    if next.fence < before.fence {
        broken = Some(Broken::FenceFell);
    }
    let held = |hold: &Hold| *hold == before.hold();
    let by = match input {
        Input::Renew(hold)
        | Input::Settle(hold, _)
        | Input::Release(hold)
        | Input::Doubt(hold, _)
        | Input::Hear(hold, _) => Some(hold),
        Input::Claim(_)
        | Input::ClaimAfterLoss(_)
        | Input::Ask(_)
        | Input::Decide(..)
        | Input::Forget(_)
        | Input::Restore
        | Input::Sweep => None,
    };
    let evidence = matches!(
        (&before.state, &next.state),
        (State::Unknown(_), State::Unknown(_)) | (State::Review(_), State::Done(_))
    );
    if by.is_some_and(|hold| !held(hold)) && next != before && !evidence {
        broken = Some(Broken::StaleWrite);
    }
    let frees = matches!(next.state, State::Free) && !matches!(before.state, State::Free);
    let proved = match input {
        Input::Release(hold) => held(hold),
        Input::Hear(hold, Finding::NotFound) => {
            let once = matches!(&before.state, State::Unknown(unknown) if unknown.not_found == 1);
            held(hold) && once
        }
        Input::Decide(_, Decision::NotExecuted) => true,
        Input::Claim(_)
        | Input::ClaimAfterLoss(_)
        | Input::Restore
        | Input::Renew(_)
        | Input::Settle(..)
        | Input::Doubt(..)
        | Input::Ask(_)
        | Input::Hear(..)
        | Input::Decide(..)
        | Input::Forget(_)
        | Input::Sweep => false,
    };
    if frees && proved {
        world.may_run = true;
    }
    if matches!(verdict, Verdict::Run(_)) && next.fence != before.fence {
        if !world.may_run {
            broken = Some(Broken::GrantedTwice);
        }
        world.may_run = false;
    }
    if world.broken.is_none() {
        world.broken = broken;
    }
}
