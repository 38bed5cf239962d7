//! Every state of a delivery in the variants that the machine tells apart.

use crate::grid::at;
use bytes::Bytes;
use samekey_core::delivery::{
    AskedBy, Delivery, Ended, Grounds, Proof, Reason, Resolution, Sending, State, Unknown, Waiting,
};
use samekey_core::lease::{Fence, Owner};
use samekey_core::receipt::{Answer, Receipt};

/// The owner whose token is this letter.
pub(super) const fn owner(letter: u8) -> Owner {
    Owner::from_bytes([letter; 16])
}

/// Who made an attempt before the last one, and its fence.
pub(super) const E: Owner = owner(b'E');
pub(super) const EARLIER: Fence = Fence::new(3);
/// Who made the last attempt, and its fence.
const A: Owner = owner(b'A');
const LAST: Fence = Fence::new(5);
/// Who asked since, and its fence.
const Q: Owner = owner(b'Q');
const ASKED: Fence = Fence::new(7);

pub(super) fn kept(status: u16) -> Receipt {
    let body = Bytes::from_static(b"ok");
    Receipt::Kept(Answer { status, headers: Vec::new(), body })
}

pub(super) fn fact(status: u16) -> Receipt {
    Receipt::Fact { status, location: None }
}

/// A delivery that began at 800 and was never sent.
fn new(state: State) -> Delivery {
    Delivery {
        fence: Fence::NONE,
        holder: Owner::NONE,
        revision: 9,
        began: at(800),
        gives_up: at(1_400),
        sends: 0,
        attempts: 0,
        first_send: None,
        last_send: None,
        doubt: None,
        last: None,
        proof: None,
        asked_by: AskedBy::Key,
        state,
    }
}

/// One that was sent twice, by `E` and then by `A`.
fn sent(state: State) -> Delivery {
    Delivery {
        fence: LAST,
        holder: A,
        sends: 2,
        attempts: 2,
        first_send: Some(at(810)),
        last_send: Some(at(850)),
        ..new(state)
    }
}

/// One that `Q` asked about.
fn asked(unknown: Unknown) -> Delivery {
    let delivery = Delivery { fence: ASKED, holder: Q, ..sent(State::Unknown(unknown)) };
    in_doubt(delivery)
}

/// One of which `A`'s was the only attempt.
fn first(delivery: Delivery) -> Delivery {
    let first_send = Some(at(990));
    Delivery { sends: 1, attempts: 1, first_send, last_send: None, ..delivery }
}

fn in_doubt(delivery: Delivery) -> Delivery {
    Delivery { doubt: Some(Reason::TimedOut), last: Some(Reason::TimedOut), ..delivery }
}

fn knowing(proof: Proof, delivery: Delivery) -> Delivery {
    Delivery { proof: Some(proof), ..delivery }
}

fn waiting(due: i64, grounds: Grounds) -> State {
    State::Waiting(Waiting { due: at(due), grounds })
}

fn sending(grounds: Grounds) -> State {
    State::Sending(Sending { since: at(990), lease_ends: at(1_030), grounds })
}

fn lapsed(grounds: Grounds) -> State {
    State::Sending(Sending { since: at(950), lease_ends: at(990), grounds })
}

fn unknown(due: i64, asked: u32) -> Unknown {
    Unknown { due: at(due), asked, not_found: 0 }
}

fn ended<T>(with: T) -> Ended<T> {
    Ended { since: at(900), with }
}

/// An ending that `A`, or whoever held the fence, put there.
fn end(state: State) -> Delivery {
    Delivery { last_send: Some(at(900)), ..sent(state) }
}

pub(super) fn all() -> Vec<(&'static str, Delivery)> {
    let mut all = before_the_end();
    all.extend(endings());
    all
}

fn before_the_end() -> Vec<(&'static str, Delivery)> {
    let executed = || Proof::Executed(fact(201));
    let used_up = |it: Delivery| Delivery { attempts: 5, ..it };
    let over = |it: Delivery| Delivery { gives_up: at(1_000), ..it };
    let almost = |it: Delivery| Delivery { gives_up: at(1_001), ..it };
    let old = |it: Delivery| Delivery { first_send: Some(at(120)), ..it };
    let by_reference = |it: Delivery| Delivery {
        asked_by: AskedBy::Reference,
        doubt: Some(Reason::Restored),
        sends: 0,
        ..it
    };
    let once = Unknown { not_found: 1, ..unknown(1_030, 2) };
    vec![
        ("WAITING, nothing ran, due", sent(waiting(1_000, Grounds::Unrun))),
        ("WAITING, never sent, due", new(waiting(1_000, Grounds::Unrun))),
        ("WAITING, never sent, not yet due", new(waiting(1_010, Grounds::Unrun))),
        ("WAITING, nothing ran, all attempts made", used_up(sent(waiting(1_000, Grounds::Unrun)))),
        ("WAITING, nothing ran, its time is over", over(sent(waiting(1_000, Grounds::Unrun)))),
        ("WAITING, in doubt, due", in_doubt(sent(waiting(1_000, Grounds::Dedups)))),
        (
            "WAITING, in doubt, all attempts made",
            used_up(in_doubt(sent(waiting(1_000, Grounds::Dedups)))),
        ),
        (
            "WAITING, in doubt, its time is over",
            over(in_doubt(sent(waiting(1_000, Grounds::Dedups)))),
        ),
        (
            "WAITING, in doubt, its key may be forgotten",
            old(in_doubt(sent(waiting(1_000, Grounds::Dedups)))),
        ),
        ("WAITING, they work on it, due", in_doubt(sent(waiting(1_000, Grounds::InFlight)))),
        (
            "WAITING, executed, to fetch the answer",
            knowing(executed(), sent(waiting(1_000, Grounds::Dedups))),
        ),
        ("SENDING, the first time", first(sent(sending(Grounds::Unrun)))),
        ("SENDING, nothing ran before", sent(sending(Grounds::Unrun))),
        ("SENDING, nothing ran before, the last attempt", used_up(sent(sending(Grounds::Unrun)))),
        (
            "SENDING, nothing ran before, its time almost over",
            almost(sent(sending(Grounds::Unrun))),
        ),
        ("SENDING, in doubt", in_doubt(sent(sending(Grounds::Dedups)))),
        ("SENDING, in doubt, the last attempt", used_up(in_doubt(sent(sending(Grounds::Dedups))))),
        ("SENDING, they work on it", in_doubt(sent(sending(Grounds::InFlight)))),
        (
            "SENDING, nothing ran before, executed by what was learned",
            knowing(Proof::Executed(kept(201)), sent(sending(Grounds::Unrun))),
        ),
        (
            "SENDING, nothing ran before, executed by what was learned, the fact",
            knowing(executed(), sent(sending(Grounds::Unrun))),
        ),
        (
            "SENDING, nothing ran before, refused by what was learned",
            knowing(Proof::Refused(kept(402)), sent(sending(Grounds::Unrun))),
        ),
        (
            "SENDING, executed, to fetch the answer",
            knowing(executed(), sent(sending(Grounds::Dedups))),
        ),
        ("SENDING, the first time, lease over", first(sent(lapsed(Grounds::Unrun)))),
        ("SENDING, in doubt, lease over", in_doubt(sent(lapsed(Grounds::Dedups)))),
        (
            "SENDING, lease over, executed by what was learned",
            knowing(Proof::Executed(kept(201)), sent(lapsed(Grounds::Unrun))),
        ),
        ("UNKNOWN, being asked, asked after the bound", asked(unknown(1_030, 2))),
        ("UNKNOWN, not asked yet, due", in_doubt(sent(State::Unknown(unknown(1_000, 0))))),
        ("UNKNOWN, being asked, asked early", {
            Delivery { last_send: Some(at(950)), ..asked(unknown(1_030, 2)) }
        }),
        ("UNKNOWN, being asked, asked before the bound, told after it", {
            Delivery { last_send: Some(at(895)), ..asked(unknown(1_030, 2)) }
        }),
        ("UNKNOWN, being asked, not found once", asked(once)),
        ("UNKNOWN, being asked, the last question", asked(unknown(1_030, 3))),
        ("UNKNOWN, being asked, its time is over", over(asked(unknown(1_030, 2)))),
        (
            "UNKNOWN, being asked, executed, to fetch the answer",
            knowing(executed(), asked(unknown(1_030, 2))),
        ),
        ("UNKNOWN, being asked by reference, not found once", by_reference(asked(once))),
        ("UNKNOWN, between two questions", {
            let fence = ASKED.next();
            Delivery { fence, ..asked(unknown(1_010, 2)) }
        }),
        ("UNKNOWN, asker's turn over", asked(unknown(1_000, 2))),
        ("UNKNOWN, asker's turn over, the last question", asked(unknown(1_000, 3))),
    ]
}

fn endings() -> Vec<(&'static str, Delivery)> {
    let by_asker =
        |it: Delivery| Delivery { fence: ASKED, holder: Q, last_send: Some(at(850)), ..it };
    let undecided = |reason| in_doubt(end(State::Undecided(ended(reason))));
    vec![
        ("SUCCEEDED, by the last attempt", end(State::Succeeded(ended(kept(201))))),
        ("SUCCEEDED, by a question", by_asker(end(State::Succeeded(ended(kept(201)))))),
        ("SUCCEEDED, only the fact is known", end(State::Succeeded(ended(fact(201))))),
        ("REFUSED", end(State::Refused(ended(kept(402))))),
        ("FAILED", end(State::Failed(ended(Reason::TimeOver)))),
        ("UNDECIDED, after one attempt", first(undecided(Reason::LeaseLapsed))),
        ("UNDECIDED, after two", undecided(Reason::TimedOut)),
        ("UNDECIDED, after questions", by_asker(undecided(Reason::QuestionsUsedUp))),
        ("UNDECIDED, contradicted", undecided(Reason::Contradicted)),
        ("UNDECIDED, enqueued after a loss", {
            let new = new(State::Undecided(ended(Reason::Restored)));
            let doubt = Some(Reason::Restored);
            Delivery { doubt, asked_by: AskedBy::Reference, last_send: Some(at(900)), ..new }
        }),
        ("CANCELLED", new(State::Cancelled(ended(())))),
        ("RESOLVED, executed", end(State::Resolved(ended(Resolution::Executed)))),
        ("RESOLVED, written off", end(State::Resolved(ended(Resolution::WrittenOff)))),
    ]
}
