//! Commands and deliveries to work with, one of every kind.

use crate::records::{MINUTE, owner, receipts};
use bytes::Bytes;
use samekey_core::backoff::Chance;
use samekey_core::delivery::{
    AskedBy, Delivery, Ended, Grounds, Proof, Reason, Resolution, Sending, State, Unknown, Waiting,
};
use samekey_core::key::Org;
use samekey_core::lease::Fence;
use samekey_core::plan::{Input, Verdict, enqueued, plan};
use samekey_core::profile::{Declared, Limits, Profile};
use samekey_core::time::Time;
use samekey_store::OutboundKey;
use samekey_store::outbox::{Action, AttemptNote, Command, CommandId};
use std::time::Duration;

pub fn org(name: &str) -> Org {
    Org::stored(name).expect("an org")
}

pub fn id(number: u32) -> CommandId {
    let mut bits = [7; 16];
    bits[..4].copy_from_slice(&number.to_be_bytes());
    CommandId::from_bytes(bits)
}

/// A command for `bank`, of this organisation; its number makes its id, key and reference.
pub fn command(of: &str, number: u32) -> Command {
    Command {
        id: id(number),
        action: Action {
            org: org(of),
            destination: "bank".to_owned(),
            operation: "charge".to_owned(),
            business_ref: format!("order-{number}"),
        },
        generation: 1,
        order_key: None,
        key: OutboundKey::from_bytes([number.to_be_bytes()[3]; 16]),
        request: Bytes::from(format!("{{\"amount\":{number}}}\0\u{ff}")),
    }
}

/// The same, to be sent in order with others of this key.
pub fn ordered(of: &str, number: u32, order_key: &str) -> Command {
    Command { order_key: Some(order_key.to_owned()), ..command(of, number) }
}

/// A counterparty that deduplicates for a day.
pub fn profile() -> Profile {
    let declared = Declared { dedups: Some(24 * 60 * MINUTE), answers: None };
    Limits::DURABLE.check(declared).expect("a profile")
}

/// What a command begins with, due after `delay`, counted from the epoch.
pub fn offered(delay: Duration) -> Delivery {
    enqueued(Time::EPOCH, delay, &profile())
}

/// Takes whatever is due, as a worker with this token does.
pub fn worker(number: u8) -> impl FnMut(Delivery, Time) -> Option<Delivery> + Send + 'static {
    move |delivery, now| {
        let (next, verdict) = plan(delivery, Input::Take(owner(number)), now, &profile());
        matches!(verdict, Verdict::Send(_) | Verdict::Ask(..) | Verdict::Ended).then_some(next)
    }
}

/// What the machine says next to this input.
pub fn planned(delivery: &Delivery, input: Input, now: Time) -> Delivery {
    plan(delivery.clone(), input, now, &profile()).0
}

pub fn least() -> Chance {
    Chance::LEAST
}

/// The successor of a delivery, in another state.
pub fn moved(delivery: &Delivery, state: State) -> Delivery {
    let answered = matches!(state, State::Succeeded(_) | State::Refused(_));
    let proof = if answered { None } else { delivery.proof.clone() };
    Delivery { revision: delivery.revision + 1, proof, state, ..delivery.clone() }
}

pub fn waiting(due: Time) -> State {
    State::Waiting(Waiting { due, grounds: Grounds::Unrun })
}

pub fn failed(since: Time) -> State {
    State::Failed(Ended { since, with: Reason::TimeOver })
}

pub fn undecided(since: Time) -> State {
    State::Undecided(Ended { since, with: Reason::NobodyToAsk })
}

pub fn succeeded(since: Time) -> State {
    State::Succeeded(Ended { since, with: receipts()[0].clone() })
}

pub fn refused(since: Time) -> State {
    State::Refused(Ended { since, with: receipts()[4].clone() })
}

/// Every state that lies differently in the columns, at a moment.
pub fn delivery_states(now: Time) -> Vec<State> {
    let mut all = vec![
        State::Cancelled(Ended { since: now, with: () }),
        State::Resolved(Ended { since: now, with: Resolution::Executed }),
        State::Resolved(Ended { since: now, with: Resolution::WrittenOff }),
        State::Unknown(Unknown { due: now.plus(MINUTE), asked: 3, not_found: 1 }),
    ];
    for grounds in [Grounds::Unrun, Grounds::Dedups, Grounds::InFlight] {
        all.push(State::Waiting(Waiting { due: now.plus(MINUTE), grounds }));
        let lease_ends = now.plus(2 * MINUTE);
        all.push(State::Sending(Sending { since: now, lease_ends, grounds }));
    }
    for (reason, _) in Reason::ALL {
        all.push(State::Failed(Ended { since: now, with: reason }));
        all.push(State::Undecided(Ended { since: now, with: reason }));
    }
    for receipt in receipts() {
        all.push(State::Succeeded(Ended { since: now, with: receipt.clone() }));
        all.push(State::Refused(Ended { since: now, with: receipt }));
    }
    all
}

/// Deliveries that follow this one in every way that lies differently in the columns.
pub fn followers(delivery: &Delivery, now: Time) -> Vec<Delivery> {
    let mut all: Vec<Delivery> =
        delivery_states(now).into_iter().map(|state| moved(delivery, state)).collect();
    let full = Delivery {
        fence: Fence::new(7),
        holder: owner(9),
        revision: 40,
        sends: 5,
        attempts: 2,
        first_send: Some(now),
        last_send: Some(now.plus(MINUTE)),
        doubt: Some(Reason::TimedOut),
        last: Some(Reason::ServerError),
        asked_by: AskedBy::Reference,
        ..delivery.clone()
    };
    for receipt in receipts() {
        for proof in [Proof::Executed(receipt.clone()), Proof::Refused(receipt.clone())] {
            all.push(Delivery { proof: Some(proof), ..full.clone() });
        }
    }
    all.push(full);
    all
}

pub fn note(number: u32, fence: u64) -> AttemptNote {
    AttemptNote {
        kind: "send".to_owned(),
        number,
        fence: Fence::new(fence),
        began: Time::from_micros(1_700_000_000_000_000 + i64::from(number)),
        noted: Time::from_micros(1),
        came_to: "timed-out".to_owned(),
        status: number.is_multiple_of(2).then_some(503),
    }
}
