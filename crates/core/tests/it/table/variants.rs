//! Every state in the variants that the machine tells apart.

use crate::grid::at;
use bytes::Bytes;
use samekey_core::fingerprint::{Digest, Version};
use samekey_core::lease::{Fence, Owner};
use samekey_core::receipt::{Answer, Receipt};
use samekey_core::record::{
    Closed, Done, Identity, Reason, Record, Review, Running, State, Unknown,
};

/// The owner whose token is this letter.
pub(super) const fn owner(letter: u8) -> Owner {
    Owner::from_bytes([letter; 16])
}

/// The first owner of the life that the grid looks at, and its fence.
pub(super) const A: Owner = owner(b'A');
/// Who asked first.
pub(super) const Q: Owner = owner(b'Q');
/// Who asked last.
pub(super) const R: Owner = owner(b'R');
/// The fence with which `A` began.
pub(super) const LIFE: Fence = Fence::new(3);
const ASKED_TWICE: Fence = Fence::new(5);

pub(super) const COMMAND: Identity = Identity {
    version: Version(1),
    digest: Digest { request_sha: [1; 32], frame_sha: [2; 32] },
    principal_sha: Some([3; 32]),
};

pub(super) fn kept(status: u16) -> Receipt {
    Receipt::Kept(Answer {
        status,
        headers: vec![(Box::from("Location"), Bytes::from_static(b"/payments/7"))],
        body: Bytes::from_static(b"ok"),
    })
}

fn record(fence: Fence, holder: Owner, keep_until: i64, state: State) -> Record {
    Record { fence, holder, revision: 9, keep_until: at(keep_until), state }
}

fn free(keep_until: i64) -> Record {
    record(LIFE, A, keep_until, State::Free)
}

fn running(since: i64, lease_ends: i64, run_ends: i64) -> Record {
    let state = State::Running(Running {
        request: COMMAND,
        since: at(since),
        lease_ends: at(lease_ends),
        run_ends: at(run_ends),
    });
    record(LIFE, A, run_ends + 3_600, state)
}

fn unknown(asked: u32, last_send: i64, ask_after: i64) -> Unknown {
    Unknown {
        request: COMMAND,
        life: LIFE,
        since: at(last_send + 5),
        reason: Reason::TimedOut,
        last_send: at(last_send),
        asked,
        not_found: 0,
        ask_after: at(ask_after),
        evidence: None,
    }
}

fn unasked(unknown: Unknown) -> Record {
    record(LIFE, A, 4_500, State::Unknown(unknown))
}

fn asked(unknown: Unknown) -> Record {
    record(ASKED_TWICE, R, 4_500, State::Unknown(unknown))
}

fn given_up(unknown: Unknown) -> Record {
    record(ASKED_TWICE.next(), R, 4_500, State::Unknown(unknown))
}

fn review(fence: Fence, holder: Owner) -> Record {
    let state = State::Review(Review {
        request: COMMAND,
        life: LIFE,
        since: at(900),
        reason: Reason::NotFound,
    });
    record(fence, holder, 4_500, state)
}

fn done(keep_until: i64, receipt: Receipt) -> Record {
    record(LIFE, A, keep_until, State::Done(Done { request: COMMAND, since: at(900), receipt }))
}

fn closed(keep_until: i64) -> Record {
    let state = State::Closed(Closed { request: COMMAND, since: at(900) });
    record(ASKED_TWICE, R, keep_until, state)
}

pub(super) fn all() -> Vec<(&'static str, Record)> {
    let seen_once = |mut unknown: Unknown| {
        unknown.not_found = 1;
        unknown
    };
    let with_evidence = |mut unknown: Unknown| {
        unknown.evidence = Some(kept(201));
        unknown
    };
    vec![
        ("FREE, never claimed", Record::ABSENT),
        ("FREE again, kept", free(2_000)),
        ("FREE again, its time is over", free(1_000)),
        ("RUNNING, live", running(990, 1_050, 1_290)),
        ("RUNNING, live for long, near the end of its run", running(760, 1_030, 1_060)),
        ("RUNNING, live, renewed to the end of its run", running(760, 1_060, 1_060)),
        ("RUNNING, lease over at this very moment", running(940, 1_000, 1_240)),
        ("RUNNING, lease over for long", running(400, 500, 700)),
        ("UNKNOWN, not asked yet, due", unasked(unknown(0, 990, 990))),
        ("UNKNOWN, not asked yet, due since long", unasked(unknown(0, 100, 100))),
        ("UNKNOWN, being asked, asked early", asked(unknown(2, 500, 1_040))),
        ("UNKNOWN, being asked, asked after the bound", asked(unknown(2, 300, 1_040))),
        (
            "UNKNOWN, being asked, asked before the bound, told after it",
            asked(unknown(2, 390, 1_040)),
        ),
        ("UNKNOWN, being asked, not found once", asked(seen_once(unknown(2, 300, 1_040)))),
        ("UNKNOWN, being asked, with evidence", asked(with_evidence(unknown(2, 300, 1_040)))),
        ("UNKNOWN, being asked, the last question", asked(unknown(20, 500, 1_040))),
        ("UNKNOWN, between two questions", given_up(unknown(2, 500, 1_030))),
        (
            "UNKNOWN, between two questions, with evidence",
            given_up(with_evidence(unknown(2, 500, 1_030))),
        ),
        ("UNKNOWN, between two questions, due", given_up(unknown(2, 500, 1_000))),
        ("UNKNOWN, asker's turn over", asked(unknown(2, 500, 1_000))),
        ("UNKNOWN, asker's turn over, with evidence", asked(with_evidence(unknown(2, 500, 1_000)))),
        ("UNKNOWN, asker's turn over, the last question", asked(unknown(20, 500, 1_000))),
        ("REVIEW, never asked", review(LIFE, A)),
        ("REVIEW, asked twice", review(ASKED_TWICE, R)),
        ("DONE, kept", done(2_000, kept(201))),
        ("DONE, only the fact is kept", done(2_000, Receipt::Fact { status: 201, location: None })),
        ("DONE, its time is over", done(1_000, kept(201))),
        ("CLOSED, kept", closed(2_000)),
        ("CLOSED, its time is over", closed(1_000)),
    ]
}
